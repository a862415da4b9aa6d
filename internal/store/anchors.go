package store

import (
	"context"
	"fmt"
	"time"
)

// maxAnchors bounds the stored runs of one gateway.
const maxAnchors = 1000

// Anchor is the head of an audit log at the end of one run of its gateway, or now.
type Anchor struct {
	Replica, Run, Chain string
	Seq                 uint64
	MAC                 string
	At                  time.Time
}

// Anchors stores the heads of audit logs. The zero value returns [ErrClosed]; methods
// are safe for concurrent use.
type Anchors struct {
	s *Store
}

// Anchors returns the handle for heads of audit logs.
func (s *Store) Anchors() *Anchors { return &Anchors{s} }

// Put stores the head of a run, unless a later one is stored. Only the latest 1000 runs
// of a gateway are kept.
func (a *Anchors) Put(ctx context.Context, anchor Anchor) error {
	if a.s == nil {
		return ErrClosed
	}
	return a.s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		const q = `INSERT INTO audit_anchor (replica, run, chain, seq, mac, at) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (replica, run) DO UPDATE SET seq = excluded.seq, mac = excluded.mac, at = excluded.at
			WHERE audit_anchor.seq < excluded.seq`
		n, err := tx.Exec(ctx, q, anchor.Replica, anchor.Run, anchor.Chain, int64(anchor.Seq), anchor.MAC, anchor.At.UnixNano())
		if err != nil {
			return fmt.Errorf("anchor the audit log: %w", err)
		}
		if n == 0 {
			return nil
		}
		const old = `DELETE FROM audit_anchor WHERE replica = ? AND at < (
			SELECT at FROM audit_anchor WHERE replica = ? ORDER BY at DESC LIMIT 1 OFFSET ?)`
		if _, err := tx.Exec(ctx, old, anchor.Replica, anchor.Replica, maxAnchors); err != nil {
			return fmt.Errorf("forget old anchors of the audit log: %w", err)
		}
		return nil
	})
}

// List returns the anchors of one gateway, oldest first.
func (a *Anchors) List(ctx context.Context, replica string) ([]Anchor, error) {
	return a.list(ctx, `SELECT replica, run, chain, seq, mac, at FROM audit_anchor WHERE replica = ? ORDER BY at`, replica)
}

// Others returns the anchors of all other gateways, oldest first.
func (a *Anchors) Others(ctx context.Context, replica string) ([]Anchor, error) {
	return a.list(ctx, `SELECT replica, run, chain, seq, mac, at FROM audit_anchor WHERE replica <> ? ORDER BY at`, replica)
}

func (a *Anchors) list(ctx context.Context, q, replica string) (all []Anchor, err error) {
	if a.s == nil {
		return nil, ErrClosed
	}
	err = a.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		rows, err := tx.Query(ctx, q, replica)
		if err != nil {
			return fmt.Errorf("read the anchors of the audit log: %w", err)
		}
		defer rows.Close()
		all = nil
		for rows.Next() {
			var seq, at int64
			var anchor Anchor
			if err := rows.Scan(&anchor.Replica, &anchor.Run, &anchor.Chain, &seq, &anchor.MAC, &at); err != nil {
				return fmt.Errorf("read the anchors of the audit log: %w", err)
			}
			anchor.Seq, anchor.At = uint64(seq), time.Unix(0, at).UTC()
			all = append(all, anchor)
		}
		return rows.Err()
	})
	return all, err
}
