package transport

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/arena"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/http1"
)

// httpClient is shared by both HTTP transports: a connection pool for one server, the
// credential on every request, no redirects, bounded answers.
type httpClient struct {
	url        *url.URL
	pool       *http1.Pool
	credential Credential
	principal  string
	limits     Limits
}

// newHTTPClient returns the client for a server with an http or https URL.
func newHTTPClient(o *Options) (httpClient, error) {
	to, err := url.Parse(o.URL)
	if err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
		return httpClient{}, fmt.Errorf("the URL %q is none of http or https", redactURL(o.URL))
	}
	to.Fragment = ""
	return httpClient{url: to, pool: o.Pool, credential: o.Credential, principal: o.Principal, limits: o.Limits}, nil
}

// NewPool returns the HTTP connection pool for one server and that many concurrent calls.
// Servers share nothing.
func NewPool(calls int) *http1.Pool {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return http1.NewPool(&http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           max(64, 2*calls),
		MaxIdleConnsPerHost:    max(64, 2*calls),
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    10 * time.Second,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 256 << 10,
		DisableCompression:     true,
		// A connection holds both buffers as long as a call waits on it. Larger messages
		// bypass them.
		ReadBufferSize:  1 << 10,
		WriteBufferSize: 2 << 10,
	})
}

// request builds a request with the credential of the principal.
func (c *httpClient) request(ctx context.Context, method string, to *url.URL, body []byte) (*http.Request, error) {
	return c.requestIn(newSending(), ctx, method, to, body, nil)
}

// requestIn is request in memory that is zero or was cleared.
func (c *httpClient) requestIn(s *sending, ctx context.Context, method string, to *url.URL, body []byte, fields []Field) (*http.Request, error) {
	s.ctx.Context = ctx
	r := s.request
	r.Method, r.URL, r.Host = method, to, to.Host
	if body != nil {
		s.raw = body
		s.from.Reset(body)
		r.Body, r.GetBody, r.ContentLength = &s.body, s.again, int64(len(body))
		r.Header["Content-Type"] = contentJSON
	}
	credential, err := c.credential.Headers(ctx, c.principal)
	if err != nil {
		return nil, missing(err)
	}
	if to.User != nil {
		password, _ := to.User.Password()
		r.SetBasicAuth(to.User.Username(), password)
	}
	maps.Copy(r.Header, credential)
	s.set(fields)
	return r, nil
}

var (
	contentJSON      = []string{"application/json"}
	acceptBoth       = []string{"application/json, text/event-stream"}
	acceptEvents     = []string{"text/event-stream"}
	errNoContentType = invalid("an answer without a content type")
)

// missing turns the error of a credential into one of the connection.
func missing(err error) error {
	if gone, ok := errors.AsType[MissingError](err); ok {
		return &undelivered{&LoginError{http.StatusUnauthorized, gone}}
	}
	return &undelivered{fmt.Errorf("credential: %w", err)}
}

// ForbiddenError is the error of a request that the server refuses because of missing
// rights (HTTP 403). Other requests and the connection are not affected.
type ForbiddenError struct{ err error }

// Error implements error.
func (e *ForbiddenError) Error() string { return e.err.Error() }

// Unwrap returns why there are no further rights.
func (e *ForbiddenError) Unwrap() error { return e.err }

// do sends a request. If the server refuses the credential and there is another one by
// now, it repeats the request, which was not run.
func (c *httpClient) do(r *http.Request) (*http.Response, error) {
	p := prover{client: c}
	r, resp, err := p.send(r)
	own, renewing := c.credential.(Renewing)
	for attempt := 0; renewing && err == nil && attempt < renewals; attempt++ {
		if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
			break
		}
		again, why := own.Refused(r.Context(), c.principal, r.Header, resp.StatusCode, resp.Header)
		if why != nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusForbidden {
				return nil, &ForbiddenError{missing(why)}
			}
			return nil, missing(why)
		}
		if !again {
			break
		}
		header, why := own.Headers(r.Context(), c.principal)
		if why != nil {
			resp.Body.Close()
			return nil, missing(why)
		}
		next, why := repeated(r)
		if why != nil {
			break
		}
		maps.Copy(next.Header, header)
		resp.Body.Close()
		r, resp, err = p.send(next)
	}
	return resp, err
}

// repeated returns a copy of a request that was not run.
func repeated(r *http.Request) (*http.Request, error) {
	next := r.Clone(r.Context())
	if r.GetBody == nil {
		return next, nil
	}
	body, err := r.GetBody()
	next.Body = body
	return next, err
}

// send sends a request through the pool. It follows no redirect: that would send the body
// and every header except Authorization to another host. [Delivered] tells of an error
// whether the server may have seen the request.
func (c *httpClient) send(r *http.Request) (*http.Response, error) {
	// With one of these headers net/http repeats a request when a connection breaks, and
	// the server would run a call twice.
	delete(r.Header, "Idempotency-Key")
	delete(r.Header, "X-Idempotency-Key")
	body, watched := r.Body.(*watchedBody) // nil without a body: such a request runs nothing
	if !watched && r.Body != nil && r.Body != http.NoBody {
		body = &watchedBody{ReadCloser: r.Body}
		r.Body = body
	}
	resp, err := c.pool.RoundTrip(r)
	if err == nil {
		return resp, nil
	}
	if cause := context.Cause(r.Context()); cause != nil {
		return nil, cause
	}
	if body == nil || !body.begun.Load() { // no address, no listener, no TLS: nothing has reached the server
		return nil, &undelivered{failure.Plain(unechoed(err, r.Header))}
	}
	return nil, fmt.Errorf("request: %w", failure.Plain(unechoed(err, r.Header)))
}

