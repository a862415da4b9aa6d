package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/store"
)

// commitFails makes the database refuse a commit. Nothing of that transaction may be
// stored, and the next write must succeed.
func commitFails(t *testing.T, s *store.Store) {
	run := func(texts ...string) error {
		return s.Do(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			for _, text := range texts {
				if _, err := tx.Exec(ctx, text); err != nil {
					return err
				}
			}
			return nil
		})
	}
	must(t, run(
		`CREATE TABLE parent (id INTEGER PRIMARY KEY)`,
		`CREATE TABLE child (id INTEGER PRIMARY KEY REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED)`,
	))
	for i := range 3 {
		if err := run(`INSERT INTO parent VALUES (1)`, fmt.Sprintf(`INSERT INTO child VALUES (%d)`, 10+i)); err == nil ||
			!strings.Contains(strings.ToLower(err.Error()), "foreign key") {
			t.Errorf("a child without a parent: %v", err)
		}
	}
	must(t, run(`INSERT INTO parent VALUES (2)`, `INSERT INTO child VALUES (2)`))
	if got := rows(t, s, "parent") + rows(t, s, "child"); got != 2 {
		t.Errorf("%d rows, want those of the write that was right", got)
	}
}

// writesEnd tests a write that swallows an error, and one that ends its transaction
// itself.
func writesEnd(t *testing.T, s *store.Store) {
	failure := errors.New("no")
	for name, fn := range map[string]func(ctx context.Context, tx *store.Tx) error{
		"an error":  func(context.Context, *store.Tx) error { return failure },
		"a panic":   func(context.Context, *store.Tx) error { panic(failure) },
		"its end":   func(ctx context.Context, tx *store.Tx) error { _, err := tx.Exec(ctx, `ROLLBACK`); return err },
		"no syntax": func(ctx context.Context, tx *store.Tx) error { _, err := tx.Exec(ctx, `SELEC`); return err },
	} {
		err := s.Do(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			if err := put("lost "+name)(ctx, tx); err != nil {
				return err
			}
			return fn(ctx, tx)
		})
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		must(t, s.Do(t.Context(), put("kept after "+name)))
	}
	if got := rows(t, s, "meta WHERE key LIKE 'lost%'"); got != 0 {
		t.Errorf("%d rows of writes that failed", got)
	}
	if got := rows(t, s, "meta WHERE key LIKE 'kept%'"); got != 4 {
		t.Errorf("%d rows of the writes after them, want 4", got)
	}
}

// rows counts the rows of a table.
func rows(t *testing.T, s *store.Store, of string) (n int) {
	t.Helper()
	must(t, s.View(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		return tx.QueryRow(ctx, `SELECT count(*) FROM `+of).Scan(&n)
	}))
	return n
}
