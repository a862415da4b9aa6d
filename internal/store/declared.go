package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// maxDeclared bounds the document of one declared tool, in bytes.
	maxDeclared = 256 << 10
	// maxDeclaredTools bounds the tools declared in a store.
	maxDeclaredTools = 1000
)

// DeclaredRecord is a tool that was declared in the store.
type DeclaredRecord struct {
	Name string // with its namespace
	Body []byte // the document of this one tool, opaque; at most 256 KiB
	Change
	ChangedAt time.Time // set by the store
}

// Declared stores declared tools. The caller decides what may be declared. Every change
// raises the generation of [TopicDeclared]. The zero value returns [ErrClosed]; methods
// are safe for concurrent use, also by several processes.
type Declared struct {
	s *Store
}

// Declared returns the handle for declared tools.
func (s *Store) Declared() *Declared { return &Declared{s} }

// Put adds tools or replaces those of the same names, all or none. It returns
// [ErrTooMany] when there would be more than 1,000. ChangedAt is ignored.
func (d *Declared) Put(ctx context.Context, list []DeclaredRecord) error {
	if d.s == nil {
		return ErrClosed
	}
	for i := range list {
		r := &list[i]
		err := errors.Join(checkName("name", r.Name), r.Change.check())
		if len(r.Body) > maxDeclared {
			err = fmt.Errorf("a document of %d bytes: %w", len(r.Body), ErrTooLarge)
		}
		if err != nil {
			return fmt.Errorf("declare tool %.64q: %w", r.Name, err)
		}
	}
	return d.s.change(ctx, TopicDeclared, func(ctx context.Context, tx *Tx) (bool, error) {
		const put = `INSERT INTO declared_tools (name, body, actor, reason, changed_at) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (name) DO UPDATE
			SET body = excluded.body, actor = excluded.actor, reason = excluded.reason, changed_at = excluded.changed_at`
		now := time.Now().UnixNano()
		for i := range list {
			r := &list[i]
			if _, err := tx.Exec(ctx, put, r.Name, nonNil(r.Body), r.Actor, r.Reason, now); err != nil {
				return false, fmt.Errorf("declare tool %s: %w", r.Name, err)
			}
		}
		var has int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM declared_tools`).Scan(&has); err != nil {
			return false, fmt.Errorf("count declared tools: %w", err)
		}
		if has > maxDeclaredTools {
			return false, fmt.Errorf("%d declared tools: %w", has, ErrTooMany)
		}
		return len(list) > 0, nil
	})
}

// Remove removes a tool. ok is false when there is none of that name.
func (d *Declared) Remove(ctx context.Context, name string) (ok bool, err error) {
	if d.s == nil {
		return false, ErrClosed
	}
	if !isText(name) {
		return false, nil
	}
	err = d.s.change(ctx, TopicDeclared, func(ctx context.Context, tx *Tx) (bool, error) {
		n, err := tx.Exec(ctx, `DELETE FROM declared_tools WHERE name = ?`, name)
		if err != nil {
			return false, fmt.Errorf("remove declared tool %s: %w", name, err)
		}
		ok = n > 0
		return ok, nil
	})
	return ok && err == nil, err
}

// List returns all tools, sorted by name, and their generation.
func (d *Declared) List(ctx context.Context) (list []DeclaredRecord, generation int64, err error) {
	if d.s == nil {
		return nil, 0, ErrClosed
	}
	err = d.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		list = nil
		if generation, err = tx.Generation(ctx, TopicDeclared); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT name, body, actor, reason, changed_at FROM declared_tools ORDER BY name`)
		if err != nil {
			return fmt.Errorf("read declared tools: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			var r DeclaredRecord
			var changed int64
			if err := rows.Scan(&r.Name, &r.Body, &r.Actor, &r.Reason, &changed); err != nil {
				return fmt.Errorf("read declared tool: %w", err)
			}
			r.ChangedAt = instant(changed)
			list = append(list, r)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, 0, err
	}
	return list, generation, nil
}
