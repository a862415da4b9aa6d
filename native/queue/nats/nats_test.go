package nats_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/toolgate/toolgate/native/queue"
	"github.com/toolgate/toolgate/native/queue/nats"
	"github.com/toolgate/toolgate/native/queue/queuetest"
)

// open starts a real server with a folder of its own.
func open(t testing.TB, b queue.Bounds) func() queue.Engine {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the NATS server does not start")
	}
	return func() queue.Engine {
		e, err := nats.Open(t.Context(), s.ClientURL(), nats.Access{}, b, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
}

func TestSuite(t *testing.T) { queuetest.Run(t, open) }

func TestChaos(t *testing.T) { queuetest.Chaos(t, open) }

func BenchmarkEngine(b *testing.B) { queuetest.Bench(b, open) }

func BenchmarkBacklog(b *testing.B) { queuetest.Backlog(b, open, 100_000) }
