package proxy

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/about"
	"github.com/toolgate/toolgate/proxy/refusal"
	"github.com/toolgate/toolgate/proxy/stream"
)

const (
	// writeTimeout bounds one write to a client over HTTP.
	writeTimeout = 30 * time.Second
	// endTime bounds all that is written to a stream once its session has ended, so that no
	// client holds up the end of the gateway.
	endTime = 5 * time.Second
)

// httpResponse is the response to one POST. It is held back until it is complete, so
// that it can go out as plain JSON. A first notification, or the end of the wait, turns
// it into a stream of events.
type httpResponse struct {
	g *Gateway
	w http.ResponseWriter
	r *http.Request
	s *Session // of a legacy client, whose stream can be resumed; else nil
	// id is the caller of the request.
	id *gate.Identity
	// over is that of the [Exchange]. Only the goroutine of the request uses it.
	over bool

	mu        sync.Mutex
	timer     *time.Timer
	kept      *stream.Stream // the events of the stream, for a client that resumes it
	streaming bool
	finished  bool
	broken    bool // the client is gone
}

func (hf *httpFront) newHTTPResponse(w http.ResponseWriter, r *http.Request, s *Session, id *gate.Identity) *httpResponse {
	a := &httpResponse{g: hf.g, w: w, r: r, s: s, id: id}
	a.mu.Lock() // tick reads the timer
	defer a.mu.Unlock()
	a.timer = time.AfterFunc(hf.g.opts.Limits.JSONWait, a.tick)
	return a
}

// tick begins the stream when the wait is over. From then on it sends comments that
// keep the stream alive.
func (a *httpResponse) tick() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.finished || a.broken {
		return
	}
	if !a.streaming {
		a.begin()
	}
	a.write([]byte(":\n\n"))
}

// begin sends the headers of the stream; mu is held.
func (a *httpResponse) begin() {
	a.streaming = true
	streamHeaders(a.w.Header())
	a.w.WriteHeader(http.StatusOK)
	if a.s == nil || !a.s.resumable() {
		return
	}
	a.kept = a.g.replays.Open(a.s.id, a.id.Rights())
	if a.s.startsWithEmptyEvent() {
		a.event(nil, false)
	}
}

// event sends one message and stores it for a client that resumes the stream; mu is
// held. A nil message opens a stream that can be resumed.
func (a *httpResponse) event(message []byte, last bool) {
	if a.kept == nil {
		a.write(eventStart, message, eventEnd)
		return
	}
	n := a.kept.Add(message, last)
	a.write(a.g.front.identified(a.s, a.kept.ID(), n, message))
}

func streamHeaders(h http.Header) {
	h["Content-Type"] = []string{"text/event-stream"}
	h["Cache-Control"] = []string{"no-cache, no-transform"}
	h["X-Accel-Buffering"] = []string{"no"}
}

// write sends bytes of the stream and flushes them; mu is held.
func (a *httpResponse) write(parts ...[]byte) {
	if a.broken {
		return
	}
	rc := http.NewResponseController(a.w)
	_ = rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	for _, p := range parts {
		if _, err := a.w.Write(p); err != nil {
			a.broken = true
			return
		}
	}
	if rc.Flush() != nil {
		a.broken = true
	}
	a.timer.Reset(a.g.opts.Limits.KeepAlive)
}

var (
	eventStart = []byte("event: message\ndata: ")
	eventEnd   = []byte("\n\n")
)

// notify implements [responder].
func (a *httpResponse) notify(raw []byte) { a.send(raw) }

// ask implements [responder].
func (a *httpResponse) ask(_ context.Context, raw []byte) bool { return a.send(raw) }

func (a *httpResponse) send(raw []byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.finished || a.broken && a.kept == nil {
		return false
	}
	if !a.streaming {
		a.begin()
	}
	a.event(oneLine(raw), false)
	return !a.broken || a.kept != nil
}

