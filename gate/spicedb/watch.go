package spicedb

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	v1 "github.com/authzed/authzed-go/proto/authzed/api/v1"
	authzed "github.com/authzed/authzed-go/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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

	cursor, delay, said := "", minBackoff, ""
	for ctx.Err() == nil {
		s := stream{p: p, cursor: cursor}
		err := s.follow(ctx)
		p.replace(func(g *generation) { *g = generation{} })
		if ctx.Err() != nil {
			break
		}
		if cursor = s.cursor; tooOld(err) {
			cursor = ""
		}
		if s.stood {
			delay, said = minBackoff, ""
		}
		if text := err.Error(); text != said {
			p.log.Warn("the Watch stream of SpiceDB is broken: decisions are not kept until it stands again", "error", err)
			said = text
		}
		select {
		case <-ctx.Done():
		case <-time.After(delay + rand.N(delay/4)):
		}
		delay = min(2*delay, maxBackoff)
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

// advance moves the token without a new generation: nothing has changed.
func (p *Phase) advance(token string) {
	p.change.Lock()
	defer p.change.Unlock()
	next := *p.current.Load()
	next.token = token
	p.current.Store(&next)
}

// empty gives a generation new room to keep answers in.
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

// stream is one Watch stream, from its opening to its end. Its fields belong to
// the goroutine of follow.
type stream struct {
	p      *Phase
	cursor string // where it began, and then how far it has come
	stood  bool   // it was believed

	heard   bool          // something came since the last probe
	behind  int           // probes in a row that nothing came after
	head    string        // token of a probe that is ahead of the stream
	asked   time.Duration // when that probe was asked
	applied []time.Time   // the last events, at most burst
	waiting string        // token of events that wait to be applied together

	oursCame bool // the event of what we wrote is among those to be applied

	settled, coalesced, grace, ours *time.Timer
}

// probed is the answer to a probe.
type probed struct {
	token string
	asked time.Duration
	err   error
}

// confirmed is the answer to a probe with the generation that it was asked in.
type confirmed struct {
	probed
	number uint64
}

// follow opens the stream and applies what it delivers until it breaks.
func (s *stream) follow(ctx context.Context) error {
	first := s.p.probe(ctx)
	if first.err != nil {
		return first.err
	}
	select {
	case <-s.p.wake: // it was about the stream before
	default:
	}
	changed := s.cursor != first.token
	if s.cursor == "" {
		s.cursor = first.token
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	events, broken := make(chan *v1.WatchResponse), make(chan error, 1)
	wg.Go(func() { broken <- s.p.receive(ctx, s.cursor, events) })

	s.settled, s.coalesced, s.grace, s.ours = time.NewTimer(settle), idle(), idle(), idle()
	probes := make(chan probed, 1)
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	confirms := make(chan confirmed, 1)
	probing, confirming := false, false
	for {
		select {
		case err := <-broken:
			return err
		case event := <-events:
			s.stand(first, changed)
			s.take(event)
		case <-s.settled.C:
			s.stand(first, changed)
		case <-s.coalesced.C:
			s.apply()
		case <-s.p.wrote:
			s.ours.Reset(oursTimeout)
		case <-s.ours.C:
			if g := s.p.current.Load(); g.ours != "" && !confirming {
				confirming = true
				wg.Go(func() { confirms <- confirmed{s.p.probe(ctx), g.number} })
			}
		case found := <-confirms:
			confirming = false
			s.confirm(found)
		case <-s.p.wake:
			return errAnew
		case <-tick.C:
			if !probing && s.stood {
				probing = true
				wg.Go(func() { probes <- s.p.probe(ctx) })
			}
		case found := <-probes:
			probing = false
			s.compare(found)
		case <-s.grace.C:
			if err := s.lag(); err != nil {
				return err
			}
		}
	}
}

// idle is a timer that does not run.
func idle() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// receive hands on what the server sends until the stream breaks or ctx ends.
func (p *Phase) receive(ctx context.Context, cursor string, events chan<- *v1.WatchResponse) error {
	api, err := p.client.connection()
	if err != nil {
		return err
	}
	watch, err := api.Watch(ctx, &v1.WatchRequest{
		OptionalStartCursor: &v1.ZedToken{Token: cursor},
		OptionalUpdateKinds: []v1.WatchKind{
			v1.WatchKind_WATCH_KIND_INCLUDE_RELATIONSHIP_UPDATES,
			v1.WatchKind_WATCH_KIND_INCLUDE_SCHEMA_UPDATES,
			v1.WatchKind_WATCH_KIND_INCLUDE_CHECKPOINTS,
		},
	})
	if err != nil {
		return err
	}
	for {
		event, err := watch.Recv()
		if err != nil {
			return err
		}
		select {
		case events <- event:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stand begins to keep answers: the stream is believed. What is read from now
// on is at least as fresh as the probe, and what changes after it is announced.
func (s *stream) stand(first probed, changed bool) {
	if s.stood {
		return
	}
	s.stood = true
	s.settled.Stop()
	s.p.proven(first.asked)
	s.p.replace(func(g *generation) {
		*g = generation{live: true, token: first.token, ours: g.ours}
		s.p.empty(g)
	})
	s.p.log.Info("the Watch stream of SpiceDB stands")
	if changed {
		s.p.announce()
	}
}

// take notes an event and applies it, or has it applied with others.
func (s *stream) take(event *v1.WatchResponse) {
	s.heard, s.behind = true, 0
	s.grace.Stop()
	s.p.proven(s.p.now())
	token := event.GetChangesThrough().GetToken()
	s.cursor = token
	if token == s.p.current.Load().ours {
		s.oursCame = true
	}
	checkpoint := event.GetIsCheckpoint() && len(event.GetUpdates()) == 0 && !event.GetSchemaUpdated()
	switch {
	case s.waiting != "":
		s.waiting = token
	case checkpoint:
		s.p.advance(token)
	default:
		s.waiting = token
		if !s.crowded() {
			s.apply()
			return
		}
		s.coalesced.Reset(coalesce)
	}
}

// crowded tells whether there are too many events to apply each by itself.
func (s *stream) crowded() bool {
	return len(s.applied) >= burst && time.Since(s.applied[0]) < time.Second
}

// apply drops what was kept before the events.
func (s *stream) apply() {
	token := s.waiting
	s.waiting = ""
	s.coalesced.Stop()
	if s.applied = append(s.applied, time.Now()); len(s.applied) > burst {
		s.applied = s.applied[1:]
	}
	s.p.replace(func(g *generation) {
		g.token = token
		if s.oursCame {
			g.ours = ""
		}
		s.p.empty(g)
	})
	s.oursCame = false
	s.p.announce()
}

// confirm takes the newest state for the one to begin with, after something of
// ours was written whose event did not come by itself.
func (s *stream) confirm(found confirmed) {
	if found.err != nil || s.p.current.Load().number != found.number {
		s.ours.Reset(oursTimeout / 4)
		return
	}
	s.p.replace(func(g *generation) {
		g.token, g.ours = found.token, ""
		s.p.empty(g)
	})
}

// compare looks whether the stream has delivered what the newest state has.
func (s *stream) compare(found probed) {
	if found.err != nil {
		return // which proves nothing; what is kept ends with maxSilence
	}
	heard := s.heard
	s.heard = false
	switch {
	case found.token == s.p.current.Load().token:
		s.behind = 0
		s.p.proven(found.asked)
	case heard:
		// It delivers; the newest event may still be under way.
	default:
		s.head, s.asked = found.token, found.asked
		s.grace.Reset(probeGrace)
	}
}

// lag drops what was kept: there is a newer state, and no event told of it.
// Whether the stream is cut, or the datastore's tokens move by themselves, the
// state that the probe saw is a good one to begin with.
func (s *stream) lag() error {
	s.behind++
	s.p.proven(s.asked)
	s.p.replace(func(g *generation) {
		g.token = s.head
		s.p.empty(g)
	})
	s.p.announce()
	if s.behind >= behindMost {
		return errBehind
	}
	return nil
}

// probe reads at the newest revision, which costs the server little: it tells
// that revision, and whether the schema has what the phase asks for.
func (p *Phase) probe(ctx context.Context) probed {
	found := probed{asked: p.now()}
	permissions := []string{p.names.Permission}
	if p.names.ViewPermission != "" && p.names.ViewPermission != p.names.Permission {
		permissions = append(permissions, p.names.ViewPermission)
	}
	req := &v1.CheckBulkPermissionsRequest{Consistency: (&generation{}).consistency(true)}
	for _, permission := range permissions {
		req.Items = append(req.Items, &v1.CheckBulkPermissionsRequestItem{
			Resource:   &v1.ObjectReference{ObjectType: p.names.Object, ObjectId: "_"},
			Permission: permission,
			Subject:    ref{p.names.Subject, "_"}.subject(),
		})
	}
	found.err = p.client.direct(ctx, "ask SpiceDB for its newest revision", probeTimeout, func(ctx context.Context, api *authzed.Client) error {
		res, err := api.CheckBulkPermissions(ctx, req)
		found.token = res.GetCheckedAt().GetToken()
		if err == nil {
			p.client.health.probed(p.missing(permissions, res.GetPairs()))
		}
		return err
	})
	if found.err == nil && found.token == "" {
		found.err = errors.New("SpiceDB told no revision")
	}
	return found
}

// missing says what the schema lacks for the probe; empty is nothing.
func (p *Phase) missing(permissions []string, pairs []*v1.CheckBulkPermissionsPair) string {
	for i, pair := range pairs {
		if e := pair.GetError(); e != nil && i < len(permissions) {
			failed := &Error{
				Reason: ReasonMisconfigured, Endpoint: p.client.endpoint, Err: status.ErrorProto(e),
				Doing: "ask SpiceDB for " + permissions[i] + " on a " + p.names.Object,
			}
			return failed.Error()
		}
	}
	return ""
}
