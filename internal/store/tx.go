package store

import (
	"context"
	"database/sql"
)

// Tx is the state of the database inside one [Store.Do], [Store.Enqueue] or
// [Store.View]. It ends with the function that it was given to, and is for
// one goroutine. It has no commit and no rollback: the function's error
// decides.
type Tx struct {
	raw      *sql.Tx
	readOnly bool
}

// Exec runs a statement and returns how many rows it changed. In a
// [Store.View] it returns [ErrReadOnly].
func (t *Tx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	if t.readOnly {
		return 0, ErrReadOnly
	}
	result, err := t.raw.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Query runs a query. The caller closes the rows before its function returns.
func (t *Tx) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return t.raw.QueryContext(ctx, query, args...)
}

// QueryRow runs a query for at most one row; Scan of the row returns
// [sql.ErrNoRows] when there is none.
func (t *Tx) QueryRow(ctx context.Context, query string, args ...any) *sql.Row {
	return t.raw.QueryRowContext(ctx, query, args...)
}
