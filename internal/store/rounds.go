package store

import (
	"context"
	"fmt"
	"time"
)

// Rounds records which rounds of which calls were used. The zero value returns
// [ErrClosed]; methods are safe for concurrent use.
type Rounds struct {
	s *Store
}

// Rounds returns the handle for used rounds.
func (s *Store) Rounds() *Rounds { return &Rounds{s} }

// Use marks a round of a call as used and reports whether this was its first use. The
// mark is kept until expires.
func (r *Rounds) Use(ctx context.Context, call string, round int, expires time.Time) (first bool, err error) {
	if r.s == nil {
		return false, ErrClosed
	}
	err = r.s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM round WHERE expires < ?`, time.Now().UnixNano()); err != nil {
			return fmt.Errorf("forget expired rounds: %w", err)
		}
		n, err := tx.Exec(ctx, `INSERT INTO round (call, round, expires) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
			call, round, expires.UnixNano())
		if err != nil {
			return fmt.Errorf("note round %d of %s: %w", round, call, err)
		}
		first = n == 1
		return nil
	})
	return first && err == nil, err
}
