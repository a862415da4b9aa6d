package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limits of the registry.
const (
	maxDefinition = 4 << 20   // bytes of a definition or a schema
	maxConfig     = 64 << 10  // bytes of an operator's configuration
	maxProse      = 256 << 10 // bytes of a description
	maxFlagged    = 64        // reasons why one entry is flagged
	maxRegistry   = 100_000   // entries
)

// Providers of a capability.
const (
	ProviderMCP      = "mcp"
	ProviderNative   = "native"
	ProviderExternal = "external"
)

// States of an entry of the registry.
const (
	StateActive   = "active"   // served
	StateHeld     = "held"     // a new or changed definition waits to be accepted
	StateOrphaned = "orphaned" // its server no longer offers it
)

// Class is the operator's classification of a capability's risk and cost. Nil and empty
// mean not classified.
type Class struct {
	Risk        string
	ReadOnly    *bool
	Destructive *bool
	HighCost    *bool
}

// RegistryRecord describes one capability.
type RegistryRecord struct {
	ID       string // capability id, see [Capabilities]
	Kind     string // tool, prompt, resource or template
	Server   string // key of the server in the configuration
	Original string // the upstream's name or URI, byte for byte
	Name     string // exposed name, byte for byte

	// For people; invalid text becomes U+FFFD.
	DisplayName string
	Description string
	Category    string

	Schema   []byte // JSON as received; nil for none
	Config   []byte // the operator's JSON; nil for none
	Enabled  bool
	Provider string // [ProviderMCP], [ProviderNative] or [ProviderExternal]
	Source   string // where the entry comes from, such as seed or discovery
	Class    Class

	State          string // [StateActive], [StateHeld] or [StateOrphaned]
	Definition     []byte // JSON as it is served; at most 4 MiB
	DefinitionHash string
	AcceptedHash   string // of the accepted definition; empty for none
	HeldDefinition []byte // JSON that waits to be accepted; nil for none
	HeldHash       string
	Flagged        []string // reasons for a review by a person; at most 64

	Change              // the latest
	FirstSeen time.Time // set by the store when zero in a new record, then kept
	ChangedAt time.Time // set by the store
}

// RegistryFilter selects records; an empty field selects all.
type RegistryFilter struct {
	Server string
	Kind   string
	State  string
}

// Registry stores what is known about each capability. Every change raises the
// generation of [TopicRegistry]. The zero value returns [ErrClosed]; methods are safe
// for concurrent use, also by several processes.
type Registry struct {
	s *Store
}

// Registry returns the handle for the capability catalog.
func (s *Store) Registry() *Registry { return &Registry{s} }

const registryColumns = `capability_id, kind, server, original, name, display_name, description, category, schema, config,
	is_enabled, provider, source, risk, read_only, destructive, high_cost, state, definition, definition_hash,
	accepted_hash, held_definition, held_hash, flagged, actor, reason, first_seen, changed_at`

// List returns the records that f selects, sorted by id, and their generation.
func (r *Registry) List(ctx context.Context, f RegistryFilter) (records []RegistryRecord, generation int64, err error) {
	if r.s == nil {
		return nil, 0, ErrClosed
	}
	var where []string
	var args []any
	for _, c := range []struct{ column, value string }{{"server", f.Server}, {"kind", f.Kind}, {"state", f.State}} {
		if c.value == "" {
			continue
		}
		if !isText(c.value) {
			where = append(where, "1 = 0") // no record has such a value
			continue
		}
		where, args = append(where, c.column+" = ?"), append(args, c.value)
	}
	condition := ""
	if len(where) > 0 {
		condition = " WHERE " + strings.Join(where, " AND ")
	}
	err = r.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		if generation, err = tx.Generation(ctx, TopicRegistry); err != nil {
			return err
		}
		records, err = readRegistry(ctx, tx, condition+" ORDER BY capability_id", args...)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return records, generation, nil
}

// Get returns the record of a capability id; ok is false when there is none.
func (r *Registry) Get(ctx context.Context, id string) (record RegistryRecord, ok bool, err error) {
	if r.s == nil {
		return RegistryRecord{}, false, ErrClosed
	}
	if !isText(id) {
		return RegistryRecord{}, false, nil
	}
	err = r.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		record, ok, err = getRegistry(ctx, tx, id)
		return err
	})
	return record, ok, err
}

// Upsert writes records as they are, in one transaction. It replaces existing ones,
// except for FirstSeen. It is for seeds and imports; use [Registry.Update] for
// decisions that depend on existing records.
func (r *Registry) Upsert(ctx context.Context, records []RegistryRecord) error {
	return r.Update(ctx, nil, func(map[string]RegistryRecord) ([]RegistryRecord, error) { return records, nil })
}

