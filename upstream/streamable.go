package upstream

import (
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

	"github.com/toolgate/toolgate/internal/mcp"
)

const (
	// drainTime is how long a stream may linger after its answer before its
	// connection is given up.
	drainTime = time.Second
	// endTime bounds the farewell to a session.
	endTime = 5 * time.Second
	// resumes is how often in a row a broken stream is resumed without
	// anything new on it (2025-11-25 transports, Resumability).
	resumes = 5
)

// streamableDialer reaches a server over streamable HTTP.
type streamableDialer struct {
	http httpClient
	log  *slog.Logger
}

// streamableLink is streamable HTTP to one server: 2026-07-28 without any
// state, the legacy revisions with a session and its standalone stream.
type streamableLink struct {
	httpClient
	log     *slog.Logger
	inbound func(mcp.Message)

	// Set by the handshake, before any other request.
	session []string
	version []string
	legacy  bool

	ctx    context.Context // of the link; ends its background streams
	cancel context.CancelCauseFunc
	failed sync.Once
	lost   chan struct{}
	wg     sync.WaitGroup
	closed atomic.Bool
}

func (d *streamableDialer) dial(_ context.Context, inbound func(mcp.Message)) (link, error) {
	l := &streamableLink{httpClient: d.http, log: d.log, inbound: inbound, lost: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	return l, nil
}

func (l *streamableLink) roundTrip(ctx context.Context, req *outgoing) (mcp.Message, error) {
	resp, err := l.post(ctx, req.raw, req.header)
	if err != nil {
		return mcp.Message{}, err
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		msg, err := l.refused(resp, req.id)
		if err == nil && req.handshake && (resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusMethodNotAllowed) {
			// Whatever it says, it takes no handshake here; another transport may.
			err = &httpError{resp.StatusCode, mcp.ParseError(msg.Fault()).Message}
		}
		return msg, err
	}
	if req.handshake {
		if id := resp.Header[mcp.HeaderSession]; len(id) == 1 {
			l.session = id // nothing else runs yet
		}
	}
	switch mediaType(resp) {
	case "application/json":
		defer resp.Body.Close()
		body, err := readBody(resp.Body, resp.ContentLength, l.limits.Result)
		if err != nil {
			return mcp.Message{}, fmt.Errorf("read the answer: %w", err)
		}
		return l.parseAnswer(body, req.id)
	case "text/event-stream":
		return l.stream(ctx, resp, req)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusAccepted {
		return mcp.Message{}, errNoAnswer
	}
	if resp.Header.Get("Content-Type") == "" {
		return mcp.Message{}, errNoContentType
	}
	return mcp.Message{}, invalid("an answer of the content type %q", excerpt([]byte(resp.Header.Get("Content-Type"))))
}

// post sends one message to the endpoint.
func (l *streamableLink) post(ctx context.Context, raw []byte, header http.Header) (*http.Response, error) {
	r, err := l.request(ctx, http.MethodPost, l.url, raw, header)
	if err != nil {
		return nil, &undelivered{err}
	}
	r.Header["Accept"] = acceptBoth
	l.identify(r)
	resp, err := l.do(r)
	if _, ok := errors.AsType[*undelivered](err); ok {
		l.fail(err)
	}
	return resp, err
}

// identify adds what a legacy session needs on every request after the
// handshake.
func (l *streamableLink) identify(r *http.Request) {
	if l.session != nil {
		r.Header[mcp.HeaderSession] = l.session
	}
	if l.version != nil {
		r.Header[mcp.HeaderVersion] = l.version
	}
}

// refused turns a status that is not 2xx into an answer or an error. A server
// that forgot the session answers 404 by the specification and 400 in practice;
// in both cases it has not run the request.
func (l *streamableLink) refused(resp *http.Response, id mcp.ID) (mcp.Message, error) {
	if l.session != nil && resp.StatusCode == http.StatusNotFound {
		return mcp.Message{}, &undelivered{errSessionLost}
	}
	msg, err := l.refusal(resp, id)
	if l.session != nil && resp.StatusCode == http.StatusBadRequest && (err != nil || msg.ID.Absent()) {
		return mcp.Message{}, &undelivered{errSessionLost}
	}
	if err != nil && turnedAway(resp) {
		err = &undelivered{err}
	}
	return msg, err
}

// turnedAway tells whether a server refused a request before it looked at it:
// it says when to come again.
func turnedAway(resp *http.Response) bool {
	busy := resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable
	return busy && resp.Header.Get("Retry-After") != ""
}

func (l *streamableLink) parseAnswer(body []byte, id mcp.ID) (mcp.Message, error) {
	msg, err := mcp.Parse(body, mcp.Limits{Depth: l.limits.Depth, LoneSurrogates: true})
	if err != nil {
		return msg, invalid("an invalid answer: %w", err)
	}
	if msg.Kind != mcp.KindResponse || msg.ID.Key() != id.Key() {
		return msg, invalid("an answer to another request")
	}
	return msg, nil
}

// stream reads the events of a request until its answer. A broken stream of a
// legacy session is resumed where the server gave its events ids.
func (l *streamableLink) stream(ctx context.Context, resp *http.Response, req *outgoing) (mcp.Message, error) {
	last, retry := "", time.Second
	for idle := 0; ; idle++ {
		msg, answered, err := l.events(resp, req, &last, &retry, &idle)
		if answered || err != nil && ctx.Err() != nil {
			if ctx.Err() != nil && !answered {
				err = context.Cause(ctx)
			}
			return msg, err
		}
		if !l.legacy || last == "" || idle >= resumes {
			return mcp.Message{}, cmpErr(err, errNoAnswer)
		}
		if err := sleep(ctx, min(retry, 30*time.Second)); err != nil {
			return mcp.Message{}, context.Cause(ctx)
		}
		if resp, err = l.get(ctx, last); err != nil { //nolint:bodyclose // events closes it
			return mcp.Message{}, fmt.Errorf("resume the stream: %w", err)
		}
	}
}

// events reads one stream. It closes the body, or leaves that to the drain
// once the answer is there. An event that is too large stands for the answer
// unless it is surely something else.
func (l *streamableLink) events(resp *http.Response, req *outgoing, last *string, retry *time.Duration, idle *int) (mcp.Message, bool, error) {
	events := newEventReader(resp.Body, l.limits.Result)
	for {
		ev, err := events.next()
		if ev.HasID {
			*last = resumable(ev.ID)
		}
		if errors.Is(err, errEventTooLarge) {
			l.log.Warn("the server sent an event beyond the limit", "limit", l.limits.Result)
			if ev.Data == nil || ev.Event != "" && ev.Event != "message" || elsewhere(ev.Data, req.id) {
				continue
			}
			resp.Body.Close()
			return mcp.Message{}, true, errTooLarge
		}
		if err != nil {
			resp.Body.Close()
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return mcp.Message{}, false, err
		}
		if ev.Retry > 0 {
			*retry = ev.Retry
		}
		if len(ev.Data) == 0 || ev.Event != "" && ev.Event != "message" {
			continue
		}
		msg, err := mcp.Parse(ev.Data, mcp.Limits{Depth: l.limits.Depth, LoneSurrogates: true})
		*idle = 0
		switch {
		case err != nil && invalidAnswer(&msg).Key() == req.id.Key():
			resp.Body.Close()
			return msg, true, invalid("an invalid answer: %w", err)
		case err != nil:
			l.log.Debug("the server sent an invalid message", "err", err)
		case msg.Kind == mcp.KindResponse:
			if msg.ID.Key() == req.id.Key() {
				l.drain(resp.Body)
				return msg, true, nil
			}
		case req.arrived != nil:
			req.arrived(msg)
		}
	}
}

// maxEventID is the longest event id that is sent back.
const maxEventID = 4 << 10

// resumable returns an event id as far as it can be sent in a header to resume
// behind it: one that cannot is as none, and resuming with the one before it
// would repeat what is known.
func resumable(id string) string {
	control := func(r rune) bool { return r < 0x20 && r != '\t' || r == 0x7F }
	if len(id) > maxEventID || strings.ContainsFunc(id, control) {
		return ""
	}
	return id
}

// elsewhere tells whether what begins with head is surely not the answer with
// an id.
func elsewhere(head []byte, id mcp.ID) bool {
	answers := answerIn(head)
	return methodMember.Match(head) || !answers.Absent() && answers.Key() != id.Key()
}

// methodMember finds the member that only requests and notifications have.
var methodMember = regexp.MustCompile(`^\s*\{[^{}\[\]]*?"method"\s*:`)

// drain reads a stream to its end, so that its connection can be used again.
func (l *streamableLink) drain(body io.ReadCloser) {
	l.wg.Go(func() {
		timer := time.AfterFunc(drainTime, func() { body.Close() })
		defer timer.Stop()
		_, _ = io.CopyN(io.Discard, body, 4<<10)
		body.Close()
	})
}

// get opens the standalone stream of a session, or resumes a stream behind the
// event last.
func (l *streamableLink) get(ctx context.Context, last string) (*http.Response, error) {
	r, err := l.request(ctx, http.MethodGet, l.url, nil, nil)
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
		return nil, &loginError{resp.StatusCode}
	}
	return nil, &httpError{status: resp.StatusCode}
}

// negotiated starts the standalone stream of a legacy session.
func (l *streamableLink) negotiated(version mcp.Version) {
	l.legacy = version.Era() == mcp.Legacy
	if !l.legacy {
		l.session = nil
		return
	}
	if version >= mcp.V20250618 {
		l.version = []string{string(version)}
	}
	// Before it is open, what the server says outside of requests is lost, and
	// some servers put answers there.
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

// openTime is how long the first standalone stream is waited for.
const openTime = 250 * time.Millisecond

// standalone keeps the GET stream of a session open and delivers what comes on
// it. A server without one answers 405, or some other 4xx, which ends it for
// good. One that had opened it before and turns it down now has lost the
// session, but for 409, which says that it has not noticed the end of the last
// stream yet. opened is closed when it is known whether the first one opens.
func (l *streamableLink) standalone(opened chan struct{}) {
	var once sync.Once
	known := func() { once.Do(func() { close(opened) }) }
	defer known()
	wait := backoff{Base: 100 * time.Millisecond, Max: 30 * time.Second}
	last, had := "", false
	for {
		resp, err := l.get(l.ctx, last)
		known()
		var status *httpError
		var login *loginError
		switch {
		case l.ctx.Err() != nil:
			if err == nil {
				resp.Body.Close()
			}
			return
		case errors.As(err, &status) && isRejection(status) && status.status != http.StatusConflict:
			if had {
				l.fail(errSessionLost)
			}
			return
		case errors.As(err, &login) && !had:
			return
		case err != nil && !wasDelivered(err), errors.As(err, &login):
			l.fail(err)
			return
		case err == nil:
			opened := time.Now()
			had = true
			l.listen(resp, &last)
			if time.Since(opened) > 5*time.Second {
				wait.reset()
			}
		default:
			had = true // or might have had, had the connection been better
		}
		if sleep(l.ctx, wait.next()) != nil {
			return
		}
	}
}

func (l *streamableLink) listen(resp *http.Response, last *string) {
	defer resp.Body.Close()
	stop := context.AfterFunc(l.ctx, func() { resp.Body.Close() })
	defer stop()
	events := newEventReader(resp.Body, l.limits.Result)
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

func (l *streamableLink) send(ctx context.Context, raw []byte, header http.Header) error {
	resp, err := l.post(ctx, raw, header)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		_, err := l.refused(resp, "")
		return cmpErr(err, &httpError{status: resp.StatusCode})
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	return nil
}

func (l *streamableLink) fail(err error) {
	l.failed.Do(func() {
		l.cancel(err)
		close(l.lost)
	})
}

func (l *streamableLink) done() <-chan struct{} { return l.lost }
func (l *streamableLink) cause() error          { return context.Cause(l.ctx) }

// close ends the session at the server and waits for the link's streams.
func (l *streamableLink) close(ctx context.Context) {
	if l.closed.Swap(true) {
		return
	}
	lost := l.ctx.Err() != nil
	l.fail(errClosed)
	if l.legacy && l.session != nil && !lost {
		ctx, cancel := context.WithTimeout(ctx, endTime)
		defer cancel()
		if r, err := l.request(ctx, http.MethodDelete, l.url, nil, nil); err == nil {
			l.identify(r)
			if resp, err := l.do(r); err == nil {
				resp.Body.Close()
			}
		}
	}
	l.wg.Wait()
}
