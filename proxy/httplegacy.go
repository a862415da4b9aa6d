package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/cancel"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/proxy/replica"
	"github.com/toolgate/toolgate/proxy/stream"
)

// Time limits of the HTTP server.
const (
	readHeaderTime = 10 * time.Second
	readTime       = 60 * time.Second
	idleConnTime   = 120 * time.Second
)

// Limits of one connection of HTTP/2.
const (
	streamsPerConn = 256
	connBuffer     = 256 << 10
	streamBuffer   = 64 << 10
)

// serveLegacy serves one message of a session (2025-03-26 to 2025-11-25
// basic/transports, Streamable HTTP).
func (hf *httpFront) serveLegacy(w http.ResponseWriter, r *http.Request, id *gate.Identity, scope Scope, msg mcp.Message, body []byte) {
	ends := msg.Kind == mcp.KindRequest && hf.g.inFlight.Closed()
	if msg.Kind == mcp.KindRequest && msg.Method == mcp.MethodInitialize && r.Header.Get(mcp.HeaderSession) == "" {
		if !ends || !hf.g.replicas.Away(w, forwardable(r), replica.Of(&msg, body)) {
			hf.legacyInitialize(w, id, scope, &msg)
		}
		return
	}
	if ends && replica.Forwarded(r.Context()) {
		replica.Decline(w)
		return
	}
	if msg.Kind == mcp.KindRequest { // also one that another gateway answers
		defer hf.g.inFlight.Response(msg.Method)()
	}
	s := hf.legacySession(w, r, id, scope, replica.Of(&msg, body))
	if s == nil {
		return
	}
	defer s.release()
	if msg.Kind != mcp.KindRequest {
		if err := s.received(id, msg); err != nil {
			writeBusy(w, "", err)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	answer := hf.newHTTPResponse(w, r, s, id)
	// A disconnect does not cancel the request: the client may come back for the
	// response, and cancels explicitly when it gives up.
	ctx := context.WithoutCancel(cancel.Inner(r.Context()))
	if !revalidated(r.Context()) {
		x := s.exchange(id, msg, answer)
		x.over = &answer.over
		answer.finish(msg.ID, s.postExchange(ctx, x), http.StatusOK)
		answer.release()
		return
	}
	hf.serveRevalidated(ctx, r, s, id, msg, answer)
}

// serveRevalidated serves a request of a session whose caller may lose its access meanwhile. It
// may come back then too, with a new credential.
func (hf *httpFront) serveRevalidated(ctx context.Context, r *http.Request, s *Session, id *gate.Identity, msg mcp.Message, answer *httpResponse) {
	answered := make(chan struct{})
	hf.g.wg.Go(func() { // ends with the request or its session
		defer close(answered)
		answer.finish(msg.ID, s.postSafely(ctx, id, msg, answer), http.StatusOK)
	})
	select {
	case <-answered:
	case <-r.Context().Done():
		if accessRevoked(r.Context()) != nil {
			answer.leave()
			return
		}
		<-answered
	}
}

// postSafely is post for a goroutine of its own, where a panic would end the gateway.
func (s *Session) postSafely(ctx context.Context, id *gate.Identity, msg mcp.Message, w responder) (got response) {
	defer func() {
		if p := recover(); p != nil {
			got = errorResponse(asFault(s.g.panicked(p)))
		}
	}()
	return s.post(ctx, id, msg, w)
}

// legacyInitialize opens a session.
func (hf *httpFront) legacyInitialize(w http.ResponseWriter, id *gate.Identity, scope Scope, msg *mcp.Message) {
	if fault := checkInitialize(msg); fault != nil { // before another session has to make room
		hf.g.opts.Metrics.served(mcp.MethodInitialize, "http", time.Now(), true)
		writeFault(w, http.StatusBadRequest, msg.ID, fault)
		return
	}
	s, err := hf.g.openSession(id, scope, "http", msg)
	if err != nil {
		writeBusy(w, msg.ID, err)
		return
	}
	defer s.release()
	got := hf.g.initialize(s, id, msg)
	if got.fault != nil {
		s.end(errSessionEnded)
		writeFault(w, http.StatusBadRequest, msg.ID, got.fault)
		return
	}
	w.Header()[mcp.HeaderSession] = []string{s.id}
	head, body, tail := envelope(msg.ID, &got)
	writeJSON(w, http.StatusOK, head, body, tail)
}

// legacySession returns the session that a request names, or answers the request, if need
// be by the gateway that has the session. The caller holds the session and must release it.
func (hf *httpFront) legacySession(w http.ResponseWriter, r *http.Request, id *gate.Identity, scope Scope, m replica.Message) *Session {
	msgID := m.ID
	named := r.Header[mcp.HeaderSession]
	if len(named) != 1 {
		writeFault(w, http.StatusBadRequest, msgID, mcp.Errorf(mcp.CodeInvalidRequest,
			"Invalid Request: send initialize first, then the Mcp-Session-Id that it returned"))
		return nil
	}
	if hf.g.replicas.Session(w, forwardable(r), named[0], m) {
		return nil
	}
	s := hf.g.session(named[0], id, scope)
	if s == nil {
		var err error
		if s, err = rebuildSession(hf.g, named[0], id, scope); err != nil {
			writeBusy(w, msgID, err)
			return nil
		}
	}
	if s != nil && s.transport != "http" {
		s.release()
		s = nil
	}
	if s == nil {
		writeFault(w, http.StatusNotFound, msgID, mcp.Errorf(mcp.CodeInvalidRequest, "Session not found"))
		return nil
	}
	if versions := r.Header[mcp.HeaderVersion]; len(versions) > 0 {
		s.mu.Lock()
		negotiated := s.version
		s.mu.Unlock()
		if len(versions) > 1 || mcp.Version(versions[0]) != negotiated {
			s.release()
			writeFault(w, http.StatusBadRequest, msgID, mcp.Errorf(mcp.CodeInvalidRequest,
				"Invalid Request: the session was negotiated for protocol version %s", negotiated))
			return nil
		}
	}
	return s
}

// post serves one request of the session that came in a POST or in a batch.
func (s *Session) post(parent context.Context, id *gate.Identity, msg mcp.Message, w responder) response {
	return s.postExchange(parent, s.exchange(id, msg, w))
}

// postExchange is post for a request of [Session.exchange].
func (s *Session) postExchange(parent context.Context, x *Exchange) response {
	ctx, done, err := s.begin(parent, x.Message.ID)
	if err != nil {
		return s.g.reject(x, err)
	}
	defer done()
	return s.serve(ctx, x)
}

// exchange returns a request of an identity in the session's revision. Only the
// credential of this request decides what it may do, never another request of the
// session.
func (s *Session) exchange(id *gate.Identity, msg mcp.Message, w responder) *Exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := &Exchange{
		Message: msg, Identity: id, Scope: s.scope, Era: mcp.Legacy, Version: s.version, Transport: s.transport,
		Session: s, Capabilities: s.capabilities, ClientInfo: s.clientInfo, LogLevel: s.level, responder: w,
	}
	if _, batch := w.(batchResponder); batch { // a client cannot be asked during a batch
		x.Capabilities = nil
	}
	return x
}

// beforeInitialize returns an error for a legacy request that comes before initialize.
func (x *Exchange) beforeInitialize() error {
	if x.Version != "" || x.Message.Method == mcp.MethodPing || x.Message.Method == mcp.MethodInitialize {
		return nil
	}
	return errUninitialized
}

// serve answers one request that has begun.
func (s *Session) serve(ctx context.Context, x *Exchange) response {
	if x.Era == mcp.Modern {
		return s.g.serveRequest(ctx, x)
	}
	if x.Message.Method == mcp.MethodInitialize {
		return s.g.initialize(s, x.Identity, &x.Message)
	}
	if err := x.beforeInitialize(); err != nil {
		return s.g.reject(x, err)
	}
	return s.g.serveRequest(ctx, x)
}

// legacyStream serves the standalone stream of a session, for messages outside of
// requests.
func (hf *httpFront) legacyStream(w http.ResponseWriter, r *http.Request, id *gate.Identity, scope Scope) {
	if r.Header.Get(mcp.HeaderSession) == "" {
		w.Header().Set("Allow", "POST")
		writeRefused(w, r, http.StatusMethodNotAllowed, "", mcp.Errorf(mcp.CodeInvalidRequest, "A stream needs a session; send initialize first"))
		return
	}
	if !mcp.AcceptsEvents(r.Header["Accept"]) {
		writeFault(w, http.StatusNotAcceptable, "", mcp.Errorf(mcp.CodeInvalidRequest, "The client must accept text/event-stream"))
		return
	}
	resumes := r.Header.Get(mcp.HeaderLastEvent) != ""
	s := hf.legacySession(w, r, id, scope, replica.Message{Settles: resumes, Repeatable: true})
	if s == nil {
		return
	}
	if last := r.Header.Get(mcp.HeaderLastEvent); last != "" {
		defer s.release()
		if err := hf.resume(w, r, s, id, last); err != nil {
			// Not 404, which would tell the client that its session has ended.
			writeFault(w, http.StatusBadRequest, "", mcp.Errorf(mcp.CodeInvalidRequest, "The stream cannot be resumed: %v", err))
		}
		return
	}
	box := hf.g.newQueue()
	if !s.attach(id, box) {
		s.release()
		writeFault(w, http.StatusConflict, "", mcp.Errorf(mcp.CodeInvalidRequest, "The session has a stream already"))
		return
	}
	hf.stream(w, r, s, box, func() {
		s.detach()
		s.release()
	})
}

// legacyEnd ends a session at the request of its client.
func (hf *httpFront) legacyEnd(w http.ResponseWriter, r *http.Request, id *gate.Identity, scope Scope) {
	// It goes where new requests go: a gateway that drains ends its own.
	if s := hf.legacySession(w, r, id, scope, replica.Message{Repeatable: true}); s != nil {
		defer s.release()
		s.end(errSessionEnded)
		if states := hf.g.opts.SessionStates; states != nil {
			states.Save(s.id, replica.State{Ended: true})
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// legacyBatch serves a JSON-RPC batch, which only 2025-03-26 has.
func (hf *httpFront) legacyBatch(w http.ResponseWriter, r *http.Request, id *gate.Identity, scope Scope, body []byte) {
	if r.Header.Get(mcp.HeaderSession) == "" {
		writeFault(w, http.StatusBadRequest, "", mcp.Errorf(mcp.CodeInvalidRequest, "Invalid Request: a batch needs a session of 2025-03-26"))
		return
	}
	defer hf.g.inFlight.Response("")()
	s := hf.legacySession(w, r, id, scope, replica.Message{Body: body})
	if s == nil {
		return
	}
	defer s.release()
	answers, err := s.batch(context.WithoutCancel(r.Context()), id, body, batchResponder{})
	ended := accessRevoked(r.Context())
	switch {
	case ended != nil:
		hf.writeChallenge(w, r, &authChallenge{err: ended})
	case err != nil:
		writeFault(w, http.StatusBadRequest, "", asFault(err))
	case answers == nil:
		w.WriteHeader(http.StatusAccepted)
	default:
		writeJSON(w, http.StatusOK, answers)
	}
}

var errNoBatch = mcp.Errorf(mcp.CodeInvalidRequest, "Invalid Request: only 2025-03-26 has batches")

// batch serves all messages of a batch concurrently and returns the responses as one
// array, nil when there are none.
func (s *Session) batch(ctx context.Context, id *gate.Identity, body []byte, w responder) ([]byte, error) {
	s.mu.Lock()
	version := s.version
	s.mu.Unlock()
	if version != mcp.V20250326 {
		return nil, errNoBatch
	}
	messages, _, err := mcp.SplitBatch(body, s.g.front.parseLimits(), s.g.opts.Limits.Batch)
	if err != nil {
		return nil, err
	}
	answers := make([][]byte, len(messages))
	var all sync.WaitGroup
	for i, raw := range messages {
		msg, err := mcp.Parse(raw, s.g.front.parseLimits())
		switch {
		case err != nil:
			answers[i] = mcp.AppendFault(nil, msg.ID, asFault(err))
		case msg.Kind != mcp.KindRequest:
			_ = s.received(id, msg) // a batch response holds no errors for notifications
		case msg.Method == mcp.MethodInitialize:
			answers[i] = mcp.AppendFault(nil, msg.ID, mcp.Errorf(mcp.CodeInvalidRequest, "Invalid Request: initialize in a batch"))
		default:
			all.Go(func() {
				got := s.post(ctx, id, msg, w)
				if !got.silent {
					head, body, tail := envelope(msg.ID, &got)
					answers[i] = append(append(head, body...), tail...)
				}
			})
		}
	}
	all.Wait()
	var out []byte
	for _, a := range answers {
		if a == nil {
			continue
		}
		if out == nil {
			out = append(out, '[')
		} else {
			out = append(out, ',')
		}
		out = append(out, a...)
	}
	if out != nil {
		out = append(out, ']')
	}
	return out, nil
}

// batchResponder is the responder of a batch, whose response has no place for
// notifications and questions.
type batchResponder struct{}

func (batchResponder) notify([]byte)                    {}
func (batchResponder) ask(context.Context, []byte) bool { return false }

// eventID returns the id of an event. It is bound to the session and its principal.
func (hf *httpFront) eventID(s *Session, kept int64, event int) string {
	id, err := hf.g.opts.Keys.Seal(seal.Event, eventContext(s), fmt.Appendf(nil, "%d.%d", kept, event))
	if err != nil {
		return "" // without an id the stream cannot be resumed, and works otherwise
	}
	return id
}

func eventContext(s *Session) string { return s.principal + "\x00" + s.id }

// resume serves a GET with Last-Event-ID: the rest of a response, first the stored
// events and then new ones. The caller must have the rights of the original request.
func (hf *httpFront) resume(w http.ResponseWriter, r *http.Request, s *Session, id *gate.Identity, last string) error {
	text, err := hf.g.opts.Keys.Open(seal.Event, eventContext(s), last)
	if err != nil {
		hf.g.log.Info("refused an event id that was not made for this session", "principal", s.principal, "session", s.auditID)
		return stream.ErrGone
	}
	left, right, _ := strings.Cut(string(text), ".")
	number, err1 := strconv.ParseInt(left, 10, 64)
	n, err2 := strconv.Atoi(right)
	kept := hf.g.replays.Find(s.id, number)
	if err1 != nil || err2 != nil || kept == nil || kept.Rights() != id.Rights() {
		return stream.ErrGone
	}
	if _, _, _, err := kept.After(n); err != nil {
		return err
	}
	box := stream.NewQueue(1, 0)
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	stop := context.AfterFunc(s.ctx, func() { cancel(errSessionEnded) })
	defer stop()
	var fed sync.WaitGroup
	fed.Go(func() {
		defer cancel(nil)
		for {
			events, more, grown, err := kept.After(n)
			if err != nil {
				return
			}
			for _, e := range events {
				n++
				if box.Put(ctx, hf.identified(s, number, n, e)) != nil {
					return
				}
			}
			if len(events) > 0 {
				continue
			}
			if !more {
				return
			}
			select {
			case <-grown:
			case <-ctx.Done():
				return
			}
		}
	})
	defer fed.Wait()
	defer cancel(nil)
	hf.handlerStream(w, ctx.Done(), r.Context().Done(), box, nil)
	return nil
}

// identified returns a complete event with its id. message is one line already; nil
// stands for the event that opens a stream.
func (hf *httpFront) identified(s *Session, kept int64, n int, message []byte) []byte {
	out := append([]byte("id: "), hf.eventID(s, kept, n)...)
	if message == nil {
		return append(out, "\ndata: \n\n"...)
	}
	out = append(out, '\n')
	out = append(out, eventStart...)
	out = append(out, message...)
	return append(out, eventEnd...)
}
