package postgres

import (
	"bytes"
	"context"
	"encoding/base64"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toolgate/toolgate/internal/backoff"
	"github.com/toolgate/toolgate/native/queue"
)

// channel carries the notifications. The first byte of one says what happened.
const (
	channel      = "toolgate_queue"
	came    byte = '+' // a queue has a job
	over    byte = '-' // jobs have ended: their ids, each with a colon and its lease, separated by commas
	report  byte = '~' // a job, a comma, and the report in base64
	// maxNotice is how large a notification may be.
	maxNotice = 7900
)

// waiter is who waits for the end of a job.
type waiter struct {
	ended chan struct{} // capacity 1
	news  chan []byte
}

// look is a question about a job; state is empty if there is none.
type look struct {
	id, state, reason string
	attempt           int
	body              []byte
}

// look answers questions in one statement.
func (e *Engine) look(ctx context.Context, all []*look) error {
	ids := make([]string, len(all))
	by := make(map[string][]*look, len(all))
	for i, l := range all {
		ids[i] = l.id
		by[l.id] = append(by[l.id], l)
	}
	const q = `SELECT id, state, reason, attempt, CASE WHEN state = 'done' THEN body ELSE '' END FROM toolgate_jobs WHERE id = ANY($1)`
	rows, err := e.pool.Query(ctx, q, ids)
	if err != nil {
		return err
	}
	var l look
	_, err = pgx.ForEachRow(rows, []any{&l.id, &l.state, &l.reason, &l.attempt, &l.body}, func() error {
		for _, to := range by[l.id] {
			*to = l
			to.body = bytes.Clone(l.body)
		}
		return nil
	})
	return err
}

// Await implements [queue.Producer].
func (e *Engine) Await(ctx context.Context, j *queue.Job, progress func([]byte)) (queue.End, error) {
	w := &waiter{ended: make(chan struct{}, 1), news: make(chan []byte, 64)}
	e.mu.Lock()
	e.awaits[j.ID] = append(e.awaits[j.ID], w)
	e.mu.Unlock()
	defer e.leave(j.ID, w)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		l := &look{id: j.ID}
		err := e.looks.Do(ctx, l)
		switch {
		case ctx.Err() != nil:
			return queue.End{}, context.Cause(ctx)
		case err != nil: // the database is away; the job is in it
		case l.state == "":
			return queue.End{}, queue.ErrUnknown
		case l.state != "waiting" && l.state != "leased":
			for len(w.news) > 0 {
				progress(<-w.news)
			}
			return queue.End{State: queue.State(l.state), Body: l.body, Attempts: l.attempt, Reason: l.reason}, nil
		}
		for again := false; !again; {
			select {
			case <-ctx.Done():
				return queue.End{}, context.Cause(ctx)
			case body := <-w.news:
				progress(body)
			case <-w.ended:
				again = true
			case <-tick.C:
				again = true
			}
		}
	}
}

// leave ends a wait.
func (e *Engine) leave(id string, w *waiter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.awaits[id]
	for i := range all {
		if all[i] == w {
			all = append(all[:i:i], all[i+1:]...)
			break
		}
	}
	if e.awaits[id] = all; len(all) == 0 {
		delete(e.awaits, id)
	}
}

// listen turns notifications into wake-ups until ctx ends. It connects again when the
// connection is lost; meanwhile polls see what happens.
func (e *Engine) listen(ctx context.Context) {
	again := backoff.Backoff{Base: 100 * time.Millisecond, Max: 5 * time.Second}
	for ctx.Err() == nil {
		if e.listenOnce(ctx, again.Reset); ctx.Err() == nil {
			_ = backoff.Sleep(ctx, again.Next()) // the loop ends with the context
		}
	}
}

func (e *Engine) listenOnce(ctx context.Context, listens func()) {
	conn, err := e.dial(ctx)
	if err != nil {
		e.log.Debug("the queue does not notify; it is asked", "err", err)
		return
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return
	}
	listens()
	e.wakeAll()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return
		}
		if n.Payload != "" {
			e.notified(n.Payload[0], n.Payload[1:])
		}
	}
}

// wakeAll has everybody look: something may have been missed.
func (e *Engine) wakeAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name := range e.wakes {
		e.wake(name)
	}
	for _, all := range e.awaits {
		for _, w := range all {
			w.end()
		}
	}
}

func (w *waiter) end() {
	select {
	case w.ended <- struct{}{}:
	default: // it knows
	}
}

// wake has those look who wait for a job of a queue; mu is held.
func (e *Engine) wake(name string) {
	if c := e.wakes[name]; c != nil {
		close(c)
		delete(e.wakes, name)
	}
}

func (e *Engine) notified(what byte, about string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch what {
	case came:
		e.wake(about)
	case over:
		for of := range strings.SplitSeq(about, ",") {
			id, token, _ := strings.Cut(of, ":")
			for _, w := range e.awaits[id] {
				w.end()
			}
			if l := e.leases[id]; l != nil && l.token == token { // another lease may be valid
				l.close()
				delete(e.leases, id)
			}
		}
	case report:
		id, text, _ := strings.Cut(about, ",")
		if len(e.awaits[id]) == 0 {
			return
		}
		body, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return
		}
		for _, w := range e.awaits[id] {
			select {
			case w.news <- body:
			default: // nobody reads that fast
			}
		}
	}
}
