//go:build e2e

package matrix

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/toolgate/toolgate/internal/mcp"
)

// stdioLink is a client on a pair of pipes.
type stdioLink struct {
	c *client

	mu  sync.Mutex
	in  io.WriteCloser // of the gateway
	all sync.WaitGroup
}

// read receives the lines of the gateway to their end.
func (l *stdioLink) read(out io.Reader) {
	in := bufio.NewReaderSize(out, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		l.c.receive(line[:len(line)-1], nil)
	}
}

func (l *stdioLink) send(raw []byte, _ *request) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.in.Write(append(raw, '\n'))
	return err
}

func (l *stdioLink) forget(*request) {}
func (l *stdioLink) stream() error   { return nil }

func (l *stdioLink) close() {
	l.in.Close()
	l.all.Wait()
}

// httpLink is what both HTTP transports have.
type httpLink struct {
	c    *client
	base string // of the gateway
	key  string // API key
	http *http.Client
	all  sync.WaitGroup
	view string // of the endpoint; empty for the full one
}

// viewPath is what the view adds to the path of an endpoint.
func (l *httpLink) viewPath() string {
	if l.view == "" {
		return ""
	}
	return "/" + l.view
}

// request makes an HTTP request of the client.
func (l *httpLink) request(ctx context.Context, method, url string, body []byte, headers ...string) (*http.Request, error) {
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, url, reader)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+l.key)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r, nil
}

// badStatus is an HTTP status that is not the wanted one.
func badStatus(resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 2000))
	return fmt.Errorf("HTTP %d: %s", resp.StatusCode, body)
}

// sseLink is a client on HTTP+SSE (2024-11-05 basic/transports).
type sseLink struct {
	httpLink
	endpoint string
}

// open opens the stream and returns when the endpoint is known.
func (l *sseLink) open(ctx context.Context) error {
	r, err := l.request(l.c.life, http.MethodGet, l.base+"/sse"+l.viewPath(), nil, "Accept", "text/event-stream")
	if err != nil {
		return err
	}
	resp, err := l.http.Do(r)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return badStatus(resp)
	}
	known := make(chan string, 1)
	l.all.Go(func() {
		defer resp.Body.Close()
		_ = events(resp.Body, func(ev event) bool { // ends with the client
			switch {
			case ev.kind == "endpoint":
				known <- string(ev.data)
			case ev.kind != "message":
				l.c.broken("an event of the type %q", ev.kind)
			default:
				l.c.receive(ev.data, nil)
			}
			return true
		})
	})
	select {
	case l.endpoint = <-known:
		if strings.HasPrefix(l.endpoint, "/") {
			l.endpoint = l.base + l.endpoint
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the endpoint: %w", context.Cause(ctx))
	}
}

func (l *sseLink) send(raw []byte, _ *request) error {
	r, err := l.request(l.c.life, http.MethodPost, l.endpoint, raw)
	if err != nil {
		return err
	}
	resp, err := l.http.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		return badStatus(resp)
	}
	return nil
}

func (l *sseLink) forget(*request) {}
func (l *sseLink) stream() error   { return nil }

func (l *sseLink) close() {
	l.c.end()
	l.all.Wait()
}

// streamLink is a client on streamable HTTP, with a session up to 2025-11-25.
type streamLink struct {
	httpLink

	mu      sync.Mutex
	session string
	ready   bool // initialize was answered
}

func (l *streamLink) url() string { return l.base + "/mcp" + l.viewPath() }

// headers are those of a message.
func (l *streamLink) headers(msg *mcp.Message) []string {
	out := []string{"Accept", "application/json, text/event-stream"}
	if !l.c.kind.modern() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.session != "" {
			out = append(out, "Mcp-Session-Id", l.session)
		}
		if l.ready && l.c.kind.rev >= mcp.V20250618 {
			out = append(out, "MCP-Protocol-Version", string(l.c.kind.rev))
		}
		return out
	}
	out = append(out, "MCP-Protocol-Version", string(l.c.kind.rev), "Mcp-Method", msg.Method)
	for _, member := range []string{"name", "uri", "taskId"} {
		if value, ok := msg.ParamString(member); ok {
			out = append(out, "Mcp-Name", mcp.EncodeHeaderValue(value))
		}
	}
	if name, _ := msg.ParamString("name"); strings.HasSuffix(name, "header") {
		arguments := msg.Param("arguments")
		if region, ok := mcp.LookupString(arguments, "region"); ok {
			out = append(out, "Mcp-Param-Region", mcp.EncodeHeaderValue(region))
		}
		if count := mcp.Lookup(arguments, "count"); count != nil {
			out = append(out, "Mcp-Param-Count", string(count))
		}
	}
	return out
}

func (l *streamLink) send(raw []byte, req *request) error {
	msg, err := mcp.Parse(raw, mcp.Limits{})
	if err != nil {
		return fmt.Errorf("the test's own message %s: %w", raw, err)
	}
	ctx := l.c.life
	if req != nil {
		ctx = req.ctx
	}
	r, err := l.request(ctx, http.MethodPost, l.url(), raw, l.headers(&msg)...)
	if err != nil {
		return err
	}
	if req != nil {
		l.all.Go(func() { l.exchange(r, req) })
		return nil
	}
	resp, err := l.http.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusAccepted || len(body) > 0 {
		return fmt.Errorf("HTTP %d: %s", resp.StatusCode, body)
	}
	return nil
}

