package memory_test

import (
	"os"
	"testing"

	"github.com/toolgate/toolgate/native/queue"
	"github.com/toolgate/toolgate/native/queue/memory"
	"github.com/toolgate/toolgate/native/queue/queuetest"
)

func TestMain(m *testing.M) {
	queuetest.AtOnce()
	os.Exit(m.Run())
}

func open(_ testing.TB, b queue.Bounds) func() queue.Engine {
	e := memory.New(b)
	return func() queue.Engine { return e }
}

func TestSuite(t *testing.T) { queuetest.Run(t, open) }

func TestChaos(t *testing.T) { queuetest.Chaos(t, open) }

func BenchmarkEngine(b *testing.B) { queuetest.Bench(b, open) }

func TestBacklog(t *testing.T) { queuetest.Backlog(t, open, 1200) }
