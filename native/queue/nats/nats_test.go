package nats_test

import (
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/native/queue"
	"github.com/toolgate/toolgate/native/queue/nats"
	"github.com/toolgate/toolgate/native/queue/queuetest"
)

func TestMain(m *testing.M) {
	queuetest.ServeBroker(func() (string, func(), error) {
		folder, err := os.MkdirTemp("", "toolgate-nats")
		if err != nil {
			return "", nil, err
		}
		s, err := start(folder)
		if err != nil {
			return "", nil, errors.Join(err, os.RemoveAll(folder))
		}
		return s.ClientURL(), func() { stop(s); _ = os.RemoveAll(folder) }, nil
	})
	testwait.AtOnce(8, 24)
	os.Exit(m.Run())
}

// start starts a real server.
func start(folder string) (*server.Server, error) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: folder, NoLog: true, NoSigs: true})
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		stop(s)
		return nil, errors.New("the NATS server does not start")
	}
	return s, nil
}

func stop(s *server.Server) { s.Shutdown(); s.WaitForShutdown() }

// open starts a server with a folder of its own.
func open(t testing.TB, b queue.Bounds) func() queue.Engine {
	s, err := start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(s) })
	return connect(t, s.ClientURL(), b)
}

// openElsewhere starts a server in a process of its own.
func openElsewhere(t testing.TB, b queue.Bounds) func() queue.Engine {
	return connect(t, queuetest.StartBroker(t), b)
}

func connect(t testing.TB, url string, b queue.Bounds) func() queue.Engine {
	return func() queue.Engine {
		e, err := nats.Open(t.Context(), url, nats.Access{}, b, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
}

func TestSuite(t *testing.T) { queuetest.Run(t, open) }

func BenchmarkEngine(b *testing.B) { queuetest.Bench(b, open) }

func TestBacklog(t *testing.T) { queuetest.Backlog(t, openElsewhere, 0) }
