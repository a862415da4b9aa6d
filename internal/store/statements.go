package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// statements are prepared on the writing connection of a file, by their text,
// which is a constant of this package: reading a statement takes longer than
// running it.
type statements map[string]*sql.Stmt

// prepare prepares statements. It must be called while nothing is written.
func prepare(ctx context.Context, db *sql.DB, texts ...string) (statements, error) {
	s := make(statements, len(texts))
	for _, text := range texts {
		stmt, err := db.PrepareContext(ctx, text)
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

// execPrepared is [Tx.Exec] with a statement that is prepared where the store
// prepares statements.
func (t *Tx) execPrepared(ctx context.Context, text string, args ...any) error {
	if t.statements[text] == nil {
		_, err := t.Exec(ctx, text, args...)
		return err
	}
	if t.readOnly {
		return ErrReadOnly
	}
	_, err := t.prepared(ctx, text).ExecContext(ctx, args...)
	return err
}

// prepared returns a statement of [Store.statements] for this transaction.
func (t *Tx) prepared(ctx context.Context, text string) *sql.Stmt {
	stmt := t.stmts[text]
	if stmt == nil {
		stmt = t.raw.StmtContext(ctx, t.statements[text])
		if t.stmts == nil {
			t.stmts = make(statements)
		}
		t.stmts[text] = stmt
	}
	return stmt
}
