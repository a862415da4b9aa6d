package daemon

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
	// CatalogPurpose separates these MACs from all others of the same key.
	CatalogPurpose = "catalog"
	// CredentialKey is the part of a record's key for the credential that all
	// callers share.
	CredentialKey = "static"
	// SaveTime bounds the loading of one catalog and the saving of all.
	SaveTime = 5 * time.Second
)

// CatalogSaver keeps the last good catalog of every server, so that the next
// start can offer it at once. What comes back is served only when it is
// genuine: the store holds it, the gateway's key authenticates it.
type CatalogSaver struct {
	Store *store.Store
	Keys  *seal.Keyring
	Log   *slog.Logger
	Wake  chan struct{}

	Saved map[string]*mcp.Listing // by server; run's alone
}

// Load returns the last good catalog of a server as a principal sees it, or with an
// empty one everyone; nil when there is none.
func (c *CatalogSaver) Load(ctx context.Context, spec *upstream.Spec, principal string) *mcp.Listing {
	ctx, cancel := context.WithTimeout(ctx, SaveTime)
	defer cancel()
	r, ok, err := c.Store.Catalogs().Load(ctx, spec.Key, catalogKey(principal), spec.Hash())
	if err != nil || !ok {
		if err != nil {
			c.Log.Warn("last catalog not loaded", "server", spec.Key, "err", err)
		}
		return nil
	}
	if !c.Keys.Verify(CatalogPurpose, Authenticated(&r), r.MAC) {
		c.Log.Warn("last catalog is not genuine and is not served", "server", spec.Key)
		return nil
	}
	l, err := mcp.DecodeListing(r.Body)
	if err != nil {
		c.Log.Warn("last catalog not readable", "server", spec.Key, "err", err)
		return nil
	}
	return l
}

// Authenticated returns the bytes that a record's MAC covers.
func Authenticated(r *store.CatalogRecord) []byte {
	out := make([]byte, 0, len(r.Body)+256)
	for _, part := range [][]byte{[]byte(r.Server), []byte(r.Credential), []byte(r.Spec), r.Body} {
		out = binary.BigEndian.AppendUint64(out, uint64(len(part)))
		out = append(out, part...)
	}
	return binary.BigEndian.AppendUint64(out, uint64(r.SavedAt.UnixNano()))
}

func (c *CatalogSaver) signal() {
	select {
	case c.Wake <- struct{}{}:
	default:
	}
}

// Run saves what is new until the context ends, and what is then not saved yet.
func (c *CatalogSaver) Run(ctx context.Context, in *Daemon) error {
	for {
		select {
		case <-ctx.Done():
			c.Save(context.WithoutCancel(ctx), in.List())
			return nil
		case <-c.Wake:
			c.Save(ctx, in.List())
		}
	}
}

// Save saves the listings that are not the ones saved last. All of them share
// one deadline, so that they do not hold up the end of the gateway.
func (c *CatalogSaver) Save(ctx context.Context, servers []*runningServer) {
	ctx, cancel := context.WithTimeout(ctx, SaveTime)
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
			if l == nil || l.Stale || c.Saved[of] == l {
				continue
			}
			r := store.CatalogRecord{
				Server: s.Name(), Credential: catalogKey(principal), Spec: spec.Hash(), Body: l.Encode(), SavedAt: time.Now().UTC(),
			}
			r.MAC = c.Keys.MAC(CatalogPurpose, Authenticated(&r))
			err := c.Store.Catalogs().Save(ctx, r)
			if errors.Is(err, context.Canceled) {
				return // the gateway ends, and saves what is left then
			}
			if err != nil {
				c.Log.Warn("catalog not saved", "server", s.Name(), "err", err)
				continue
			}
			c.Saved[of] = l
		}
	}
}

// Unheard are the servers for which first lists were held back in vain, so that the
// next start does not hold them back again. It is safe for concurrent use.
type Unheard struct {
	meta *store.Meta
	log  *slog.Logger
}

// NewUnheard returns the servers that a store keeps.
func NewUnheard(meta *store.Meta, log *slog.Logger) Unheard { return Unheard{meta, log} }

func UnheardKey(server string) string { return "unheard/" + server }

// Missed notes servers as they are configured now.
func (u Unheard) Missed(ctx context.Context, specs []upstream.Spec) {
	ctx, cancel := context.WithTimeout(ctx, SaveTime)
	defer cancel()
	for i := range specs {
		if err := u.meta.Put(ctx, UnheardKey(specs[i].Key), []byte(specs[i].Hash())); err != nil {
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

// Was tells whether a server was waited for in vain, as it is configured now.
func (u Unheard) Was(ctx context.Context, spec *upstream.Spec) bool {
	ctx, cancel := context.WithTimeout(ctx, SaveTime)
	defer cancel()
	hash, ok, err := u.meta.Get(ctx, UnheardKey(spec.Key))
	return err == nil && ok && string(hash) == spec.Hash()
}
