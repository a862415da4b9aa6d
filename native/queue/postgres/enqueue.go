package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toolgate/toolgate/native/queue"
)

// addition is a job to add, with what came of it.
type addition struct {
	job *queue.Job
	err error
}

// Enqueue implements [queue.Producer].
func (e *Engine) Enqueue(ctx context.Context, j *queue.Job) error {
	a := &addition{job: j}
	if err := e.adds.Do(ctx, a); err != nil {
		return fmt.Errorf("add a job: %w", err)
	}
	return a.err
}

// group is the waiting jobs of one caller in a queue.
type group struct {
	queue, principal string
	priority         int
}

// place is where the next job of a group goes: behind its own, and not before the turn
// that is served.
type place struct{ last, floor int64 }

// add adds jobs in one statement.
func (e *Engine) add(ctx context.Context, all []*addition) error {
	places, err := e.places(ctx, all)
	if err != nil {
		return err
	}
	var n columns
	queues := make(map[string]bool)
	waiting := make(map[string]int)
	exact := make(map[string]int)
	for _, a := range all {
		g := group{a.job.Queue, a.job.Principal, a.job.Priority}
		at := places[g]
		if a.err = e.room(ctx, a.job, at, waiting, exact); a.err != nil {
			continue
		}
		at.last = max(at.last, at.floor-1) + 1
		waiting[g.queue]++
		queues[g.queue] = true
		n.add(a.job, at.last)
	}
	if len(n.ids) == 0 {
		return nil
	}
	var b pgx.Batch
	b.Queue(`INSERT INTO toolgate_jobs (id, queue, principal, priority, turn, repeats, key, deadline, body)
		SELECT id, queue, principal, priority, turn, repeats, key, now() + left_us * interval '1 microsecond', body
		FROM unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::bigint[], $6::boolean[], $7::text[], $8::bigint[], $9::bytea[])
			WITH ORDINALITY AS n(id, queue, principal, priority, turn, repeats, key, left_us, body, ord) ORDER BY ord
		ON CONFLICT (id) DO NOTHING`,
		n.ids, n.queues, n.principals, n.priorities, n.turns, n.repeats, n.keys, n.left, n.bodies)
	for name := range queues {
		b.Queue(`SELECT pg_notify($1, $2)`, channel, string(came)+name)
	}
	if err := e.pool.SendBatch(ctx, &b).Close(); err != nil {
		return err
	}
	e.mu.Lock()
	for name, more := range waiting {
		e.counted[name] += more
	}
	e.mu.Unlock()
	return nil
}

// columns are jobs as the columns of a statement.
type columns struct {
	ids, queues, principals, keys []string
	priorities                    []int32
	turns, left                   []int64
	repeats                       []bool
	bodies                        [][]byte
}

func (c *columns) add(j *queue.Job, turn int64) {
	c.ids, c.queues, c.principals, c.keys = append(c.ids, j.ID), append(c.queues, j.Queue), append(c.principals, j.Principal), append(c.keys, j.Key)
	c.priorities, c.turns, c.left = append(c.priorities, int32(j.Priority)), append(c.turns, turn), append(c.left, time.Until(j.Deadline).Microseconds())
	c.repeats, c.bodies = append(c.repeats, j.Repeats), append(c.bodies, j.Body)
}

// places finds where the jobs of some callers go.
func (e *Engine) places(ctx context.Context, all []*addition) (map[group]*place, error) {
	out := make(map[group]*place)
	var queues, principals []string
	var priorities []int32
	for _, a := range all {
		g := group{a.job.Queue, a.job.Principal, a.job.Priority}
		if out[g] == nil {
			out[g] = &place{}
			queues, principals, priorities = append(queues, g.queue), append(principals, g.principal), append(priorities, int32(g.priority))
		}
	}
	const q = `SELECT g.queue, g.principal, g.priority,
		coalesce((SELECT turn FROM toolgate_jobs j WHERE state = 'waiting' AND j.queue = g.queue AND j.principal = g.principal AND j.priority = g.priority
			ORDER BY turn DESC LIMIT 1), 0),
		coalesce((SELECT turn FROM toolgate_jobs j WHERE state = 'waiting' AND j.queue = g.queue AND j.priority = g.priority ORDER BY turn, seq LIMIT 1), 1)
		FROM unnest($1::text[], $2::text[], $3::int[]) AS g(queue, principal, priority)`
	rows, err := e.pool.Query(ctx, q, queues, principals, priorities)
	if err != nil {
		return nil, err
	}
	var g group
	var at place
	_, err = pgx.ForEachRow(rows, []any{&g.queue, &g.principal, &g.priority, &at.last, &at.floor}, func() error {
		*out[g] = at
		return nil
	})
	return out, err
}

