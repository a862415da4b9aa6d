package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
)

// session runs statements: a connection, or a transaction on one.
type session interface {
	querier
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// transaction is one that has begun. Commit and Rollback end it; what is called
// after either does nothing and returns [sql.ErrTxDone].
type transaction interface {
	session
	// prepared returns a statement by its text, and nil for one that the store has
	// not prepared.
	prepared(ctx context.Context, text string) *sql.Stmt
	Commit() error
	Rollback() error
}

// pooled is a transaction on a connection of a pool.
type pooled struct {
	*sql.Tx
	all  statements // of the pool
	used statements // those of them that this transaction has used
}

func (p *pooled) prepared(ctx context.Context, text string) *sql.Stmt {
	stmt := p.used[text]
	if stmt == nil && p.all[text] != nil {
		stmt = p.StmtContext(ctx, p.all[text])
		if p.used == nil {
			p.used = make(statements)
		}
		p.used[text] = stmt
	}
	return stmt
}

// How a transaction of a file begins and ends. It takes the write lock when it
// begins, as [writerParams] have it.
const (
	sqlBegin    = `BEGIN IMMEDIATE`
	sqlCommit   = `COMMIT`
	sqlRollback = `ROLLBACK`
)

// connection is the one that writes a file. It stays taken from its pool, with its
// statements prepared on it, those that begin and end a transaction among them: what
// a pool does for each transaction, and for each statement of one, costs as much as
// most writes. Whoever has the writer's turn is the only one that uses it.
type connection struct {
	conn       *sql.Conn
	statements statements
}

// newConnection takes the connection and prepares statements.
func newConnection(ctx context.Context, pool *sql.DB, texts ...string) (*connection, error) {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	all, err := prepare(ctx, conn, slices.Concat(texts, []string{sqlBegin, sqlCommit, sqlRollback})...)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &connection{conn, all}, nil
}

// begin begins a transaction. The one before it has ended.
func (c *connection) begin(ctx context.Context) (transaction, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := c.run(sqlBegin); err != nil {
		return nil, err
	}
	return &own{Conn: c.conn, c: c, ctx: ctx}, nil
}

// run begins or ends a transaction; for a lock it waits as long as [busyTimeout].
// After an error there is none: SQLite keeps one whose commit failed, and has rolled
// others back by itself.
func (c *connection) run(text string) error {
	_, err := c.statements[text].ExecContext(context.Background())
	if err != nil {
		_, _ = c.statements[sqlRollback].ExecContext(context.Background())
	}
	return err
}

// close gives the connection back to its pool. The statements go first: the pool
// knows nothing of them.
func (c *connection) close() error {
	if c == nil {
		return nil
	}
	return errors.Join(c.statements.close(), c.conn.Close())
}

// own is a transaction on a [connection]. It ends in time, or is rolled back.
type own struct {
	*sql.Conn
	c    *connection
	ctx  context.Context //nolint:containedctx // of the whole transaction, as [sql.Tx] has one
	done bool
}

func (o *own) prepared(_ context.Context, text string) *sql.Stmt { return o.c.statements[text] }

// Commit implements [transaction]. After an error nothing was committed.
func (o *own) Commit() error {
	if err := o.ctx.Err(); err != nil && !o.done {
		return errors.Join(err, o.Rollback())
	}
	return o.end(sqlCommit)
}

// Rollback implements [transaction].
func (o *own) Rollback() error { return o.end(sqlRollback) }

// end ends the transaction, which is not given up half-way.
func (o *own) end(text string) error {
	if o.done {
		return sql.ErrTxDone
	}
	o.done = true
	return o.c.run(text)
}

// statements are prepared where a file is written, by their text, which is a constant
// of this package: reading a statement takes longer than running it.
type statements map[string]*sql.Stmt

// preparer is a pool or a connection.
type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// prepare prepares statements. It must be called while nothing is written.
func prepare(ctx context.Context, on preparer, texts ...string) (statements, error) {
	s := make(statements, len(texts))
	for _, text := range texts {
		stmt, err := on.PrepareContext(ctx, text)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("prepare %.40q: %w", text, err), s.close())
		}
		s[text] = stmt
	}
	return s, nil
}

func (s statements) close() error {
	var errs []error
	for _, stmt := range s {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(errs...)
}
