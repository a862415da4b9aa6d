package upstream

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

const (
	// ackTime bounds the wait for the acknowledgement of a subscription.
	ackTime = 10 * time.Second
	// lastTime bounds the wait for the last message of a subscription that is ended on a
	// shared channel.
	lastTime = 100 * time.Millisecond
	// lingerTime is how long a replaced stream is still read.
	lingerTime = 500 * time.Millisecond
)

// watch is the subscriptions/listen stream of a modern connection (2026-07-28
// basic/patterns/subscriptions). Its filter cannot be changed, so a new stream is opened
// and acknowledged before the old one is closed. On a shared channel the old one is closed
// first: some servers keep one subscription per channel and lose the new one when the old
// one ends. Changes in between are unknown there, so the lists are read again and every
// resource that is still subscribed to counts as updated.
type watch struct {
	opening sync.Mutex // held while a stream opens

	mu      sync.Mutex
	uris    map[string]bool
	current *watchStream
	unable  bool   // the server has no subscriptions
	broken  func() // called when the server ended the stream; must not block
	// missed is called with the resources whose updates may have been missed; it must not
	// block.
	missed func(uris []string)
}

// watchStream is one stream. over is closed when it has ended.
type watchStream struct {
	id      mcp.ID
	filter  string
	uris    []string // of its filter
	cancel  context.CancelFunc
	over    chan struct{}
	retired atomic.Bool // it has a successor
}

func (s *watchStream) open() bool {
	if s == nil {
		return false
	}
	select {
	case <-s.over:
		return false
	default:
		return true
	}
}

// replace makes a stream the current one and ends its predecessor. A predecessor with a
// successor ends a moment later: messages that the server sent on it before may still be
// on their way.
func (w *watch) replace(s *watchStream) {
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.current
	w.current = s
	switch {
	case old == nil:
	case s == nil:
		old.cancel()
	default:
		old.retired.Store(true)
		time.AfterFunc(lingerTime, old.cancel)
	}
}

// add marks resources as subscribed, for the next stream.
func (w *watch) add(uris []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.uris == nil {
		w.uris = make(map[string]bool)
	}
	for _, uri := range uris {
		w.uris[uri] = true
	}
}

// skipped reports what may have been missed between two streams.
func (w *watch) skipped(before, after *watchStream) {
	if w.broken != nil {
		w.broken()
	}
	if w.missed == nil {
		return
	}
	both := slices.DeleteFunc(slices.Clone(before.uris), func(uri string) bool {
		_, still := slices.BinarySearch(after.uris, uri)
		return !still
	})
	if len(both) > 0 {
		w.missed(both)
	}
}

// follow subscribes to a resource again.
func (c *Conn) follow(ctx context.Context, uri string) error {
	if c.era == mcp.Modern {
		return c.listen(ctx)
	}
	answer, err := c.Subscribe(ctx, uri, true)
	if err == nil && answer.Fault != nil {
		err = answer.Fault
	}
	return err
}

// Subscribe asks for updates of a resource, or ends that.
func (c *Conn) Subscribe(ctx context.Context, uri string, on bool) (mcp.Answer, error) {
	if c.era == mcp.Legacy {
		method := mcp.MethodSubscribe
		if !on {
			method = mcp.MethodUnsubscribe
		}
		params := append(append([]byte(`{"uri":`), mcp.Quote(uri)...), '}')
		return c.Call(ctx, &mcp.Call{Method: method, Params: params}, nil)
	}
	c.watch.mu.Lock()
	if c.watch.uris == nil {
		c.watch.uris = make(map[string]bool)
	}
	changed := c.watch.uris[uri] != on
	if on {
		c.watch.uris[uri] = true
	} else {
		delete(c.watch.uris, uri)
	}
	c.watch.mu.Unlock()
	if changed {
		if err := c.listen(ctx); err != nil {
			if on { // so that another attempt asks again
				c.watch.mu.Lock()
				delete(c.watch.uris, uri)
				c.watch.mu.Unlock()
			}
			return mcp.Answer{}, err
		}
	}
	return mcp.Answer{Result: []byte("{}"), Era: c.era}, nil
}

