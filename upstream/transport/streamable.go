package transport

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/arena"
	"github.com/toolgate/toolgate/internal/background"
	"github.com/toolgate/toolgate/internal/backoff"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/http1"
)

const (
	// drainTime is how long a stream may go on after its answer until its connection is
	// given up.
	drainTime = time.Second
	// endTime bounds the request that ends a session.
	endTime = 5 * time.Second
	// resumes is how often in a row a broken stream is resumed without a new event
	// (2025-11-25 transports, Resumability).
	resumes = 5
)

// streamableLink is streamable HTTP to one server: stateless in 2026-07-28, with a session
// and its standalone stream in legacy revisions.
type streamableLink struct {
	httpClient
	log     *slog.Logger
	inbound func(mcp.Message)

	// Set by the handshake, before any other request.
	session []string
	version []string // the header, of revisions that have it
	agreed  mcp.Version
	legacy  bool

	streamOpened atomic.Bool // a standalone stream was opened

	ctx    context.Context // of the link; ends its background streams
	cancel context.CancelCauseFunc
	failed sync.Once
	lost   chan struct{}
	wg     background.Group // a request may end while the link is closed, and drains its body then
	closed atomic.Bool
}

// dialStreamable returns a link over streamable HTTP. Nothing is sent yet.
func dialStreamable(_ context.Context, o *Options, inbound func(mcp.Message)) (Link, error) {
	client, err := newHTTPClient(o)
	if err != nil {
		return nil, err
	}
	l := &streamableLink{httpClient: client, log: o.Log, inbound: inbound, lost: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	return l, nil
}

// RoundTrip implements [Link].
func (l *streamableLink) RoundTrip(ctx context.Context, req *Request) (mcp.Message, error) {
	s := sendings.Get().(*sending)
	resp, err := l.postIn(s, ctx, req.Raw, req.Fields)
	if err != nil {
		return mcp.Message{}, err
	}
	var msg mcp.Message
	if resp.StatusCode/100 == 2 && mediaType(resp) == "text/event-stream" {
		l.opened(resp, req)
		msg, err = l.stream(ctx, resp.Body, req)
	} else {
		msg, err = l.single(ctx, resp, req)
	}
	if err == nil {
		s.done(resp)
	}
	return msg, err
}

// opened takes the session that the answer to a handshake opens.
func (l *streamableLink) opened(resp *http.Response, req *Request) {
	if id := resp.Header[mcp.HeaderSession]; req.Handshake && len(id) == 1 {
		l.session = []string{strings.Clone(id[0])} // without the head that it is a part of; no other request runs yet
	}
}

// single reads an answer that is not a stream.
func (l *streamableLink) single(ctx context.Context, resp *http.Response, req *Request) (mcp.Message, error) {
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		msg, err := l.refused(ctx, resp, req.ID)
		if err == nil && req.Handshake && (resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusMethodNotAllowed) {
			// It takes no handshake here; another transport may work.
			err = &StatusError{resp.StatusCode, mcp.ParseError(msg.Fault()).Message}
		}
		return msg, err
	}
	l.opened(resp, req)
	switch kind := resp.Header.Get("Content-Type"); {
	case mediaType(resp) == "application/json":
		body, err := readBody(req.Memory, resp.Body, resp.ContentLength, l.limits.Result)
		if err != nil {
			return mcp.Message{}, fmt.Errorf("read the answer: %w", err)
		}
		return l.parseAnswer(body, req.ID)
	case resp.StatusCode == http.StatusAccepted:
		return mcp.Message{}, ErrNoAnswer
	case kind == "":
		return mcp.Message{}, errNoContentType
	default:
		return mcp.Message{}, invalid("an answer of the content type %q", Excerpt([]byte(kind)))
	}
}

// post sends one message to the endpoint.
func (l *streamableLink) post(ctx context.Context, raw []byte, fields []Field) (*http.Response, error) {
	return l.postIn(newSending(), ctx, raw, fields)
}

