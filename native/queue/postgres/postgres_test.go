//go:build !windows

package postgres_test

import (
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/toolgate/toolgate/internal/store/storetest"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/native/queue"
	"github.com/toolgate/toolgate/native/queue/postgres"
	"github.com/toolgate/toolgate/native/queue/queuetest"
)

// server is the PostgreSQL server of the tests.
var server storetest.Server

func TestMain(m *testing.M) {
	testwait.AtOnce(8, 24)
	code := m.Run()
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the PostgreSQL of the tests:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func open(t testing.TB, b queue.Bounds) func() queue.Engine {
	url := server.SchemaURL(t)
	return func() queue.Engine {
		e, err := postgres.Open(t.Context(), url, b, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
}

func TestSuite(t *testing.T) { queuetest.Run(t, open) }

func BenchmarkEngine(b *testing.B) { queuetest.Bench(b, open) }

func TestBacklog(t *testing.T) { queuetest.Backlog(t, open, 0) }
