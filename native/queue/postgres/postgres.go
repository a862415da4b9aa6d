// Package postgres is a queue engine on PostgreSQL: two tables, SKIP LOCKED, and NOTIFY.
// All times are those of the database.
package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/toolgate/toolgate/internal/batch"
	"github.com/toolgate/toolgate/native/queue"
)

//go:embed migrations/*.sql
var migrations embed.FS

const (
	// connections is how many a process has, beside the one that listens.
	connections = 8
	// pollEvery bounds the delay of a lost notification.
	pollEvery = 2 * time.Second
	// sweepEvery is how often leases and deadlines are looked at, at most.
	sweepEvery = time.Second
	// maxBatch bounds the jobs of one statement, and with unitBytes their bodies: each
	// part of a body of so many bytes counts as a job.
	maxBatch  = 256
	unitBytes = 64 << 10
	// patience bounds the wait for a statement's turn.
	patience = 10 * time.Second
	// statementTime bounds one statement.
	statementTime = "10000"
	// schemaLock is the advisory lock of migrations.
	schemaLock = 0x746f6f71
)

// Engine keeps jobs in a database. Make it with [Open].
type Engine struct {
	bounds queue.Bounds
	log    *slog.Logger
	pool   *pgxpool.Pool
	dial   func(context.Context) (*pgx.Conn, error)
	stop   context.CancelFunc
	tasks  sync.WaitGroup

	adds  batch.Group[*addition]
	ends  batch.Group[*ending]
	looks batch.Group[*look]

	mu      sync.Mutex
	awaits  map[string][]*waiter     // by job
	leases  map[string]*lease        // by job, of this process
	wakes   map[string]chan struct{} // by queue: closed when a job comes
	counted map[string]int           // waiting jobs by queue: the last count, and what was added since
}

// Open connects to a database, and makes or updates the tables. Errors show no password.
func Open(ctx context.Context, url string, b queue.Bounds, log *slog.Logger) (*Engine, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("the address of PostgreSQL cannot be read: write postgres://user:password@host:5432/database")
	}
	config.MaxConns = connections
	config.ConnConfig.RuntimeParams["application_name"] = "toolgate queue"
	config.ConnConfig.RuntimeParams["statement_timeout"] = statementTime
	config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "read committed"
	// A lease that a crash of the database forgets would be a second delivery.
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "on"
	if config.ConnConfig.ConnectTimeout <= 0 {
		config.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	if err := migrate(ctx, pool); err != nil {
		pool.Close()
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	e := &Engine{
		bounds: b, log: log, pool: pool, stop: stop,
		dial:   func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config.ConnConfig.Copy()) },
		awaits: make(map[string][]*waiter), leases: make(map[string]*lease), wakes: make(map[string]chan struct{}), counted: make(map[string]int),
	}
	e.adds.Init(e.add, func(a *addition) int { return 1 + len(a.job.Body)/unitBytes }, maxBatch, 0, patience)
	e.ends.Init(e.finish, func(f *ending) int { return 1 + len(f.end.Body)/unitBytes }, maxBatch, 0, patience)
	e.looks.Init(e.look, func(*look) int { return 1 }, maxBatch, 0, patience)
	e.tasks.Go(func() { e.listen(running) })
	e.tasks.Go(func() { e.sweepAll(running) })
	return e, nil
}

// Close implements [queue.Engine].
func (e *Engine) Close() error {
	e.stop()
	e.tasks.Wait()
	e.pool.Close()
	return nil
}

// Traits implements [queue.Engine].
func (e *Engine) Traits() queue.Traits { return queue.Traits{} }

// migrate makes or updates the tables.
func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	files, err := migrations.ReadDir("migrations") // sorted by name
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1, hashtext(current_schema()))`, schemaLock); err != nil {
			return fmt.Errorf("prepare the tables of the queue: %w", err)
		}
		if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS toolgate_queue_schema (version integer NOT NULL)`); err != nil {
			return fmt.Errorf("prepare the tables of the queue: %w", err)
		}
		var version int
		if err := tx.QueryRow(ctx, `SELECT coalesce(max(version), 0) FROM toolgate_queue_schema`).Scan(&version); err != nil {
			return fmt.Errorf("prepare the tables of the queue: %w", err)
		}
		if version > len(files) {
			return fmt.Errorf("the tables of the queue have version %d, and this program knows versions up to %d: start the newer one", version, len(files))
		}
		for i := version; i < len(files); i++ {
			text, err := migrations.ReadFile("migrations/" + files[i].Name())
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, string(text)); err != nil {
				return fmt.Errorf("make the tables of the queue (%s): %w", files[i].Name(), err)
			}
			if _, err := tx.Exec(ctx, `INSERT INTO toolgate_queue_schema VALUES (`+strconv.Itoa(i+1)+`)`); err != nil {
				return fmt.Errorf("make the tables of the queue: %w", err)
			}
		}
		return nil
	})
}

// Declare implements [queue.Engine].
func (e *Engine) Declare(ctx context.Context, name, key string) error {
	const q = `INSERT INTO toolgate_queues VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET key = excluded.key`
	if _, err := e.pool.Exec(ctx, q, name, key); err != nil {
		return fmt.Errorf("declare the queue %s: %w", name, err)
	}
	return nil
}

// Key implements [queue.Consumer].
func (e *Engine) Key(ctx context.Context, name string) (key string, err error) {
	err = e.pool.QueryRow(ctx, `SELECT key FROM toolgate_queues WHERE name = $1`, name).Scan(&key)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", queue.ErrNoQueue
	}
	if err != nil {
		return "", fmt.Errorf("look for the queue %s: %w", name, err)
	}
	return key, nil
}

// Letters implements [queue.Engine].
func (e *Engine) Letters(ctx context.Context, name string) ([]queue.Letter, error) {
	const q = `SELECT id, reason, attempt, ended_at FROM toolgate_jobs WHERE queue = $1 AND state = 'dead' AND ended_at IS NOT NULL ORDER BY ended_at DESC LIMIT 1000`
	rows, err := e.pool.Query(ctx, q, name)
	if err != nil {
		return nil, fmt.Errorf("read dead letters: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[queue.Letter])
	if err != nil {
		return nil, fmt.Errorf("read dead letters: %w", err)
	}
	return out, nil
}