// oneLine returns a message without line breaks, which the data line of an event cannot
// hold.
func oneLine(raw []byte) []byte {
	if mcp.Compact(raw) {
		return raw
	}
	return mcp.AppendLine(make([]byte, 0, len(raw)), raw)
}

// finish sends the response.
func (a *httpResponse) finish(id mcp.ID, r response, status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.timer.Stop()
	if a.finished {
		return
	}
	a.finished = true
	if r.challenge != nil && !a.streaming {
		a.g.front.writeChallenge(a.w, a.r, &authChallenge{err: r.challenge.err, id: id, fault: r.challenge.fault})
		return
	}
	if r.silent {
		if a.kept != nil {
			a.kept.End()
		}
		if !a.streaming {
			a.w.WriteHeader(http.StatusAccepted) // cancelled: there is no response
		}
		return
	}
	head, body, tail := envelope(id, &r)
	if whole := r.memory.Extend(body, len(head), len(tail)); whole != nil { // one write for all of it
		copy(whole, head)
		copy(whole[len(head)+len(body):], tail)
		head, body, tail = nil, whole, nil
	}
	switch {
	case a.kept != nil:
		a.event(oneLine(slices.Concat(head, body, tail)), true)
	case a.streaming:
		a.write(eventStart, head, oneLine(body), tail, eventEnd)
	default:
		writeJSON(a.w, status, head, body, tail)
	}
	r.memory.Free()
}

// release lets the server of a request use its memory, the header among it, for a later one, if
// all that is left of its call is what a server behind the gateway keeps. That has no header, and
// no context of the request but what [cancel.Inner] returns.
func (a *httpResponse) release() {
	if own, ok := a.w.(interface{ ReleaseRequest() }); ok && a.over {
		own.ReleaseRequest()
	}
}

// leave detaches the client while its request goes on. Later messages are stored for a
// stream that resumes this one, where it can be resumed. Nothing is written to the
// client after it.
func (a *httpResponse) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.finished && !a.streaming {
		a.begin()
	}
	a.broken = true
	a.timer.Stop()
}

// envelope returns the parts of a response. A large result is not copied.
func envelope(id mcp.ID, r *response) (head, body, tail []byte) {
	if r.fault != nil {
		return mcp.AppendFault(nil, id, r.fault), nil, nil
	}
	head = make([]byte, 0, 48+len(id))
	head = append(head, `{"jsonrpc":"2.0","id":`...)
	head = append(head, id...)
	head = append(head, `,"result":`...)
	if r.rest != nil {
		return head, r.result, slices.Concat(r.rest, closing)
	}
	return head, r.result, closing
}

var closing = []byte("}")

// contentJSON is never changed: a header that is set or added to gets a slice of its own.
var contentJSON = []string{"application/json"}

// wholeWriter is a response that is written at once, without a header for its type and length.
type wholeWriter interface {
	SetWriteDeadline(t time.Time) error
	WriteWhole(status int, contentType string, parts ...[]byte) error
}

func writeJSON(w http.ResponseWriter, status int, parts ...[]byte) {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	until := time.Now().Add(writeTimeout + time.Duration(size>>20)*time.Second)
	if whole, ok := w.(wholeWriter); ok {
		_ = whole.SetWriteDeadline(until)
		_ = whole.WriteWhole(status, contentJSON[0], parts...) // the client is gone
		return
	}
	h := w.Header()
	h["Content-Type"] = contentJSON
	h["Content-Length"] = []string{strconv.Itoa(size)}
	_ = http.NewResponseController(w).SetWriteDeadline(until)
	w.WriteHeader(status)
	for _, p := range parts {
		if len(p) == 0 {
			continue
		}
		if _, err := w.Write(p); err != nil {
			return
		}
	}
}

// writeFault refuses a request before it is dispatched. The body is always JSON-RPC:
// clients decide by it whether to try another era.
func writeFault(w http.ResponseWriter, status int, id mcp.ID, fault *mcp.Error) {
	writeJSON(w, status, mcp.AppendFault(nil, id, fault))
}

