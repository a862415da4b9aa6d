// Package kafka is a queue engine on a log: jobs are records of tool.requests.QUEUE, and
// all that workers say are records of tool.results. A record cannot be taken back and has
// no priority (see [Engine.Traits]).
package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/toolgate/toolgate/native/queue"
)

// Topics.
const (
	requests = "tool.requests."
	results  = "tool.results"
	queues   = "tool.queues"
)

const (
	// askTime bounds one request.
	askTime = 10 * time.Second
	// before is how much older than a gateway's start what it reads may be: the clocks of
	// workers may be apart.
	before = 10 * time.Minute
	// quiet is how long the list of queues says nothing at its end.
	quiet = 300 * time.Millisecond
	// firstTime is how long it is waited for.
	firstTime = 2 * time.Second
)

// Engine keeps jobs in a log. Make it with [Open].
type Engine struct {
	bounds  queue.Bounds
	log     *slog.Logger
	options []kgo.Opt
	client  *kgo.Client // produces, and reads what workers say
	stop    context.CancelFunc
	reading sync.WaitGroup

	mu    sync.Mutex
	jobs  map[string]*job
	swept time.Time
	lines map[string]*line
}

// Open connects to the brokers of an address, kafka://host:port,host:port.
func Open(ctx context.Context, address string, a Access, b queue.Bounds, log *slog.Logger) (*Engine, error) {
	brokers := strings.Split(strings.TrimSuffix(strings.TrimPrefix(address, "kafka://"), "/"), ",")
	options, err := a.options()
	if err != nil {
		return nil, fmt.Errorf("make a client of Kafka: %w", err)
	}
	options = slices.Clip(append(options, kgo.SeedBrokers(brokers...), kgo.ClientID("toolgate"), kgo.RequiredAcks(kgo.AllISRAcks())))
	client, err := kgo.NewClient(append(options,
		kgo.ConsumeTopics(results), kgo.ConsumeResetOffset(kgo.NewOffset().AfterMilli(time.Now().Add(-before).UnixMilli())),
		kgo.FetchMaxWait(100*time.Millisecond), kgo.ProducerLinger(time.Millisecond))...)
	if err != nil {
		return nil, fmt.Errorf("make a client of Kafka: %w", err)
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	e := &Engine{bounds: b, log: log, options: options, client: client, stop: stop, jobs: make(map[string]*job), lines: make(map[string]*line)}
	for topic, partitions := range map[string]int32{results: 8, queues: 1} {
		policy := "delete"
		if topic == queues {
			policy = "compact" // a queue is declared once, and its workers come at any time
		}
		if err := e.topic(ctx, topic, partitions, policy); err != nil {
			stop()
			client.Close()
			return nil, err
		}
	}
	e.reading.Go(func() { e.read(running) })
	return e, nil
}

// Close implements [queue.Engine].
func (e *Engine) Close() error {
	e.stop()
	e.reading.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.lines {
		l.client.CloseAllowingRebalance()
	}
	clear(e.lines)
	e.client.Close()
	return nil
}

// Traits implements [queue.Engine].
func (e *Engine) Traits() queue.Traits {
	return queue.Traits{NoPriority: true, NoFairness: true, NoCancel: true, NoBounds: true, NoDead: true, Requeued: true, MaxBody: 1 << 20}
}

// Letters implements [queue.Engine]. The log has no list of them.
func (e *Engine) Letters(context.Context, string) ([]queue.Letter, error) { return nil, nil }

// topic makes a topic unless it is there.
func (e *Engine) topic(ctx context.Context, name string, partitions int32, policy string) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, -1
	cleanup := kmsg.NewCreateTopicsRequestTopicConfig()
	cleanup.Name, cleanup.Value = "cleanup.policy", &policy
	t.Configs = append(t.Configs, cleanup)
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Topics = append(r.Topics, t)
	got, err := r.RequestWith(ctx, e.client)
	if err != nil {
		return fmt.Errorf("make the topic %s: %w", name, err)
	}
	for i := range got.Topics {
		if err := kerr.ErrorForCode(got.Topics[i].ErrorCode); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("make the topic %s: %w", name, err)
		}
	}
	return nil
}

// Declare implements [queue.Engine].
func (e *Engine) Declare(ctx context.Context, name, key string) error {
	if err := e.topic(ctx, requests+name, 8, "delete"); err != nil {
		return err
	}
	return e.send(ctx, &kgo.Record{Topic: queues, Key: []byte(name), Value: []byte(key)})
}

// Key implements [queue.Consumer]. It reads the list of queues to its end.
func (e *Engine) Key(ctx context.Context, name string) (string, error) {
	client, err := kgo.NewClient(append(e.options, kgo.ConsumeTopics(queues), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		return "", fmt.Errorf("look for the queue %s: %w", name, err)
	}
	defer client.Close()
	key := ""
	for {
		patience := quiet
		if key == "" {
			patience = firstTime
		}
		waiting, cancel := context.WithTimeout(ctx, patience)
		got := client.PollFetches(waiting)
		ended := waiting.Err() != nil
		cancel()
		got.EachRecord(func(r *kgo.Record) {
			if string(r.Key) == name {
				key = string(r.Value)
			}
		})
		switch {
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case ended && key == "":
			return "", queue.ErrNoQueue
		case ended:
			return key, nil
		}
	}
}

// send writes a record and waits until it is stored.
func (e *Engine) send(ctx context.Context, r *kgo.Record) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	err := e.client.ProduceSync(ctx, r).FirstErr()
	if errors.Is(err, kerr.MessageTooLarge) {
		return queue.ErrTooBig
	}
	if err != nil {
		return fmt.Errorf("write to %s: %w", r.Topic, err)
	}
	return nil
}
