package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toolgate/toolgate/native/queue"
)

// sweepAll ends leases and jobs in time until ctx ends. Every process does it, so that it
// is done while there is one.
func (e *Engine) sweepAll(ctx context.Context) {
	tick := time.NewTicker(min(sweepEvery, e.bounds.Lease/4))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := e.sweep(ctx); err != nil && ctx.Err() == nil {
			e.log.Warn("the queue cannot be looked after", "err", err)
		}
	}
}

const (
	// expire ends what has lost its worker or has met its deadline, or has it wait again.
	expire = `WITH gone AS (
			SELECT id FROM toolgate_jobs WHERE state = 'leased' AND until <= now()
			UNION SELECT id FROM toolgate_jobs WHERE ended_at IS NULL AND deadline <= now() LIMIT 1000),
		mine AS (SELECT j.id, j.lease FROM toolgate_jobs j JOIN gone ON j.id = gone.id
			WHERE ended_at IS NULL AND (state = 'leased' AND until <= now() OR deadline <= now()) ORDER BY j.id FOR UPDATE OF j SKIP LOCKED),
		next AS (UPDATE toolgate_jobs j SET lease = '',
			state = CASE WHEN deadline <= now() THEN 'expired' WHEN NOT repeats THEN 'lost' WHEN attempt >= $1 THEN 'dead' ELSE 'waiting' END,
			reason = CASE WHEN deadline > now() AND repeats AND attempt >= $1 THEN $2 ELSE '' END,
			ended_at = CASE WHEN deadline > now() AND repeats AND attempt < $1 THEN NULL ELSE now() END,
			body = CASE WHEN deadline > now() AND repeats AND attempt < $1 THEN body ELSE '' END
			FROM mine WHERE j.id = mine.id RETURNING j.id, mine.lease, j.queue, j.state)
		SELECT id, lease, queue, state FROM next`
	// prune forgets what was kept long enough.
	prune = `DELETE FROM toolgate_jobs WHERE id IN (
		SELECT id FROM toolgate_jobs WHERE ended_at < now() - $1 * interval '1 microsecond' ORDER BY ended_at LIMIT 5000 FOR UPDATE SKIP LOCKED)`
)

// sweep does it once.
func (e *Engine) sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	rows, err := e.pool.Query(ctx, expire, e.bounds.Attempts, queue.LostEachTime)
	if err != nil {
		return err
	}
	var ended []string
	queues := make(map[string]bool)
	var id, own, name, state string
	if _, err := pgx.ForEachRow(rows, []any{&id, &own, &name, &state}, func() error {
		ended = append(ended, id+":"+own) // also those that wait again: their old worker is to know
		if state == "waiting" {
			queues[name] = true
		}
		return nil
	}); err != nil {
		return err
	}
	var b pgx.Batch
	for _, notice := range notices(ended) {
		b.Queue(`SELECT pg_notify($1, $2)`, channel, notice)
	}
	for name := range queues {
		b.Queue(`SELECT pg_notify($1, $2)`, channel, string(came)+name)
	}
	b.Queue(prune, e.bounds.Keep.Microseconds())
	if err := e.pool.SendBatch(ctx, &b).Close(); err != nil {
		return err
	}
	return e.recount(ctx)
}

// recount counts what waits in the queues that this process adds to.
func (e *Engine) recount(ctx context.Context) error {
	e.mu.Lock()
	names := make([]string, 0, len(e.counted))
	for name := range e.counted {
		names = append(names, name)
	}
	e.mu.Unlock()
	for _, name := range names {
		n, err := e.count(ctx, name, "", e.bounds.Waiting)
		if err != nil {
			return err
		}
		e.mu.Lock()
		e.counted[name] = n
		e.mu.Unlock()
	}
	return nil
}