// postIn is post in memory that is zero or was cleared.
func (l *streamableLink) postIn(s *sending, ctx context.Context, raw []byte, fields []Field) (*http.Response, error) {
	r, err := l.requestIn(s, ctx, http.MethodPost, l.url, raw, fields)
	if err != nil {
		return nil, &undelivered{err}
	}
	r.Header["Accept"] = acceptBoth
	l.identify(r)
	resp, err := l.do(r)
	_, aside := errors.AsType[*ForbiddenError](err)
	if _, ok := errors.AsType[*undelivered](err); ok && !aside {
		l.Fail(err)
	}
	return resp, err
}

// ping sends a message without headers of its own.
func (l *streamableLink) ping(ctx context.Context, raw []byte) (*http.Response, error) {
	return l.post(ctx, raw, nil)
}

// identify adds the headers of a legacy session that every request after the handshake
// needs.
func (l *streamableLink) identify(r *http.Request) {
	if l.session != nil {
		r.Header[mcp.HeaderSession] = l.session
	}
	if l.version != nil {
		r.Header[mcp.HeaderVersion] = l.version
	}
}

// refused turns a status that is not 2xx into an answer or an error. A server that has
// forgotten the session answers 404 (2025-11-25 basic/transports, Session Management); it
// has not run the request.
func (l *streamableLink) refused(ctx context.Context, resp *http.Response, id mcp.ID) (mcp.Message, error) {
	if l.session != nil && resp.StatusCode == http.StatusNotFound {
		return mcp.Message{}, &undelivered{ErrSessionLost}
	}
	msg, err := l.refusal(resp, id)
	if l.session != nil && resp.StatusCode == http.StatusBadRequest && (err != nil || msg.ID.Absent()) && forgotten(ctx, l.ping, l.refusal) {
		return mcp.Message{}, &undelivered{ErrSessionLost}
	}
	if err != nil {
		err = busyOr(resp, err)
	}
	return msg, err
}

func (l *streamableLink) parseAnswer(body []byte, id mcp.ID) (mcp.Message, error) {
	msg, err := mcp.Parse(bytes.TrimPrefix(body, byteOrderMark), mcp.Limits{Depth: l.limits.Depth, LoneSurrogates: true})
	if err != nil {
		return msg, invalid("an invalid answer: %w", err)
	}
	if msg.Kind != mcp.KindResponse || msg.ID.Key() != id.Key() {
		return msg, invalid("an answer to another request")
	}
	return msg, nil
}

// stream reads the events of a request until its answer. A broken stream of a legacy
// session is resumed if its events had ids.
func (l *streamableLink) stream(ctx context.Context, body io.ReadCloser, req *Request) (mcp.Message, error) {
	s := &answerStream{l: l, req: req, retry: time.Second}
	for ; ; s.idle++ {
		answered, err := s.read(body)
		if answered || err != nil && ctx.Err() != nil {
			if ctx.Err() != nil && !answered {
				err = context.Cause(ctx)
			}
			return s.answer, err
		}
		if !l.legacy || s.last == "" || s.idle >= resumes {
			return mcp.Message{}, cmp.Or(err, ErrNoAnswer)
		}
		if err := backoff.Sleep(ctx, min(s.retry, 30*time.Second)); err != nil {
			return mcp.Message{}, context.Cause(ctx)
		}
		resp, err := l.get(ctx, s.last) //nolint:bodyclose // read closes it
		if err != nil {
			return mcp.Message{}, fmt.Errorf("resume the stream: %w", err)
		}
		body = resp.Body
	}
}

// answerStream is the events that answer one request, over one or more streams.
type answerStream struct {
	l      *streamableLink
	req    *Request
	answer mcp.Message

	last  string        // id to resume after; empty if the stream cannot be resumed
	retry time.Duration // pause before resuming
	idle  int           // streams in a row without a message
}

// read reads one stream until the answer. It closes the body, or lets drain do it after
// the answer.
func (s *answerStream) read(body io.ReadCloser) (answered bool, err error) {
	events := newEventReader(body, s.l.limits.Result)
	events.memory = s.req.Memory
	defer events.release()
	for {
		ev, err := events.next()
		if err != nil && !errors.Is(err, errEventTooLarge) {
			body.Close()
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return false, err
		}
		if answered, err := s.take(&ev, err != nil); answered {
			switch {
			case err != nil:
				body.Close()
			case !http1.Finish(body):
				s.l.drain(body)
			}
			return true, err
		}
		s.req.Memory.Drop(ev.Data)
	}
}

