package kafka_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/toolgate/toolgate/internal/testport"
	"github.com/toolgate/toolgate/internal/testserver"
	"github.com/toolgate/toolgate/internal/testwait"
)

// brokerTime is how long a broker may take to start, and to end.
const brokerTime = time.Minute

// brokerSettings are those of one broker that is its own controller.
const brokerSettings = `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@%[2]s
listeners=PLAINTEXT://%[1]s,CONTROLLER://%[2]s
advertised.listeners=PLAINTEXT://%[1]s
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs=%[3]s
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
`

// startBroker starts Kafka's broker from its jars, with an empty log.
func startBroker(jars string) (address string, stop func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), brokerTime)
	defer cancel()
	dir, err := os.MkdirTemp("", "kafka")
	if err != nil {
		return "", nil, err
	}
	undo := []func(){func() { _ = os.RemoveAll(dir) }}
	stop = func() {
		for _, f := range slices.Backward(undo) {
			f()
		}
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	var at [2]string
	for i := range at {
		free, release, err := testport.Reserve(ctx)
		if err != nil {
			return "", nil, err
		}
		at[i], undo = free, append(undo, release)
	}
	settings := filepath.Join(dir, "server.properties")
	if err := os.WriteFile(settings, fmt.Appendf(nil, brokerSettings, at[0], at[1], filepath.Join(dir, "log")), 0o600); err != nil {
		return "", nil, err
	}
	java := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(context.WithoutCancel(ctx), "java", append([]string{"-Xmx512m", "-cp", filepath.Join(jars, "*")}, args...)...) // stop ends it
		cmd.Dir = dir
		return cmd
	}
	if out, err := java("kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", settings).CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("prepare its log: %w\n%s", err, out)
	}
	var said bytes.Buffer
	cmd := java("kafka.Kafka", settings)
	cmd.Stdout, cmd.Stderr = &said, &said
	p, err := testserver.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return "", nil, err
	}
	undo = append(undo, func() { _ = p.End(syscall.SIGTERM, brokerTime) })
	client, err := kgo.NewClient(kgo.SeedBrokers(at[0]))
	if err != nil {
		return "", nil, err
	}
	defer client.Close()
	if !testwait.Within(brokerTime, func() bool { return client.Ping(ctx) == nil }) {
		_ = p.End(syscall.SIGKILL, brokerTime) // it writes nothing any more
		return "", nil, fmt.Errorf("it does not answer within %v:\n%s", brokerTime, said.Bytes())
	}
	return "kafka://" + at[0], stop, nil
}
