package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bounds of memories. A list is read whole, so that they bound its size as well.
const (
	// MaxMemories is how many texts of one kind a principal may keep.
	MaxMemories = 256
	// MaxMemory is how large a text may be, in bytes.
	MaxMemory = 8 << 10
	// maxMemoryName is how long its name may be, in bytes.
	maxMemoryName = 128

	memoryPrefix = "mem_"
)

// MemoryKind separates the texts of a principal by what they are for.
type MemoryKind string

// The kinds.
const (
	MemoryText MemoryKind = "memory" // what an agent wants to have again
	MemoryNote MemoryKind = "note"   // what it found to work
)

// MemoryRecord is a text that a principal keeps.
type MemoryRecord struct {
	ID        string // "mem_" and 26 characters of lower-case base32; set by the store
	Kind      MemoryKind
	Name      string    // at most 128 bytes; empty for none. Saving replaces the text of the same name
	Body      string    // at most [MaxMemory] bytes, not empty
	SavedAt   time.Time // set by the store
	ExpiresAt time.Time
}

func (r *MemoryRecord) check() error {
	var kind error
	if r.Kind != MemoryText && r.Kind != MemoryNote {
		kind = fmt.Errorf("there is no kind %q", r.Kind)
	}
	if r.Body == "" {
		kind = errors.Join(kind, errors.New("the text is empty"))
	}
	return errors.Join(kind, checkText("name", r.Name, maxMemoryName), checkText("text", r.Body, MaxMemory))
}

// Memories stores texts of principals. Every statement names the principal, so that a
// text is out of reach for everybody else, whatever id they give. The zero value returns
// [ErrClosed]; methods are safe for concurrent use, also by several processes.
type Memories struct {
	s *Store
}

// NewMemories returns the handle for memories in a store.
func NewMemories(s *Store) *Memories { return &Memories{s} }

// Save keeps a text and returns it with its id. A text of the same name and kind is
// replaced under the id that it has. It returns [ErrTooMany] when the principal has
// [MaxMemories] of the kind.
func (m *Memories) Save(ctx context.Context, principal string, r MemoryRecord) (MemoryRecord, error) {
	if m.s == nil {
		return MemoryRecord{}, ErrClosed
	}
	if err := errors.Join(checkPrincipal(principal), r.check()); err != nil {
		return MemoryRecord{}, fmt.Errorf("save a memory: %w", err)
	}
	id := memoryPrefix + strings.ToLower(rand.Text())
	err := m.s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		if err := tx.Lock(ctx, "memories"); err != nil { // two of one principal would both be the last
			return err
		}
		now := time.Now()
		r.ID, r.SavedAt = id, now.UTC()
		if err := pruneMemories(ctx, tx, now); err != nil {
			return err
		}
		list, err := listMemories(ctx, tx, principal, r.Kind, now)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(list, func(old MemoryRecord) bool { return r.Name != "" && old.Name == r.Name }); i >= 0 {
			r.ID = list[i].ID
			_, err = tx.Exec(ctx, `UPDATE memories SET body = ?, saved_at = ?, expires_at = ? WHERE principal = ? AND id = ?`,
				r.Body, nanos(r.SavedAt), nanos(r.ExpiresAt), foreign(principal), r.ID)
			return wrapped("replace a memory", err)
		}
		if len(list) >= MaxMemories {
			return fmt.Errorf("save a memory: the principal has %d: %w", len(list), ErrTooMany)
		}
		_, err = tx.Exec(ctx, `INSERT INTO memories (principal, id, kind, name, body, saved_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			foreign(principal), r.ID, string(r.Kind), r.Name, r.Body, nanos(r.SavedAt), nanos(r.ExpiresAt))
		return wrapped("save a memory", err)
	})
	if err != nil {
		return MemoryRecord{}, err
	}
	return r, nil
}

// List returns the texts of one kind that a principal keeps, the latest first. Expired
// ones are not among them.
func (m *Memories) List(ctx context.Context, principal string, kind MemoryKind) (list []MemoryRecord, err error) {
	if m.s == nil {
		return nil, ErrClosed
	}
	err = m.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		list, err = listMemories(ctx, tx, principal, kind, time.Now())
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func listMemories(ctx context.Context, tx *Tx, principal string, kind MemoryKind, now time.Time) (list []MemoryRecord, err error) {
	const q = `SELECT id, kind, name, body, saved_at, expires_at FROM memories
		WHERE principal = ? AND kind = ? AND expires_at > ? ORDER BY saved_at DESC, id LIMIT ?`
	rows, err := tx.Query(ctx, q, foreign(principal), string(kind), nanos(now), MaxMemories)
	if err != nil {
		return nil, fmt.Errorf("read memories: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var r MemoryRecord
		var saved, expires int64
		if err := rows.Scan(&r.ID, &r.Kind, &r.Name, &r.Body, &saved, &expires); err != nil {
			return nil, fmt.Errorf("read a memory: %w", err)
		}
		r.SavedAt, r.ExpiresAt = instant(saved), instant(expires)
		list = append(list, r)
	}
	return list, rows.Err()
}

// Delete removes texts of a principal by their ids, and returns the ids of those that it
// has removed. Ids of others, and ids that nobody has, are passed over.
func (m *Memories) Delete(ctx context.Context, principal string, ids ...string) (removed []string, err error) {
	if m.s == nil {
		return nil, ErrClosed
	}
	if len(ids) > MaxMemories {
		return nil, fmt.Errorf("delete %d memories: %w", len(ids), ErrTooMany)
	}
	err = m.s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		removed = nil
		for _, id := range ids {
			if !isText(id) {
				continue
			}
			n, err := tx.Exec(ctx, `DELETE FROM memories WHERE principal = ? AND id = ?`, foreign(principal), id)
			if err != nil {
				return fmt.Errorf("delete a memory: %w", err)
			}
			if n > 0 {
				removed = append(removed, id)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return removed, nil
}

// pruneMemories deletes what has expired.
func pruneMemories(ctx context.Context, tx *Tx, now time.Time) error {
	_, err := tx.Exec(ctx, `DELETE FROM memories WHERE expires_at <= ?`, nanos(now))
	return wrapped("forget expired memories", err)
}
