package shared

import (
	"context"
	"sync"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// maxWithdrawn bounds the requests that nobody waits for and of which the process may still
// be told.
const maxWithdrawn = 1024

var (
	_ transport.Link    = (*Link)(nil)
	_ transport.Process = (*Link)(nil)
)

// Link is one of the links to a shared process.
type Link struct {
	of      *process
	inbound func(mcp.Message)
	gone    func()
	once    sync.Once

	life context.Context // ends when the link is lost, with the cause
	end  context.CancelCauseFunc

	mu        sync.Mutex
	inFlight  map[string]mcp.ID // the id at the process, by the key of the own one
	withdrawn map[string]mcp.ID // the same of requests that were given up
}

func newLink(of *process, inbound func(mcp.Message), gone func()) *Link {
	l := &Link{of: of, inbound: inbound, gone: gone, inFlight: make(map[string]mcp.ID), withdrawn: make(map[string]mcp.ID)}
	l.life, l.end = context.WithCancelCause(context.Background())
	return l
}

// RoundTrip implements [transport.Link].
func (l *Link) RoundTrip(ctx context.Context, req *transport.Request) (mcp.Message, error) {
	if err := l.Cause(); err != nil {
		return mcp.Message{}, transport.Undelivered(err)
	}
	msg, err := l.of.parse(req.Raw)
	if err != nil {
		return mcp.Message{}, transport.Undelivered(err)
	}
	switch msg.Method {
	case mcp.MethodInitialize:
		return l.initialize(ctx, req, &msg)
	case mcp.MethodDiscover:
		if l.of.initialized() != nil {
			return l.of.parse(mcp.AppendFault(nil, req.ID, mcp.Errorf(mcp.CodeMethodNotFound, "the server is of the legacy era")))
		}
	case mcp.MethodSubscribe, mcp.MethodUnsubscribe:
		return l.subscribe(ctx, req, &msg)
	case mcp.MethodSetLevel:
		return l.setLevel(ctx, req, &msg)
	}
	return l.ask(ctx, req, &msg)
}

// done is the answer to a request that the process need not hear of.
func (l *Link) done(req *transport.Request) (mcp.Message, error) {
	return l.of.parse(mcp.AppendResult(nil, req.ID, []byte("{}")))
}

// await takes a turn, one link after the other.
func (l *Link) await(ctx context.Context, turn chan struct{}) error {
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return transport.Undelivered(context.Cause(ctx))
	case <-l.life.Done():
		return transport.Undelivered(l.Cause())
	}
}

// initialize initializes the process, or answers as it did for the first link.
func (l *Link) initialize(ctx context.Context, req *transport.Request, msg *mcp.Message) (mcp.Message, error) {
	p := l.of
	if err := l.await(ctx, p.hello); err != nil {
		return mcp.Message{}, err
	}
	defer func() { <-p.hello }()
	if answer := p.initialized(); answer != nil {
		return p.renamed(answer, req.ID)
	}
	answer, err := l.ask(ctx, req, msg)
	if err == nil && answer.Fault() == nil {
		p.mu.Lock()
		p.answered = &answer
		p.mu.Unlock()
	}
	return answer, err
}

// subscribe asks the process for the first and the last subscriber of a resource.
func (l *Link) subscribe(ctx context.Context, req *transport.Request, msg *mcp.Message) (mcp.Message, error) {
	if err := l.await(ctx, l.of.watching); err != nil {
		return mcp.Message{}, err
	}
	defer func() { <-l.of.watching }()
	uri, _ := msg.ParamString("uri")
	if msg.Method == mcp.MethodUnsubscribe {
		if l.of.unwatch(l, uri) {
			return l.ask(ctx, req, msg)
		}
		return l.done(req)
	}
	if l.of.watchedBy(uri) > 0 {
		l.of.watch(l, uri)
		return l.done(req)
	}
	answer, err := l.ask(ctx, req, msg)
	if err == nil && answer.Fault() == nil {
		l.of.watch(l, uri)
	}
	return answer, err
}

// setLevel asks the process for log messages if it sends fewer.
func (l *Link) setLevel(ctx context.Context, req *transport.Request, msg *mcp.Message) (mcp.Message, error) {
	text, _ := msg.ParamString("level")
	level := mcp.LogLevel(text)
	if level > 0 && level <= l.of.loud() {
		return l.done(req)
	}
	answer, err := l.ask(ctx, req, msg)
	if err == nil && answer.Fault() == nil {
		l.of.louder(level)
	}
	return answer, err
}

// ask sends a request to the process under an id of its own.
func (l *Link) ask(ctx context.Context, req *transport.Request, msg *mcp.Message) (mcp.Message, error) {
	id := l.of.number()
	token := mcp.Lookup(msg.Params(), "_meta", mcp.MetaProgressToken)
	params := msg.Params()
	if token != nil {
		params = mcp.SetMember(params, "_meta", mcp.SetMember(msg.Param("_meta"), mcp.MetaProgressToken, []byte(id)))
	}
	inner := *req
	inner.ID, inner.Raw = id, mcp.AppendRequest(make([]byte, 0, len(req.Raw)+16), id, msg.Method, params)
	inner.Arrived = func(m mcp.Message) {
		if req.Arrived == nil {
			return
		}
		if m, err := l.back(m, req.ID, token); err == nil {
			req.Arrived(m)
		}
	}
	key := req.ID.Key()
	l.mu.Lock()
	l.inFlight[key] = id
	l.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.life, func() { cancel(l.Cause()) })()
	answer, err := l.of.link.RoundTrip(ctx, &inner)
	if err != nil {
		l.giveUp(key)
		return mcp.Message{}, err
	}
	l.mu.Lock()
	delete(l.inFlight, key)
	l.mu.Unlock()
	return l.of.renamed(&answer, req.ID)
}

