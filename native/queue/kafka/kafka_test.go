package kafka_test

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/native/queue"
	"github.com/toolgate/toolgate/native/queue/kafka"
	"github.com/toolgate/toolgate/native/queue/queuetest"
)

// brokerJars is for a broker in place of kfake; `make test-kafka` fetches them.
var brokerJars = flag.String("kafka-jars", "", "a folder with the jars of Kafka's broker, which the tests start in place of kfake")

// broker is the address of the broker of brokerJars, empty without.
var broker string

func TestMain(m *testing.M) {
	queuetest.ServeBroker(func() (string, func(), error) {
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			return "", nil, err
		}
		return address(cluster), cluster.Close, nil
	})
	testwait.AtOnce(8, 24)
	flag.Parse()
	stop := func() {}
	if *brokerJars != "" {
		var err error
		if broker, stop, err = startBroker(*brokerJars); err != nil {
			fmt.Fprintln(os.Stderr, "the broker does not start:", err)
			os.Exit(1)
		}
	}
	code := m.Run()
	stop()
	os.Exit(code)
}

func address(c *kfake.Cluster) string { return "kafka://" + strings.Join(c.ListenAddrs(), ",") }

func open(t testing.TB, b queue.Bounds) func() queue.Engine {
	if broker != "" {
		return connect(t, broker, b)
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return connect(t, address(cluster), b)
}

// openElsewhere starts a broker in a process of its own.
func openElsewhere(t testing.TB, b queue.Bounds) func() queue.Engine {
	if broker != "" {
		return connect(t, broker, b)
	}
	return connect(t, queuetest.StartBroker(t), b)
}

func connect(t testing.TB, url string, b queue.Bounds) func() queue.Engine {
	return func() queue.Engine {
		e, err := kafka.Open(t.Context(), url, kafka.Access{}, b, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
}

func TestSuite(t *testing.T) { queuetest.Run(t, open) }

func BenchmarkEngine(b *testing.B) { queuetest.Bench(b, open) }

func TestBacklog(t *testing.T) { queuetest.Backlog(t, openElsewhere, 1200) }
