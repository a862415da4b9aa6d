package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/budgettest"
	"github.com/toolgate/toolgate/budget/sqlstore"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/store/storetest"
)

// shared is the PostgreSQL server of all tests that do not hurt theirs.
var shared storetest.Server

func TestMain(m *testing.M) {
	if address := os.Getenv(childVar); address != "" {
		fmt.Fprintln(os.Stderr, "error:", child(address))
		os.Exit(1)
	}
	code := m.Run()
	if err := shared.Stop(); err != nil {
		fmt.Println("stop the PostgreSQL of the tests:", err)
		code = max(code, 1)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Println(err)
			code = 1
		}
	}
	os.Exit(code)
}

// open opens a store that runs until the test ends.
func open(t testing.TB, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, s.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func inFile(durable bool) budgettest.Opener {
	return func(t *testing.T, _ int) []budget.Store {
		return []budget.Store{sqlstore.New(open(t, store.Options{Path: filepath.Join(t.TempDir(), "store.db"), Durable: durable}), nil)}
	}
}

func TestSuiteOnFile(t *testing.T) {
	budgettest.Run(t, inFile(true))
}

func TestSuiteOnFileWithoutSync(t *testing.T) {
	budgettest.Run(t, inFile(false))
}

func TestSuiteInMemory(t *testing.T) {
	budgettest.Run(t, func(t *testing.T, _ int) []budget.Store {
		return []budget.Store{sqlstore.New(open(t, store.Options{}), nil)}
	})
}

func onPostgres(more string) budgettest.Opener {
	return func(t *testing.T, n int) (all []budget.Store) {
		url := shared.SchemaURL(t) + more
		for range n {
			all = append(all, sqlstore.New(open(t, store.Options{URL: url, Durable: true}), nil))
		}
		return all
	}
}

func TestSuiteOnPostgres(t *testing.T) { budgettest.Run(t, onPostgres("")) }

// Behind a pooler of connections statements cannot be prepared; the address
// says so.
func TestSuiteOnPostgresWithoutPreparing(t *testing.T) {
	budgettest.Run(t, onPostgres("&default_query_exec_mode=exec"))
}