// listen makes sure that a stream with the current filter is open, and waits for its
// acknowledgement. A server without subscriptions is no error.
func (c *Conn) listen(ctx context.Context) error {
	w := &c.watch
	w.opening.Lock()
	defer w.opening.Unlock()
	w.mu.Lock()
	filter, unable, current := c.filter(), w.unable, w.current
	uris := slices.Sorted(maps.Keys(w.uris))
	w.mu.Unlock()
	switch {
	case filter == nil:
		w.replace(nil)
		return nil
	case unable, current.open() && current.filter == string(filter):
		return nil
	}
	early := c.shared && current.open()
	if early {
		c.retireStream(ctx, current)
	}
	next, acknowledged, ended := c.openStream(filter)
	next.uris = uris
	timer := time.NewTimer(ackTime)
	defer timer.Stop()
	select {
	case <-acknowledged:
		w.replace(next)
		if early {
			w.skipped(current, next)
		}
		return nil
	case err := <-ended:
		var fault *mcp.Error
		if errors.As(err, &fault) && fault.Code == mcp.CodeMethodNotFound {
			w.mu.Lock()
			w.unable = true
			w.mu.Unlock()
			return nil
		}
		return cmp.Or(err, transport.ErrNoAnswer)
	case <-timer.C:
		next.cancel()
		return errCallTimeout
	case <-ctx.Done():
		next.cancel()
		return context.Cause(ctx)
	}
}

// retireStream ends a stream and waits a moment for the last message of the server on it.
func (c *Conn) retireStream(ctx context.Context, s *watchStream) {
	s.retired.Store(true)
	params := append(append([]byte(`{"requestId":`), s.id...), '}')
	if err := c.link.Send(ctx, mcp.AppendNotification(nil, mcp.NotifyCancelled, params), nil); err != nil {
		c.log.Debug("subscription not ended", "err", err)
	}
	timer := time.NewTimer(lastTime)
	defer timer.Stop()
	select {
	case <-s.over:
	case <-timer.C:
	case <-ctx.Done():
	}
	s.cancel()
}

// openStream opens a stream. acknowledged is closed when the server agrees. If the stream
// ends before, ended has the reason.
func (c *Conn) openStream(filter []byte) (next *watchStream, acknowledged chan struct{}, ended chan error) {
	life, cancel := context.WithCancel(c.life)
	id := mcp.NumberID(c.ids.Add(1))
	next = &watchStream{id: id, filter: string(filter), cancel: cancel, over: make(chan struct{})}
	acknowledged, ended = make(chan struct{}), make(chan error, 1)
	agreed, torn := false, false // for the goroutine of the request
	req := c.outgoing(c.era, id, &mcp.Call{Method: mcp.MethodListen, Params: filter}, nil)
	req.Stream = true
	req.Arrived = func(msg mcp.Message) {
		switch {
		case msg.Method == mcp.NotifyAcknowledged:
			if !agreed {
				agreed = true
				close(acknowledged)
			}
		case msg.Method == mcp.NotifyCancelled:
			torn = true
			cancel()
		default:
			c.receive(msg)
		}
	}
	started := c.spawn(func() {
		defer cancel()
		msg, err := c.link.RoundTrip(life, req)
		if err == nil && msg.Fault() != nil {
			err = mcp.ParseError(msg.Fault())
		}
		close(next.over)
		switch {
		case next.retired.Load():
			ended <- transport.ErrClosed
			return
		case life.Err() != nil && !torn:
			c.withdraw(req.ID, err)
			ended <- transport.ErrClosed
			return
		}
		ended <- err
		if agreed && c.watch.broken != nil {
			c.watch.broken() // the link may still be good
		}
	})
	if !started {
		cancel()
		close(next.over)
		ended <- transport.ErrClosed
	}
	return next, acknowledged, ended
}

// filter returns what to listen for; nil if there is nothing.
func (c *Conn) filter() []byte {
	l := mcp.Listing{Capabilities: c.capabilities}
	out := []byte(`{"notifications":{`)
	none := len(out)
	member := func(text string) {
		if len(out) > none {
			out = append(out, ',')
		}
		out = append(out, text...)
	}
	for _, kind := range []mcp.Kind{mcp.Tool, mcp.Prompt, mcp.Resource} {
		if l.Declares(kind.Feature(), "listChanged") {
			member(`"` + kind.Feature() + `ListChanged":true`)
		}
	}
	if len(c.watch.uris) > 0 {
		member(`"resourceSubscriptions":[`)
		for i, uri := range slices.Sorted(maps.Keys(c.watch.uris)) {
			if i > 0 {
				out = append(out, ',')
			}
			out = mcp.AppendQuote(out, uri)
		}
		out = append(out, ']')
	}
	if len(out) == none {
		return nil
	}
	return append(out, "}}"...)
}
