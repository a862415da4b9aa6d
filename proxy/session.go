package proxy

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/cancel"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/replica"
)

// Session is the state of one legacy client, or of one stdio connection of either era.
// It belongs to the principal that opened it and never authenticates anybody.
type Session struct {
	g         *Gateway
	id        string
	auditID   string // a hash of the id, because the id is a credential
	principal string // key of the principal that owns it
	scope     Scope
	transport string
	began     time.Time
	asks      string // what the ids of its questions begin with

	ctx    context.Context // ends with the session
	cancel context.CancelCauseFunc

	// latest is the caller of the latest request. It decides no request: each has an
	// identity of its own, which may have other rights.
	latest atomic.Pointer[gate.Identity]

	mu           sync.Mutex
	out          outbox         // for messages outside of requests; nil without a stream
	reader       *gate.Identity // who opened out
	channel      *channel       // of a client on a bidirectional stream; else nil
	version      mcp.Version
	capabilities []byte
	features     clientFeatures // as declared in capabilities
	clientInfo   []byte
	level        string
	ready        bool // initialize was answered
	used         time.Time
	holds        int                        // HTTP requests and streams that use the session
	requests     map[string]*cancel.Context // in flight, by the key of the id
	questions    map[string]openQuestion    // the gateway's, by id
	asked        int64
	missed       map[string]bool // list changes while there was no stream
	saving       bool            // what the client has set is about to be kept
	subscribed   map[string]*subscription
}

// openQuestion is a question to the client without an answer yet.
type openQuestion struct {
	rights string // of the request that caused it: only a caller with these rights may answer
	answer chan mcp.Message
}

// outbox is a stream to a client. Offer queues a message without blocking and reports
// whether there was room.
type outbox interface {
	Offer(raw []byte) bool
}

var (
	errSessionEnded = errors.New("the session has ended")
	errDuplicate    = errors.New("a request with this id is in flight")
	errBusy         = errors.New("too many requests in flight (limits.in_flight)")
	// errUninitialized refuses requests before initialize.
	errUninitialized = errors.New("send initialize first")
	// errSessionThere means that a session with this id is in the table.
	errSessionThere = errors.New("the session is there already")
)

// openSession starts a session of an identity, within the limits. initialize is the
// request that opens it; nil where that comes later. The caller holds the session and must
// release it.
func (g *Gateway) openSession(id *gate.Identity, scope Scope, transport string, initialize *mcp.Message) (*Session, error) {
	if transport != "stdio" { // a stdio client is the gateway's own process
		if err := g.requests.Take(limit.Initializes, id.Key()); err != nil {
			return nil, err
		}
	}
	named, err := newSessionID(g, id, scope, transport, initialize)
	if err != nil {
		return nil, err
	}
	s := newSession(g, named, id, scope, transport)
	return s, addSession(g, s)
}

// newSessionID returns the id of a new session. Where gateways share their state, it says
// which of them opened the session and what initialize declared, so that another can
// rebuild it.
func newSessionID(g *Gateway, id *gate.Identity, scope Scope, transport string, initialize *mcp.Message) (string, error) {
	if g.replicas == nil || transport == "stdio" {
		var secret [24]byte
		_, _ = rand.Read(secret[:]) // never fails
		return hex.EncodeToString(secret[:]), nil
	}
	s := replica.Session{
		Owner: g.replicas.Self(), Principal: []byte(id.Key()),
		Server: scope.Server, Capsule: scope.Capsule, View: string(scope.View), Schemas: string(scope.Schemas),
	}
	if initialize != nil {
		asked, _ := initialize.ParamString("protocolVersion")
		s.Version = string(mcp.NegotiateLegacy(mcp.Version(asked)))
		s.Capabilities, s.ClientInfo = initialize.Param("capabilities"), initialize.Param("clientInfo")
	}
	return s.Seal(g.opts.Keys)
}

// newSession returns a session that is not in the table yet.
func newSession(g *Gateway, named string, id *gate.Identity, scope Scope, transport string) *Session {
	s := &Session{g: g, id: named, principal: id.Key(), scope: scope, transport: transport, began: time.Now(), asks: g.replicas.NewAsker()}
	s.used = s.began
	s.latest.Store(id)
	sum := sha256.Sum256([]byte(s.id))
	s.auditID = hex.EncodeToString(sum[:8])
	s.ctx, s.cancel = context.WithCancelCause(g.life)
	if transport == "http" { // whose requests have contexts of their own
		context.AfterFunc(s.ctx, s.cancelRequests)
	}
	return s
}

// addSession adds a session to the table, held for its caller.
func addSession(g *Gateway, s *Session) error {
	displaced, err := g.sessions.add(s)
	if err != nil {
		s.cancel(err)
		return err
	}
	if displaced != nil {
		displaced.finish(errSessionEnded)
	}
	return nil
}

