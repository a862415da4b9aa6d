package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// sseLink is a stream of events and the endpoint that takes messages.
type sseLink struct {
	httpClient
	Mux      *Mux
	log      *slog.Logger
	endpoint *url.URL
	body     io.ReadCloser
	life     context.Context
	cancel   context.CancelFunc
	once     sync.Once
	spawning sync.Mutex // orders spawn before the end of life
	wg       sync.WaitGroup

	agreed atomic.Bool // the handshake is done
}

var errEndpoint = errors.New("the server names an endpoint on another host")

// dialSSE opens the stream of a server over the HTTP+SSE transport of 2024-11-05 and
// waits for the endpoint event.
func dialSSE(ctx context.Context, o *Options, inbound func(mcp.Message)) (Link, error) {
	client, err := newHTTPClient(o)
	if err != nil {
		return nil, err
	}
	l := &sseLink{httpClient: client, log: o.Log, Mux: NewMux(o.Log, o.Limits, inbound)}
	l.Mux.Several = o.Several
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.life, l.cancel = life, cancel
	stop := context.AfterFunc(ctx, cancel) // until the endpoint is known
	r, err := l.request(life, http.MethodGet, l.url, nil)
	if err != nil {
		cancel()
		return nil, err
	}
	r.Header["Accept"] = acceptEvents
	resp, err := l.do(r)
	if err != nil {
		cancel()
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	l.body = resp.Body
	if resp.StatusCode != http.StatusOK || mediaType(resp) != "text/event-stream" {
		_, err := l.refusal(resp, "")
		resp.Body.Close()
		cancel()
		return nil, cmp.Or(err, errors.New("the server offers no stream of events"))
	}
	events := newEventReader(resp.Body, l.limits.Result)
	if l.endpoint, err = l.readEndpoint(events); err == nil && !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		resp.Body.Close()
		cancel()
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	l.wg.Go(func() { l.read(events) })
	return l, nil
}

// readEndpoint waits for the endpoint event. It must come before any message and name a
// URL on the same origin.
func (l *sseLink) readEndpoint(events *eventReader) (*url.URL, error) {
	for {
		ev, err := events.next()
		if err != nil {
			return nil, fmt.Errorf("wait for the endpoint event: %w", err)
		}
		if ev.Event != "endpoint" {
			continue
		}
		ref, err := url.Parse(string(ev.Data))
		if err != nil {
			return nil, fmt.Errorf("the endpoint event: %w", err)
		}
		to := l.url.ResolveReference(ref)
		if to.Scheme != l.url.Scheme || !strings.EqualFold(to.Host, l.url.Host) || ref.User != nil {
			return nil, errEndpoint
		}
		to.User = l.url.User
		return to, nil
	}
}

func (l *sseLink) read(events *eventReader) {
	for {
		ev, err := events.next()
		if errors.Is(err, errEventTooLarge) {
			l.log.Warn("the server sent an event beyond the limit", "limit", l.limits.Result)
			if id := answerIn(ev.Data); !id.Absent() {
				l.Mux.failRequest(id, ErrTooLarge)
			}
			continue
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the server closed the stream")
			}
			l.Mux.Fail(err)
			return
		}
		if len(ev.Data) == 0 || ev.Event != "" && ev.Event != "message" {
			continue
		}
		msg, err := mcp.Parse(ev.Data, mcp.Limits{Depth: l.limits.Depth, LoneSurrogates: true})
		if err != nil {
			l.log.Debug("the server sent an invalid message", "err", err)
			l.Mux.DeliverInvalid(msg, err)
			continue
		}
		l.Mux.Deliver(msg)
	}
}

// RoundTrip does not wait for the POST: some servers accept it only after they have run
// the request, and meanwhile report progress and ask questions.
func (l *sseLink) RoundTrip(ctx context.Context, req *Request) (mcp.Message, error) {
	post, stop := context.WithCancelCause(l.life)
	sent := make(chan struct{})
	msg, err := l.Mux.RoundTrip(ctx, req, func(raw []byte) error {
		if !l.spawn(func() {
			defer close(sent)
			if err := l.Send(post, raw, nil); err != nil {
				l.Mux.failRequest(req.ID, err)
			}
		}) {
			return &undelivered{ErrClosed}
		}
		return nil
	})
	select {
	case <-sent:
		stop(nil)
	default:
		if err != nil {
			stop(err)
		} else {
			time.AfterFunc(endTime, func() { stop(nil) })
		}
	}
	return msg, err
}

// spawn starts a goroutine that Close waits for, unless the link is closing.
func (l *sseLink) spawn(f func()) bool {
	l.spawning.Lock()
	defer l.spawning.Unlock()
	if l.life.Err() == nil {
		l.wg.Go(f)
		return true
	}
	return false
}

// post sends one message to the endpoint.
func (l *sseLink) post(ctx context.Context, raw []byte) (*http.Response, error) {
	r, err := l.request(ctx, http.MethodPost, l.endpoint, raw)
	if err != nil {
		return nil, err
	}
	return l.do(r)
}

// Send implements [Link].
func (l *sseLink) Send(ctx context.Context, raw []byte, _ []Field) error {
	resp, err := l.post(ctx, raw)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
		return nil
	}
	if resp.StatusCode == http.StatusNotFound {
		return &undelivered{ErrSessionLost}
	}
	_, err = l.refusal(resp, "")
	if resp.StatusCode == http.StatusBadRequest && l.agreed.Load() && forgotten(ctx, l.post, l.refusal) {
		return &undelivered{ErrSessionLost}
	}
	err = busyOr(resp, cmp.Or[error](err, &StatusError{Status: resp.StatusCode}))
	if resp.StatusCode/100 == 5 && Delivered(err) {
		return err // the request may have been run
	}
	return &undelivered{err}
}

// Negotiated implements [Link].
func (l *sseLink) Negotiated(mcp.Version) {}

// Ready implements [Link].
func (l *sseLink) Ready() { l.agreed.Store(true) }

// Done implements [Link].
func (l *sseLink) Done() <-chan struct{} { return l.Mux.Done() }

// Cause implements [Link].
func (l *sseLink) Cause() error { return l.Mux.Cause() }

// Fail implements [Link].
func (l *sseLink) Fail(err error) { l.Mux.Fail(err) }

// Close implements [Link].
func (l *sseLink) Close(context.Context) {
	l.once.Do(func() {
		l.Mux.Fail(ErrClosed)
		l.spawning.Lock()
		l.cancel()
		l.spawning.Unlock()
		l.body.Close()
	})
	l.wg.Wait()
}
