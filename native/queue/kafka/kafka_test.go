package kafka_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/toolgate/toolgate/native/queue"
	"github.com/toolgate/toolgate/native/queue/kafka"
	"github.com/toolgate/toolgate/native/queue/queuetest"
)

func open(t testing.TB, b queue.Bounds) func() queue.Engine {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return func() queue.Engine {
		e, err := kafka.Open(t.Context(), "kafka://"+strings.Join(cluster.ListenAddrs(), ","), kafka.Access{}, b, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
}

func TestSuite(t *testing.T) { queuetest.Run(t, open) }

func BenchmarkEngine(b *testing.B) { queuetest.Bench(b, open) }

func TestChaos(t *testing.T) { queuetest.Chaos(t, open) }
