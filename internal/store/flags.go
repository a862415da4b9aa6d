package store

import (
	"context"
	"fmt"
	"time"
)

// FlagRecord enables or disables one capability for one tenant.
type FlagRecord struct {
	Tenant       string
	CapabilityID string
	Enabled      bool
	Change
	At time.Time // set by the store
}

// Flags stores the settings of single tenants. Every change raises the generation of
// [TopicFlags]. The zero value returns [ErrClosed]; methods are safe for concurrent
// use, also by several processes.
type Flags struct {
	s *Store
}

// Flags returns the handle for tenant flags.
func (s *Store) Flags() *Flags { return &Flags{s} }

// Set enables or disables capabilities for a tenant, all in one transaction. The
// capabilities need not be in the registry.
func (f *Flags) Set(ctx context.Context, tenant string, enabled bool, by Change, capabilities ...string) error {
	if f.s == nil {
		return ErrClosed
	}
	if err := checkRule("tenant", tenant, by, capabilities); err != nil {
		return fmt.Errorf("set flag: %w", err)
	}
	return f.s.change(ctx, TopicFlags, func(ctx context.Context, tx *Tx) (bool, error) {
		now := time.Now().UnixNano()
		for _, id := range capabilities {
			const q = `INSERT INTO tenant_tool_flags (tenant, capability_id, enabled, actor, reason, at) VALUES (?, ?, ?, ?, ?, ?)
				ON CONFLICT (tenant, capability_id) DO UPDATE
				SET enabled = excluded.enabled, actor = excluded.actor, reason = excluded.reason, at = excluded.at`
			if _, err := tx.Exec(ctx, q, tenant, id, enabled, by.Actor, by.Reason, now); err != nil {
				return false, fmt.Errorf("set flag of %s for %s: %w", id, tenant, err)
			}
		}
		return len(capabilities) > 0, nil
	})
}

// Clear removes the flag of a capability, so that the registry decides for the tenant
// again. ok is false when there was none.
func (f *Flags) Clear(ctx context.Context, tenant, capability string) (ok bool, err error) {
	if f.s == nil {
		return false, ErrClosed
	}
	return f.s.forget(ctx, TopicFlags, `DELETE FROM tenant_tool_flags WHERE tenant = ? AND capability_id = ?`, tenant, capability)
}

// List returns the flags of a tenant, or of all if tenant is empty, sorted by tenant
// and capability, and their generation.
func (f *Flags) List(ctx context.Context, tenant string) (flags []FlagRecord, generation int64, err error) {
	if f.s == nil {
		return nil, 0, ErrClosed
	}
	if !isText(tenant) {
		generation, err = f.s.Generation(ctx, TopicFlags)
		return nil, generation, err
	}
	err = f.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		flags = nil
		if generation, err = tx.Generation(ctx, TopicFlags); err != nil {
			return err
		}
		const q = `SELECT tenant, capability_id, enabled, actor, reason, at FROM tenant_tool_flags
			WHERE tenant = ? OR ? = '' ORDER BY tenant, capability_id`
		rows, err := tx.Query(ctx, q, tenant, tenant)
		if err != nil {
			return fmt.Errorf("read flags: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			var r FlagRecord
			var at int64
			if err := rows.Scan(&r.Tenant, &r.CapabilityID, &r.Enabled, &r.Actor, &r.Reason, &at); err != nil {
				return fmt.Errorf("read flags: %w", err)
			}
			r.At = instant(at)
			flags = append(flags, r)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, 0, err
	}
	return flags, generation, nil
}

// checkRule validates a rule about capabilities for a tenant or persona.
func checkRule(what, whom string, by Change, capabilities []string) error {
	if err := checkName(what, whom); err != nil {
		return err
	}
	for _, id := range capabilities {
		if err := checkName("capability id", id); err != nil {
			return err
		}
	}
	return by.check()
}

// forget runs a statement that removes the row with two names.
func (s *Store) forget(ctx context.Context, topic, q, whom, capability string) (ok bool, err error) {
	if !isText(whom) || !isText(capability) {
		return false, nil
	}
	err = s.change(ctx, topic, func(ctx context.Context, tx *Tx) (bool, error) {
		n, err := tx.Exec(ctx, q, whom, capability)
		if err != nil {
			return false, fmt.Errorf("remove what was set about %s for %s: %w", capability, whom, err)
		}
		ok = n > 0
		return ok, nil
	})
	return ok && err == nil, err
}