// giveUp notes that nobody waits for an answer any more.
func (l *Link) giveUp(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id, ok := l.inFlight[key]
	if !ok {
		return
	}
	delete(l.inFlight, key)
	for other := range l.withdrawn {
		if len(l.withdrawn) < maxWithdrawn {
			break
		}
		delete(l.withdrawn, other)
	}
	l.withdrawn[key] = id
}

// back gives a message about a request the id and the token of the link again.
func (l *Link) back(m mcp.Message, id mcp.ID, token []byte) (mcp.Message, error) {
	params := m.Params()
	switch {
	case m.Method == mcp.NotifyProgress:
		params = mcp.SetMember(params, "progressToken", token)
	case m.Method == mcp.NotifyCancelled:
		params = mcp.SetMember(params, "requestId", []byte(id))
	}
	if m.Meta(mcp.MetaSubscriptionID) != nil {
		params = mcp.SetMember(params, "_meta", mcp.SetMember(m.Param("_meta"), mcp.MetaSubscriptionID, []byte(id)))
	}
	return l.of.parse(mcp.AppendNotification(make([]byte, 0, len(m.Raw)+16), m.Method, params))
}

// renamed gives an answer another id.
func (p *process) renamed(answer *mcp.Message, id mcp.ID) (mcp.Message, error) {
	raw := make([]byte, 0, len(answer.Raw)+16)
	if fault := answer.Fault(); fault != nil {
		raw = append(append(append(raw, `{"jsonrpc":"2.0","id":`...), id...), `,"error":`...)
		raw = append(append(raw, fault...), '}')
	} else {
		raw = mcp.AppendResult(raw, id, answer.Result())
	}
	return p.parse(raw)
}

// Send implements [transport.Link]. The process hears once that it is initialized, and what
// was cancelled; nobody else has anything to say to it.
func (l *Link) Send(ctx context.Context, raw []byte, _ []transport.Field) error {
	msg, err := l.of.parse(raw)
	if err != nil {
		return transport.Undelivered(err)
	}
	switch msg.Method {
	case mcp.NotifyInitialized:
		if l.of.tell() {
			return l.of.link.Send(ctx, raw, nil)
		}
	case mcp.NotifyCancelled:
		own, ok := mcp.ParseID(msg.Param("requestId"))
		if !ok {
			return nil
		}
		id := l.withdraw(own.Key())
		if id.Absent() {
			return nil
		}
		return l.of.link.Send(ctx, mcp.AppendNotification(nil, mcp.NotifyCancelled, mcp.SetMember(msg.Params(), "requestId", []byte(id))), nil)
	}
	return nil
}

// withdraw returns the id at the process of a request that its link gives up, absent if
// there is none.
func (l *Link) withdraw(key string) mcp.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	id, ok := l.inFlight[key]
	if !ok {
		id = l.withdrawn[key]
	}
	delete(l.inFlight, key)
	delete(l.withdrawn, key)
	return id
}

// Negotiated implements [transport.Link].
func (*Link) Negotiated(mcp.Version) {}

// Ready implements [transport.Link].
func (*Link) Ready() {}

// Done implements [transport.Link].
func (l *Link) Done() <-chan struct{} { return l.life.Done() }

// Cause implements [transport.Link].
func (l *Link) Cause() error {
	if l.life.Err() == nil {
		return nil
	}
	return context.Cause(l.life)
}

// Fail implements [transport.Link]. The process goes on for the others.
func (l *Link) Fail(err error) { l.end(err) }

// Close implements [transport.Link]. The process hears that nobody waits for the requests of
// this link. It ends with its last link.
func (l *Link) Close(ctx context.Context) {
	l.Fail(transport.ErrClosed)
	l.once.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, answerTime)
		defer cancel()
		for _, id := range l.unanswered() {
			params := append(append([]byte(`{"requestId":`), id...), '}')
			_ = l.of.link.Send(ctx, mcp.AppendNotification(nil, mcp.NotifyCancelled, params), nil) // else it is lost
		}
		if l.of.link.Cause() == nil && l.of.turn(ctx) == nil {
			defer func() { <-l.of.watching }()
		}
		for _, uri := range l.of.drop(l) {
			params := append(append([]byte(`{"uri":`), mcp.Quote(uri)...), '}')
			id := l.of.number()
			_, _ = l.of.link.RoundTrip(ctx, &transport.Request{ID: id, Raw: mcp.AppendRequest(nil, id, mcp.MethodUnsubscribe, params)})
		}
		l.gone()
	})
}

// unanswered returns the ids at the process of requests that nobody waits for any more and
// that it was not told of.
func (l *Link) unanswered() (ids []mcp.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, requests := range []map[string]mcp.ID{l.inFlight, l.withdrawn} {
		for _, id := range requests {
			ids = append(ids, id)
		}
		clear(requests)
	}
	return ids
}

// Tail implements [transport.Process].
func (l *Link) Tail() transport.Tail {
	if process, ok := l.of.link.(transport.Process); ok {
		return process.Tail()
	}
	return transport.Tail{}
}

// Stray implements [transport.Process].
func (l *Link) Stray() (lines int64, first string) {
	if process, ok := l.of.link.(transport.Process); ok {
		return process.Stray()
	}
	return 0, ""
}
