package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/store"
)

// Plan returns how a database answers a statement. PostgreSQL reads few rows without an index,
// unless it is told not to.
func Plan(t *testing.T, s *store.Store, text string, args ...any) string {
	t.Helper()
	read := func(before, explain string, columns int) (lines []string, err error) {
		return lines, s.View(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			if before != "" {
				rows, err := tx.Query(ctx, before)
				if err != nil {
					return err
				}
				rows.Close()
			}
			rows, err := tx.Query(ctx, explain+text, args...)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				values := make([]any, columns)
				for i := range values {
					values[i] = new(any)
				}
				if err := rows.Scan(values...); err != nil {
					return err
				}
				lines = append(lines, fmt.Sprint(*values[columns-1].(*any)))
			}
			return rows.Err()
		})
	}
	lines, err := read("", "EXPLAIN QUERY PLAN ", 4)
	if err != nil {
		lines, err = read("SET LOCAL enable_seqscan = off", "EXPLAIN ", 1)
	}
	must(t, err)
	return strings.Join(lines, "\n")
}
