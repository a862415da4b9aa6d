package runs

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/store"
)

// Runs stores runs. Methods are safe for concurrent use, also by several processes. All
// that take an owner find a run of its own alone: that of somebody else and one that
// there is not look the same.
type Runs struct{ s *store.Store }

// New returns the handle for runs in a store.
func New(s *store.Store) *Runs { return &Runs{s} }

// Add begins a run and returns it with its id, claimed by a holder until lease.
func (r *Runs) Add(ctx context.Context, run Run, holder string, lease time.Time) (Run, error) {
	if err := run.check(); err != nil {
		return Run{}, fmt.Errorf("begin a run: %w", err)
	}
	if err := checkHolder(holder); err != nil {
		return Run{}, fmt.Errorf("begin a run: %w", err)
	}
	run.ID = prefix + strings.ToLower(rand.Text())
	err := r.s.Do(ctx, func(ctx context.Context, tx *store.Tx) error {
		if err := tx.Lock(ctx, Topic); err != nil {
			return err
		}
		now := time.Now()
		run.State, run.Cancel, run.Result, run.CreatedAt, run.Changed = Running, false, nil, now.UTC(), now.UTC()
		if err := forget(ctx, tx, run.Principal, now); err != nil {
			return err
		}
		var open int
		const count = `SELECT count(*) FROM runs WHERE principal = ? AND state IN ('running', 'waiting', 'interrupted')`
		if err := tx.QueryRow(ctx, count, []byte(run.Principal)).Scan(&open); err != nil {
			return fmt.Errorf("count runs: %w", err)
		}
		if open >= MaxOpen {
			return fmt.Errorf("begin a run: the principal has %d: %w", open, ErrTooMany)
		}
		const add = `INSERT INTO runs (id, principal, credential, lasting, capsule, agent, state, cancel, request, result, size, holder, lease, created_at, changed_at)
			VALUES (?, ?, ?, ?, ?, ?, 'running', 0, ?, ?, 0, ?, ?, ?, ?)`
		_, err := tx.Exec(ctx, add, run.ID, []byte(run.Principal), run.Credential, number(run.Lasting), run.Capsule, run.Agent,
			nonNil(run.Request), []byte{}, holder, nanos(lease), now.UnixNano(), now.UnixNano())
		if err != nil {
			return fmt.Errorf("begin a run: %w", err)
		}
		return nil
	})
	if err != nil {
		return Run{}, err
	}
	return run, nil
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// forget deletes what has not changed for long, and the oldest runs of a principal that
// has too many.
func forget(ctx context.Context, tx *store.Tx, principal string, now time.Time) error {
	if err := prune(ctx, tx, now); err != nil {
		return err
	}
	const excess = `SELECT id FROM runs WHERE principal = ? AND state <> 'running' ORDER BY created_at DESC, id LIMIT 1000 OFFSET ?`
	return remove(ctx, tx, excess, []byte(principal), maxKept-1)
}

// prune deletes what has not changed for long.
func prune(ctx context.Context, tx *store.Tx, now time.Time) error {
	return remove(ctx, tx, `SELECT id FROM runs WHERE state <> 'running' AND changed_at < ? LIMIT 1000`, nanos(now.Add(-Kept)))
}

// remove deletes the runs that a query returns.
func remove(ctx context.Context, tx *store.Tx, query string, args ...any) error {
	for _, from := range []string{`DELETE FROM run_steps WHERE run IN (`, `DELETE FROM runs WHERE id IN (`} {
		if _, err := tx.Exec(ctx, from+query+`)`, args...); err != nil {
			return fmt.Errorf("forget old runs: %w", err)
		}
	}
	return nil
}

// Prune deletes what has not changed for long.
func (r *Runs) Prune(ctx context.Context) error {
	return r.s.Do(ctx, func(ctx context.Context, tx *store.Tx) error { return prune(ctx, tx, time.Now()) })
}

const (
	// heads are the columns of what a list shows: a run without what was asked of it and
	// what came of it, each of which may have half a megabyte.
	heads   = `id, principal, credential, lasting, capsule, agent, state, cancel, created_at, changed_at`
	columns = heads + `, request, result`
)

// Filter selects runs. An empty field matches every value.
type Filter struct {
	Principal string // of the owner
	State     State
	// BeforeAt and BeforeID are the beginning and the id of the last run of the page before.
	BeforeAt time.Time
	BeforeID string
	Limit    int // how many; [MaxListed] at most, and where it is 0
}

// Statement returns the statement of [Runs.List] with its arguments.
func (f Filter) Statement() (text string, args []any) {
	where := `created_at > 0`
	if f.BeforeID != "" { // one side of a range: of two, databases expect so few runs that they look at all of them
		at := nanos(f.BeforeAt)
		where, args = `created_at <= ? AND (created_at < ? OR id > ?)`, append(args, at, at, f.BeforeID)
	}
	if f.Principal != "" {
		where, args = where+` AND principal = ?`, append(args, []byte(f.Principal))
	}
	if f.State != "" {
		where, args = where+` AND state = ?`, append(args, string(f.State))
	}
	limit := MaxListed
	if f.Limit > 0 {
		limit = min(f.Limit, MaxListed)
	}
	return `SELECT ` + heads + ` FROM runs WHERE ` + where + ` ORDER BY created_at DESC, id LIMIT ?`, append(args, limit)
}

// List returns runs, the latest first, at most [MaxListed]. They have neither a request nor
// a result: [Runs.Get] has these.
func (r *Runs) List(ctx context.Context, f Filter) (list []Run, err error) {
	if !isText(string(f.State)) || !isText(f.BeforeID) {
		return nil, nil
	}
	q, args := f.Statement()
	err = r.s.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		list, err = readHeads(ctx, tx, q, args...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Get returns a run; of an owner alone where it is not empty. ok is false where there is
// none.
func (r *Runs) Get(ctx context.Context, owner, id string) (run Run, ok bool, err error) {
	if id == "" || !isText(id) {
		return Run{}, false, nil
	}
	where, args := `id = ?`, []any{id}
	if owner != "" {
		where, args = where+` AND principal = ?`, append(args, []byte(owner))
	}
	var list []Run
	err = r.s.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		list, err = read(ctx, tx, `SELECT `+columns+` FROM runs WHERE `+where, args...)
		return err
	})
	if err != nil || len(list) == 0 {
		return Run{}, false, err
	}
	return list[0], true, nil
}

// Steps returns the steps of a run in their order.
func (r *Runs) Steps(ctx context.Context, id string) (steps []Step, err error) {
	err = r.s.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		steps = nil
		const q = `SELECT seq, kind, turn, name, state, call_id, input, output, cost, begun_at, ended_at, asked, answer FROM run_steps WHERE run = ? ORDER BY seq`
		rows, err := tx.Query(ctx, q, id)
		if err != nil {
			return fmt.Errorf("read the steps of a run: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			var s Step
			var begun, ended int64
			if err := rows.Scan(&s.Seq, &s.Kind, &s.Turn, &s.Name, &s.State, &s.CallID, &s.Input, &s.Output, &s.Cost, &begun, &ended, &s.Asked, &s.Answer); err != nil {
				return fmt.Errorf("read a step of a run: %w", err)
			}
			s.BegunAt, s.EndedAt = instant(begun), instant(ended)
			steps = append(steps, s)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return steps, nil
}

// read returns the runs of a query for [columns], and readHeads of one for [heads].
func read(ctx context.Context, tx *store.Tx, q string, args ...any) ([]Run, error) {
	return scan(ctx, tx, func(r *Run) []any { return []any{&r.Request, &r.Result} }, q, args...)
}

func readHeads(ctx context.Context, tx *store.Tx, q string, args ...any) ([]Run, error) {
	return scan(ctx, tx, func(*Run) []any { return nil }, q, args...)
}

// scan returns the runs of a query. rest is where its columns after [heads] go.
func scan(ctx context.Context, tx *store.Tx, rest func(*Run) []any, q string, args ...any) (list []Run, err error) {
	rows, err := tx.Query(ctx, q, args...)
	if err != nil {
		return nil, fmt.Errorf("read runs: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var r Run
		var principal []byte
		var lasting, cancel, created, changed int64
		into := []any{&r.ID, &principal, &r.Credential, &lasting, &r.Capsule, &r.Agent, &r.State, &cancel, &created, &changed}
		if err := rows.Scan(append(into, rest(&r)...)...); err != nil {
			return nil, fmt.Errorf("read a run: %w", err)
		}
		r.Principal, r.Lasting, r.Cancel, r.CreatedAt, r.Changed = string(principal), lasting != 0, cancel != 0, instant(created), instant(changed)
		list = append(list, r)
	}
	return list, rows.Err()
}
