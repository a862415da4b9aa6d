// Package queued connects gateways and workers with the engine of their queues.
package queued

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/backoff"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/native/queue"
	"github.com/toolgate/toolgate/native/queue/kafka"
	"github.com/toolgate/toolgate/native/queue/nats"
	"github.com/toolgate/toolgate/native/queue/postgres"
	"github.com/toolgate/toolgate/proxy"
)

// openTime bounds one attempt to reach an engine.
const openTime = 10 * time.Second

// open connects to the engine of the settings.
func open(ctx context.Context, s *queue.Settings, log *slog.Logger) (queue.Engine, error) {
	bounds := queue.Bounds{
		Waiting: s.Waiting, WaitingPerPrincipal: s.WaitingPerPrincipal, Keep: s.Keep, Lease: queue.DefaultLease, Attempts: queue.DefaultAttempts,
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	var verify *tls.Config
	if s.TLS || s.CA != "" {
		var err error
		if verify, _, err = build.Authorities(s.CA); err != nil {
			return nil, fmt.Errorf("toolgate.queue.ca: %w", err)
		}
	}
	switch s.Engine {
	case "postgres":
		return postgres.Open(ctx, s.URL.Reveal(), bounds, log)
	case "kafka":
		return kafka.Open(ctx, s.URL.Reveal(), kafka.Access{TLS: verify, SASL: s.SASL}, bounds, log)
	case "nats":
		return nats.Open(ctx, s.URL.Reveal(), nats.Access{TLS: verify, Credentials: s.Credentials}, bounds, log)
	default:
		return nil, fmt.Errorf("there is no queue engine %q", s.Engine)
	}
}

// boxes returns the boxes of some queues.
func boxes(s *queue.Settings, names []string) (map[string]*queue.Box, error) {
	out := make(map[string]*queue.Box)
	for _, name := range names {
		key, err := queue.ParseKey(s.Queues[name].Key.Reveal())
		if err != nil {
			return nil, failure.New(failure.Config, fmt.Errorf("toolgate.queue.queues.%s.key: %w", name, err))
		}
		if out[name], err = queue.NewBox(name, key); err != nil {
			return nil, failure.New(failure.Config, fmt.Errorf("toolgate.queue.queues.%s.key: %w", name, err))
		}
	}
	return out, nil
}

var errAway = errors.New("the engine of the queues has not been reached yet")

// Link is a gateway's connection to the engine. A gateway starts without its engine, and
// refuses what needs that until it is there. It is safe for concurrent use.
type Link struct {
	settings queue.Settings
	keys     *seal.Keyring
	log      *slog.Logger
	boxes    map[string]*queue.Box
	tried    chan struct{} // closed after the first try to reach the engine

	mu     sync.Mutex
	engine queue.Engine   // nil until it is reached
	jobs   map[string]Job // whose end is awaited, by id
}

// NewLink returns the link of a gateway. Without an engine it does nothing.
func NewLink(s queue.Settings, keys *seal.Keyring, log *slog.Logger) (*Link, error) {
	l := &Link{settings: s, keys: keys, log: log, tried: make(chan struct{}), jobs: map[string]Job{}}
	var err error
	l.boxes, err = boxes(&s, slices.Collect(maps.Keys(s.Queues)))
	return l, err
}

// Run reaches the engine and declares the queues. It closes it when ctx ends.
func (l *Link) Run(ctx context.Context) error {
	if len(l.settings.Queues) == 0 {
		<-ctx.Done()
		return nil
	}
	tried := sync.OnceFunc(func() { close(l.tried) })
	defer tried()
	engine := reachAtLast(ctx, l.reach, func(err error) {
		tried()
		l.log.Error("the engine of the queues cannot be reached; their tools fail until it is", "engine", l.settings.Engine, "err", err)
	})
	if engine == nil {
		return nil
	}
	l.mu.Lock()
	l.engine = engine
	l.mu.Unlock()
	tried()
	l.log.Info("the queues are there", "engine", l.settings.Engine, "queues", len(l.boxes))
	<-ctx.Done()
	return engine.Close()
}

// reachAtLast tries to reach an engine, however long that takes. It returns nil when ctx
// ends before. failed is told of the first failure.
func reachAtLast(ctx context.Context, reach func(context.Context) (queue.Engine, error), failed func(error)) queue.Engine {
	again := backoff.Backoff{Base: 200 * time.Millisecond, Max: 10 * time.Second}
	for told := false; ctx.Err() == nil; told = true {
		engine, err := reach(ctx)
		if err == nil {
			return engine
		}
		if !told && ctx.Err() == nil {
			failed(err)
		}
		_ = backoff.Sleep(ctx, again.Next()) // the loop ends with the context
	}
	return nil
}

func (l *Link) reach(ctx context.Context) (queue.Engine, error) {
	engine, err := open(ctx, &l.settings, l.log)
	if err != nil {
		return nil, err
	}
	for name, box := range l.boxes {
		if err := engine.Declare(ctx, name, box.ID()); err != nil {
			return nil, errors.Join(err, engine.Close())
		}
	}
	return engine, nil
}

// Send returns a backend that has workers run the tools of a namespace that are in a queue,
// or the same backend if none may be.
func (l *Link) Send(namespace string, of proxy.Backend) proxy.Backend {
	if !l.settings.Uses(namespace) {
		return of
	}
	return &queue.Sender{
		Server: of, Engine: l, Keys: l.keys, Log: l.log,
		Box:  func(tool string) *queue.Box { return l.boxes[l.settings.Of(namespace, tool)] },
		Sent: l.sent,
	}
}

// Queued tells whether workers run a tool.
func (l *Link) Queued(namespace, tool string) bool { return l.settings.Of(namespace, tool) != "" }

// firstTime bounds how long calls wait for the first try to reach the engine.
const firstTime = 5 * time.Second

// reached returns the engine. Calls that come while the gateway starts wait for the first
// try to reach it.
func (l *Link) reached(ctx context.Context) (queue.Engine, error) {
	select {
	case <-l.tried:
	default:
		late := time.NewTimer(firstTime)
		defer late.Stop()
		select {
		case <-l.tried:
		case <-late.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.engine == nil {
		return nil, errAway
	}
	return l.engine, nil
}

// Enqueue implements [queue.Producer].
func (l *Link) Enqueue(ctx context.Context, j *queue.Job) error {
	engine, err := l.reached(ctx)
	if err != nil {
		return err
	}
	return engine.Enqueue(ctx, j)
}

// Await implements [queue.Producer].
func (l *Link) Await(ctx context.Context, j *queue.Job, progress func([]byte)) (queue.End, error) {
	engine, err := l.reached(ctx)
	if err != nil {
		return queue.End{}, err
	}
	return engine.Await(ctx, j, progress)
}

// Cancel implements [queue.Producer]. There is no job in an engine that was never reached.
func (l *Link) Cancel(ctx context.Context, j *queue.Job, leased bool) (bool, error) {
	engine, err := l.reached(ctx)
	if err != nil {
		return false, queue.ErrUnknown
	}
	return engine.Cancel(ctx, j, leased)
}
