package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// maxArguments bounds the arguments of a dynamic server, in bytes.
const maxArguments = 64 << 10

// Owner is who added a dynamic server.
type Owner struct {
	Tenant    string
	Principal string // as the gate encodes it; any bytes, at most 1 KiB
}

func (o Owner) check() error {
	return errors.Join(checkName("tenant", o.Tenant), checkPrincipal(o.Principal))
}

// DynamicRecord is a server that was added at run time.
type DynamicRecord struct {
	Server    string // key of the server, as in the configuration
	Owner     Owner
	Persona   string // of its owner, when it was added
	Entry     string // in the operator's catalog
	Arguments []byte // JSON; at most 64 KiB
	Promoted  bool   // shared with everyone; its owner can no longer remove it
	Change
	CreatedAt time.Time // set by the store
	ChangedAt time.Time // set by the store
}

// Dynamic stores servers that were added at run time. The caller decides what may be
// added. Every change raises the generation of [TopicDynamic]. The zero value returns
// [ErrClosed]; methods are safe for concurrent use, also by several processes.
type Dynamic struct {
	s *Store
}

// Dynamic returns the handle for dynamic servers.
func (s *Store) Dynamic() *Dynamic { return &Dynamic{s} }

// Add adds r unless the key is taken by any owner; ok reports whether it did. It
// returns [ErrTooMany] when the owner already has limit servers that are not promoted.
// The times and Promoted of r are ignored.
func (d *Dynamic) Add(ctx context.Context, r DynamicRecord, limit int) (ok bool, err error) {
	if d.s == nil {
		return false, ErrClosed
	}
	if err := r.check(); err != nil {
		return false, fmt.Errorf("add server %.64q: %w", r.Server, err)
	}
	err = d.s.change(ctx, TopicDynamic, func(ctx context.Context, tx *Tx) (bool, error) {
		ok = false
		var has int
		const count = `SELECT count(*) FROM dynamic_servers WHERE tenant = ? AND principal = ? AND NOT promoted`
		if err := tx.QueryRow(ctx, count, r.Owner.Tenant, foreign(r.Owner.Principal)).Scan(&has); err != nil {
			return false, fmt.Errorf("count the servers of an owner: %w", err)
		}
		now := time.Now().UnixNano()
		const add = `INSERT INTO dynamic_servers (server, tenant, registered_by_persona, principal, entry, arguments, promoted, actor, reason, created_at, changed_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (server) DO NOTHING`
		n, err := tx.Exec(ctx, add, r.Server, r.Owner.Tenant, writable(r.Persona), foreign(r.Owner.Principal), r.Entry, nonNil(r.Arguments),
			false, r.Actor, r.Reason, now, now)
		switch {
		case err != nil:
			return false, fmt.Errorf("add server %s: %w", r.Server, err)
		case n > 0 && has >= limit:
			return false, fmt.Errorf("add server %s: its owner has %d of %d: %w", r.Server, has, limit, ErrTooMany)
		}
		ok = n > 0
		return ok, nil
	})
	return ok && err == nil, err
}

func (r *DynamicRecord) check() error {
	if len(r.Arguments) > maxArguments {
		return fmt.Errorf("arguments of %d bytes: %w", len(r.Arguments), ErrTooLarge)
	}
	return errors.Join(checkName("server", r.Server), r.Owner.check(), checkName("entry", r.Entry), r.Change.check())
}

// Promote shares a server with everyone. ok is false when there is none with this key,
// or it is shared already.
func (d *Dynamic) Promote(ctx context.Context, server string, by Change) (ok bool, err error) {
	if d.s != nil {
		if err := by.check(); err != nil {
			return false, fmt.Errorf("promote server %.64q: %w", server, err)
		}
	}
	const q = `UPDATE dynamic_servers SET promoted = ?, actor = ?, reason = ?, changed_at = ? WHERE server = ? AND NOT promoted`
	return d.one(ctx, server, q, true, by.Actor, by.Reason, time.Now().UnixNano(), server)
}

// Remove removes a server of any owner. ok is false when there is none with this key.
func (d *Dynamic) Remove(ctx context.Context, server string) (ok bool, err error) {
	return d.one(ctx, server, `DELETE FROM dynamic_servers WHERE server = ?`, server)
}

// RemoveOwn removes a server for its owner. ok is false when there is none with this
// key, it belongs to another, or it was promoted.
func (d *Dynamic) RemoveOwn(ctx context.Context, server string, owner Owner) (ok bool, err error) {
	if !isText(owner.Tenant) {
		owner.Tenant = "" // matches no owner
	}
	return d.one(ctx, server, `DELETE FROM dynamic_servers WHERE server = ? AND tenant = ? AND principal = ? AND NOT promoted`,
		server, owner.Tenant, foreign(owner.Principal))
}

// one runs a statement that changes one server.
func (d *Dynamic) one(ctx context.Context, server, q string, args ...any) (ok bool, err error) {
	if d.s == nil {
		return false, ErrClosed
	}
	if !isText(server) {
		return false, nil
	}
	err = d.s.change(ctx, TopicDynamic, func(ctx context.Context, tx *Tx) (bool, error) {
		n, err := tx.Exec(ctx, q, args...)
		if err != nil {
			return false, fmt.Errorf("change server %s: %w", server, err)
		}
		ok = n > 0
		return ok, nil
	})
	return ok && err == nil, err
}

const dynamicColumns = `server, tenant, registered_by_persona, principal, entry, arguments, promoted, actor, reason, created_at, changed_at`

// Get returns the server with a key; ok is false when there is none.
func (d *Dynamic) Get(ctx context.Context, server string) (r DynamicRecord, ok bool, err error) {
	if d.s == nil {
		return DynamicRecord{}, false, ErrClosed
	}
	if !isText(server) {
		return DynamicRecord{}, false, nil
	}
	err = d.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		r, ok, err = found(scanDynamic(tx.QueryRow(ctx, `SELECT `+dynamicColumns+` FROM dynamic_servers WHERE server = ?`, server)))
		return err
	})
	return r, ok, err
}

// List returns all servers, sorted by key, and their generation.
func (d *Dynamic) List(ctx context.Context) (list []DynamicRecord, generation int64, err error) {
	if d.s == nil {
		return nil, 0, ErrClosed
	}
	err = d.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		if generation, err = tx.Generation(ctx, TopicDynamic); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT `+dynamicColumns+` FROM dynamic_servers ORDER BY server`)
		if err != nil {
			return fmt.Errorf("read dynamic servers: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			r, err := scanDynamic(rows)
			if err != nil {
				return err
			}
			list = append(list, r)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, 0, err
	}
	return list, generation, nil
}

func scanDynamic(row scanner) (DynamicRecord, error) {
	var r DynamicRecord
	var created, changed int64
	err := row.Scan(&r.Server, &r.Owner.Tenant, &r.Persona, &r.Owner.Principal, &r.Entry, &r.Arguments, &r.Promoted,
		&r.Actor, &r.Reason, &created, &changed)
	if err != nil {
		return DynamicRecord{}, fmt.Errorf("read dynamic server: %w", err)
	}
	r.CreatedAt, r.ChangedAt = instant(created), instant(changed)
	return r, nil
}
