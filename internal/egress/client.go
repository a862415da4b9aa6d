package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/toolgate/toolgate/upstream/http1"
)

// Limits bound one request including its redirects. Zero values stand for the defaults,
// except for Redirects.
type Limits struct {
	Timeout   time.Duration // of everything, including the body; 30 s
	Header    int64         // bytes of the response header; 64 KiB
	Body      int64         // bytes of the decompressed response body; 1 MiB
	Redirects int           // that are followed; with 0 the redirect is the response
	// Many is for clients with many requests at once whose answers take long: those to one host
	// share a connection where that has HTTP/2, and a connection has neither a goroutine nor a
	// buffer while its answer has not begun where package http1 sends the request. The buffers
	// of other connections are small.
	Many bool
}

func (l Limits) withDefaults() Limits {
	l.Timeout = cmp.Or(max(0, l.Timeout), 30*time.Second)
	l.Header = cmp.Or(max(0, l.Header), 64<<10)
	l.Body = cmp.Or(max(0, l.Body), 1<<20)
	return l
}

const (
	// pingAfter is how long a connection that many requests share may be silent before it is
	// looked at, and pingTime how long the other side has for an answer.
	pingAfter, pingTime = 30 * time.Second, 15 * time.Second
	// smallBuffer is what a connection of [Limits.Many] buffers of either direction, in bytes.
	// Bodies are not copied through it.
	smallBuffer = 1 << 10
)

// ErrTooLarge is returned by reads beyond the limit of a body.
var ErrTooLarge = errors.New("the answer is too large")

// Client makes requests that a guard allows. It is safe for concurrent use.
type Client struct {
	limits Limits
	idle   interface{ CloseIdleConnections() }
	http   *http.Client
}

// NewClient returns a client. trust is for servers whose certificates the machine does
// not trust; nil trusts what the machine trusts.
func NewClient(g *Guard, l Limits, trust *tls.Config) *Client {
	l = l.withDefaults()
	base := &http.Transport{
		Proxy: nil, DialContext: g.DialContext, TLSClientConfig: trust,
		MaxResponseHeaderBytes: l.Header, ResponseHeaderTimeout: l.Timeout, TLSHandshakeTimeout: dialTime,
		MaxIdleConns: 16, MaxIdleConnsPerHost: 4, IdleConnTimeout: 30 * time.Second,
	}
	if l.Many {
		base.ForceAttemptHTTP2 = true
		base.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTime}
		base.ReadBufferSize, base.WriteBufferSize = smallBuffer, smallBuffer
	}
	guarded := &guardedTransport{guard: g, https: base, http: base, body: l.Body}
	c := &Client{limits: l, idle: base}
	if l.Many {
		pool := http1.NewPool(base)
		pool.Patient = true
		guarded.http, c.idle = pool, pool // which closes those of both
	}
	c.http = &http.Client{
		Transport: guarded, Timeout: l.Timeout,
		CheckRedirect: func(next *http.Request, via []*http.Request) error { return redirect(next, via, l.Redirects) },
	}
	return c
}

// HTTP returns the client for libraries. Reading beyond the limit of a body returns
// [ErrTooLarge].
func (c *Client) HTTP() *http.Client { return c.http }

// Transport returns what makes single requests: without the time limit, and a redirect is the
// response. Reading beyond the limit of a body returns [ErrTooLarge].
func (c *Client) Transport() http.RoundTripper { return c.http.Transport }

// Close closes idle connections.
func (c *Client) Close() { c.idle.CloseIdleConnections() }

// Answer is the response of a server.
type Answer struct {
	Status int
	Header http.Header
	URL    *url.URL // after redirects
	Body   []byte
	Cut    bool // the body was longer
}

// Do makes a request and reads the response up to the limits. A longer body is cut. A
// [Refusal] in the error comes from the policy. Errors contain nothing of an address
// but its host.
func (c *Client) Do(ctx context.Context, req *http.Request) (*Answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.limits.Timeout, errSlow)
	defer cancel()
	resp, err := c.http.Do(req.WithContext(ctx))
	if err != nil {
		return nil, c.sanitize(ctx, req.URL, err)
	}
	defer resp.Body.Close()
	out := &Answer{Status: resp.StatusCode, Header: resp.Header, URL: resp.Request.URL}
	out.Body, err = io.ReadAll(resp.Body)
	switch {
	case errors.Is(err, ErrTooLarge):
		out.Cut = true
	case err != nil:
		return nil, c.sanitize(ctx, req.URL, err)
	}
	return out, nil
}

var errSlow = errors.New("it took too long")

// sanitize removes the address from an error of a request, because it may hold secrets.
func (c *Client) sanitize(ctx context.Context, u *url.URL, err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return refusal
	}
	if ctx.Err() != nil {
		if cause := context.Cause(ctx); !errors.Is(cause, errSlow) {
			return cause
		}
	}
	if timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		err = errSlow
	}
	return fmt.Errorf("reach %s: %w", u.Hostname(), err)
}

// redirect decides on a redirect. Its target is checked like every request. A request
// with a body, or with headers of its own, is not redirected to another origin.
func redirect(next *http.Request, via []*http.Request, most int) error {
	first := via[0]
	switch {
	case most == 0:
		return http.ErrUseLastResponse
	case len(via) > most:
		return refuse("redirects", "the server redirects more than %d times", most)
	case via[len(via)-1].URL.Scheme == "https" && next.URL.Scheme != "https":
		return refuse("redirects", "the server redirects from https to http")
	}
	next.Header.Del("Referer")
	if next.URL.Scheme == first.URL.Scheme && strings.EqualFold(next.URL.Host, first.URL.Host) {
		return nil
	}
	if next.Body != nil && next.Body != http.NoBody {
		return refuse("redirects", "the server redirects the request, with what it holds, to another host: %s", next.URL.Hostname())
	}
	for name := range next.Header {
		if name != "Accept" && name != "Accept-Language" && name != "User-Agent" {
			next.Header.Del(name)
		}
	}
	return nil
}

// guardedTransport is the transport of every request, including redirects.
type guardedTransport struct {
	guard       *Guard
	https, http http.RoundTripper // for URLs of the scheme
	body        int64
}

func (t *guardedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	u, err := t.guard.check(req.URL)
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	own := *req // the request must not be modified
	own.URL, own.Host = u, u.Host
	by := t.https
	if u.Scheme == "http" {
		by = t.http
	}
	resp, err := by.RoundTrip(&own)
	if err != nil {
		return nil, err
	}
	if how := resp.Header.Get("Content-Encoding"); how != "" && !strings.EqualFold(how, "identity") {
		resp.Body.Close()
		return nil, refuse("encoding", "the answer is compressed in a way that was not asked for: %.40q", how)
	}
	resp.Body = &limitedBody{ReadCloser: resp.Body, left: t.body}
	return resp, nil
}

// limitedBody is a body with a limit.
type limitedBody struct {
	io.ReadCloser
	left int64
}

func (c *limitedBody) Read(p []byte) (int, error) {
	if c.left < 0 {
		return 0, ErrTooLarge
	}
	if int64(len(p)) > c.left+1 {
		p = p[:c.left+1] // one more byte, to see whether there is one
	}
	n, err := c.ReadCloser.Read(p)
	if c.left -= int64(n); c.left < 0 {
		return n - 1, ErrTooLarge
	}
	return n, err
}
