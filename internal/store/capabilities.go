package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// capabilityPrefix is the prefix of every capability id.
	capabilityPrefix = "cap_"
	// maxCapabilityKey bounds the three parts of a key together, in bytes.
	maxCapabilityKey = 64 << 10
)

// CapabilityKey identifies what a capability id is issued for: one item of one server,
// under the server's own name.
type CapabilityKey struct {
	Server   string // key of the server in the configuration
	Kind     string // tool, prompt, resource or template
	Original string // the upstream's name or URI, byte for byte
}

// Capabilities issues capability ids. The zero value returns [ErrClosed]; methods are
// safe for concurrent use.
type Capabilities struct {
	s *Store
}

// Capabilities returns the handle for capability ids.
func (s *Store) Capabilities() *Capabilities { return &Capabilities{s} }

// IDs returns the ids of keys, in their order: "cap_" and 26 characters of lower-case
// base32 (130 random bits). A new key gets an id for ever; all new ids of one call are
// committed in one transaction before IDs returns. Every caller gets the same id for
// the same key. IDs returns an error, and issues no id, when a key has an empty part, a
// server or kind that is above 512 bytes or not text, or more than 64 KiB in total.
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

// Key returns the key of an id; ok is false when the id was never issued.
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

// Rename moves the ids, and the records of what they were issued for, from one server
// key to another. moved is false, and nothing has changed, when the old key has no ids
// or the new one has some already; taken reports the latter.
func (c *Capabilities) Rename(ctx context.Context, from, to string) (moved, taken bool, err error) {
	if c.s == nil {
		return false, false, ErrClosed
	}
	for _, server := range [...]string{from, to} {
		if err := (CapabilityKey{server, "tool", "x"}).check(); err != nil {
			return false, false, fmt.Errorf("rename server %.64q to %.64q: %w", from, to, err)
		}
	}
	err = c.s.change(ctx, TopicRegistry, func(ctx context.Context, tx *Tx) (bool, error) {
		moved, taken = false, false
		var old, own int64
		const q = `SELECT (SELECT COUNT(*) FROM capability WHERE server = ?), (SELECT COUNT(*) FROM capability WHERE server = ?)`
		if err := tx.QueryRow(ctx, q, from, to).Scan(&old, &own); err != nil {
			return false, fmt.Errorf("rename server %.64q: %w", from, err)
		}
		if taken = old > 0 && own > 0; old == 0 || taken {
			return false, nil
		}
		for _, q := range [...]string{`UPDATE capability SET server = ? WHERE server = ?`, `UPDATE tool_catalog SET server = ? WHERE server = ?`} {
			if _, err := tx.Exec(ctx, q, to, from); err != nil {
				return false, fmt.Errorf("rename server %.64q: %w", from, err)
			}
		}
		moved = true
		return true, nil
	})
	return moved && err == nil, taken, err
}

func (k CapabilityKey) check() error {
	switch {
	case k.Server == "" || k.Kind == "" || k.Original == "":
		return fmt.Errorf("server %q, kind %q, original %.64q: no part may be empty", k.Server, k.Kind, k.Original)
	case !isText(k.Server) || !isText(k.Kind):
		return fmt.Errorf("server %q, kind %q: %w", k.Server, k.Kind, errNotText)
	case len(k.Server) > maxName || len(k.Kind) > maxName || len(k.Server)+len(k.Kind)+len(k.Original) > maxCapabilityKey:
		return fmt.Errorf("%s %.64q of %.64q: %w", k.Kind, k.Original, k.Server, ErrTooLarge)
	}
	return nil
}

// findIDs fills in the ids of keys that have one and returns how many have none.
func findIDs(ctx context.Context, tx *Tx, keys []CapabilityKey, ids []string) (missing int, err error) {
	known := make(map[CapabilityKey]string, len(keys))
	for some := range slices.Chunk(keys, rowsPerStatement) {
		if err := findSome(ctx, tx, some, known); err != nil {
			return 0, fmt.Errorf("look up capability ids: %w", err)
		}
	}
	for i, k := range keys {
		if ids[i] = known[k]; ids[i] == "" {
			missing++
		}
	}
	return missing, nil
}

// findSome adds the ids of keys to known.
func findSome(ctx context.Context, tx *Tx, keys []CapabilityKey, known map[CapabilityKey]string) error {
	const one = `(server = ? AND kind = ? AND original = ?)`
	args := make([]any, 0, 3*len(keys))
	for _, k := range keys {
		args = append(args, k.Server, k.Kind, foreign(k.Original))
	}
	rows, err := tx.Query(ctx, `SELECT id, server, kind, original FROM capability WHERE `+repeated(one, " OR ", len(keys)), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var k CapabilityKey
		if err := rows.Scan(&id, &k.Server, &k.Kind, &k.Original); err != nil {
			return err
		}
		known[k] = id
	}
	return rows.Err()
}

// issueIDs issues ids to keys without one, and fills ids. A key that got one meanwhile
// keeps it.
func issueIDs(ctx context.Context, tx *Tx, keys []CapabilityKey, ids []string) error {
	if missing, err := findIDs(ctx, tx, keys, ids); err != nil || missing == 0 {
		return err
	}
	var without []CapabilityKey
	for i, k := range keys {
		if ids[i] == "" {
			without = append(without, k)
		}
	}
	// Without duplicates and in the same order everywhere, so that two processes that
	// issue ids for the same keys cannot deadlock.
	slices.SortFunc(without, compareKeys)
	without = slices.Compact(without)
	now := time.Now().UnixNano()
	for some := range slices.Chunk(without, rowsPerStatement) {
		args := make([]any, 0, 5*len(some))
		for _, k := range some {
			args = append(args, newID(), k.Server, k.Kind, foreign(k.Original), now)
		}
		q := `INSERT INTO capability (id, server, kind, original, created_at) VALUES ` +
			repeated(`(?, ?, ?, ?, ?)`, ", ", len(some)) + ` ON CONFLICT DO NOTHING`
		if _, err := tx.Exec(ctx, q, args...); err != nil {
			return fmt.Errorf("issue capability ids for %d names of %s: %w", len(some), some[0].Server, err)
		}
	}
	missing, err := findIDs(ctx, tx, keys, ids)
	if err == nil && missing > 0 {
		err = fmt.Errorf("issue capability ids: %d names got none", missing)
	}
	return err
}

func compareKeys(a, b CapabilityKey) int {
	return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Original, b.Original))
}

// newID returns a new capability id.
func newID() string {
	return capabilityPrefix + strings.ToLower(rand.Text())
}
