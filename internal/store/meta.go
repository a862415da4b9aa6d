package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Limits of one entry of [Meta], in bytes.
const (
	maxMetaKey   = 256
	maxMetaValue = 64 << 10
)

// Meta stores small state without a table of its own, by key. Keys are chosen in code,
// such as "seal/key_id". The zero value returns [ErrClosed]; methods are safe for
// concurrent use.
type Meta struct {
	s *Store
}

// Meta returns the handle for small state.
func (s *Store) Meta() *Meta { return &Meta{s} }

// Get returns the value of key; ok is false when there is none.
func (m *Meta) Get(ctx context.Context, key string) (value []byte, ok bool, err error) {
	if m.s == nil {
		return nil, false, ErrClosed
	}
	err = m.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		value, ok, err = getMeta(ctx, tx, key)
		return err
	})
	return value, ok, err
}

// Put sets the value of key. It returns [ErrTooLarge] for a key above 256
// bytes or a value above 64 KiB.
func (m *Meta) Put(ctx context.Context, key string, value []byte) error {
	if err := m.check(key, value); err != nil {
		return err
	}
	return m.s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		const q = `INSERT INTO meta (key, value, updated_at) VALUES (?, ?, ?)
			ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at`
		if _, err := tx.Exec(ctx, q, key, nonNil(value), time.Now().UnixNano()); err != nil {
			return fmt.Errorf("put meta %q: %w", key, err)
		}
		return nil
	})
}

// PutIfAbsent sets the value of key unless it has one. It returns the value that key
// has afterwards, and whether this call stored it: of many callers with different
// values one stores, and all agree. Limits are those of [Meta.Put].
func (m *Meta) PutIfAbsent(ctx context.Context, key string, value []byte) (winner []byte, stored bool, err error) {
	if err := m.check(key, value); err != nil {
		return nil, false, err
	}
	err = m.s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		const q = `INSERT INTO meta (key, value, updated_at) VALUES (?, ?, ?) ON CONFLICT (key) DO NOTHING`
		n, err := tx.Exec(ctx, q, key, nonNil(value), time.Now().UnixNano())
		if err != nil {
			return fmt.Errorf("put meta %q: %w", key, err)
		}
		stored = n > 0
		winner, _, err = getMeta(ctx, tx, key)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return winner, stored, nil
}

func (m *Meta) check(key string, value []byte) error {
	switch {
	case m.s == nil:
		return ErrClosed
	case key == "":
		return errors.New("put meta: the key is empty")
	case len(key) > maxMetaKey:
		return fmt.Errorf("put meta: key of %d bytes: %w", len(key), ErrTooLarge)
	case len(value) > maxMetaValue:
		return fmt.Errorf("put meta %q: value of %d bytes: %w", key, len(value), ErrTooLarge)
	}
	return nil
}

func getMeta(ctx context.Context, tx *Tx, key string) (value []byte, ok bool, err error) {
	err = tx.QueryRow(ctx, `SELECT value FROM meta WHERE key = ?`, key).Scan(&value)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("get meta %q: %w", key, err)
	}
	return value, true, nil
}

// nonNil replaces nil by an empty value, because the columns are NOT NULL.
func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
