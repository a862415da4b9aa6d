package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/toolgate/toolgate/internal/loopback"
)

const (
	// maxDocument bounds what is read of one answer, in bytes.
	maxDocument = 256 << 10
	// requestTime bounds one request.
	requestTime = 20 * time.Second
)

// Client asks resources and authorization servers. It follows no redirect, and
// reads no more than 256 KiB of an answer. Which addresses may be reached is the
// business of its transport. It is safe for concurrent use.
type Client struct {
	// HTTP makes the requests. Required.
	HTTP http.RoundTripper
	// Loopback lets endpoints be http on this machine; all others are https.
	Loopback bool

	binding Binding // of the tokens that are asked for
}

// Error is what an authorization server answered instead of a token or a
// registration. It repeats nothing of the answer but its error code.
type Error struct {
	Status int
	Code   string // of RFC 6749 and those after it; empty where there was none
	Host   string
}

// Error implements error.
func (e *Error) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("%s answered HTTP %d", e.Host, e.Status)
	}
	return fmt.Sprintf("%s answered %s (HTTP %d)", e.Host, e.Code, e.Status)
}

// errAbsent is the error of a document that is not where it was looked for.
var errAbsent = errors.New("there is no such document")

// endpoint returns a URL that may be asked: https, or http on this machine where
// that is allowed, without user information and fragment.
func (c *Client) endpoint(what, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Opaque != "" || u.Hostname() == "":
		return nil, fmt.Errorf("the %s is not a URL of a host", what)
	case u.User != nil || u.Fragment != "" || strings.Contains(text, "#"):
		return nil, fmt.Errorf("the %s has user information or a fragment", what)
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"'`$(){}<>\\^|", r) }):
		return nil, fmt.Errorf("the %s holds characters that no URL has", what)
	case u.Scheme == "https":
	case u.Scheme == "http" && c.Loopback && loopback.Host(u.Hostname()):
	default:
		return nil, fmt.Errorf("the %s is not https", what)
	}
	return u, nil
}

// do makes one request and returns the JSON object of its answer.
func (c *Client) do(ctx context.Context, r *http.Request) (status int, header http.Header, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	var sent atomic.Bool
	r = r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}))
	r.Header.Set("Accept", "application/json")
	resp, err := c.HTTP.RoundTrip(r)
	if err != nil {
		return 0, nil, nil, fmt.Errorf("reach %s: %w", r.URL.Hostname(), quiet(err, sent.Load()))
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	switch {
	case err != nil:
		return 0, nil, nil, fmt.Errorf("read the answer of %s: %w", r.URL.Hostname(), quiet(err, true))
	case len(body) > maxDocument:
		return 0, nil, nil, fmt.Errorf("the answer of %s is larger than %d bytes", r.URL.Hostname(), maxDocument)
	}
	if kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil ||
		kind != "application/json" && !(strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")) {
		body = nil
	}
	return resp.StatusCode, resp.Header, body, nil
}

// unreadable is an error about an answer. Its text says nothing of it: it may repeat
// what was sent, and that has secrets.
type unreadable struct{ err error }

// Error implements error.
func (unreadable) Error() string { return "the answer is not valid" }

// Unwrap returns what was wrong, which is not to be shown.
func (u unreadable) Unwrap() error { return u.err }

// quiet takes the words of the other side out of an error of a request that was sent.
func quiet(err error, sent bool) error {
	var op *net.OpError
	if !sent || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &op) && errors.As(err, new(syscall.Errno)) {
		return err
	}
	return unreadable{err}
}

// document reads a metadata document into out. It returns errAbsent where there
// is none.
func (c *Client) document(ctx context.Context, u *url.URL, out any) error {
	status, _, body, err := c.do(ctx, &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: http.Header{"Mcp-Protocol-Version": {"2025-11-25"}}})
	switch {
	case err != nil:
		return err
	case status >= 400 && status < 500 || status >= 300 && status < 400:
		return errAbsent
	case status != http.StatusOK:
		return &Error{Status: status, Host: u.Hostname()}
	case body == nil || json.Unmarshal(body, out) != nil:
		return fmt.Errorf("the document of %s is not a JSON object of the expected form", u.Hostname())
	}
	return nil
}

// post sends a body and reads the answer into out, nil where none is wanted. It returns
// the header of the answer, nil where there was none.
func (c *Client) post(ctx context.Context, u *url.URL, kind string, body []byte, header http.Header, out any) (heard http.Header, err error) {
	r := &http.Request{
		Method: http.MethodPost, URL: u, Host: u.Host, Header: header.Clone(),
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
	if r.Header == nil {
		r.Header = make(http.Header)
	}
	r.Header.Set("Content-Type", kind)
	status, heard, answer, err := c.do(ctx, r)
	switch {
	case err != nil:
		return nil, err
	case status != http.StatusOK && status != http.StatusCreated:
		var said struct {
			Error string `json:"error"`
		}
		_ = json.Unmarshal(answer, &said) // without a code it is told by its status
		return heard, &Error{Status: status, Code: errorCode(said.Error), Host: u.Hostname()}
	case out == nil: // RFC 7009 section 2.2
	case answer == nil || json.Unmarshal(answer, out) != nil:
		return heard, fmt.Errorf("the answer of %s is not a JSON object of the expected form", u.Hostname())
	}
	return heard, nil
}

// errorCode returns an error code as it may be shown, empty for one that cannot be
// meant so.
func errorCode(code string) string {
	if len(code) > 64 || strings.Trim(strings.ToLower(code), "abcdefghijklmnopqrstuvwxyz0123456789_-.") != "" {
		return ""
	}
	return code
}
