package spicedb

import (
	"context"
	"sync"
	"time"

	v1 "github.com/authzed/authzed-go/proto/authzed/api/v1"
)

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

// stand begins to cache answers: the stream is believed. What is read from now
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

// apply drops what was cached before the events.
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
		return // which proves nothing; what is cached ends with maxSilence
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

// lag drops what was cached: there is a newer state, and no event told of it.
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
