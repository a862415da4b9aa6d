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

// Mux matches the messages of a channel that all requests share, such as the stdout of a
// process or the stream of an HTTP+SSE server, with the requests. It is safe for
// concurrent use.
//
// Attribution is never guessed. A notification belongs to the request whose progress token
// it carries. Any other notification or request of the server belongs to the only askable
// request in flight, or to none.
type Mux struct {
	Log     *slog.Logger
	limits  Limits
	inbound func(mcp.Message) // receives what belongs to no request
	// Several tells that several principals share the channel. Then nothing is attributed
	// to a call because it is the only one in flight: the server may still talk about an
	// earlier call. It is set before the first request.
	Several bool

	mu      sync.Mutex
	pending map[string]*pending // by the key of the id
	err     error
	lost    chan struct{}

	lossy bool // a notification was dropped, and the log has a warning
}

// pending is one request in flight. The reader fills its queue, the goroutine of the
// request empties it. The queue is bounded in messages (Limits.Events) and in bytes
// (Limits.Result). An empty queue takes any message.
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

// NewMux returns a Mux without requests. inbound must not block for long: it holds up the
// channel.
func NewMux(log *slog.Logger, limits Limits, inbound func(mcp.Message)) *Mux {
	return &Mux{
		Log: log, limits: limits, inbound: inbound,
		pending: make(map[string]*pending), lost: make(chan struct{}),
	}
}

// RoundTrip registers a request, sends it with write and waits for the answer.
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
			return mcp.Message{}, context.Cause(ctx) // a flood of messages does not outlast it
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

// Deliver passes a message to the request that it belongs to. It never blocks on a
// request.
func (m *Mux) Deliver(msg mcp.Message) {
	switch msg.Kind {
	case mcp.KindInvalid:
		return
	case mcp.KindResponse:
		m.mu.Lock()
		p := m.pending[msg.ID.Key()]
		m.mu.Unlock()
		if p != nil { // else unknown, already answered, or cancelled
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

// drop drops a notification because too many wait for its call. The operator is told once
// per connection.
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

// DeliverInvalid takes a message that could not be parsed. If it is an answer, it ends its
// request, so that the caller does not wait for the deadline. It tells whether the message
// is an answer.
func (m *Mux) DeliverInvalid(msg mcp.Message, why error) bool {
	id := invalidAnswer(&msg)
	if !id.Absent() {
		m.failRequest(id, invalid("an invalid answer: %w", why))
	}
	return !id.Absent()
}

// answerID finds the id in the beginning of an answer that cannot be parsed. The ids of
// requests are integers that the gateway has chosen.
var answerID = regexp.MustCompile(`^\s*\{[^{}\[\]]*?"id"\s*:\s*(\d{1,18})\s*[,}]`)

// answerHead is how much of an answer is searched for its id.
const answerHead = 200

// invalidAnswer returns the id of an invalid answer, absent if the message is none.
// Servers write logs to the same channel, some as JSON with the id of the request. So a
// message without result and error is no answer, nor is one whose result is no object and
// that has no jsonrpc member.
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

// failRequest ends the request with an id, if there is one.
func (m *Mux) failRequest(id mcp.ID, why error) {
	m.mu.Lock()
	p := m.pending[id.Key()]
	m.mu.Unlock()
	if p != nil {
		p.fail(why)
	}
}

// owner returns the request that a message belongs to, nil if that is unknown.
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
		// It ends a subscription (2026-07-28 basic/patterns/cancellation), or a question,
		// which has an id of the server.
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

// only returns the request that the server may be asking about if there is exactly one. To
// cancel a question (takesBack), it may also be the only one that waits for its client. mu
// is held.
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

// Done is closed by Fail.
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

// arrival is what a request finds when it looks for messages.
type arrival uint8

const (
	arrivedNothing arrival = iota // yet
	arrivedMessage                // a message before the answer
	arrivedAnswer                 // the answer, or the error in its place
)

// next takes the oldest message from the queue. If there is none, it returns the answer or
// the error.
func (p *pending) next() (mcp.Message, arrival, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case len(p.queue) > 0:
		msg := p.queue[0]
		p.queue[0] = mcp.Message{} // so that the array does not hold it
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

func (p *pending) fail(err error) {
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