// exchange receives the answer to a POST and whatever comes before it.
func (l *streamLink) exchange(r *http.Request, req *request) {
	c := l.c
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if req.hold == nil {
			c.finish(req)
		} else { // the rest of it comes on another stream
			close(req.off)
		}
		c.wake()
	}()
	resp, err := l.http.Do(r)
	if err != nil {
		if r.Context().Err() == nil {
			c.broken("%s: %v", req.method, err)
		}
		return
	}
	defer resp.Body.Close()
	if req.method == mcp.MethodInitialize {
		l.mu.Lock()
		l.session, l.ready = resp.Header.Get("Mcp-Session-Id"), true
		l.mu.Unlock()
	}
	switch kind := resp.Header.Get("Content-Type"); {
	case kind == "application/json":
		body, err := io.ReadAll(resp.Body)
		if err != nil && r.Context().Err() == nil {
			c.broken("%s: %v", req.method, err)
			return
		}
		c.checkStatus(resp.StatusCode, body)
		c.receive(body, &origin{req: req})
	case kind == "text/event-stream" && resp.StatusCode == http.StatusOK:
		l.events(resp.Body, req)
	case resp.StatusCode == http.StatusAccepted:
		c.mu.Lock()
		gone := req.withdrawn
		c.mu.Unlock()
		if !gone {
			c.broken("%s was accepted and not answered", req.method)
		}
	default:
		c.broken("%s: HTTP %d of the content type %q", req.method, resp.StatusCode, kind)
	}
}

// checkStatus holds the status of an answer to its error (2026-07-28
// basic/transports/streamable-http); legacy answers have 200.
func (c *client) checkStatus(status int, body []byte) {
	want := http.StatusOK
	if code := string(mcp.Lookup(body, "error", "code")); c.kind.modern() && code != "" {
		switch code {
		case "-32020", "-32021", "-32022", "-32700", "-32600":
			want = http.StatusBadRequest
		case "-32601":
			want = http.StatusNotFound
		}
	}
	if status != want {
		c.broken("HTTP %d, not %d, with %s", status, want, body)
	}
}

// events receives the stream of a request. Nothing may come behind its answer.
func (l *streamLink) events(body io.Reader, req *request) {
	c := l.c
	err := events(body, func(ev event) bool {
		c.mu.Lock()
		if ev.id != "" {
			req.events = append(req.events, ev.id)
		}
		c.mu.Unlock()
		if len(ev.data) > 0 {
			c.receive(ev.data, &origin{req: req})
			return req.hold == nil || req.hold()
		}
		return true
	})
	c.mu.Lock()
	unanswered := req.answer == nil && !req.withdrawn && req.hold == nil
	c.mu.Unlock()
	if (err != nil || unanswered) && req.ctx.Err() == nil {
		c.broken("the stream of %s ended: %v", req.method, err)
	}
}

func (l *streamLink) forget(req *request) { req.cancel() }

// stream opens the standalone stream of a session.
func (l *streamLink) stream() error {
	if l.c.kind.modern() {
		return nil
	}
	resp, err := l.get("")
	if err != nil {
		return err
	}
	l.all.Go(func() {
		defer resp.Body.Close()
		_ = events(resp.Body, func(ev event) bool { // ends with the client
			if len(ev.data) > 0 {
				l.c.receive(ev.data, &origin{standalone: true})
			}
			return true
		})
	})
	return nil
}

// get opens a stream of the session, behind an event where one is named.
func (l *streamLink) get(last string) (*http.Response, error) {
	headers := append(l.headers(nil), "Accept", "text/event-stream")
	if last != "" {
		headers = append(headers, "Last-Event-ID", last)
	}
	r, err := l.request(l.c.life, http.MethodGet, l.url(), nil, headers...)
	if err != nil {
		return nil, err
	}
	resp, err := l.http.Do(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		defer resp.Body.Close()
		return nil, badStatus(resp)
	}
	return resp, nil
}

// resume comes back for the rest of a request whose stream was broken off.
func (l *streamLink) resume(req *request) error {
	l.c.mu.Lock()
	if len(req.events) == 0 {
		l.c.mu.Unlock()
		return errors.New("the events have no ids")
	}
	last := req.events[len(req.events)-1]
	req.hold = nil
	l.c.mu.Unlock()
	resp, err := l.get(last)
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	l.all.Go(func() {
		defer resp.Body.Close()
		l.events(resp.Body, req)
	})
	return nil
}

func (l *streamLink) close() {
	if !l.c.kind.modern() {
		r, err := l.request(context.WithoutCancel(l.c.life), http.MethodDelete, l.url(), nil, l.headers(nil)...)
		if err == nil {
			if resp, err := l.http.Do(r); err == nil {
				resp.Body.Close()
			}
		}
	}
	l.c.end()
	l.all.Wait()
}
