package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"slices"
)

// Tx accesses the database inside one [Store.Do], [Store.Enqueue] or [Store.View]. It
// ends with the function that it was given to, and belongs to one goroutine. The
// function's error decides between commit and rollback.
//
// Statements are SQL that SQLite and PostgreSQL both understand, with a question mark
// for each argument.
type Tx struct {
	raw      transaction
	dialect  dialect
	readOnly bool
	bumped   []string // topics to raise when the write succeeds
}

// Exec runs a statement and returns how many rows it changed. In a [Store.View] it
// returns [ErrReadOnly].
func (t *Tx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	if t.readOnly {
		return 0, ErrReadOnly
	}
	query, args = t.dialect.bind(query, args)
	result, err := t.raw.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// execPrepared is [Tx.Exec] with a prepared statement, where the store has one.
func (t *Tx) execPrepared(ctx context.Context, text string, args ...any) error {
	stmt := t.prepared(ctx, text)
	if stmt == nil {
		_, err := t.Exec(ctx, text, args...)
		return err
	}
	if t.readOnly {
		return ErrReadOnly
	}
	_, err := stmt.ExecContext(unwatched(ctx), args...)
	return err
}

// execMany is [Tx.execPrepared] for a statement with very many arguments, which must be as
// drivers take them: numbered, and none but [driver.Value].
func (t *Tx) execMany(ctx context.Context, text string, args []driver.NamedValue) error {
	if own, ok := t.raw.(*connTx); ok && own.c.many[text] != nil {
		return own.execMany(text, args)
	}
	values := make([]any, len(args))
	for i := range args {
		values[i] = args[i].Value
	}
	return t.execPrepared(ctx, text, values...)
}

// unwatched returns a context without an end, for statements that write a few rows by
// key. SQLite's driver starts a goroutine for each context that can end, which costs as
// much as such a statement. The commit checks the deadline.
func unwatched(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

// prepared returns a prepared statement for this transaction, nil for none.
func (t *Tx) prepared(ctx context.Context, text string) *sql.Stmt { return t.raw.prepared(ctx, text) }

// Query runs a query. The caller must close the rows before its function returns.
func (t *Tx) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	query, args = t.dialect.bind(query, args)
	return t.raw.QueryContext(ctx, query, args...)
}

// QueryRow runs a query for at most one row. Scan returns [sql.ErrNoRows] when there is
// none.
func (t *Tx) QueryRow(ctx context.Context, query string, args ...any) *sql.Row {
	query, args = t.dialect.bind(query, args)
	return t.raw.QueryRowContext(ctx, query, args...)
}

// Lock excludes other transactions that lock the same name, in all processes that share
// the store, until this one ends. What is read after it stays true until then. Names
// are chosen in code; use at most one lock in a write. In a [Store.View] it returns
// [ErrReadOnly].
func (t *Tx) Lock(ctx context.Context, name string) error {
	if t.readOnly {
		return ErrReadOnly
	}
	return t.dialect.lock(ctx, t.raw, name)
}

// Bump raises the generation of topic together with this write: who sees the new
// generation sees what was written. Topics are chosen in code. Several writes that are
// committed together raise it once. In a [Store.View] it does nothing.
func (t *Tx) Bump(topic string) {
	if !t.readOnly && !slices.Contains(t.bumped, topic) {
		t.bumped = append(t.bumped, topic)
	}
}
