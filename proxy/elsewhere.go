package proxy

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/replica"
	"github.com/toolgate/toolgate/proxy/schemas"
)

const (
	// stateTime bounds the read of what a client had set for a session.
	stateTime = 2 * time.Second
	// stateDelay is how long a change of it waits for others before it is kept.
	stateDelay = 250 * time.Millisecond
	// elsewhereEvery is how often sessions are looked for that belong to another gateway.
	elsewhereEvery = 5 * time.Second
	// settledTime is how long after a change at this gateway those that follow the same
	// servers may have the change, too.
	settledTime = 30 * time.Second
)

// listChanges are the notifications that a client may have missed where it is not known what
// it was told.
func listChanges() map[string]bool {
	all := make(map[string]bool)
	for _, kind := range listKinds {
		all[kind.Changed()] = true
	}
	return all
}

// rebuildSession makes a session of another gateway, which is gone, one of this gateway.
// Its client is told that all lists may have changed. The caller holds the session and must
// release it. It returns nil where there is no such session for the caller. The error says
// that there is no room for it now.
func rebuildSession(g *Gateway, named string, id *gate.Identity, scope Scope) (*Session, error) {
	carried := g.replicas.Carried(named, id.Key())
	if carried == nil || (Scope{Server: carried.Server, Capsule: carried.Capsule, View: View(carried.View), Schemas: schemas.Mode(carried.Schemas)}) != scope {
		return nil, nil
	}
	if err := g.requests.Take(limit.Initializes, id.Key()); err != nil {
		return nil, err
	}
	s := newSession(g, named, id, scope, "http")
	state := s.loadState()
	if state.Ended {
		s.cancel(errSessionEnded)
		return nil, nil
	}
	s.version, s.ready = mcp.Version(carried.Version), true
	s.capabilities, s.features, s.clientInfo = carried.Capabilities, featuresIn(carried.Capabilities), carried.ClientInfo
	s.missed = listChanges()
	servers, _ := g.snapshot.Load().describedServers(s.ctx, id, scope, s.features)
	connected(servers, s.principal, s.capabilities)
	switch err := addSession(g, s); {
	case err == nil:
		g.wg.Go(func() { s.restoreState(id, state) }) // ends with the session
		g.log.Info("a session goes on here: its gateway is gone", "session", s.auditID, "gateway", carried.Owner)
		return s, nil
	case errors.Is(err, errSessionThere): // another request was quicker
		return g.session(named, id, scope), nil
	default:
		g.log.Warn("a session of a gateway that is gone cannot go on here yet", "session", s.auditID, "err", err)
		return nil, err
	}
}

// Returned is called when this gateway is there again, after the others had taken it for
// gone: its sessions may have gone on elsewhere, and ended there.
func Returned(g *Gateway) {
	g.wg.Go(func() { // ends with the gateway: each read is bounded, and ends with it, too
		for _, s := range g.sessions.list() {
			if g.life.Err() != nil {
				return
			}
			if owner, _ := replica.Cut(s.id); s.transport != "http" || owner != g.replicas.Self() {
				continue
			}
			state := s.loadState()
			if state.Ended {
				s.end(errSessionEnded)
				continue
			}
			s.mu.Lock()
			if s.out == nil {
				s.missed = listChanges()
			}
			if state.Level != "" {
				s.level = state.Level
			}
			s.mu.Unlock()
			s.restoreState(s.latest.Load(), state)
		}
	})
}

// endElsewhere ends the sessions here that belong to another gateway: it was out of reach for
// a while, or has come since. What the client has set goes on there. A session with a request,
// a question or a task under way is left until that has ended.
func endElsewhere(g *Gateway) {
	for _, s := range g.sessions.list() {
		owner, _ := replica.Cut(s.id)
		if s.transport != "http" || owner == g.replicas.Self() || g.replicas.Here(s.id) {
			continue
		}
		if !s.busy() && !g.tasks.legacy.sessions(s.principal)[s.id] {
			g.log.Info("a session goes on at the gateway that it belongs to", "session", s.auditID)
			s.end(errSessionEnded)
		}
	}
}

// ChangedElsewhere is called when the lists of another gateway have changed. A client of
// 2026-07-28 that this gateway told of a change may have asked the other one too early, and is
// told again. Who was told nothing is told nothing now.
func ChangedElsewhere(g *Gateway) {
	for _, l := range g.listens.list() {
		l.repeat(time.Now().Add(-settledTime))
	}
}

// saveState keeps what the client has set, for the gateway that may have to go on with the
// session. A client that sets much at once has it kept once.
func (s *Session) saveState() {
	if s.g.opts.SessionStates == nil || s.transport != "http" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.saving {
		s.saving = true
		time.AfterFunc(stateDelay, func() {
			if s.ctx.Err() == nil { // else its end has kept it, or is what is kept
				s.keepState()
			}
		})
	}
}

// keepState keeps what waits to be kept.
func (s *Session) keepState() {
	s.mu.Lock()
	waits := s.saving
	s.saving = false
	state := replica.State{Level: s.level, Subscribed: sortedKeys(s.subscribed)}
	s.mu.Unlock()
	if waits {
		s.g.opts.SessionStates.Save(s.id, state)
	}
}

// loadState returns what the client had set at another gateway. A session goes on without it
// where it cannot be read.
func (s *Session) loadState() replica.State {
	if s.g.opts.SessionStates == nil {
		return replica.State{}
	}
	ctx, cancel := context.WithTimeout(s.ctx, stateTime)
	defer cancel()
	state, err := s.g.opts.SessionStates.Load(ctx, s.id)
	if err != nil {
		s.g.log.Warn("a session goes on without what its client had set", "session", s.auditID, "err", err)
		return replica.State{}
	}
	return state
}

// restoreState sets what the client had set at another gateway, with the rights of an
// identity. What it may not subscribe to any more it is not told about.
func (s *Session) restoreState(id *gate.Identity, state replica.State) {
	s.mu.Lock()
	if s.level == "" {
		s.level = state.Level
	}
	s.mu.Unlock()
	for i, uri := range state.Subscribed {
		raw := mcp.AppendRequest(nil, mcp.StringID("toolgate-restored-"+strconv.Itoa(i)), mcp.MethodSubscribe, mcp.SetMember(nil, "uri", mcp.Quote(uri)))
		msg, err := mcp.Parse(raw, s.g.front.parseLimits())
		if err != nil {
			continue // no client can have named it
		}
		if got := s.postSafely(s.ctx, id, msg, batchResponder{}); got.fault != nil {
			s.g.log.Info("a subscription of a session does not go on here", "session", s.auditID, "err", got.fault.Message)
		}
	}
}
