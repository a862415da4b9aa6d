package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// catalogAge is how old a catalog may be when it is served.
	catalogAge = 30 * 24 * time.Hour
	// maxCatalog bounds the body of one catalog, in bytes.
	maxCatalog = 64 << 20
)

// CatalogRecord is the last good catalog of a server, for one credential and one
// specification of the server.
type CatalogRecord struct {
	Server     string    // key of the server in the configuration
	Credential string    // identifies the credential; never the credential itself
	Spec       string    // hash of the server's specification
	Body       []byte    // opaque; at most 64 MiB
	MAC        []byte    // authentication code over the other fields, not verified here
	SavedAt    time.Time // to the nanosecond; read back in UTC
}

// Catalogs stores last good catalogs. It returns them byte for byte and does not verify
// them: callers must check the MAC, which covers all other fields. The zero value
// returns [ErrClosed]; methods are safe for concurrent use.
type Catalogs struct {
	s *Store
}

// Catalogs returns the handle for last good catalogs.
func (s *Store) Catalogs() *Catalogs { return &Catalogs{s} }

// Save replaces the records of the same server, credential and specification, all or none
// of them. It returns when they are committed. It returns [ErrTooLarge] for a body above
// 64 MiB, and an error for a record without server, specification or time.
func (c *Catalogs) Save(ctx context.Context, records ...CatalogRecord) error {
	if c.s == nil {
		return ErrClosed
	}
	for i := range records {
		switch r := &records[i]; {
		case r.Server == "" || r.Spec == "" || r.SavedAt.IsZero():
			return errors.New("save catalog: server, spec and time must be set")
		case len(r.Body) > maxCatalog:
			return fmt.Errorf("save catalog of %s: body of %d bytes: %w", r.Server, len(r.Body), ErrTooLarge)
		}
	}
	// All gateways take the rows in one order, so that none waits for another that waits for it.
	records = slices.SortedFunc(slices.Values(records), func(a, b CatalogRecord) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Credential, b.Credential), cmp.Compare(a.Spec, b.Spec))
	})
	return c.s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		const q = `INSERT INTO catalog (server, credential, spec, body, mac, saved_at) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (server, credential, spec) DO UPDATE
			SET body = excluded.body, mac = excluded.mac, saved_at = excluded.saved_at`
		for i := range records {
			r := &records[i]
			if _, err := tx.Exec(ctx, q, r.Server, r.Credential, r.Spec, nonNil(r.Body), nonNil(r.MAC), r.SavedAt.UnixNano()); err != nil {
				return fmt.Errorf("save catalog of %s: %w", r.Server, err)
			}
		}
		return nil
	})
}

// Load returns the record of server, credential and spec. ok is false when there is
// none that is younger than 30 days.
func (c *Catalogs) Load(ctx context.Context, server, credential, spec string) (r CatalogRecord, ok bool, err error) {
	if c.s == nil {
		return CatalogRecord{}, false, ErrClosed
	}
	r = CatalogRecord{Server: server, Credential: credential, Spec: spec}
	var saved int64
	err = c.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		const q = `SELECT body, mac, saved_at FROM catalog WHERE server = ? AND credential = ? AND spec = ? AND saved_at >= ?`
		oldest := time.Now().Add(-catalogAge).UnixNano()
		err := tx.QueryRow(ctx, q, server, credential, spec, oldest).Scan(&r.Body, &r.MAC, &saved)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("load catalog of %s: %w", server, err)
		}
		ok = err == nil
		return nil
	})
	if err != nil || !ok {
		return CatalogRecord{}, false, err
	}
	r.SavedAt = time.Unix(0, saved).UTC()
	return r, true, nil
}

// Delete removes every record of server. Deleting nothing is no error.
func (c *Catalogs) Delete(ctx context.Context, server string) error {
	if c.s == nil {
		return ErrClosed
	}
	return c.s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM catalog WHERE server = ?`, server); err != nil {
			return fmt.Errorf("delete catalogs of %s: %w", server, err)
		}
		return nil
	})
}

// Prune removes records older than 30 days and returns how many. [Store.Run] calls it.
func (c *Catalogs) Prune(ctx context.Context) (removed int64, err error) {
	if c.s == nil {
		return 0, ErrClosed
	}
	err = c.s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		removed, err = pruneCatalogs(ctx, tx, time.Now())
		return err
	})
	return removed, err
}

func pruneCatalogs(ctx context.Context, tx *Tx, now time.Time) (int64, error) {
	n, err := tx.Exec(ctx, `DELETE FROM catalog WHERE saved_at < ?`, now.Add(-catalogAge).UnixNano())
	if err != nil {
		return 0, fmt.Errorf("remove old catalogs: %w", err)
	}
	return n, nil
}
