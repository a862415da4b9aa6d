package store

import (
	"context"
	"fmt"
	"time"
)

// RestrictionRecord denies one capability to one persona, or allows it. A persona to
// which a capability is allowed has those of its kind alone that are allowed to it.
type RestrictionRecord struct {
	Persona      string
	CapabilityID string
	Allowed      bool
	Change
	At time.Time // set by the store
}

// Restrictions stores what personas may not use, and what alone they may use. Every change raises the generation of
// [TopicRestrictions]. The zero value returns [ErrClosed]; methods are safe for
// concurrent use, also by several processes.
type Restrictions struct {
	s *Store
}

// Restrictions returns the handle for persona restrictions.
func (s *Store) Restrictions() *Restrictions { return &Restrictions{s} }

// Add denies capabilities to a persona, all in one transaction. The capabilities need
// not be in the registry.
func (r *Restrictions) Add(ctx context.Context, persona string, by Change, capabilities ...string) error {
	return r.set(ctx, persona, false, by, capabilities)
}

// Allow allows capabilities to a persona, all in one transaction.
func (r *Restrictions) Allow(ctx context.Context, persona string, by Change, capabilities ...string) error {
	return r.set(ctx, persona, true, by, capabilities)
}

func (r *Restrictions) set(ctx context.Context, persona string, allowed bool, by Change, capabilities []string) error {
	if r.s == nil {
		return ErrClosed
	}
	if err := checkRule("persona", persona, by, capabilities); err != nil {
		return fmt.Errorf("restrict: %w", err)
	}
	return r.s.change(ctx, TopicRestrictions, func(ctx context.Context, tx *Tx) (bool, error) {
		now := time.Now().UnixNano()
		for _, id := range capabilities {
			const q = `INSERT INTO persona_tool_restrictions (persona, capability_id, allowed, actor, reason, at) VALUES (?, ?, ?, ?, ?, ?)
				ON CONFLICT (persona, capability_id) DO UPDATE
				SET allowed = excluded.allowed, actor = excluded.actor, reason = excluded.reason, at = excluded.at`
			if _, err := tx.Exec(ctx, q, persona, id, allowed, by.Actor, by.Reason, now); err != nil {
				return false, fmt.Errorf("restrict %s from %s: %w", persona, id, err)
			}
		}
		return len(capabilities) > 0, nil
	})
}

// Remove lifts a restriction. ok is false when there was none.
func (r *Restrictions) Remove(ctx context.Context, persona, capability string) (ok bool, err error) {
	if r.s == nil {
		return false, ErrClosed
	}
	return r.s.forget(ctx, TopicRestrictions, `DELETE FROM persona_tool_restrictions WHERE persona = ? AND capability_id = ?`, persona, capability)
}

// List returns the restrictions of a persona, or of all if persona is empty, sorted by
// persona and capability, and their generation.
func (r *Restrictions) List(ctx context.Context, persona string) (list []RestrictionRecord, generation int64, err error) {
	if r.s == nil {
		return nil, 0, ErrClosed
	}
	if !isText(persona) {
		generation, err = r.s.Generation(ctx, TopicRestrictions)
		return nil, generation, err
	}
	err = r.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		list = nil
		if generation, err = tx.Generation(ctx, TopicRestrictions); err != nil {
			return err
		}
		const q = `SELECT persona, capability_id, allowed, actor, reason, at FROM persona_tool_restrictions
			WHERE persona = ? OR ? = '' ORDER BY persona, capability_id`
		rows, err := tx.Query(ctx, q, persona, persona)
		if err != nil {
			return fmt.Errorf("read restrictions: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			var one RestrictionRecord
			var at int64
			if err := rows.Scan(&one.Persona, &one.CapabilityID, &one.Allowed, &one.Actor, &one.Reason, &at); err != nil {
				return fmt.Errorf("read restrictions: %w", err)
			}
			one.At = instant(at)
			list = append(list, one)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, 0, err
	}
	return list, generation, nil
}
