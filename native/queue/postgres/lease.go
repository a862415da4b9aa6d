package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toolgate/toolgate/native/queue"
)

// lease implements [queue.Lease].
type lease struct {
	e       *Engine
	job     queue.Job
	token   string
	attempt int
	once    sync.Once
	ended   chan struct{}
}

func (l *lease) Job() *queue.Job        { return &l.job }
func (l *lease) Attempt() int           { return l.attempt }
func (l *lease) Ended() <-chan struct{} { return l.ended }
func (l *lease) close()                 { l.once.Do(func() { close(l.ended) }) }

// Lease implements [queue.Consumer].
func (e *Engine) Lease(ctx context.Context, name, worker string, most int) ([]queue.Lease, error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		e.mu.Lock()
		wake := e.wakes[name]
		if wake == nil {
			wake = make(chan struct{})
			e.wakes[name] = wake
		}
		e.mu.Unlock()
		got, err := e.lease(ctx, name, worker, most)
		if err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, fmt.Errorf("lease jobs of the queue %s: %w", name, err)
		}
		if len(got) > 0 {
			return got, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-wake:
		case <-tick.C:
		}
	}
}

// lease leases what waits. Its statement is not cut off when ctx ends, because a lease
// that nobody knows of would be a lost job.
func (e *Engine) lease(ctx context.Context, name, worker string, most int) ([]queue.Lease, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	const q = `WITH next AS (
			SELECT id FROM toolgate_jobs WHERE state = 'waiting' AND queue = $1 AND deadline > now() ORDER BY priority DESC, turn, seq LIMIT $2 FOR UPDATE SKIP LOCKED)
		UPDATE toolgate_jobs j SET state = 'leased', attempt = attempt + 1, lease = $3, worker = $4, until = now() + $5 * interval '1 microsecond'
		FROM next WHERE j.id = next.id
		RETURNING j.id, j.principal, j.priority, j.turn, j.seq, j.repeats, j.key, j.deadline, j.body, j.attempt`
	own := rand.Text()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	rows, err := e.pool.Query(bounded, q, name, most, own, worker, e.bounds.Lease.Microseconds())
	if err != nil {
		return nil, err
	}
	type row struct {
		*lease
		turn, seq int64
	}
	all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (row, error) {
		l := row{lease: &lease{e: e, token: own, ended: make(chan struct{})}}
		l.job.Queue = name
		return l, r.Scan(&l.job.ID, &l.job.Principal, &l.job.Priority, &l.turn, &l.seq, &l.job.Repeats, &l.job.Key, &l.job.Deadline, &l.job.Body, &l.attempt)
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b row) int {
		return cmp.Or(cmp.Compare(b.job.Priority, a.job.Priority), cmp.Compare(a.turn, b.turn), cmp.Compare(a.seq, b.seq))
	})
	out := make([]queue.Lease, len(all))
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range all {
		out[i] = all[i].lease
		if old := e.leases[all[i].job.ID]; old != nil {
			old.close() // it has expired
		}
		e.leases[all[i].job.ID] = all[i].lease
	}
	e.counted[name] -= len(all)
	return out, nil
}

// forget drops a lease that has ended.
func (l *lease) forget() {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	if l.e.leases[l.job.ID] == l {
		delete(l.e.leases, l.job.ID)
	}
}

// change runs a statement on the row of the lease, if it is valid.
func (l *lease) change(ctx context.Context, set string, args ...any) error {
	q := `UPDATE toolgate_jobs SET ` + set + ` WHERE id = $1 AND lease = $2 AND state = 'leased' AND until > now()`
	tag, err := l.e.pool.Exec(ctx, q, append([]any{l.job.ID, l.token}, args...)...)
	if err != nil {
		return fmt.Errorf("change a lease: %w", err)
	}
	if tag.RowsAffected() == 0 {
		l.close()
		l.forget()
		return queue.ErrEnded
	}
	return nil
}

func (l *lease) Beat(ctx context.Context) error {
	return l.change(ctx, `until = now() + $3 * interval '1 microsecond'`, l.e.bounds.Lease.Microseconds())
}

func (l *lease) Return(ctx context.Context) error {
	if err := l.change(ctx, `state = 'waiting', attempt = attempt - 1, lease = ''`); err != nil {
		return err
	}
	l.forget()
	_, err := l.e.pool.Exec(ctx, `SELECT pg_notify($1, $2)`, channel, string(came)+l.job.Queue)
	return err
}

func (l *lease) Progress(ctx context.Context, body []byte) error {
	select {
	case <-l.ended:
		return queue.ErrEnded
	default:
	}
	text := string(report) + l.job.ID + "," + base64.StdEncoding.EncodeToString(body)
	if len(text) > maxNotice {
		return queue.ErrTooBig
	}
	_, err := l.e.pool.Exec(ctx, `SELECT pg_notify($1, $2)`, channel, text)
	return err
}

// ending is a job that a worker ends.
type ending struct {
	l   *lease
	end queue.End
	ok  bool
}

func (l *lease) Finish(ctx context.Context, end queue.End) error {
	f := &ending{l: l, end: end}
	if err := l.e.ends.Do(ctx, f); err != nil {
		return fmt.Errorf("end a job: %w", err)
	}
	l.forget()
	if !f.ok {
		l.close()
		return queue.ErrEnded
	}
	return nil
}

// finish ends jobs in one statement.
func (e *Engine) finish(ctx context.Context, all []*ending) error {
	var ids, tokens, states, reasons, ended []string
	var bodies [][]byte
	by := make(map[string]*ending, len(all))
	for _, f := range all {
		ids, tokens, states, reasons = append(ids, f.l.job.ID), append(tokens, f.l.token), append(states, string(f.end.State)), append(reasons, f.end.Reason)
		body := f.end.Body
		if body == nil {
			body = []byte{}
		}
		bodies = append(bodies, body)
		by[f.l.job.ID+f.l.token] = f
		ended = append(ended, f.l.job.ID+":"+f.l.token)
	}
	var b pgx.Batch
	b.Queue(`UPDATE toolgate_jobs j SET state = n.state, reason = n.reason, body = n.body, ended_at = now()
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[]) AS n(id, lease, state, reason, body)
		WHERE j.id = n.id AND j.lease = n.lease AND j.state = 'leased' AND j.until > now() RETURNING j.id, j.lease`,
		ids, tokens, states, reasons, bodies).Query(func(rows pgx.Rows) error {
		var id, own string
		_, err := pgx.ForEachRow(rows, []any{&id, &own}, func() error { by[id+own].ok = true; return nil })
		return err
	})
	for _, notice := range notices(ended) {
		b.Queue(`SELECT pg_notify($1, $2)`, channel, notice)
	}
	return e.pool.SendBatch(ctx, &b).Close()
}

// notices are the notifications that jobs have ended, each with its lease.
func notices(ended []string) (out []string) {
	for part := range slices.Chunk(ended, 140) {
		out = append(out, string(over)+strings.Join(part, ","))
	}
	return out
}
