package transport

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"regexp"
	"sync"
	"sync/atomic"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Mux correlates the messages of a channel that all requests share: the
// stdout of a process or the stream of an HTTP+SSE server.
//
// Attribution is never guessed: a notification belongs to the request whose
// progress token it carries, any other notification or request of the server
// to the only askable request in flight, or to none.
type Mux struct {
	Log     *slog.Logger
	limits  Limits
	inbound func(mcp.Message) // what belongs to no request
	// Several principals share the channel: then nothing is attributed by
	// being the only call in flight, because the server may still talk about
	// an earlier one.
	Several bool

	mu      sync.Mutex
	pending map[string]*pending // by the key of the id
	err     error
	lost    chan struct{}

	lossy bool // a notification was dropped, and the log says so
}

// pending is one request in flight. Its queue is filled by the reader and
// drained by the goroutine of the request. It is bounded in messages
// (Limits.Events) and in bytes (Limits.Result), but that an empty one takes any
// message.
type pending struct {
	askable   bool
	stream    bool // of a subscription
	suspended *atomic.Bool

	mu     sync.Mutex
	queue  []mcp.Message
	bytes  int // of the queue
	answer *mcp.Message
	err    error         // instead of an answer
	wake   chan struct{} // capacity 1
}

func NewMux(log *slog.Logger, limits Limits, inbound func(mcp.Message)) *Mux {
	return &Mux{
		Log: log, limits: limits, inbound: inbound,
		pending: make(map[string]*pending), lost: make(chan struct{}),
	}
}

// RoundTrip registers a request, lets write send it and waits for the answer.
func (m *Mux) RoundTrip(ctx context.Context, req *Request, write func([]byte) error) (mcp.Message, error) {
	p := &pending{askable: req.Askable, stream: req.Stream, suspended: req.Suspended, wake: make(chan struct{}, 1)}
	key := req.ID.Key()
	m.mu.Lock()
	if m.err != nil {
		m.mu.Unlock()
		return mcp.Message{}, &undelivered{m.err}
	}
	m.pending[key] = p
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		delete(m.pending, key)
		m.mu.Unlock()
	}()

	if err := write(req.Raw); err != nil {
		return mcp.Message{}, err
	}
	for {
		msg, what, err := p.next()
		switch {
		case what == arrivedAnswer:
			return msg, err
		case what == arrivedMessage && ctx.Err() != nil:
			return mcp.Message{}, context.Cause(ctx) // a flood does not outlast it
		case what == arrivedMessage:
			if req.Arrived != nil {
				req.Arrived(msg)
			}
			continue
		}
		select {
		case <-p.wake:
		case <-ctx.Done():
			return mcp.Message{}, context.Cause(ctx)
		case <-m.lost:
			if p.unanswered() {
				return mcp.Message{}, m.Cause()
			}
		}
	}
}

// Deliver hands one message to whom it belongs. It never blocks on a request.
func (m *Mux) Deliver(msg mcp.Message) {
	switch msg.Kind {
	case mcp.KindInvalid:
		return
	case mcp.KindResponse:
		m.mu.Lock()
		p := m.pending[msg.ID.Key()]
		m.mu.Unlock()
		if p != nil { // else unknown, answered already, or cancelled
			p.finish(msg)
		}
		return
	case mcp.KindNotification, mcp.KindRequest:
		if p := m.owner(&msg); p != nil {
			if p.push(msg, &m.limits) {
				return
			}
			if msg.Kind == mcp.KindNotification {
				if p.unanswered() {
					m.drop(&msg)
				}
				return
			}
		}
	}
	m.inbound(msg)
}

// drop leaves a notification out, because its call has too many waiting. The
// operator hears of it once per connection.
func (m *Mux) drop(msg *mcp.Message) {
	m.mu.Lock()
	level := slog.LevelWarn
	if m.lossy {
		level = slog.LevelDebug
	}
	m.lossy = true
	m.mu.Unlock()
	m.Log.Log(context.Background(), level, "the server notifies faster than its caller reads; notifications of calls are dropped",
		"method", Excerpt([]byte(msg.Method)))
}

// Spoil ends the request that an invalid answer names, so that its caller does
// not wait for the deadline. It tells whether the message is an answer at all.
func (m *Mux) Spoil(msg mcp.Message, why error) bool {
	id := invalidAnswer(&msg)
	if !id.Absent() {
		m.spoilID(id, invalid("an invalid answer: %w", why))
	}
	return !id.Absent()
}

// answerID finds the id in the beginning of an answer that cannot be read. The
// ids of requests are integers of the gateway's own.
var answerID = regexp.MustCompile(`^\s*\{[^{}\[\]]*?"id"\s*:\s*(\d{1,18})\s*[,}]`)

// answerHead is how much of an answer is searched for its id.
const answerHead = 200