// session returns the session with an id, nil when the identity has none with it:
// nobody can find out about the sessions of others. The caller holds it and must
// release it.
func (g *Gateway) session(id string, who *gate.Identity, scope Scope) *Session {
	return holdSession(g, id, who, func(s *Session) bool { return s.scope == scope })
}

// holdSession is [Gateway.session] for a session of any scope that accept returns true
// for.
func holdSession(g *Gateway, id string, who *gate.Identity, accept func(*Session) bool) *Session {
	key := who.Key()
	s := g.sessions.hold(id, func(s *Session) bool { return s.principal == key && accept(s) })
	if s != nil {
		s.latest.Store(who)
	}
	return s
}

// recipients are the identities that must all be allowed to receive a message outside
// of requests: the one that opened the stream, and that of the latest request, whose
// rights may be narrower.
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

// hasRights reports whether all recipients have the rights of a connection, where that
// has any.
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
	s.keepState()
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

// EndSessions ends the sessions, streams and subscriptions of callers for whom keep
// returns false, such as those whose API key was revoked.
func (g *Gateway) EndSessions(keep func(*gate.Identity) bool) {
	for _, s := range g.sessions.list() {
		if !allOf(s.recipients(), keep) {
			s.end(errSessionEnded)
		}
	}
	g.listens.revoke(keep)
}

// allOf reports whether a condition holds for each identity.
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

// idleSince returns the time since which the session is idle, and whether it is: no
// stream, request or question is open.
func (s *Session) idleSince() (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, s.holds == 0 && s.out == nil && len(s.requests) == 0 && len(s.questions) == 0
}

// busy reports whether the session has more to do than its stream.
func (s *Session) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	holds := s.holds
	if s.out != nil {
		holds-- // its stream
	}
	return holds > 0 || len(s.requests) > 0 || len(s.questions) > 0
}

// begin registers a request, so that it can be cancelled. The returned function ends
// it.
func (s *Session) begin(parent context.Context, id mcp.ID) (context.Context, func(), error) {
	ctx := cancel.New(parent)
	key := id.Key()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.requests[key] != nil:
		ctx.Cancel(nil)
		return nil, nil, errDuplicate
	case len(s.requests) >= s.g.opts.Limits.InFlight:
		ctx.Cancel(nil)
		return nil, nil, errBusy
	}
	if s.requests == nil {
		s.requests = make(map[string]*cancel.Context)
	}
	s.requests[key], s.used = ctx, time.Now()
	if s.ctx.Err() != nil { // cancelRequests may have been here
		ctx.Cancel(errCancelled)
	}
	return ctx, func() {
		s.mu.Lock()
		delete(s.requests, key)
		s.used = time.Now()
		s.mu.Unlock()
		ctx.Cancel(nil)
	}, nil
}

// cancelRequest ends a request that the client cancelled.
func (s *Session) cancelRequest(raw []byte) {
	id, ok := mcp.ParseID(raw)
	if !ok {
		return
	}
	s.mu.Lock()
	running := s.requests[id.Key()]
	s.mu.Unlock()
	if running != nil {
		running.Cancel(errCancelled)
	}
}

// cancelRequests ends all requests, at the end of the session.
func (s *Session) cancelRequests() {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.requests))
	s.mu.Unlock()
	for _, running := range all {
		running.Cancel(errCancelled)
	}
}

// notify sends a message outside of any request. It is lost when the client has no
// stream open or reads too slowly.
func (s *Session) notify(raw []byte) bool {
	s.mu.Lock()
	out := s.out
	s.mu.Unlock()
	return out != nil && out.Offer(raw)
}

// listChanged tells the client about a changed list, now or when it opens its stream.
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

// attach makes a stream of an identity the session's own. It returns false when the
// session has one already.
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

// question sends a request to the client through w, on behalf of an identity, and waits
// for the response.
func (s *Session) question(ctx context.Context, of *gate.Identity, w responder, method string, params []byte) (mcp.Message, error) {
	s.mu.Lock()
	s.asked++
	id := mcp.StringID(s.asks + strconv.FormatInt(s.asked, 10))
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

// resumable reports whether the session's revision has resumable streams.
func (s *Session) resumable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version >= mcp.V20250326
}

// startsWithEmptyEvent reports whether a stream begins with an event that has an id and
// no message, so that it can be resumed from its start (2025-11-25).
func (s *Session) startsWithEmptyEvent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version >= mcp.V20251125
}

// answer delivers a response of the client. It drops one that answers nothing, and one
// from a caller with other rights than the request that caused the question.
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

// received handles a notification or response of the client. The error means one
// notification too many, which is dropped.
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