// take handles one event and tells whether it is the answer. An event that is too large
// counts as the answer unless it is surely something else.
func (s *answerStream) take(ev *sseEvent, tooLarge bool) (answered bool, err error) {
	if ev.HasID {
		s.last = resumable(ev.ID)
	}
	message := len(ev.Data) > 0 && (ev.Event == "" || ev.Event == "message")
	if tooLarge {
		s.l.log.Warn("the server sent an event beyond the limit", "limit", s.l.limits.Result)
		return message && !elsewhere(ev.Data, s.req.ID), ErrTooLarge
	}
	if ev.Retry > 0 {
		s.retry = ev.Retry
	}
	if !message {
		return false, nil
	}
	msg, err := mcp.Parse(ev.Data, mcp.Limits{Depth: s.l.limits.Depth, LoneSurrogates: true})
	s.idle = 0
	switch {
	case err != nil && invalidAnswer(&msg).Key() == s.req.ID.Key():
		return true, invalid("an invalid answer: %w", err)
	case err != nil:
		s.l.log.Debug("the server sent an invalid message", "err", err)
	case msg.Kind == mcp.KindResponse:
		if answered = msg.ID.Key() == s.req.ID.Key(); answered {
			s.answer = msg
		}
		return answered, nil
	case s.req.Arrived != nil:
		s.req.Arrived(s.own(msg))
	}
	return false, nil
}

// own returns a message that may be kept for longer than its request.
func (s *answerStream) own(msg mcp.Message) mcp.Message {
	if s.req.Memory == nil || len(msg.Raw) < arena.Least {
		return msg
	}
	return msg.Clone()
}

// maxEventID is the longest event id that is sent back.
const maxEventID = 4 << 10

// resumable returns an event id if it can be sent in a header, else nothing. An invalid id
// counts as none, because resuming after the one before would repeat events.
func resumable(id string) string {
	control := func(r rune) bool { return r < 0x20 && r != '\t' || r == 0x7F }
	if len(id) > maxEventID || strings.ContainsFunc(id, control) {
		return ""
	}
	return id
}

// elsewhere tells whether a message that begins with head is surely not the answer with an
// id.
func elsewhere(head []byte, id mcp.ID) bool {
	answers := answerIn(head)
	return methodMember.Match(head) || !answers.Absent() && answers.Key() != id.Key()
}

// methodMember finds the member that only requests and notifications have.
var methodMember = regexp.MustCompile(`^\s*\{[^{}\[\]]*?"method"\s*:`)

// drain reads a stream to its end, so that its connection can be reused.
func (l *streamableLink) drain(body io.ReadCloser) {
	l.wg.Go(func() {
		timer := time.AfterFunc(drainTime, func() { body.Close() })
		defer timer.Stop()
		_, _ = io.CopyN(io.Discard, body, 4<<10)
		body.Close()
	})
}

