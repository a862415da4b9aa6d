package proxy

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/limit"
)

// Session is the state of one legacy client, or of one stdio connection of
// either era. It belongs to the principal that opened it and is never an
// authentication of its own.
type Session struct {
	g         *Gateway
	id        string
	auditID   string // a hash of the id, which itself is a credential
	principal string // the key of the principal that it belongs to
	scope     Scope
	transport string
	began     time.Time

	ctx    context.Context // ends with the session
	cancel context.CancelCauseFunc

	// latest is the caller of the latest request. No request is decided by it: each
	// brings an identity of its own, which may have other rights.
	latest atomic.Pointer[gate.Identity]

	mu           sync.Mutex
	out          outbox         // where messages outside of requests go; nil when nowhere
	reader       *gate.Identity // who opened out
	channel      *channel       // of a client on one shared channel; else nil
	version      mcp.Version
	capabilities []byte
	features     clientFeatures // what capabilities declares
	clientInfo   []byte
	level        string
	ready        bool // initialize was answered
	used         time.Time
	holds        int                                // HTTP requests and streams that use the session
	requests     map[string]context.CancelCauseFunc // in flight, by the key of the id
	questions    map[string]openQuestion            // of ours, by id
	asked        int64
	missed       map[string]bool // list changes while there was no stream
	subscribed   map[string]*subscription
}

// openQuestion is a question to the client that it has not answered yet.
type openQuestion struct {
	rights string // of the request that caused it: no other token answers for it
	answer chan mcp.Message
}

// outbox is a stream to a client. offer queues a message without blocking and
// tells whether there was room.
type outbox interface {
	Offer(raw []byte) bool
}

var (
	errSessionEnded = errors.New("the session has ended")
	errDuplicate    = errors.New("a request with this id is in flight")
	errBusy         = errors.New("too many requests in flight (limits.in_flight)")
	// errUninitialized is for what comes before initialize.
	errUninitialized = errors.New("send initialize first")
)

// openSession starts a session of an identity, within the caps. The caller holds
// it and releases it.
func (g *Gateway) openSession(id *gate.Identity, scope Scope, transport string) (*Session, error) {
	if transport != "stdio" { // whose client is a process of ours
		if err := g.requests.Take(limit.Initializes, id.Key()); err != nil {
			return nil, err
		}
	}
	var secret [24]byte
	_, _ = rand.Read(secret[:]) // never fails
	s := &Session{g: g, id: hex.EncodeToString(secret[:]), principal: id.Key(), scope: scope, transport: transport, began: time.Now()}
	s.used = s.began
	s.latest.Store(id)
	sum := sha256.Sum256([]byte(s.id))
	s.auditID = hex.EncodeToString(sum[:8])
	s.ctx, s.cancel = context.WithCancelCause(g.life)

	displaced, err := g.sessions.add(s)
	if err != nil {
		s.cancel(err)
		return nil, err
	}
	if displaced != nil {
		displaced.finish(errSessionEnded)
	}
	return s, nil
}

// session returns the session with an id, nil when there is none that belongs
// to the identity: whose it is cannot be found out. The caller holds it and
// releases it.
func (g *Gateway) session(id string, who *gate.Identity, scope Scope) *Session {
	key := who.Key()
	s := g.sessions.hold(id, func(s *Session) bool { return s.principal == key && s.scope == scope })
	if s != nil {
		s.latest.Store(who)
	}
	return s
}

// recipients are the identities that must all be allowed to hear what is said outside
// of requests: the one that opened the stream on which it is said, and that of the
// latest request, which may have fewer rights by now.
func (s *Session) recipients() []*gate.Identity {
	latest := s.latest.Load()
	s.mu.Lock()
	reader := s.reader
	s.mu.Unlock()
	if reader == nil || reader.Rights() == latest.Rights() {
		return []*gate.Identity{latest}
	}
	return []*gate.Identity{latest, reader}
}

// hasRights tells whether all who hear a session have the rights of a connection,
// where that has any.
func (s *Session) hasRights(rights string) bool {
	return rights == "" || !slices.ContainsFunc(s.recipients(), func(id *gate.Identity) bool { return id.Rights() != rights })
}

// end closes the session and everything that it holds.
func (s *Session) end(why error) {
	if s.g.sessions.remove(s) {
		s.finish(why)
	}
}

// finish closes what a session holds that is out of the table.
func (s *Session) finish(why error) {
	s.g.opts.Metrics.sessionEnded(s.transport, s.began)
	s.cancel(why)
	s.g.watches.unsubscribeAll(s)
	s.g.replays.Forget(s.id)
	for _, m := range s.g.config.Load().Mounts {
		if ender, ok := m.Backend.(SessionEnder); ok {
			ender.EndSession(s.principal, s.id)
		}
	}
}

// EndSessions ends the sessions, streams and subscriptions of every caller that
// keep does not know any more, such as those whose API key was revoked.
func (g *Gateway) EndSessions(keep func(*gate.Identity) bool) {
	for _, s := range g.sessions.list() {
		if !allOf(s.recipients(), keep) {
			s.end(errSessionEnded)
		}
	}
	g.listens.revoke(keep)
}

// allOf tells whether something holds for each of some identities.
func allOf(ids []*gate.Identity, holds func(*gate.Identity) bool) bool {
	return !slices.ContainsFunc(ids, func(id *gate.Identity) bool { return !holds(id) })
}

// touch marks the session as used.
func (s *Session) touch() {
	s.mu.Lock()
	s.used = time.Now()
	s.mu.Unlock()
}

