package store

import (
	"context"
	"database/sql/driver"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

const (
	// maxExecutions bounds the executions that wait to be written; more are dropped and
	// counted.
	maxExecutions = 10_000
	// executionRows is how many executions one statement writes, executionBatch how
	// many one queued write.
	executionRows  = 64
	executionBatch = 512
	// executionEvery bounds how long an execution waits.
	executionEvery = time.Second
	// pruneExecutionsEvery is how often old executions are removed, and
	// pruneExecutionRows how many at once, so that the queue is not blocked.
	pruneExecutionsEvery = 10 * time.Minute
	pruneExecutionRows   = 5_000
)

// Execution is one closed call of a tool.
type Execution struct {
	At                        time.Time
	CallID, Server, Tool      string // the tool by its exposed name
	Tenant, Persona, Session  string
	Success                   bool
	ErrorClass                string // empty for a success
	Duration, Upstream        time.Duration
	RequestSize, ResponseSize int64
	ArgsHash                  string
	Principal                 string // as the gate encodes it; its hash is kept
	Saved                     int64  // bytes that the result had less because it was shaped
}

// ExecutionStats are counters of an [Executions].
type ExecutionStats struct {
	Written, Dropped uint64
}

// Executions is the log of executions, for statistics. Callers never wait for it:
// [Executions.Run] writes what was added. Its methods are safe for concurrent use.
type Executions struct {
	s    *Store
	keep time.Duration
	log  *slog.Logger
	full chan struct{}

	mu      sync.Mutex
	waiting []Execution

	// Only flush uses these: memory for the next executions, and for the arguments of a
	// statement.
	spare []Execution
	args  []driver.NamedValue

	written, dropped atomic.Uint64
}

// Executions returns the log of executions. Those older than keep are removed; zero
// keeps all.
func (s *Store) Executions(keep time.Duration) *Executions {
	return &Executions{s: s, keep: keep, log: s.log, full: make(chan struct{}, 1)}
}

// Add adds an execution. It drops and counts it when too many wait.
func (e *Executions) Add(x Execution) {
	e.mu.Lock()
	n := len(e.waiting)
	if n >= maxExecutions {
		e.mu.Unlock()
		e.dropped.Add(1)
		return
	}
	e.waiting = append(e.waiting, x)
	e.mu.Unlock()
	if n+1 == executionBatch {
		select {
		case e.full <- struct{}{}:
		default:
		}
	}
}

// Stats returns the counters.
func (e *Executions) Stats() ExecutionStats {
	return ExecutionStats{Written: e.written.Load(), Dropped: e.dropped.Load()}
}

// Run writes what is added until ctx ends, and then the rest.
func (e *Executions) Run(ctx context.Context) error {
	tick := time.NewTicker(executionEvery)
	defer tick.Stop()
	prune := time.NewTicker(pruneExecutionsEvery)
	defer prune.Stop()
	said := uint64(0)
	for {
		select {
		case <-ctx.Done():
			e.flush(ctx)
			return nil
		case <-e.full:
			e.flush(ctx)
		case <-tick.C:
			e.flush(ctx)
			if n := e.dropped.Load(); n != said {
				said = n
				e.log.Warn("executions are not in the execution log", slog.Uint64("dropped", n))
			}
		case <-prune.C:
			if err := e.Prune(ctx, time.Now()); err != nil && ctx.Err() == nil {
				e.log.Warn("old executions stay", slog.Any("error", err))
			}
		}
	}
}

// flush writes the waiting executions, also when ctx has just ended. What cannot be
// written is dropped. Only Run calls it.
func (e *Executions) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	e.mu.Lock()
	batch := e.waiting
	if len(batch) == 0 {
		e.mu.Unlock()
		return
	}
	e.waiting, e.spare = e.spare, nil
	e.mu.Unlock()
	defer e.reuse(batch)
	for part := range slices.Chunk(batch, executionBatch) {
		err := e.s.Do(ctx, func(ctx context.Context, tx *Tx) error {
			for rows := range slices.Chunk(part, executionRows) {
				e.args = appendExecutions(e.args[:0], rows)
				if err := insertExecutions(ctx, tx, len(rows), e.args); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			e.dropped.Add(uint64(len(part)))
			e.log.Warn("executions cannot be written", slog.Any("error", err))
			continue
		}
		e.written.Add(uint64(len(part)))
	}
}

// reuse keeps the memory of executions that were written for later ones, unless there were
// unusually many, but nothing that it holds.
func (e *Executions) reuse(batch []Execution) {
	clear(batch)
	clear(e.args[:cap(e.args)])
	if cap(batch) <= 2*executionBatch {
		e.spare = batch[:0]
	}
}

const executionColumns = 16

// sqlAddExecutions adds executionRows executions.
var sqlAddExecutions = addExecutions(executionRows)

// addExecutions returns the statement that adds count executions.
func addExecutions(count int) string {
	row := "(" + strings.Repeat("?, ", executionColumns-1) + "?)"
	return `INSERT INTO tool_execution_log (at, call_id, server, tool, tenant, persona_id, session_id, success, error_class,
		duration_us, upstream_us, request_size, response_size, args_hash, principal, bytes_saved) VALUES ` + row + strings.Repeat(", "+row, count-1)
}

// insertExecutions adds count executions, whose columns are args.
func insertExecutions(ctx context.Context, tx *Tx, count int, args []driver.NamedValue) error {
	q := sqlAddExecutions
	if count != executionRows {
		q = addExecutions(count)
	}
	if err := tx.execMany(ctx, q, args); err != nil {
		return fmt.Errorf("write %d executions: %w", count, err)
	}
	return nil
}

// appendExecutions appends the columns of executions.
func appendExecutions(args []driver.NamedValue, rows []Execution) []driver.NamedValue {
	add := func(v driver.Value) { args = append(args, driver.NamedValue{Ordinal: len(args) + 1, Value: v}) }
	for i := range rows {
		x := &rows[i]
		add(x.At.UnixMilli())
		for _, text := range [...]string{x.CallID, x.Server, x.Tool, x.Tenant, x.Persona, x.Session} {
			add(writable(text))
		}
		add(x.Success)
		add(writable(x.ErrorClass))
		for _, n := range [...]int64{x.Duration.Microseconds(), x.Upstream.Microseconds(), x.RequestSize, x.ResponseSize} {
			add(n)
		}
		add(writable(x.ArgsHash))
		add(PrincipalHash(x.Principal))
		add(x.Saved)
	}
	return args
}

// writable returns text that every database accepts.
func writable(text string) string {
	if strings.IndexByte(text, 0) < 0 && utf8.ValidString(text) {
		return text
	}
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\ufffd"), "\ufffd")
}

// Prune removes executions that are too old. Run calls it.
func (e *Executions) Prune(ctx context.Context, now time.Time) error {
	if e.keep <= 0 {
		return nil
	}
	for removed := int64(pruneExecutionRows); removed == pruneExecutionRows; {
		err := e.s.Do(ctx, func(ctx context.Context, tx *Tx) (err error) {
			const q = `DELETE FROM tool_execution_log WHERE id IN (SELECT id FROM tool_execution_log WHERE at < ? ORDER BY at LIMIT ?)`
			removed, err = tx.Exec(ctx, q, now.Add(-e.keep).UnixMilli(), pruneExecutionRows)
			return err
		})
		if err != nil {
			return fmt.Errorf("remove old executions: %w", err)
		}
	}
	return nil
}
