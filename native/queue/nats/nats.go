// Package nats is a queue engine on NATS JetStream. A job is a message of a work queue.
// Who leases it claims its id in another stream, and whoever ends it first writes its end
// into a third: JetStream stores the first of each alone.
package nats

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolgate/toolgate/native/queue"
)

// Subjects and streams. Those of requests have the queue, the priority, the lane and the
// principal.
const (
	requests = "tool.requests."
	results  = "tool.results."
	claims   = "tool.claims."
	events   = "tool.events."
	wakes    = "tool.wakes."
	letters  = "tool.dead."

	resultStream = "TOOLGATE_RESULTS"
	claimStream  = "TOOLGATE_CLAIMS"
	letterStream = "TOOLGATE_DEAD"
	queueBucket  = "TOOLGATE_QUEUES"
)

const (
	// lanes is how many lanes the callers of a queue share. A lane is in order, and lanes
	// take turns.
	lanes = 8
	// claimTime is how long a claim is kept that nobody has ended.
	claimTime = 25 * time.Hour
	// endedTime is how long it is kept after the end: a server that was killed may have
	// forgotten that the job was acknowledged.
	endedTime = time.Minute
	// askTime bounds one request.
	askTime = 10 * time.Second
	// maxLetters bounds the dead letters of a queue.
	maxLetters = 1000
)

// Engine keeps jobs in JetStream. Make it with [Open].
type Engine struct {
	bounds queue.Bounds
	log    *slog.Logger
	conn   *nats.Conn
	js     jetstream.JetStream
	keys   jetstream.KeyValue
	ends   jetstream.Stream
	claims jetstream.Stream
	acks   string // the subject of confirmations, which the id of a job and its attempt follow
	// connected is when the connection was made last: what was sent before may be lost.
	connected atomic.Int64

	mu     sync.Mutex
	queues map[string]*line
	turn   int
}

// Access is how the servers are reached. The zero value has what the address says.
type Access struct {
	TLS         *tls.Config // how the servers are verified; nil without encryption
	Credentials string      // a file
}

func (a *Access) options() (out []nats.Option) {
	if a.TLS != nil {
		out = append(out, nats.Secure(a.TLS))
	}
	if a.Credentials != "" {
		out = append(out, nats.UserCredentials(a.Credentials))
	}
	return out
}

// Open connects to the servers of an address, and makes or updates the streams.
func Open(ctx context.Context, address string, a Access, b queue.Bounds, log *slog.Logger) (_ *Engine, err error) {
	e := &Engine{bounds: b, log: log, queues: make(map[string]*line)}
	began := func(*nats.Conn) { e.connected.Store(time.Now().UnixNano()) }
	e.conn, err = nats.Connect(address, append(a.options(),
		nats.Name("toolgate queue"), nats.MaxReconnects(-1), nats.ReconnectWait(200*time.Millisecond), nats.Timeout(5*time.Second),
		nats.IgnoreAuthErrorAbort(), // a server may know its users later
		nats.ReconnectHandler(began), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Debug("the queue has lost a message that is looked for anyway", "err", err)
		}))...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	began(nil)
	defer func() {
		if err != nil {
			e.conn.Close()
		}
	}()
	if e.js, err = jetstream.New(e.conn); err != nil {
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	e.ends, err = e.stream(ctx, jetstream.StreamConfig{
		Name: resultStream, Subjects: []string{results + "*"}, MaxMsgsPerSubject: 1, MaxAge: b.Keep, AllowDirect: true,
	})
	if err != nil {
		return nil, fmt.Errorf("make the stream of results: %w", err)
	}
	e.claims, err = e.stream(ctx, jetstream.StreamConfig{
		Name: claimStream, Subjects: []string{claims + "*"}, MaxMsgsPerSubject: 1, MaxAge: claimTime, AllowDirect: true, AllowMsgTTL: true,
	})
	if err != nil {
		return nil, fmt.Errorf("make the stream of claims: %w", err)
	}
	_, err = e.stream(ctx, jetstream.StreamConfig{
		Name: letterStream, Subjects: []string{letters + "*"}, MaxMsgsPerSubject: maxLetters, MaxAge: b.Keep, AllowDirect: true,
	})
	if err != nil {
		return nil, fmt.Errorf("make the stream of dead letters: %w", err)
	}
	e.acks = e.conn.NewInbox() + "."
	if _, err = e.conn.Subscribe(e.acks+"*.*", e.acknowledged); err != nil {
		return nil, fmt.Errorf("listen to confirmations: %w", err)
	}
	if e.keys, err = e.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: queueBucket}); err != nil {
		return nil, fmt.Errorf("make the list of queues: %w", err)
	}
	return e, nil
}

// stream makes or updates a stream. Where its copies are is up to the operator.
func (e *Engine) stream(ctx context.Context, c jetstream.StreamConfig) (jetstream.Stream, error) {
	is, err := e.js.Stream(ctx, c.Name)
	switch {
	case err == nil:
		has := is.CachedInfo().Config
		c.Replicas, c.Storage, c.Placement, c.Compression = has.Replicas, has.Storage, has.Placement, has.Compression
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, err
	}
	return e.js.CreateOrUpdateStream(ctx, c)
}

// Close implements [queue.Engine].
func (e *Engine) Close() error {
	e.conn.Close()
	return nil
}

// Traits implements [queue.Engine].
func (e *Engine) Traits() queue.Traits { return queue.Traits{MaxBody: int(e.conn.MaxPayload())} }

func streamOf(name string) string { return "TOOLGATE_QUEUE_" + strings.ToUpper(name) }

// Declare implements [queue.Engine].
func (e *Engine) Declare(ctx context.Context, name, key string) error {
	_, err := e.stream(ctx, jetstream.StreamConfig{
		Name: streamOf(name), Subjects: []string{requests + name + ".>"}, Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew,
		MaxMsgs: int64(e.bounds.Waiting), MaxMsgsPerSubject: int64(e.bounds.WaitingPerPrincipal), DiscardNewPerSubject: true, AllowMsgTTL: true,
	})
	if err != nil {
		return fmt.Errorf("make the stream of the queue %s: %w", name, err)
	}
	if _, err := e.keys.PutString(ctx, name, key); err != nil {
		return fmt.Errorf("declare the queue %s: %w", name, err)
	}
	return nil
}

// Key implements [queue.Consumer].
func (e *Engine) Key(ctx context.Context, name string) (string, error) {
	got, err := e.keys.Get(ctx, name)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return "", queue.ErrNoQueue
	}
	if err != nil {
		return "", fmt.Errorf("look for the queue %s: %w", name, err)
	}
	return string(got.Value()), nil
}

// lane returns the lane of a principal.
func lane(principal string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(principal)) // a hash takes everything
	return int(h.Sum32() % lanes)
}

// Letters implements [queue.Engine].
func (e *Engine) Letters(ctx context.Context, name string) (out []queue.Letter, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	c, err := e.js.OrderedConsumer(ctx, letterStream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{letters + name}})
	if err != nil {
		return nil, fmt.Errorf("read dead letters: %w", err)
	}
	got, err := c.FetchNoWait(maxLetters)
	if err != nil {
		return nil, fmt.Errorf("read dead letters: %w", err)
	}
	for m := range got.Messages() {
		end := endOf(m.Headers(), nil)
		at, err := m.Metadata()
		if err != nil {
			return nil, fmt.Errorf("read dead letters: %w", err)
		}
		out = append(out, queue.Letter{ID: m.Headers().Get(headID), Reason: end.Reason, Attempts: end.Attempts, At: at.Timestamp})
	}
	slices.Reverse(out) // the newest first
	return out, nil
}
