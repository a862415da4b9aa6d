package catalogs

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"log/slog"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/upstream"
)

const (
	// purpose separates these MACs from all others of the same key.
	purpose = "catalog"
	// sharedCredential is the part of a record's key for the credential that all
	// callers share.
	sharedCredential = "static"
	// saveTime bounds the loading of one catalog and the saving of all.
	saveTime = 5 * time.Second
	// batchRecords and batchBytes bound what is saved at once.
	batchRecords, batchBytes = 64, 4 << 20
)

// Listed is what a server lists, by principal; the empty one is everyone.
type Listed struct {
	Spec     upstream.Spec
	Listings map[string]*mcp.Listing
}

// Saver saves and loads catalogs. It is safe for concurrent use, but for Run.
type Saver struct {
	store *store.Store
	keys  *seal.Keyring
	log   *slog.Logger
	wake  chan struct{}

	// Of Run alone:
	saved map[string]*mcp.Listing // by server and principal
	some  bool                    // something was saved since save began
}

// NewSaver returns the saver of a store. keys authenticate what is saved.
func NewSaver(s *store.Store, keys *seal.Keyring, log *slog.Logger) *Saver {
	return &Saver{store: s, keys: keys, log: log, wake: make(chan struct{}, 1), saved: make(map[string]*mcp.Listing)}
}

// Load returns the last good catalog of a server as a principal sees it, or with an
// empty one everyone; nil when there is none.
func (c *Saver) Load(ctx context.Context, spec *upstream.Spec, principal string) *mcp.Listing {
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	r, ok, err := c.store.Catalogs().Load(ctx, spec.Key, credentialKey(principal), spec.Hash())
	if err != nil || !ok {
		if err != nil {
			c.log.Warn("last catalog not loaded", "server", spec.Key, "err", err)
		}
		return nil
	}
	if !c.keys.Verify(purpose, authenticated(&r), r.MAC) {
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

// Changed tells that a server lists something else, or that the store is there again.
func (c *Saver) Changed() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Run saves what is new until the context ends, and what is then not saved yet. It
// takes what servers list from list.
func (c *Saver) Run(ctx context.Context, list func() []Listed) error {
	for {
		select {
		case <-ctx.Done():
			c.save(context.WithoutCancel(ctx), list())
			return nil
		case <-c.wake:
			c.save(ctx, list())
		}
	}
}

// unsaved are records to save, each with the listing that it is of and the name of that in
// what was saved.
type unsaved struct {
	records  []store.CatalogRecord
	names    []string
	listings []*mcp.Listing
	bytes    int
}

// save saves the listings that are not the ones saved last. All of them share one
// deadline, so that they do not hold up the end of the gateway.
func (c *Saver) save(ctx context.Context, servers []Listed) {
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	c.some = false
	var next unsaved
	for i := range servers {
		spec := &servers[i].Spec
		for principal, l := range servers[i].Listings {
			of := spec.Key
			if principal != "" {
				of += "\x00" + principal
			}
			if l == nil || l.Stale || c.saved[of] == l {
				continue
			}
			r := store.CatalogRecord{
				Server: spec.Key, Credential: credentialKey(principal), Spec: spec.Hash(), Body: l.Encode(), SavedAt: time.Now().UTC(),
			}
			r.MAC = c.keys.MAC(purpose, authenticated(&r))
			next.records, next.names, next.listings = append(next.records, r), append(next.names, of), append(next.listings, l)
			if next.bytes += len(r.Body); len(next.records) < batchRecords && next.bytes < batchBytes {
				continue
			}
			if !c.commit(ctx, &next) {
				return
			}
		}
	}
	c.commit(ctx, &next)
}

// commit saves records at once, or one by one if that fails: one of them may be too large. It
// reports whether there is time for more.
func (c *Saver) commit(ctx context.Context, u *unsaved) bool {
	defer func() { *u = unsaved{} }()
	if len(u.records) == 0 {
		return true
	}
	err := c.store.Catalogs().Save(ctx, u.records...)
	for i := range u.records {
		if err != nil && ctx.Err() == nil {
			if err := c.store.Catalogs().Save(ctx, u.records[i]); err != nil {
				if ctx.Err() != nil {
					break
				}
				c.log.Warn("catalog not saved", "server", u.records[i].Server, "err", err)
				continue
			}
		} else if err != nil {
			break
		}
		c.saved[u.names[i]], c.some = u.listings[i], true
	}
	switch {
	case ctx.Err() == nil:
		return true
	case errors.Is(ctx.Err(), context.Canceled): // the gateway ends, and saves what is left then
	default:
		if err != nil {
			c.log.Warn("not all catalogs are saved in time", "server", u.records[0].Server, "err", err)
		}
		if c.some { // the store is there, and slow
			c.Changed()
		}
	}
	return false
}

// credentialKey is the part of a saved catalog's key for a credential.
func credentialKey(principal string) string {
	if principal == "" {
		return sharedCredential
	}
	sum := sha256.Sum256([]byte(principal))
	return "of-" + hex.EncodeToString(sum[:])
}
