package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// capabilityPrefix begins every capability id.
	capabilityPrefix = "cap_"
	// maxCapabilityKey bounds the three parts of a key together, in bytes.
	maxCapabilityKey = 64 << 10
)

// CapabilityKey is what a capability id is issued for: one thing that one
// server offers, under the server's own name for it.
type CapabilityKey struct {
	Server   string // key of the server in the configuration
	Kind     string // tool, prompt, resource or template
	Original string // the upstream's name or URI, byte for byte
}

// Capabilities issues capability ids. The zero value refuses everything with
// [ErrClosed]; methods are safe for concurrent use.
type Capabilities struct {
	s *Store
}

// Capabilities returns the handle for capability ids.
func (s *Store) Capabilities() *Capabilities { return &Capabilities{s} }

// IDs returns the ids of keys, in their order: "cap_" and 26 characters of
// lower-case base32 (130 random bits). A key without an id is issued one,
// which it keeps for ever; all that are new in one call are committed in one
// transaction before IDs returns. Every caller gets the same id for the same
// key. A key with an empty part, or above 64 KiB, is an error, and then no id
// is issued.
func (c *Capabilities) IDs(ctx context.Context, keys []CapabilityKey) ([]string, error) {
	if c.s == nil {
		return nil, ErrClosed
	}
	for _, k := range keys {
		if err := k.check(); err != nil {
			return nil, fmt.Errorf("issue capability id: %w", err)
		}
	}
	ids := make([]string, len(keys))
	if len(keys) == 0 {
		return ids, nil
	}
	missing := 0
	err := c.s.View(ctx, func(ctx context.Context, tx *Tx) (err error) {
		missing, err = findIDs(ctx, tx, keys, ids)
		return err
	})
	if err != nil || missing == 0 {
		return ids, err
	}
	err = c.s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		return issueIDs(ctx, tx, keys, ids)
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// Key returns what id was issued for; ok is false when it never was.
func (c *Capabilities) Key(ctx context.Context, id string) (key CapabilityKey, ok bool, err error) {
	if c.s == nil {
		return CapabilityKey{}, false, ErrClosed
	}
	err = c.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		err := tx.QueryRow(ctx, `SELECT server, kind, original FROM capability WHERE id = ?`, id).
			Scan(&key.Server, &key.Kind, &key.Original)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("look up capability %s: %w", id, err)
		}
		ok = err == nil
		return nil
	})
	return key, ok, err
}

func (k CapabilityKey) check() error {
	switch {
	case k.Server == "" || k.Kind == "" || k.Original == "":
		return fmt.Errorf("server %q, kind %q, original %.64q: no part may be empty", k.Server, k.Kind, k.Original)
	case len(k.Server)+len(k.Kind)+len(k.Original) > maxCapabilityKey:
		return fmt.Errorf("%s %.64q of %.64q: %w", k.Kind, k.Original, k.Server, ErrTooLarge)
	}
	return nil
}

const selectID = `SELECT id FROM capability WHERE server = ? AND kind = ? AND original = ?`

// findIDs fills ids where keys have one and returns how many have none.
func findIDs(ctx context.Context, tx *Tx, keys []CapabilityKey, ids []string) (missing int, err error) {
	find, err := tx.raw.PrepareContext(ctx, selectID)
	if err != nil {
		return 0, fmt.Errorf("look up capability ids: %w", err)
	}
	defer find.Close()
	for i, k := range keys {
		err := find.QueryRowContext(ctx, k.Server, k.Kind, k.Original).Scan(&ids[i])
		switch {
		case errors.Is(err, sql.ErrNoRows):
			missing++
		case err != nil:
			return 0, fmt.Errorf("look up capability ids: %w", err)
		}
	}
	return missing, nil
}

// issueIDs gives an id to every key that ids has none for. A key that got one
// in the meantime, or earlier in keys, keeps that.
func issueIDs(ctx context.Context, tx *Tx, keys []CapabilityKey, ids []string) error {
	// The assignment changes nothing; it makes RETURNING answer for a row
	// that is already there.
	const q = `INSERT INTO capability (id, server, kind, original, created_at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (server, kind, original) DO UPDATE SET id = id RETURNING id`
	issue, err := tx.raw.PrepareContext(ctx, q)
	if err != nil {
		return fmt.Errorf("issue capability ids: %w", err)
	}
	defer issue.Close()
	now := time.Now().UnixNano()
	for i, k := range keys {
		if ids[i] != "" {
			continue
		}
		if err := issue.QueryRowContext(ctx, newID(), k.Server, k.Kind, k.Original, now).Scan(&ids[i]); err != nil {
			return fmt.Errorf("issue capability id for %s %q of %s: %w", k.Kind, k.Original, k.Server, err)
		}
	}
	return nil
}

// newID returns a new capability id.
func newID() string {
	return capabilityPrefix + strings.ToLower(rand.Text())
}