// invalidAnswer returns the id that a message which is no valid one answers,
// absent when that cannot be told. Servers log to the same channel, some in JSON with
// the id of the request: what has neither result nor error, or has one that is no
// object and does not call itself JSON-RPC, is no answer.
func invalidAnswer(msg *mcp.Message) mcp.ID {
	outcome := cmp.Or(string(msg.Result()), string(msg.Fault()))
	switch {
	case msg.Method != "":
		return ""
	case msg.ID.Absent():
		return answerIn(msg.Raw[:min(len(msg.Raw), answerHead)])
	case outcome == "", mcp.Lookup(msg.Raw, "jsonrpc") == nil && !mcp.IsObject([]byte(outcome)):
		return ""
	}
	return msg.ID
}

// answerIn returns the id of the answer that begins with head.
func answerIn(head []byte) mcp.ID {
	found := answerID.FindSubmatch(head)
	if found == nil || bytes.Contains(head, []byte(`"method"`)) ||
		!bytes.Contains(head, []byte(`"result"`)) && !bytes.Contains(head, []byte(`"error"`)) {
		return ""
	}
	return mcp.ID(found[1])
}

// spoilID ends the request with an id, if there is one.
func (m *Mux) spoilID(id mcp.ID, why error) {
	m.mu.Lock()
	p := m.pending[id.Key()]
	m.mu.Unlock()
	if p != nil {
		p.Spoil(why)
	}
}

// owner returns the request that a message belongs to, nil when that cannot be
// told.
func (m *Mux) owner(msg *mcp.Message) *pending {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id, ok := mcp.ParseID(msg.Meta(mcp.MetaSubscriptionID)); ok {
		return m.pending[id.Key()]
	}
	switch msg.Method {
	case mcp.NotifyProgress:
		if id, ok := mcp.ParseID(msg.Param("progressToken")); ok {
			return m.pending[id.Key()]
		}
		return nil
	case mcp.NotifyCancelled:
		// Of a subscription (2026-07-28 basic/patterns/cancellation), else of
		// a question, which carries the server's own id.
		if id, ok := mcp.ParseID(msg.Param("requestId")); ok {
			if p := m.pending[id.Key()]; p != nil && p.stream {
				return p
			}
		}
		return m.only(true)
	case mcp.NotifyMessage, mcp.MethodSampling, mcp.MethodElicit, mcp.MethodRoots:
		return m.only(false)
	}
	return nil
}

// only returns the request that the server may ask about, if there is exactly
// one, or the one that waits for an answer, if it takes a question back; mu is held.
func (m *Mux) only(takesBack bool) *pending {
	if m.Several {
		return nil
	}
	var only, waits *pending
	askable, waiting := 0, 0
	for _, p := range m.pending {
		if !p.askable {
			continue
		}
		only = p
		askable++
		if p.suspended != nil && p.suspended.Load() {
			waits = p
			waiting++
		}
	}
	switch {
	case askable == 1:
		return only
	case takesBack && waiting == 1:
		return waits
	}
	return nil
}

// Fail ends every request in flight; the first cause is kept.
func (m *Mux) Fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		m.err = err
		close(m.lost)
	}
}

// Done is closed by fail.
func (m *Mux) Done() <-chan struct{} { return m.lost }

// Cause returns why the channel was lost, nil while it is not.
func (m *Mux) Cause() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// push queues a message and tells whether there was room.
func (p *pending) push(msg mcp.Message, limits *Limits) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answer != nil || p.err != nil || len(p.queue) >= limits.Events {
		return false
	}
	if len(p.queue) > 0 && len(msg.Raw) > limits.Result-p.bytes {
		return false
	}
	p.queue = append(p.queue, msg)
	p.bytes += len(msg.Raw)
	p.signal()
	return true
}

// arrival is what a request finds when it looks at what came for it.
type arrival uint8

const (
	arrivedNothing arrival = iota // yet
	arrivedMessage                // a message before the answer
	arrivedAnswer                 // the answer, or the error in its place
)

// next takes the oldest message off the queue; those behind it still count.
// When there is none it returns the answer or the error.
func (p *pending) next() (mcp.Message, arrival, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case len(p.queue) > 0:
		msg := p.queue[0]
		p.queue[0] = mcp.Message{} // not to be held by the array
		p.queue = p.queue[1:]
		p.bytes -= len(msg.Raw)
		return msg, arrivedMessage, nil
	case p.err != nil:
		return mcp.Message{}, arrivedAnswer, p.err
	case p.answer != nil:
		return *p.answer, arrivedAnswer, nil
	}
	return mcp.Message{}, arrivedNothing, nil
}

func (p *pending) unanswered() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answer == nil && p.err == nil
}

func (p *pending) finish(msg mcp.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answer == nil && p.err == nil {
		p.answer = &msg
	}
	p.signal()
}

func (p *pending) Spoil(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answer == nil && p.err == nil {
		p.err = err
	}
	p.signal()
}

func (p *pending) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