// hold keeps the session from making room for another one.
func (s *Session) hold() {
	s.mu.Lock()
	s.holds++
	s.mu.Unlock()
}

// release ends one hold.
func (s *Session) release() {
	s.mu.Lock()
	s.holds--
	s.used = time.Now()
	s.mu.Unlock()
}

// idleSince returns since when nothing has happened on the session, and whether
// nothing is under way: no stream, no request and no question to the client.
func (s *Session) idleSince() (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, s.holds == 0 && s.out == nil && len(s.requests) == 0 && len(s.questions) == 0
}

// begin registers a request, so that it can be cancelled. The returned
// function ends it.
func (s *Session) begin(parent context.Context, id mcp.ID) (context.Context, func(), error) {
	ctx, cancel := context.WithCancelCause(parent)
	key := id.Key()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.requests[key] != nil:
		cancel(nil)
		return nil, nil, errDuplicate
	case len(s.requests) >= s.g.opts.Limits.InFlight:
		cancel(nil)
		return nil, nil, errBusy
	}
	if s.requests == nil {
		s.requests = make(map[string]context.CancelCauseFunc)
	}
	s.requests[key], s.used = cancel, time.Now()
	return ctx, func() {
		s.mu.Lock()
		delete(s.requests, key)
		s.used = time.Now()
		s.mu.Unlock()
		cancel(nil)
	}, nil
}

// cancelRequest ends a request that the client gave up.
func (s *Session) cancelRequest(raw []byte) {
	id, ok := mcp.ParseID(raw)
	if !ok {
		return
	}
	s.mu.Lock()
	cancel := s.requests[id.Key()]
	s.mu.Unlock()
	if cancel != nil {
		cancel(errCancelled)
	}
}

// notify sends a message outside of any request; it is lost when the client
// has no stream open, or reads too slowly.
func (s *Session) notify(raw []byte) bool {
	s.mu.Lock()
	out := s.out
	s.mu.Unlock()
	return out != nil && out.Offer(raw)
}

// listChanged tells the client about a changed list, now or when it opens its
// stream.
func (s *Session) listChanged(method string) {
	s.mu.Lock()
	ready := s.ready && s.version.Era() == mcp.Legacy
	s.mu.Unlock()
	if !ready {
		return
	}
	if s.notify(mcp.AppendNotification(nil, method, nil)) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.missed == nil {
		s.missed = make(map[string]bool)
	}
	s.missed[method] = true
}

// attach makes a stream of an identity the session's own; false when it has one
// already.
func (s *Session) attach(id *gate.Identity, out outbox) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out != nil {
		return false
	}
	s.out, s.reader, s.used = out, id, time.Now()
	for _, method := range sortedKeys(s.missed) {
		out.Offer(mcp.AppendNotification(nil, method, nil))
	}
	s.missed = nil
	return true
}

func (s *Session) detach() {
	s.mu.Lock()
	s.out, s.reader, s.used = nil, nil, time.Now()
	s.mu.Unlock()
}

// question sends a request to the client by the given way, for a request of an
// identity, and waits for its answer.
func (s *Session) question(ctx context.Context, of *gate.Identity, w responder, method string, params []byte) (mcp.Message, error) {
	s.mu.Lock()
	s.asked++
	id := mcp.StringID("toolgate-" + strconv.FormatInt(s.asked, 10))
	answer := make(chan mcp.Message, 1)
	if s.questions == nil {
		s.questions = make(map[string]openQuestion)
	}
	s.questions[id.Key()] = openQuestion{of.Rights(), answer}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.questions, id.Key())
		s.mu.Unlock()
	}()
	if !w.ask(ctx, mcp.AppendRequest(nil, id, method, params)) {
		return mcp.Message{}, errSessionEnded
	}
	select {
	case msg := <-answer:
		return msg, nil
	case <-ctx.Done():
		if params := append(append([]byte(`{"requestId":`), id...), '}'); s.ctx.Err() == nil {
			w.notify(mcp.AppendNotification(nil, mcp.NotifyCancelled, params))
		}
		return mcp.Message{}, context.Cause(ctx)
	case <-s.ctx.Done():
		return mcp.Message{}, errSessionEnded
	}
}

// resumable tells whether the session's revision has resumable streams.
func (s *Session) resumable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version >= mcp.V20250326
}

// startsWithEmptyEvent tells whether a stream begins with an event that has an id and no
// message, so that it can be resumed from its start (2025-11-25).
func (s *Session) startsWithEmptyEvent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version >= mcp.V20251125
}

// answer hands over what the client answered. An answer to nothing is dropped, and
// one that came with other rights than the request which it is about.
func (s *Session) answer(id *gate.Identity, msg mcp.Message) {
	s.mu.Lock()
	open, ok := s.questions[msg.ID.Key()]
	if ok = ok && open.rights == id.Rights(); ok {
		delete(s.questions, msg.ID.Key())
	}
	s.mu.Unlock()
	if ok {
		open.answer <- msg
	}
}

// received takes a notification or an answer of the client, which came with an
// identity. The error is that of one notification too many, which is dropped.
func (s *Session) received(id *gate.Identity, msg mcp.Message) error {
	s.touch()
	switch {
	case msg.Kind == mcp.KindResponse:
		s.answer(id, msg)
	case msg.Method == mcp.NotifyCancelled:
		if err := s.g.requests.Take(limit.Cancels, s.principal); err != nil {
			return err
		}
		s.cancelRequest(msg.Param("requestId"))
	default:
		return s.g.requests.Take(limit.Notifications, s.principal)
	}
	return nil
}