// writeRefused is writeFault for a request that a browser may have made. The status and
// the headers are the same for everybody.
func writeRefused(w http.ResponseWriter, r *http.Request, status int, id mcp.ID, fault *mcp.Error) {
	if about.Browser(r) {
		about.Write(w, status, fault.Message+".\n\n"+about.Text)
		return
	}
	writeFault(w, status, id, fault)
}

// writeBusy answers a request that exceeds a rate or finds no room. err is a
// [*refusal.Error].
func writeBusy(w http.ResponseWriter, id mcp.ID, err error) {
	var e *refusal.Error
	if !errors.As(err, &e) {
		writeFault(w, http.StatusServiceUnavailable, id, asFault(err))
		return
	}
	status := http.StatusTooManyRequests
	if e.Unavailable {
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Retry-After", strconv.FormatInt(int64(math.Ceil(e.RetryAfter.Seconds())), 10))
	writeFault(w, status, id, e.Fault())
}

// event returns the parts of an event. A raw that begins with an id line is an event
// already.
func event(raw []byte) [][]byte {
	if len(raw) > 0 && raw[0] != '{' && raw[0] != '[' {
		return [][]byte{raw}
	}
	return [][]byte{eventStart, oneLine(raw), eventEnd}
}

// stream writes a long-lived stream of events: the GET stream of a session or the
// stream of the HTTP+SSE transport. ended is called at its end, which may be after the
// handler has returned.
func (hf *httpFront) stream(w http.ResponseWriter, r *http.Request, s *Session, box *stream.Queue, ended func(), first ...[]byte) {
	if !revalidated(r.Context()) { // else the stream ends with its request
		streamHeaders(w.Header())
		if out := stream.Take(w, r, writeTimeout); out != nil {
			hf.g.wg.Go(func() { // ends soon after the session, or with the connection
				defer func() { _ = out.Close(endTime) }() // the client may have closed it
				defer func() {
					if p := recover(); p != nil { // it would end the gateway here
						_ = hf.g.panicked(p)
					}
				}()
				defer ended()
				defer context.AfterFunc(s.ctx, func() { out.End(endTime) })()
				write := func(parts ...[]byte) bool { return out.Send(writeTimeout, parts...) }
				hf.carry(s.ctx.Done(), out.Gone(), box, write, first)
			})
			return
		}
	}
	defer ended()
	hf.handlerStream(w, s.ctx.Done(), r.Context().Done(), box, first)
}

// handlerStream is a stream that ends before its handler returns.
func (hf *httpFront) handlerStream(w http.ResponseWriter, over, gone <-chan struct{}, box *stream.Queue, first [][]byte) {
	streamHeaders(w.Header())
	rc := http.NewResponseController(w)
	w.WriteHeader(http.StatusOK)
	write := func(parts ...[]byte) bool {
		_ = rc.SetWriteDeadline(time.Now().Add(writeTimeout))
		for _, p := range parts {
			if _, err := w.Write(p); err != nil {
				return false
			}
		}
		return rc.Flush() == nil
	}
	hf.carry(over, gone, box, write, first)
}

// carry writes what is queued until over or gone is closed. What was queued before over is
// still written.
func (hf *httpFront) carry(over, gone <-chan struct{}, box *stream.Queue, write func(...[]byte) bool, first [][]byte) {
	if !write(first...) {
		return
	}
	alive := time.NewTicker(hf.g.opts.Limits.KeepAlive)
	defer alive.Stop()
	for {
		ok := true
		select {
		case <-box.Waiting():
			if raw := box.Take(); raw != nil {
				ok = write(event(raw)...)
			}
		case <-alive.C:
			ok = write([]byte(":\n\n"))
		case <-over:
			for raw := box.Take(); raw != nil && ok; raw = box.Take() {
				ok = write(event(raw)...)
			}
			return
		case <-gone:
			return
		}
		if !ok {
			return
		}
	}
}
