package store_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/store/storetest"
	"github.com/toolgate/toolgate/internal/testwait"
)

// TestInterruptedWrite interrupts a write while its statement is running: nothing of it
// is committed, although the write goes on.
func TestInterruptedWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := storetest.Opened(t, store.Options{Path: path})
	size := func() int64 {
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Error(err)
			return 0
		}
		return info.Size()
	}
	err := s.Do(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		if err := put("lost")(ctx, tx); err != nil {
			return err
		}
		own, cancel := context.WithCancel(ctx)
		defer cancel()
		before, ended := size(), make(chan error, 1)
		go func() {
			_, err := tx.Exec(own, `INSERT INTO meta (key, value, updated_at)
				WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT 'row ' || i, zeroblob(1000), 0 FROM n`)
			ended <- err
		}()
		testwait.Until(t, patience, "more pages than are kept in memory", func() bool { return size() > before+1<<20 })
		cancel()
		if <-ended == nil {
			t.Error("the statement was not interrupted")
		}
		_ = put("of a transaction that is over")(ctx, tx)
		return nil
	})
	if err == nil {
		t.Error("committed what an interruption had rolled back")
	}
	if err := s.Do(t.Context(), put("after")); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int{"lost": 0, "row 1": 0, "after": 1} {
		if got := countOf(t, s, key); got != want {
			t.Errorf("%d entries %q, want %d", got, key, want)
		}
	}
}

// countOf returns how many entries have a key.
func countOf(t *testing.T, s *store.Store, key string) (n int) {
	t.Helper()
	if err := s.View(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		return tx.QueryRow(ctx, "SELECT count(*) FROM meta WHERE key = ?", key).Scan(&n)
	}); err != nil {
		t.Fatal(err)
	}
	return n
}
