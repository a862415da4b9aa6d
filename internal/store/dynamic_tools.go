package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// DynamicTool is a tool that was registered at run time.
type DynamicTool struct {
	Name     string // with the namespace of its owner
	Owner    Owner
	Persona  string // of its owner, when it was registered
	Template string // the declared tool behind it, with its namespace
	Body     []byte // what was registered, opaque; at most 64 KiB
	Change
	CreatedAt time.Time // set by the store
	ChangedAt time.Time // set by the store
}

// DynamicTools stores tools that were registered at run time. The caller decides what may
// be registered. Every change raises the generation of [TopicDynamicTools]. The zero value
// returns [ErrClosed]; methods are safe for concurrent use, also by several processes.
type DynamicTools struct {
	s *Store
}

// Tools returns the handle for dynamic tools.
func (d *Dynamic) Tools() *DynamicTools { return &DynamicTools{d.s} }

// Put adds a tool, or replaces the one that its owner has under this name. It returns
// [ErrTaken] when the name is another owner's, and [ErrTooMany] when the owner would have
// more than limit tools. The times of r are ignored.
func (d *DynamicTools) Put(ctx context.Context, r *DynamicTool, limit int) error {
	if d.s == nil {
		return ErrClosed
	}
	if err := r.check(); err != nil {
		return fmt.Errorf("register tool %.64q: %w", r.Name, err)
	}
	return d.s.change(ctx, TopicDynamicTools, func(ctx context.Context, tx *Tx) (bool, error) {
		const put = `INSERT INTO dynamic_tools (name, registered_by_tenant, registered_by_persona, principal, template, body, actor, reason, created_at, changed_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE
			SET registered_by_persona = excluded.registered_by_persona, template = excluded.template, body = excluded.body, actor = excluded.actor, reason = excluded.reason, changed_at = excluded.changed_at
			WHERE dynamic_tools.registered_by_tenant = excluded.registered_by_tenant AND dynamic_tools.principal = excluded.principal`
		now := time.Now().UnixNano()
		n, err := tx.Exec(ctx, put, r.Name, r.Owner.Tenant, writable(r.Persona), foreign(r.Owner.Principal), r.Template, nonNil(r.Body), r.Actor, r.Reason, now, now)
		switch {
		case err != nil:
			return false, fmt.Errorf("register tool %s: %w", r.Name, err)
		case n == 0:
			return false, fmt.Errorf("register tool %s: %w", r.Name, ErrTaken)
		}
		var has int
		const count = `SELECT count(*) FROM dynamic_tools WHERE registered_by_tenant = ? AND principal = ?`
		if err := tx.QueryRow(ctx, count, r.Owner.Tenant, foreign(r.Owner.Principal)).Scan(&has); err != nil {
			return false, fmt.Errorf("count the tools of an owner: %w", err)
		}
		if has > limit {
			return false, fmt.Errorf("register tool %s: its owner may have %d: %w", r.Name, limit, ErrTooMany)
		}
		return true, nil
	})
}

func (r *DynamicTool) check() error {
	if len(r.Body) > maxArguments {
		return fmt.Errorf("a body of %d bytes: %w", len(r.Body), ErrTooLarge)
	}
	return errors.Join(checkName("name", r.Name), r.Owner.check(), checkName("template", r.Template), r.Change.check())
}

// Remove removes a tool of any owner. ok is false when there is none of this name.
func (d *DynamicTools) Remove(ctx context.Context, name string) (ok bool, err error) {
	return d.remove(ctx, name, `DELETE FROM dynamic_tools WHERE name = ?`, name)
}

// RemoveOwn removes a tool for its owner. ok is false when there is none of this name, or
// it belongs to another.
func (d *DynamicTools) RemoveOwn(ctx context.Context, name string, owner Owner) (ok bool, err error) {
	if !isText(owner.Tenant) {
		owner.Tenant = "" // matches no owner
	}
	return d.remove(ctx, name, `DELETE FROM dynamic_tools WHERE name = ? AND registered_by_tenant = ? AND principal = ?`,
		name, owner.Tenant, foreign(owner.Principal))
}

func (d *DynamicTools) remove(ctx context.Context, name, q string, args ...any) (ok bool, err error) {
	if d.s == nil {
		return false, ErrClosed
	}
	if !isText(name) {
		return false, nil
	}
	err = d.s.change(ctx, TopicDynamicTools, func(ctx context.Context, tx *Tx) (bool, error) {
		n, err := tx.Exec(ctx, q, args...)
		if err != nil {
			return false, fmt.Errorf("remove tool %s: %w", name, err)
		}
		ok = n > 0
		return ok, nil
	})
	return ok && err == nil, err
}

// List returns all tools, sorted by name, and their generation.
func (d *DynamicTools) List(ctx context.Context) (list []DynamicTool, generation int64, err error) {
	if d.s == nil {
		return nil, 0, ErrClosed
	}
	err = d.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		list = nil
		if generation, err = tx.Generation(ctx, TopicDynamicTools); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT name, registered_by_tenant, registered_by_persona, principal, template, body, actor, reason, created_at, changed_at
			FROM dynamic_tools ORDER BY name`)
		if err != nil {
			return fmt.Errorf("read dynamic tools: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			var r DynamicTool
			var created, changed int64
			if err := rows.Scan(&r.Name, &r.Owner.Tenant, &r.Persona, &r.Owner.Principal, &r.Template, &r.Body, &r.Actor, &r.Reason, &created, &changed); err != nil {
				return fmt.Errorf("read dynamic tool: %w", err)
			}
			r.CreatedAt, r.ChangedAt = instant(created), instant(changed)
			list = append(list, r)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, 0, err
	}
	return list, generation, nil
}