// Update reads the records of ids, passes them by id to fn, and writes the records that
// fn returns, which may be new ones or only some. No process changes the registry in
// between, so that fn can decide by what it sees. Ids without a record are missing from
// the map. An error of fn is returned, and nothing is written.
//
// fn may be called more than once, and must not call the store.
func (r *Registry) Update(ctx context.Context, ids []string, fn func(existing map[string]RegistryRecord) ([]RegistryRecord, error)) error {
	if r.s == nil {
		return ErrClosed
	}
	if slices.ContainsFunc(ids, func(id string) bool { return !isText(id) }) {
		return fmt.Errorf("update registry: an id: %w", errNotText)
	}
	return r.s.change(ctx, TopicRegistry, func(ctx context.Context, tx *Tx) (bool, error) {
		existing := make(map[string]RegistryRecord, len(ids))
		for some := range slices.Chunk(ids, rowsPerStatement) {
			args := make([]any, len(some))
			for i, id := range some {
				args[i] = id
			}
			records, err := readRegistry(ctx, tx, ` WHERE capability_id IN (`+repeated("?", ", ", len(some))+`)`, args...)
			if err != nil {
				return false, err
			}
			for _, record := range records {
				existing[record.ID] = record
			}
		}
		records, err := fn(existing)
		if err != nil {
			return false, err
		}
		return len(records) > 0, writeRegistry(ctx, tx, records)
	})
}

// SetEnabled enables or disables a capability for everyone. ok is false when there is
// no such record.
func (r *Registry) SetEnabled(ctx context.Context, id string, enabled bool, by Change) (ok bool, err error) {
	const q = `UPDATE tool_catalog SET is_enabled = ?, actor = ?, reason = ?, changed_at = ? WHERE capability_id = ?`
	return r.set(ctx, id, by, q, enabled, by.Actor, by.Reason, time.Now().UnixNano(), id)
}

// SetClass sets the operator's classification of a capability. ok is false when there
// is no such record.
func (r *Registry) SetClass(ctx context.Context, id string, class Class, by Change) (ok bool, err error) {
	if err := checkText("risk", class.Risk, maxName); err != nil {
		return false, fmt.Errorf("classify %.64q: %w", id, err)
	}
	const q = `UPDATE tool_catalog SET risk = ?, read_only = ?, destructive = ?, high_cost = ?, actor = ?, reason = ?, changed_at = ?
		WHERE capability_id = ?`
	return r.set(ctx, id, by, q, class.Risk, class.ReadOnly, class.Destructive, class.HighCost,
		by.Actor, by.Reason, time.Now().UnixNano(), id)
}

// set runs a statement that changes one record.
func (r *Registry) set(ctx context.Context, id string, by Change, q string, args ...any) (ok bool, err error) {
	if r.s == nil {
		return false, ErrClosed
	}
	if err := by.check(); err != nil {
		return false, fmt.Errorf("change capability %.64q: %w", id, err)
	}
	if !isText(id) {
		return false, nil
	}
	err = r.s.change(ctx, TopicRegistry, func(ctx context.Context, tx *Tx) (bool, error) {
		n, err := tx.Exec(ctx, q, args...)
		if err != nil {
			return false, fmt.Errorf("change capability %s: %w", id, err)
		}
		ok = n > 0
		return ok, nil
	})
	return ok && err == nil, err
}

// Prune removes the orphaned records of a source that no server of its own stands behind,
// such as tools that agents had registered, with their ids, and returns their number. What
// a person has decided about stays, so that the decision holds if it comes back: records
// of another source, and those with a class, a flag or a restriction.
func (r *Registry) Prune(ctx context.Context, source string) (removed int64, err error) {
	if r.s == nil {
		return 0, ErrClosed
	}
	if !isText(source) {
		return 0, nil
	}
	err = r.s.change(ctx, TopicRegistry, func(ctx context.Context, tx *Tx) (bool, error) {
		const gone = `SELECT capability_id FROM tool_catalog WHERE state = 'orphaned' AND source = ? AND provider <> 'mcp'
			AND risk = '' AND read_only IS NULL AND destructive IS NULL AND high_cost IS NULL
			AND NOT EXISTS (SELECT 1 FROM tenant_tool_flags f WHERE f.capability_id = tool_catalog.capability_id)
			AND NOT EXISTS (SELECT 1 FROM persona_tool_restrictions p WHERE p.capability_id = tool_catalog.capability_id)`
		for _, q := range [...]string{
			`DELETE FROM tool_definitions WHERE capability_id IN (` + gone + `)`,
			`DELETE FROM capability WHERE id IN (` + gone + `)`,
			`DELETE FROM tool_catalog WHERE capability_id IN (` + gone + `)`,
		} {
			if removed, err = tx.Exec(ctx, q, source); err != nil {
				return false, fmt.Errorf("forget what was registered: %w", err)
			}
		}
		return removed > 0, nil
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}

// Delete removes records and returns their number. Their capability ids stay issued.
func (r *Registry) Delete(ctx context.Context, ids ...string) (removed int64, err error) {
	if r.s == nil {
		return 0, ErrClosed
	}
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !isText(id) })
	err = r.s.change(ctx, TopicRegistry, func(ctx context.Context, tx *Tx) (bool, error) {
		removed = 0
		for some := range slices.Chunk(ids, rowsPerStatement) {
			args := make([]any, len(some))
			for i, id := range some {
				args[i] = id
			}
			in := ` WHERE capability_id IN (` + repeated("?", ", ", len(some)) + `)`
			n, err := tx.Exec(ctx, `DELETE FROM tool_catalog`+in, args...)
			if err == nil {
				_, err = tx.Exec(ctx, `DELETE FROM tool_definitions`+in, args...)
			}
			if err != nil {
				return false, fmt.Errorf("forget capabilities: %w", err)
			}
			removed += n
		}
		return removed > 0, nil
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}
