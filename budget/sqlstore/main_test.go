package sqlstore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/budgettest"
	"github.com/toolgate/toolgate/budget/sqlstore"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/store/storetest"
	"github.com/toolgate/toolgate/internal/testwait"
)

// shared is the PostgreSQL server of all tests that do not hurt theirs.
var shared storetest.Server

func TestMain(m *testing.M) {
	if address := os.Getenv(childVar); address != "" {
		fmt.Fprintln(os.Stderr, "error:", child(address))
		os.Exit(1)
	}
	testwait.AtOnce(0, 24)
	os.Exit(storetest.Main(m, &shared))
}

func inFile(durable bool) budgettest.Opener {
	return func(t *testing.T, _ int) []budget.Store {
		return []budget.Store{sqlstore.New(storetest.Opened(t, store.Options{Path: filepath.Join(t.TempDir(), "store.db"), Durable: durable}), nil)}
	}
}

func TestSuiteOnFile(t *testing.T) {
	t.Parallel()
	budgettest.Run(t, inFile(true))
}

func TestSuiteOnFileWithoutSync(t *testing.T) {
	t.Parallel()
	budgettest.Run(t, inFile(false))
}

func TestSuiteInMemory(t *testing.T) {
	t.Parallel()
	budgettest.Run(t, func(t *testing.T, _ int) []budget.Store {
		return []budget.Store{sqlstore.New(storetest.Opened(t, store.Options{}), nil)}
	})
}

func onPostgres(more string) budgettest.Opener {
	return func(t *testing.T, n int) (all []budget.Store) {
		url := shared.SchemaURL(t) + more
		for range n {
			all = append(all, sqlstore.New(storetest.Opened(t, store.Options{URL: url, Durable: true}), nil))
		}
		return all
	}
}

func TestSuiteOnPostgres(t *testing.T) {
	t.Parallel()
	budgettest.Run(t, onPostgres(""))
}

// Behind a pooler of connections statements cannot be prepared; the address
// says so.
func TestSuiteOnPostgresWithoutPreparing(t *testing.T) {
	t.Parallel()
	budgettest.Run(t, onPostgres("&default_query_exec_mode=exec"))
}
