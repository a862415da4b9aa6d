package proxy

import (
	"context"
	"net/http"
	"sync"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/replica"
	"github.com/toolgate/toolgate/proxy/stream"
)

// channel is a client on a bidirectional stream: stdio, or HTTP+SSE. Every message to
// it goes through one queue and one writer.
type channel struct {
	s   *Session
	box *stream.Queue
	wg  sync.WaitGroup

	mu      sync.Mutex
	running int  // requests without a response yet
	closed  bool // no request may begin any more

	// ended is closed when the client's input has ended. Requests before that are still
	// answered.
	ended chan struct{}
}

// newChannel returns the channel of a session that id opened.
func newChannel(s *Session, id *gate.Identity) *channel {
	d := &channel{s: s, box: s.g.newQueue(), ended: make(chan struct{})}
	s.mu.Lock()
	s.out, s.reader, s.channel = d.box, id, d
	s.mu.Unlock()
	return d
}

// notify implements [responder]. A client that reads too slowly loses notifications.
// Otherwise calls would hold their permits for it.
func (d *channel) notify(raw []byte) { d.box.Offer(raw) }

// ask implements [responder].
func (d *channel) ask(ctx context.Context, raw []byte) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(d.s.ctx, cancel)
	defer stop()
	return d.box.Put(ctx, raw) == nil
}

// put queues a message that must not be lost. It waits while the queue is full. A
// client that reads so slowly that a response cannot be queued in time is disconnected.
func (d *channel) put(raw []byte) {
	if d.box.Offer(raw) {
		return
	}
	ctx, cancel := context.WithTimeout(d.s.ctx, writeTimeout)
	defer cancel()
	if d.box.Put(ctx, raw) != nil {
		d.s.end(errSessionEnded)
	}
}

// run serves a request in a goroutine of its own. It returns false when as many
// requests as allowed are in flight or wait for a slow client, and once the client has
// gone.
func (d *channel) run(serve func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.running >= d.s.g.opts.Limits.InFlight {
		return false
	}
	d.running++
	d.wg.Go(func() {
		defer func() {
			d.mu.Lock()
			d.running--
			d.mu.Unlock()
		}()
		serve()
	})
	return true
}

// drain stops new requests and waits for those under way.
func (d *channel) drain() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.wg.Wait()
}

// receive handles one message from the client, sent with an identity. Requests run in
// goroutines of their own; the session bounds their number. The reading goroutine
// itself queues refusals, so that a client that does not read is not read from either.
// The claim is released once the message is answered.
func (d *channel) receive(id *gate.Identity, raw []byte, claim *limit.Claim) {
	if !d.startMessage(id, raw, claim.Release) {
		claim.Release()
	}
}

// startMessage is receive for one message. It returns true when it has started
// something that calls release at its end.
func (d *channel) startMessage(id *gate.Identity, raw []byte, release func()) bool {
	g := d.s.g
	if mcp.IsArray(raw) {
		return d.batch(id, raw, release)
	}
	msg, err := mcp.Parse(raw, g.front.parseLimits())
	if err != nil {
		d.put(mcp.AppendFault(nil, msg.ID, asFault(err)))
		return false
	}
	if msg.Kind != mcp.KindRequest {
		_ = d.s.received(id, msg) // nobody waits for a response
		return false
	}
	x, err := d.exchange(id, msg)
	if err != nil {
		d.answer(msg.ID, d.s.g.reject(x, err))
		return false
	}
	ctx, done, err := d.s.begin(d.s.ctx, msg.ID) // here, so that a cancellation that follows finds the request
	if err != nil {
		d.answer(msg.ID, d.s.g.reject(x, err))
		return false
	}
	written := g.inFlight.Response(msg.Method)
	serve := func() {
		defer written()
		got := d.s.serve(ctx, x)
		done()
		d.answer(msg.ID, got)
	}
	switch {
	case x.Era == mcp.Legacy && (msg.Method == mcp.MethodInitialize || msg.Method == mcp.MethodSetLevel):
		serve() // in order, before the messages that follow
		return false
	case !d.run(func() { defer release(); serve() }):
		done()
		written()
		d.answer(msg.ID, d.s.g.reject(x, errBusy))
		return false
	}
	return true
}