// watchedBody is the body of a request. It records whether a connection has begun to read
// it.
type watchedBody struct {
	io.ReadCloser
	begun atomic.Bool
}

// Read implements [io.Reader].
func (b *watchedBody) Read(p []byte) (int, error) {
	b.begun.Store(true)
	return b.ReadCloser.Read(p)
}

// WriteTo implements [io.WriterTo]; it avoids a copy.
func (b *watchedBody) WriteTo(w io.Writer) (int64, error) {
	b.begun.Store(true)
	return io.Copy(w, b.ReadCloser)
}

// mediaType returns the content type of an answer without its parameters.
func mediaType(resp *http.Response) string {
	value := resp.Header.Get("Content-Type")
	if value == "application/json" || value == "text/event-stream" {
		return value
	}
	kind, _, err := mime.ParseMediaType(value)
	if err != nil {
		return ""
	}
	return kind
}

// refusal turns a status that is not 2xx into an error, or into the JSON-RPC error in the
// body. It reads a bounded part of the body.
func (c *httpClient) refusal(resp *http.Response, id mcp.ID) (mcp.Message, error) {
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		return mcp.Message{}, &undelivered{&LoginError{status: resp.StatusCode}}
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return mcp.Message{}, &undelivered{&StatusError{resp.StatusCode, fmt.Sprintf("the server redirects (HTTP %d), which is not followed; configure the final URL", resp.StatusCode)}}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err == nil && mediaType(resp) == "application/json" {
		msg, err := mcp.Parse(bytes.TrimPrefix(body, byteOrderMark), mcp.Limits{Depth: c.limits.Depth, LoneSurrogates: true})
		if err == nil && msg.Kind == mcp.KindResponse && msg.Fault() != nil && (msg.ID.Absent() || msg.ID.Key() == id.Key()) {
			return msg, nil
		}
	}
	if resp.Request != nil {
		body = []byte(withoutSent(string(body), resp.Request.Header))
	}
	return mcp.Message{}, &StatusError{resp.StatusCode, Excerpt(body)}
}

// Excerpt returns the beginning of a body as one printable line.
func Excerpt(body []byte) string {
	const most = 120
	text := strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7F {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(body[:min(len(body), 4*most)]), ""))
	if text = strings.Join(strings.Fields(text), " "); len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// redactURL returns a URL without its user information and query.
func redactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(unreadable)"
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}

// blocks are buffers for large answers of unknown size.
var blocks = sync.Pool{New: func() any { b := make([]byte, blockSize); return &b }}

const blockSize = 256 << 10

const (
	// announcedMost is the most memory that is allocated at once for an announced size: an
	// announcement costs its sender nothing. Beyond it, memory grows with the data. It is a
	// megabyte and what surrounds it in a message.
	announcedMost = 1<<20 + 4<<10
	// announcedShare is the part of a larger body after which memory for all of it is
	// allocated, if the part was within announcedMost.
	announcedShare = 4
)

// readBody reads an answer of at most limit bytes into memory of its size, taken from the
// arena. known is the announced size, or -1. A body that ends early is io.ErrUnexpectedEOF.
func readBody(memory *arena.Arena, r io.Reader, known int64, limit int) ([]byte, error) {
	switch {
	case known > int64(limit):
		return nil, ErrTooLarge
	case known < 0 || known > announcedShare*announcedMost:
		return readGrowing(memory, r, known, limit)
	}
	part := known
	if known > announcedMost {
		part = known / announcedShare
	}
	buf := memory.Take(int(part))
	n, err := readFull(r, buf)
	if n == len(buf) && part < known {
		all := memory.Take(int(known))
		copy(all, buf)
		memory.Drop(buf)
		buf = all
		var more int
		more, err = readFull(r, buf[part:])
		n += more
	}
	if n < len(buf) {
		return nil, cmp.Or(err, io.ErrUnexpectedEOF)
	}
	return buf, nil
}

// readGrowing is readBody with memory that grows with the data.
func readGrowing(memory *arena.Arena, r io.Reader, known int64, limit int) ([]byte, error) {
	small := make([]byte, 4<<10)
	n, err := readFull(r, small)
	size := n
	if size > limit {
		return nil, ErrTooLarge
	}
	var full []*[]byte
	defer func() {
		for _, b := range full {
			blocks.Put(b)
		}
	}()
	for room := len(small); err == nil && n == room; {
		b := blocks.Get().(*[]byte)
		full = append(full, b)
		room = len(*b)
		n, err = readFull(r, *b)
		if size += n; size > limit {
			return nil, ErrTooLarge
		}
	}
	switch {
	case err != nil:
		return nil, err
	case known >= 0 && int64(size) < known:
		return nil, io.ErrUnexpectedEOF
	}
	if size < len(small) {
		return small[:size:size], nil
	}
	out := memory.Take(size)[:0]
	out = append(out, small...)
	for _, b := range full {
		out = append(out, (*b)[:min(blockSize, size-len(out))]...)
	}
	return out, nil
}

// readFull reads until buf is full or r ends. Fewer bytes than buf has room for mean the
// end, which is no error.
func readFull(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var read int
		read, err = r.Read(buf[n:])
		n += read
	}
	if err == io.EOF {
		err = nil
	}
	return n, err
}