// get opens the standalone stream of a session, or resumes a stream after the event last.
func (l *streamableLink) get(ctx context.Context, last string) (*http.Response, error) {
	r, err := l.request(ctx, http.MethodGet, l.url, nil)
	if err != nil {
		return nil, err
	}
	r.Header["Accept"] = acceptEvents
	if last != "" {
		r.Header[mcp.HeaderLastEvent] = []string{last}
	}
	l.identify(r)
	resp, err := l.do(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK && mediaType(resp) == "text/event-stream" {
		return resp, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		return nil, &LoginError{status: resp.StatusCode}
	}
	return nil, &StatusError{Status: resp.StatusCode}
}

// Negotiated sets the version header of the legacy revisions that have one.
func (l *streamableLink) Negotiated(version mcp.Version) {
	l.agreed = version
	if version.Era() == mcp.Legacy && version >= mcp.V20250618 {
		l.version = []string{string(version)}
	}
}

// Ready starts the standalone stream of a legacy session.
func (l *streamableLink) Ready() {
	l.legacy = l.agreed.Era() == mcp.Legacy
	if !l.legacy {
		l.session = nil
		return
	}
	// Until it is open, messages outside of requests are lost, and some servers send
	// answers there.
	opened := make(chan struct{})
	l.wg.Go(func() { l.standalone(opened) })
	timer := time.NewTimer(openTime)
	defer timer.Stop()
	select {
	case <-opened:
	case <-timer.C:
	case <-l.ctx.Done():
	}
}

// HasSession implements [Session].
func (l *streamableLink) HasSession() bool { return l.session != nil }

// HasStream implements [Session].
func (l *streamableLink) HasStream() bool { return l.streamOpened.Load() }

// openTime bounds the wait for the first standalone stream.
const openTime = 250 * time.Millisecond

// standalone keeps the GET stream of a session open and delivers its messages. A server
// without one answers 405 or another 4xx, which is final. A server that had opened it
// before and refuses now has lost the session. The exception is 409: it has not noticed
// the end of the last stream yet. opened is closed when it is known whether the first
// stream opens.
func (l *streamableLink) standalone(opened chan struct{}) {
	var once sync.Once
	known := func() { once.Do(func() { close(opened) }) }
	defer known()
	wait := backoff.Backoff{Base: 100 * time.Millisecond, Max: 30 * time.Second}
	last, had := "", false
	for {
		resp, err := l.get(l.ctx, last)
		known()
		var status *StatusError
		var login *LoginError
		switch {
		case l.ctx.Err() != nil:
			if err == nil {
				resp.Body.Close()
			}
			return
		case errors.As(err, &status) && IsRejection(status) && status.Status != http.StatusConflict:
			if had {
				l.Fail(ErrSessionLost)
			}
			return
		case errors.As(err, &login) && !had:
			return
		case err != nil && !Delivered(err), errors.As(err, &login):
			l.Fail(err)
			return
		case err == nil:
			opened := time.Now()
			had = true
			l.streamOpened.Store(true)
			l.listen(resp, &last)
			if time.Since(opened) > 5*time.Second {
				wait.Reset()
			}
		default:
			had = true // or might have had over a better connection
		}
		if backoff.Sleep(l.ctx, wait.Next()) != nil {
			return
		}
	}
}

func (l *streamableLink) listen(resp *http.Response, last *string) {
	defer resp.Body.Close()
	stop := context.AfterFunc(l.ctx, func() { resp.Body.Close() })
	defer stop()
	events := newEventReader(resp.Body, l.limits.Result)
	defer events.release()
	for {
		ev, err := events.next()
		if ev.HasID {
			*last = resumable(ev.ID)
		}
		if errors.Is(err, errEventTooLarge) {
			l.log.Warn("the server sent an event beyond the limit", "limit", l.limits.Result)
			continue
		}
		if err != nil {
			return
		}
		if len(ev.Data) == 0 {
			continue
		}
		msg, err := mcp.Parse(ev.Data, mcp.Limits{Depth: l.limits.Depth, LoneSurrogates: true})
		if err != nil {
			l.log.Debug("the server sent an invalid message", "err", err)
			continue
		}
		if msg.Kind == mcp.KindRequest || msg.Kind == mcp.KindNotification {
			l.inbound(msg)
		}
	}
}

// Send implements [Link].
func (l *streamableLink) Send(ctx context.Context, raw []byte, fields []Field) error {
	resp, err := l.post(ctx, raw, fields)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		_, err := l.refused(ctx, resp, "")
		return cmp.Or[error](err, &StatusError{Status: resp.StatusCode})
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	return nil
}

// Fail implements [Link].
func (l *streamableLink) Fail(err error) {
	l.failed.Do(func() {
		l.cancel(err)
		close(l.lost)
	})
}

// Done implements [Link].
func (l *streamableLink) Done() <-chan struct{} { return l.lost }

// Cause implements [Link].
func (l *streamableLink) Cause() error { return context.Cause(l.ctx) }

// Close ends the session at the server and waits for the streams of the link.
func (l *streamableLink) Close(ctx context.Context) {
	if l.closed.Swap(true) {
		return
	}
	lost := l.ctx.Err() != nil
	l.Fail(ErrClosed)
	if l.legacy && l.session != nil && !lost {
		ctx, cancel := context.WithTimeout(ctx, endTime)
		defer cancel()
		if r, err := l.request(ctx, http.MethodDelete, l.url, nil); err == nil {
			l.identify(r)
			if resp, err := l.do(r); err == nil {
				resp.Body.Close()
			}
		}
	}
	l.wg.Wait()
}