// exchange returns a request of the client in its revision: on stdio each request may
// be of either era.
func (d *channel) exchange(id *gate.Identity, msg mcp.Message) (*Exchange, error) {
	if d.s.transport != "stdio" || msg.Meta(mcp.MetaVersion) == nil {
		x := d.s.exchange(id, msg, d)
		if msg.Method == mcp.MethodDiscover && d.s.transport == "stdio" {
			return x, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: _meta must have %s", mcp.MetaVersion)
		}
		return x, x.beforeInitialize()
	}
	x := &Exchange{
		Message: msg, Identity: id, Scope: d.s.scope, Transport: d.s.transport, Session: d.s, responder: d,
	}
	if fault := x.modernMeta(); fault != nil {
		return x, fault
	}
	return x, nil
}

func (d *channel) batch(id *gate.Identity, raw []byte, release func()) (runs bool) {
	runs = d.run(func() {
		defer release()
		defer d.s.g.inFlight.Response("")()
		answers, err := d.s.batch(d.s.ctx, id, raw, d)
		switch {
		case err != nil:
			d.put(mcp.AppendFault(nil, "", asFault(err)))
		case answers != nil:
			d.put(answers)
		}
	})
	if !runs {
		d.put(mcp.AppendFault(nil, "", invalid(errBusy)))
	}
	return runs
}

func (d *channel) answer(id mcp.ID, got response) {
	if got.silent {
		return
	}
	head, body, tail := envelope(id, &got)
	out := make([]byte, 0, len(head)+len(body)+len(tail))
	out = append(append(append(out, head...), body...), tail...)
	d.put(out)
}

// serveSSE serves the stream of the HTTP+SSE transport (2024-11-05 basic/transports).
// The session ends with its stream.
func (hf *httpFront) serveSSE(w http.ResponseWriter, r *http.Request, id *gate.Identity, scope Scope) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET")
		writeFault(w, http.StatusMethodNotAllowed, "", mcp.Errorf(mcp.CodeInvalidRequest, "Method not allowed"))
		return
	}
	s, err := hf.g.openSession(id, scope, "sse", nil)
	if err != nil {
		writeBusy(w, "", err)
		return
	}
	d := newChannel(s, id)
	ended := func() {
		s.cancel(errSessionEnded)
		d.drain()
		s.end(errSessionEnded)
		s.release()
	}
	hf.stream(w, r, s, d.box, ended, []byte("event: endpoint\ndata: "+hf.g.opts.PublicURL+"/message?sessionId="+s.id+"\n\n"))
}

// serveMessage receives the messages of an HTTP+SSE client.
func (hf *httpFront) serveMessage(w http.ResponseWriter, r *http.Request, id *gate.Identity) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		writeFault(w, http.StatusMethodNotAllowed, "", mcp.Errorf(mcp.CodeInvalidRequest, "Method not allowed"))
		return
	}
	named := r.URL.Query().Get("sessionId")
	s := holdSession(hf.g, named, id, func(s *Session) bool { return s.transport == "sse" })
	if s != nil {
		defer s.release()
	}
	here := s != nil && s.channel != nil
	if !here && hf.g.replicas == nil {
		sessionNotFound(w)
		return
	}
	if !hf.checkHeaders(w, r) {
		return
	}
	claim := hf.g.opts.Messages.Claim(id.Key())
	body, ok := hf.readMessage(w, r, claim)
	if !ok {
		claim.Release()
		return
	}
	if !here { // another gateway may have the stream, with which the session ends
		defer claim.Release()
		if !hf.g.replicas.Session(w, forwardable(r), named, replica.Message{Body: body, Settles: true}) {
			sessionNotFound(w)
		}
		return
	}
	w.WriteHeader(http.StatusAccepted)
	_ = http.NewResponseController(w).Flush()
	s.channel.receive(id, body, claim)
}

func sessionNotFound(w http.ResponseWriter) {
	writeFault(w, http.StatusNotFound, "", mcp.Errorf(mcp.CodeInvalidRequest, "Session not found"))
}
