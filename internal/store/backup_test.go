package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/testwait"
)

// A copy is complete, and as of one instant, whatever is written meanwhile.
func TestBackupIsOneInstant(t *testing.T) {
	dir := t.TempDir()
	s := open(t, store.Options{Path: filepath.Join(dir, "store.db")})
	run(t, s)
	stop := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := s.Meta().Put(t.Context(), fmt.Sprintf("n/%06d", i), []byte("v")); err != nil {
				t.Error(err)
				return
			}
		}
	})
	defer writing.Wait()
	defer close(stop)
	testwait.Until(t, patience, "writes", func() bool { return s.Stats().Writes > 50 })
	reader := open(t, store.Options{Path: filepath.Join(dir, "store.db"), ReadOnly: true})
	for i, from := range []*store.Store{s, reader} {
		to := filepath.Join(dir, fmt.Sprintf("copy%d.db", i))
		if err := from.Backup(t.Context(), to); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(to)
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("the copy: %v, %v", info, err)
		}
		copied := open(t, store.Options{Path: to})
		if err := copied.Check(t.Context()); err != nil {
			t.Error(err)
		}
		found := 0
		for n := 0; ; n++ { // what is there has no gap
			_, ok, err := copied.Meta().Get(t.Context(), fmt.Sprintf("n/%06d", n))
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			found++
		}
		if found < 50 {
			t.Errorf("%d entries in the copy", found)
		}
		if err := from.Backup(t.Context(), to); err == nil || !strings.Contains(err.Error(), "is there already") {
			t.Errorf("over a file: %v", err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".backup-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestBackupRefuses(t *testing.T) {
	to := filepath.Join(t.TempDir(), "copy.db")
	if err := new(store.Store).Backup(t.Context(), to); !errors.Is(err, store.ErrClosed) {
		t.Errorf("of the zero store: %v", err)
	}
	if err := open(t, store.Options{}).Backup(t.Context(), to); err == nil || !strings.Contains(err.Error(), "in memory") {
		t.Errorf("of a store in memory: %v", err)
	}
	if err := open(t, store.Options{URL: shared.SchemaURL(t)}).Backup(t.Context(), to); err == nil || !strings.Contains(err.Error(), "pg_dump") {
		t.Errorf("of PostgreSQL: %v", err)
	}
	s := open(t, store.Options{Path: filepath.Join(t.TempDir(), "store.db")})
	if err := s.Backup(t.Context(), filepath.Join(t.TempDir(), "none", "copy.db")); err == nil {
		t.Error("into a folder that is not there")
	}
	if _, err := os.Stat(to); err == nil {
		t.Error("a copy that was refused is there")
	}
}

// Budgets are refused where they cannot be kept, and two processes that share a
// database must not decide by themselves.
func TestBudgetsRefuse(t *testing.T) {
	var zero store.Budgets
	if zero.Shared() || zero.Durable() {
		t.Error("the zero handle is of something")
	}
	if _, err := zero.Apply(t.Context(), []byte("[]")); !errors.Is(err, store.ErrClosed) {
		t.Errorf("apply to the zero handle: %v", err)
	}
	if err := zero.Do(t.Context(), func(*store.BudgetTx) error { return nil }); !errors.Is(err, store.ErrClosed) {
		t.Errorf("do with the zero handle: %v", err)
	}
	if _, err := zero.Totals(t.Context(), 0, "", "", 1); !errors.Is(err, store.ErrClosed) {
		t.Errorf("totals of the zero handle: %v", err)
	}
	url := shared.SchemaURL(t)
	writer := open(t, store.Options{URL: url})
	if !writer.Budgets().Shared() || writer.Budgets().Durable() {
		t.Error("a database that others use is this process's own, or durable without having been asked")
	}
	reader := open(t, store.Options{URL: url, ReadOnly: true})
	if _, err := reader.Budgets().Apply(t.Context(), []byte("[]")); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("apply to a reader: %v", err)
	}
	if got, err := writer.Budgets().Apply(t.Context(), []byte("[]")); err != nil || string(got) != "[]" {
		t.Errorf("apply nothing: %s, %v", got, err)
	}
	if _, err := writer.Budgets().Apply(t.Context(), []byte("no JSON")); err == nil {
		t.Error("what is not JSON is applied")
	}
}

// The function of the schema decides only where it sees what others have written
// while it waited.
func TestBudgetsNeedTheirIsolation(t *testing.T) {
	url := shared.SchemaURL(t)
	s := open(t, store.Options{URL: url + "&default_transaction_isolation=serializable", Durable: true})
	if _, err := s.Budgets().Apply(t.Context(), []byte("[]")); err != nil {
		t.Errorf("the isolation of the address is taken over: %v", err)
	}
}

// A store that must survive a loss of power writes durably once it is open.
func TestDurableStoreSyncsEveryCommit(t *testing.T) {
	for durable, want := range map[bool]int{true: 2, false: 1} { // FULL, NORMAL
		s := open(t, store.Options{Path: filepath.Join(t.TempDir(), "store.db"), Durable: durable})
		var mode int
		err := s.Do(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			return tx.QueryRow(ctx, "PRAGMA synchronous").Scan(&mode)
		})
		if err != nil || mode != want {
			t.Errorf("durable %t: synchronous is %d, %v; want %d", durable, mode, err, want)
		}
	}
}
