package tries

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/schema"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/lineclient"
	"github.com/toolgate/toolgate/proxy"
)

const (
	// maxRunning bounds the calls of one session that are not over, maxOwnRunning those of
	// one caller in all of their sessions, and maxAllRunning those of everybody.
	maxRunning    = 4
	maxOwnRunning = 8
	maxAllRunning = 32
	// maxHistory bounds the calls that are kept for a session, maxCalls those of all
	// sessions, and maxBytes what they hold together. The oldest ones that are over go.
	maxHistory = 20
	maxCalls   = 1000
	maxBytes   = 32 << 20
	// callTime is how long one call lasts, with all that it asks.
	callTime = 30 * time.Minute
	// keepTime is how long a call is kept after its end.
	keepTime = 12 * time.Hour
	// lookEvery is how often it is looked whether a caller is still let in.
	lookEvery = 5 * time.Second
)

// Options are what a [Service] needs of a gateway. All of it is needed.
type Options struct {
	// Serve serves a client on a stream until the stream or ctx ends.
	Serve func(ctx context.Context, id *gate.Identity, scope proxy.Scope, stream *lineclient.Pipe) error
	// Grant returns the caller with an API key or token, and when that ends. Without
	// authentication it is the one caller that there is.
	Grant func(ctx context.Context, key string) (id *gate.Identity, until time.Time, err error)
	// Authenticated tells whether callers say who they are.
	Authenticated func() bool
	// Known tells whether a caller is still let in.
	Known func(id *gate.Identity) bool
	// Go runs a call in the background. Its context ends with the gateway.
	Go func(f func(ctx context.Context))
}

// Service makes and keeps calls by hand. Make it with [New]. It is safe for concurrent use.
type Service struct {
	o       Options
	tools   *schema.Checker
	answers *schema.Checker // these assert formats, as forms are to be filled in

	mu    sync.Mutex
	calls []*call // the oldest first
}

// New returns a service without calls.
func New(o Options) *Service {
	const entries, size = 64, 4 << 20
	return &Service{
		o:       o,
		tools:   schema.New(schema.Options{Entries: entries, Bytes: size}),
		answers: schema.New(schema.Options{Entries: entries, Bytes: size, AssertFormat: true}),
	}
}

// owner is whose a call is.
type owner struct{ principal, session string }

// add keeps a new call, unless there are too many that are not over.
func (s *Service) add(c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	own, running, caller, all, size := 0, 0, 0, 0, 0
	s.calls = slices.DeleteFunc(s.calls, func(other *call) bool {
		t, _ := other.shown()
		return t.State == admin.TryOver && time.Since(t.Ended) > keepTime
	})
	for _, other := range s.calls {
		bytes, over := other.kept()
		size += bytes
		if !over {
			all++
			if other.owner.principal == c.owner.principal {
				caller++
			}
		}
		if other.owner == c.owner {
			own++
			if !over {
				running++
			}
		}
	}
	if running >= maxRunning || caller >= maxOwnRunning || all >= maxAllRunning {
		return admin.ErrTryBusy
	}
	left := len(s.calls)
	s.calls = slices.DeleteFunc(s.calls, func(other *call) bool {
		bytes, over := other.kept()
		mine := other.owner == c.owner && own >= maxHistory
		if !over || !mine && size <= maxBytes && left < maxCalls {
			return false
		}
		size -= bytes
		left--
		if other.owner == c.owner {
			own--
		}
		return true
	})
	s.calls = append(s.calls, c)
	return nil
}

// find returns a call of an owner; nil for every other id.
func (s *Service) find(of owner, id string) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c.owner == of && c.t.ID == id { // the id never changes
			return c
		}
	}
	return nil
}

// of returns the calls of an owner, the latest first.
func (s *Service) of(of owner) []*call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*call
	for _, c := range slices.Backward(s.calls) {
		if c.owner == of {
			all = append(all, c)
		}
	}
	return all
}

// end ends the calls of a session, and forgets them.
func (s *Service) end(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = slices.DeleteFunc(s.calls, func(c *call) bool {
		if c.owner.session != session {
			return false
		}
		c.cancel(errCancelled)
		return true
	})
}

// begin makes a call in the background.
func (s *Service) begin(id *gate.Identity, by admin.Trier, until time.Time, n *admin.NewTry) (*call, error) {
	of := owner{id.Key(), by.Session}
	known := func() bool { return s.o.Known(id) && (by.Lasts == nil || by.Lasts()) }
	ctx, cancel := context.WithCancelCause(context.Background())
	c := newCall(of, "try_"+rand.Text(), n, cancel)
	if err := s.add(c); err != nil {
		cancel(nil)
		return nil, err
	}
	s.o.Go(func(gateway context.Context) {
		defer cancel(nil)
		stop := context.AfterFunc(gateway, func() { cancel(errEnds) })
		defer stop()
		ctx, end := context.WithTimeoutCause(ctx, callTime, errTime)
		defer end()
		if !until.IsZero() {
			ctx, end = context.WithDeadlineCause(ctx, until, errAccess)
			defer end()
		}
		over := make(chan struct{})
		defer close(over)
		if !known() { // since its tools were listed
			cancel(errAccess)
		}
		s.o.Go(func(context.Context) { watch(known, cancel, over) })
		_ = s.stream(id, c, func(client *lineclient.Client) error {
			c.run(ctx, client)
			return nil
		})
	})
	return c, nil
}

// watch ends a call whose caller is not let in any more, or has signed out. It ends with the
// call.
func watch(known func() bool, cancel context.CancelCauseFunc, over <-chan struct{}) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if !known() {
				cancel(errAccess)
				return
			}
		case <-over:
			return
		}
	}
}

// stream runs f with a client of the gateway. The messages are kept for a call; nil keeps
// none.
func (s *Service) stream(id *gate.Identity, c *call, f func(*lineclient.Client) error) error {
	here, there := lineclient.NewPipe()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() { // ends with the stream, which is closed below
		defer close(served)
		_ = s.o.Serve(ctx, id, verbatim, there)
		_ = there.Close()
	}()
	defer func() {
		_ = here.Close()
		cancel()
		<-served
	}()
	if c == nil {
		return f(lineclient.New(here))
	}
	return f(lineclient.New(&wire{Pipe: here, kept: c.keep, room: c.room}))
}
