package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
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

// transaction is an open transaction. Commit and Rollback end it; later calls do
// nothing and return [sql.ErrTxDone].
type transaction interface {
	session
	// prepared returns a prepared statement by its text, nil if the store has not
	// prepared it.
	prepared(ctx context.Context, text string) *sql.Stmt
	Commit() error
	Rollback() error
}

// pooled is a transaction on a connection of a pool.
type pooled struct {
	*sql.Tx
	all  statements // of the pool
	used statements // those used by this transaction
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

// Statements that begin and end a transaction of a file. It takes the write lock when
// it begins, see [writerParams].
const (
	sqlBegin    = `BEGIN IMMEDIATE`
	sqlCommit   = `COMMIT`
	sqlRollback = `ROLLBACK`
)

// connection is the connection that writes a file. It stays checked out of its pool,
// with prepared statements, including those that begin and end a transaction. What a
// pool does for each transaction and statement would cost as much as most writes. Only
// the holder of the writer's turn uses it.
type connection struct {
	conn       *sql.Conn
	statements statements
	// many are statements with very many arguments, prepared by the driver itself:
	// [sql.Stmt] would make a copy of all arguments for each run.
	many map[string]manyStmt
}

// manyStmt is a statement of a driver.
type manyStmt interface {
	driver.Stmt
	driver.StmtExecContext
}

// newConnection takes the connection out of its pool and prepares statements.
func newConnection(ctx context.Context, pool *sql.DB, texts ...string) (*connection, error) {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	all, err := prepare(ctx, conn, slices.Concat(texts, []string{sqlBegin, sqlCommit, sqlRollback})...)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &connection{conn: conn, statements: all}, nil
}

// prepareMany prepares a statement with very many arguments.
func (c *connection) prepareMany(ctx context.Context, text string) error {
	return c.conn.Raw(func(own any) error {
		on, ok := own.(driver.ConnPrepareContext)
		if !ok {
			return nil // the statement runs as others do
		}
		stmt, err := on.PrepareContext(ctx, text)
		if err != nil {
			return fmt.Errorf("prepare %.40q: %w", text, err)
		}
		many, ok := stmt.(manyStmt)
		if !ok {
			return stmt.Close()
		}
		if c.many == nil {
			c.many = make(map[string]manyStmt)
		}
		c.many[text] = many
		return nil
	})
}

// begin begins a transaction. The previous one has ended.
func (c *connection) begin(ctx context.Context) (transaction, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := c.run(sqlBegin); err != nil {
		return nil, err
	}
	return &connTx{Conn: c.conn, c: c, ctx: ctx}, nil
}

// run begins or ends a transaction. It waits for a lock up to [busyTimeout]. After an
// error there is no transaction: SQLite keeps one whose commit failed, and has rolled
// back others itself.
func (c *connection) run(text string) error {
	_, err := c.statements[text].ExecContext(context.Background())
	if err != nil {
		_, _ = c.statements[sqlRollback].ExecContext(context.Background())
	}
	return err
}

// close closes the statements, which the pool does not know, and gives the connection
// back.
func (c *connection) close() error {
	if c == nil {
		return nil
	}
	errs := []error{c.statements.close()}
	for _, stmt := range c.many {
		errs = append(errs, c.conn.Raw(func(any) error { return stmt.Close() }))
	}
	return errors.Join(append(errs, c.conn.Close())...)
}

// connTx is a transaction on a [connection]. It must be committed or rolled back.
type connTx struct {
	*sql.Conn
	c    *connection
	ctx  context.Context // of the whole transaction, as [sql.Tx] has one
	done bool
}

func (o *connTx) prepared(_ context.Context, text string) *sql.Stmt { return o.c.statements[text] }

// execMany runs a statement of many. Nothing interrupts it, as with [unwatched].
func (o *connTx) execMany(text string, args []driver.NamedValue) error {
	return o.Raw(func(any) error {
		_, err := o.c.many[text].ExecContext(context.Background(), args)
		return err
	})
}

// Commit implements [transaction]. After an error nothing was committed.
func (o *connTx) Commit() error {
	if err := o.ctx.Err(); err != nil && !o.done {
		return errors.Join(err, o.Rollback())
	}
	return o.end(sqlCommit)
}

// Rollback implements [transaction].
func (o *connTx) Rollback() error { return o.end(sqlRollback) }

// end ends the transaction and cannot be interrupted.
func (o *connTx) end(text string) error {
	if o.done {
		return sql.ErrTxDone
	}
	o.done = true
	return o.c.run(text)
}

// statements are prepared statements of the writing connection by their text, a
// constant of this package. Parsing a statement takes longer than running it.
type statements map[string]*sql.Stmt

// preparer is a pool or a connection.
type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// prepare prepares statements. It must not run during a write.
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