// room refuses a job for which the queue has no room. It counts only near a bound, and
// once for all that are added: the turns of one caller follow each other, so that they
// say how many there are at most.
func (e *Engine) room(ctx context.Context, j *queue.Job, at *place, added, exact map[string]int) error {
	e.mu.Lock()
	n, known := e.counted[j.Queue]
	e.mu.Unlock()
	near := !known || n+added[j.Queue] >= e.bounds.Waiting-e.bounds.Waiting/20
	if _, is := exact[j.Queue]; near && !is {
		var err error
		if n, err = e.count(ctx, j.Queue, "", e.bounds.Waiting); err != nil {
			return err
		}
		exact[j.Queue] = n
		e.mu.Lock()
		e.counted[j.Queue] = n
		e.mu.Unlock()
	}
	if n+added[j.Queue] >= e.bounds.Waiting {
		return queue.ErrFull
	}
	if int(at.last-at.floor)+1 < e.bounds.WaitingPerPrincipal {
		return nil
	}
	mine, err := e.count(ctx, j.Queue, j.Principal, e.bounds.WaitingPerPrincipal)
	if err == nil && mine >= e.bounds.WaitingPerPrincipal {
		return queue.ErrYours
	}
	return err
}

// count counts waiting jobs, of one caller if principal is not empty, up to most.
func (e *Engine) count(ctx context.Context, name, principal string, most int) (n int, err error) {
	const q = `SELECT count(*) FROM (SELECT FROM toolgate_jobs WHERE state = 'waiting' AND queue = $1 AND ($2 = '' OR principal = $2) LIMIT $3) AS counted`
	err = e.pool.QueryRow(ctx, q, name, principal, most).Scan(&n)
	return n, err
}

// cancelTries bounds how often a job is looked at that is added or leased meanwhile.
const cancelTries = 5

// Cancel implements [queue.Producer]. A job that is not there gets its end before it comes.
func (e *Engine) Cancel(ctx context.Context, j *queue.Job, leased bool) (bool, error) {
	const q = `WITH c AS (UPDATE toolgate_jobs SET state = 'cancelled', ended_at = now(), body = ''
			WHERE id = $1 AND (state = 'waiting' OR state = 'leased' AND $2) RETURNING id, lease),
		n AS (INSERT INTO toolgate_jobs (id, queue, principal, priority, turn, repeats, key, deadline, state, ended_at, body)
			SELECT $1, $5, '', 0, 0, false, '', now(), 'cancelled', now(), '' WHERE NOT EXISTS (SELECT FROM toolgate_jobs WHERE id = $1)
			ON CONFLICT (id) DO NOTHING RETURNING id, lease)
		SELECT pg_notify($3, $4 || id || ':' || lease) FROM (SELECT * FROM c UNION ALL SELECT * FROM n) AS ended`
	for range cancelTries {
		tag, err := e.pool.Exec(ctx, q, j.ID, leased, channel, string(over), j.Queue)
		if err != nil {
			return false, fmt.Errorf("cancel a job: %w", err)
		}
		if tag.RowsAffected() > 0 {
			e.mu.Lock()
			e.counted[j.Queue]-- // or it was leased; it is counted again soon
			e.mu.Unlock()
			return true, nil
		}
		l := &look{id: j.ID}
		if err := e.looks.Do(ctx, l); err != nil {
			return false, fmt.Errorf("cancel a job: %w", err)
		}
		if l.state != "waiting" && (l.state != "leased" || !leased) {
			return false, nil
		}
	}
	return false, errors.New("cancel a job: it changes all the time")
}
