package main

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/upstream"
)

const (
	// catalogPurpose separates these MACs from all others of the same key.
	catalogPurpose = "catalog"
	// credentialKey is the part of a record's key for the credential that all
	// callers share.
	credentialKey = "static"
	// saveTime bounds the loading of one catalog and the saving of all.
	saveTime = 5 * time.Second
)

// catalogSaver keeps the last good catalog of every server, so that the next
// start can offer it at once. What comes back is served only when it is
// genuine: the store holds it, the gateway's key authenticates it.
type catalogSaver struct {
	store *store.Store
	keys  *seal.Keyring
	log   *slog.Logger
	wake  chan struct{}

	saved map[string]*mcp.Listing // by server; run's alone
}

// load returns the last good catalog of a server as a principal sees it, or with an
// empty one everyone; nil when there is none.
func (c *catalogSaver) load(ctx context.Context, spec *upstream.Spec, principal string) *mcp.Listing {
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	r, ok, err := c.store.Catalogs().Load(ctx, spec.Key, catalogKey(principal), spec.Hash())
	if err != nil || !ok {
		if err != nil {
			c.log.Warn("last catalog not loaded", "server", spec.Key, "err", err)
		}
		return nil
	}
	if !c.keys.Verify(catalogPurpose, authenticated(&r), r.MAC) {
		c.log.Warn("last catalog is not genuine and is not served", "server", spec.Key)
		return nil
	}
	l, err := mcp.DecodeListing(r.Body)
	if err != nil {
		c.log.Warn("last catalog not readable", "server", spec.Key, "err", err)
		return nil
	}
	return l
}

// authenticated returns the bytes that a record's MAC covers.
func authenticated(r *store.CatalogRecord) []byte {
	out := make([]byte, 0, len(r.Body)+256)
	for _, part := range [][]byte{[]byte(r.Server), []byte(r.Credential), []byte(r.Spec), r.Body} {
		out = binary.BigEndian.AppendUint64(out, uint64(len(part)))
		out = append(out, part...)
	}
	return binary.BigEndian.AppendUint64(out, uint64(r.SavedAt.UnixNano()))
}

func (c *catalogSaver) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run saves what is new until the context ends, and what is then not saved yet.
func (c *catalogSaver) run(ctx context.Context, in *instance) error {
	for {
		select {
		case <-ctx.Done():
			c.save(context.WithoutCancel(ctx), in.list())
			return nil
		case <-c.wake:
			c.save(ctx, in.list())
		}
	}
}

// save saves the listings that are not the ones saved last. All of them share
// one deadline, so that they do not hold up the end of the gateway.
func (c *catalogSaver) save(ctx context.Context, servers []*runningServer) {
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	for _, s := range servers {
		if s.upstream == nil { // its tools are those of the program that runs
			continue
		}
		spec := s.upstream.Spec()
		for principal, l := range s.upstream.Listings() {
			of := s.Name()
			if principal != "" {
				of += "\x00" + principal
			}
			if l == nil || l.Stale || c.saved[of] == l {
				continue
			}
			r := store.CatalogRecord{
				Server: s.Name(), Credential: catalogKey(principal), Spec: spec.Hash(), Body: l.Encode(), SavedAt: time.Now().UTC(),
			}
			r.MAC = c.keys.MAC(catalogPurpose, authenticated(&r))
			err := c.store.Catalogs().Save(ctx, r)
			if errors.Is(err, context.Canceled) {
				return // the gateway ends, and saves what is left then
			}
			if err != nil {
				c.log.Warn("catalog not saved", "server", s.Name(), "err", err)
				continue
			}
			c.saved[of] = l
		}
	}
}

// unheard are the servers for which first lists were held back in vain, so that the
// next start does not hold them back again. It is safe for concurrent use.
type unheard struct {
	meta *store.Meta
	log  *slog.Logger
}

func unheardKey(server string) string { return "unheard/" + server }

// missed notes servers as they are configured now.
func (u unheard) missed(ctx context.Context, specs []upstream.Spec) {
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	for i := range specs {
		if err := u.meta.Put(ctx, unheardKey(specs[i].Key), []byte(specs[i].Hash())); err != nil {
			u.log.Warn("it is not kept that a server was waited for in vain", "server", specs[i].Key, "err", err)
		}
	}
}

// specsOf returns the specs of some of the servers that run.
func specsOf(running []*runningServer, keys []string) (specs []upstream.Spec) {
	for _, s := range running {
		if s.upstream != nil && slices.Contains(keys, s.Name()) {
			specs = append(specs, s.upstream.Spec())
		}
	}
	return specs
}

// was tells whether a server was waited for in vain, as it is configured now.
func (u unheard) was(ctx context.Context, spec *upstream.Spec) bool {
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	hash, ok, err := u.meta.Get(ctx, unheardKey(spec.Key))
	return err == nil && ok && string(hash) == spec.Hash()
}
