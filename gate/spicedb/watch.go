package spicedb

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolgate/toolgate/internal/backoff"
)

const (
	// settle is how long a stream stands before it is believed: a server that
	// cannot watch says so at once.
	settle = 100 * time.Millisecond
	// probeEvery is how often the newest state is compared with what the
	// stream has delivered, probeTimeout bounds the question and probeGrace is
	// how long an event may then still be under way.
	probeEvery   = 4 * time.Second
	probeTimeout = time.Second
	probeGrace   = time.Second
	// behindMost is how often in a row the stream may be behind before it is
	// opened anew.
	behindMost = 2
	// Events above burst in a second are applied together, each coalesce.
	burst    = 5
	coalesce = 50 * time.Millisecond
	// oursTimeout ends the wait for the event of what we wrote ourselves.
	oursTimeout = 2 * time.Second
)

var (
	errRunning = errors.New("spicedb: the phase runs already")
	errBehind  = errors.New("the stream does not deliver what was written")
	errAnew    = errors.New("the server does not know the token any more")
)

// Run keeps the Watch stream until ctx ends, and then returns nil. It is called
// once at a time. A broken stream is opened again after 100 ms to 2 s.
func (p *Phase) Run(ctx context.Context) error {
	if p.client == nil {
		return errZero
	}
	if !p.running.CompareAndSwap(false, true) {
		return errRunning
	}
	defer p.running.Store(false)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { p.notify(ctx) })

	cursor, logged := "", ""
	// Waits are their length to 125% of it.
	again := backoff.Backoff{Base: 5 * minBackoff / 4, Max: 5 * maxBackoff / 4, Jitter: 0.2}
	for ctx.Err() == nil {
		s := stream{p: p, cursor: cursor}
		err := s.follow(ctx)
		p.lose()
		if ctx.Err() != nil {
			break
		}
		if cursor = s.cursor; tooOld(err) {
			cursor = ""
		}
		if s.stood {
			again.Reset()
			logged = ""
		}
		if text := err.Error(); text != logged {
			p.log.Warn("the Watch stream of SpiceDB is broken: answers are not cached until it stands again", "error", err)
			logged = text
		}
		_ = backoff.Sleep(ctx, again.Next()) // the loop ends with the context
	}
	return nil
}

// tooOld tells whether a stream cannot begin where the last one ended.
func tooOld(err error) bool {
	if errors.Is(err, errAnew) {
		return true
	}
	switch status.Code(err) {
	case codes.InvalidArgument, codes.OutOfRange, codes.FailedPrecondition:
		return true
	default:
		return false
	}
}

// notify calls OnChange for the signals of changed.
func (p *Phase) notify(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.changed:
		}
		if p.options.OnChange != nil {
			p.options.OnChange()
		}
	}
}

// announce has OnChange called.
func (p *Phase) announce() { signal(p.changed) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// anew has the stream begun at the present: a read succeeded without the token
// that it failed with.
func (p *Phase) anew(err error) {
	if err == nil {
		signal(p.wake)
	}
}

// replace makes the next generation. Decisions that are being made are made
// again where they allow.
func (p *Phase) replace(change func(*generation)) {
	p.change.Lock()
	defer p.change.Unlock()
	next := *p.current.Load()
	change(&next)
	next.number = p.current.Load().number + 1
	p.current.Store(&next)
}

// lose ends what was built on a stream. The next one begins with a read that
// is newer than all of it, and than what we wrote until now.
func (p *Phase) lose() {
	if g := p.current.Load(); g.live || g.ours != "" {
		p.replace(func(g *generation) { *g = generation{} })
	}
}

// advance moves the token without a new generation: nothing has changed.
func (p *Phase) advance(token string) {
	p.change.Lock()
	defer p.change.Unlock()
	next := *p.current.Load()
	next.token = token
	p.current.Store(&next)
}

// empty gives a generation empty caches.
func (p *Phase) empty(g *generation) {
	g.answers, g.lookups = newAnswers(p.options.CacheEntries), newLookups()
}

// proven notes when the stream was known to have delivered everything.
func (p *Phase) proven(at time.Duration) { p.proof.Store(int64(at)) }

// Wrote tells the phase that the gateway itself wrote relationships at a
// ZedToken: no later decision is made on an older state.
func (p *Phase) Wrote(token string) {
	if p.client == nil || token == "" {
		return
	}
	p.replace(func(g *generation) {
		if g.token != token { // else its event was faster than the answer to the write
			g.ours = token
		}
		p.empty(g)
	})
	signal(p.wrote)
	p.announce()
}
