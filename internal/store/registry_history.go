package store

import (
	"context"
	"fmt"
	"time"
)

// maxHistory is how many accepted definitions are kept of a capability, the latest ones.
const maxHistory = 20

// AcceptedDefinition is a definition that was accepted of a capability.
type AcceptedDefinition struct {
	Hash       string
	Definition []byte // JSON
	Change            // who accepted it first
	AcceptedAt time.Time
}

// History returns the accepted definitions of a capability, the latest first: those that
// are served now, and at most 20 in all. Nothing is known of an id without a record.
func (r *Registry) History(ctx context.Context, id string) (list []AcceptedDefinition, err error) {
	if r.s == nil {
		return nil, ErrClosed
	}
	if !isText(id) {
		return nil, nil
	}
	err = r.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		list = nil
		rows, err := tx.Query(ctx, `SELECT hash, definition, accepted_at, actor, reason FROM tool_definitions
			WHERE capability_id = ? ORDER BY accepted_at DESC, hash`, id)
		if err != nil {
			return fmt.Errorf("read accepted definitions: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			var d AcceptedDefinition
			var at int64
			if err := rows.Scan(&d.Hash, &d.Definition, &at, &d.Actor, &d.Reason); err != nil {
				return fmt.Errorf("read accepted definitions: %w", err)
			}
			d.AcceptedAt = instant(at)
			list = append(list, d)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// remember adds the accepted definitions of records to the history, and drops the oldest
// of those that have too many.
func remember(ctx context.Context, tx *Tx, records []RegistryRecord, now time.Time) error {
	var add, ids []any
	for i := range records {
		r := &records[i]
		if r.AcceptedHash == "" || r.AcceptedHash != r.DefinitionHash || r.Definition == nil {
			continue
		}
		add = append(add, r.ID, r.AcceptedHash, r.Definition, nanos(now), r.Actor, r.Reason)
		ids = append(ids, r.ID)
	}
	if len(ids) == 0 {
		return nil
	}
	n, err := tx.Exec(ctx, `INSERT INTO tool_definitions (capability_id, hash, definition, accepted_at, actor, reason) VALUES `+
		repeated("(?, ?, ?, ?, ?, ?)", ", ", len(ids))+` ON CONFLICT (capability_id, hash) DO NOTHING`, add...)
	if err != nil {
		return fmt.Errorf("keep accepted definitions: %w", err)
	}
	if n == 0 {
		return nil
	}
	// The one in force stays, however old it is.
	_, err = tx.Exec(ctx, `DELETE FROM tool_definitions WHERE capability_id IN (`+repeated("?", ", ", len(ids))+`)
		AND hash <> (SELECT accepted_hash FROM tool_catalog WHERE tool_catalog.capability_id = tool_definitions.capability_id)
		AND (SELECT count(*) FROM tool_definitions AS later WHERE later.capability_id = tool_definitions.capability_id
			AND (later.accepted_at > tool_definitions.accepted_at OR later.accepted_at = tool_definitions.accepted_at AND later.hash < tool_definitions.hash)) >= ?`,
		append(ids, maxHistory)...)
	if err != nil {
		return fmt.Errorf("drop the oldest accepted definitions: %w", err)
	}
	return nil
}
