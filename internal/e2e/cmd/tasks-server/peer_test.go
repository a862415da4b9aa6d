package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A peer is a client of the server over one of its transports.
type peer interface {
	// call sends a request and waits for its result. Everything else that comes
	// is given to handle. When ctx ends it cancels the request.
	call(ctx context.Context, method string, params object) (object, *rpcError)
	// tell sends what is not a request.
	tell(message object)
	// onMessage sets the function that takes questions and notifications.
	onMessage(func(object))
}

// eachTransport runs a test in a bubble for each transport: time is not real,
// and every goroutine must have ended. connect makes a client of its own
// connection; over stdio there can be only one.
func eachTransport(t *testing.T, s func() *server, test func(t *testing.T, connect func() peer)) {
	t.Run("stdio", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := s()
			test(t, func() peer { return overStdio(t, srv) })
		})
	})
	t.Run("http", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := s()
			client := pipeHTTP(t, srv)
			test(t, func() peer { return &httpPeer{t: t, client: client} })
		})
	})
}

func testServer() *server { return newServer("both", 100, time.Minute, time.Second) }

// stdioPeer speaks to serveStdio through two pipes.
type stdioPeer struct {
	t       *testing.T
	in      io.Writer
	mu      sync.Mutex
	lastID  int
	waiting map[string]chan object
	handle  func(object)
	answers int
}

func overStdio(t *testing.T, s *server) *stdioPeer {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p := &stdioPeer{t: t, in: inW, waiting: map[string]chan object{}, handle: func(object) {}}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.serveStdio(context.Background(), inR, outW); err != nil {
			t.Errorf("serveStdio: %v", err)
		}
		outW.Close()
	})
	wg.Go(func() {
		lines := bufio.NewScanner(outR)
		lines.Buffer(nil, maxMessage)
		for lines.Scan() {
			p.receive(lines.Bytes())
		}
	})
	t.Cleanup(func() {
		inW.Close()
		wg.Wait()
		s.tasks.close()
	})
	return p
}

func (p *stdioPeer) receive(line []byte) {
	m := toObject(p.t, line)
	p.mu.Lock()
	handle, waiting := p.handle, p.waiting[idText(m)]
	if m["method"] == nil {
		p.answers++
	}
	p.mu.Unlock()
	switch {
	case m["method"] != nil:
		handle(m)
	case waiting != nil:
		waiting <- m
	default:
		p.t.Errorf("an answer that nobody waits for: %s", line)
	}
}

func (p *stdioPeer) onMessage(handle func(object)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handle = handle
}

func (p *stdioPeer) tell(m object) {
	m["jsonrpc"] = "2.0"
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.in.Write(append(mustJSON(p.t, m), '\n')); err != nil {
		p.t.Errorf("writing: %v", err)
	}
}

func (p *stdioPeer) call(ctx context.Context, method string, params object) (object, *rpcError) {
	p.mu.Lock()
	p.lastID++
	id := fmt.Sprintf("r%d", p.lastID) // ids may be strings
	answered := make(chan object, 1)
	p.waiting[id] = answered
	p.mu.Unlock()
	p.tell(object{"id": id, "method": method, "params": params})
	select {
	case m := <-answered:
		return outcome(p.t, m)
	case <-ctx.Done():
		p.tell(notification("notifications/cancelled", object{"requestId": id}))
		return nil, errorf(0, "cancelled")
	}
}

// httpPeer speaks to the HTTP handler through net.Pipe.
type httpPeer struct {
	t       *testing.T
	client  *http.Client
	mu      sync.Mutex
	lastID  int
	session string
	handle  func(object)
}

func (p *httpPeer) onMessage(handle func(object)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handle = handle
}

// pipeHTTP serves HTTP on a listener without a network.
func pipeHTTP(t *testing.T, s *server) *http.Client {
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.serveHTTP(ctx, l); err != nil {
			t.Errorf("serveHTTP: %v", err)
		}
	})
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		near, far := net.Pipe()
		select {
		case l.conns <- far:
			return near, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		wg.Wait()
		s.tasks.close()
	})
	return &http.Client{Transport: transport}
}

type pipeListener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error { l.once.Do(func() { close(l.closed) }); return nil }

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// request makes a POST with the headers that a correct client sets.
func (p *httpPeer) request(ctx context.Context, m object) *http.Request {
	m["jsonrpc"] = "2.0"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/mcp", bytes.NewReader(mustJSON(p.t, m)))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	params, _ := m["params"].(object)
	if meta, ok := params["_meta"].(object); ok && meta[keyVersion] != nil {
		r.Header.Set("MCP-Protocol-Version", fmt.Sprint(meta[keyVersion]))
		r.Header.Set("Mcp-Method", fmt.Sprint(m["method"]))
		for _, name := range []string{"name", "taskId"} {
			if params[name] != nil {
				r.Header.Set("Mcp-Name", fmt.Sprint(params[name]))
			}
		}
		return r
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session != "" {
		r.Header.Set("Mcp-Session-Id", p.session)
		r.Header.Set("MCP-Protocol-Version", legacyVersion)
	}
	return r
}

func (p *httpPeer) tell(m object) {
	res, err := p.client.Do(p.request(context.Background(), m))
	if err != nil {
		p.t.Errorf("POST: %v", err)
		return
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusAccepted {
		p.t.Errorf("%v: status %d, want 202", m, res.StatusCode)
	}
}

func (p *httpPeer) call(ctx context.Context, method string, params object) (object, *rpcError) {
	p.mu.Lock()
	p.lastID++
	id := p.lastID
	p.mu.Unlock()
	res, err := p.client.Do(p.request(ctx, object{"id": id, "method": method, "params": params}))
	if err != nil {
		return nil, errorf(0, "cancelled")
	}
	defer res.Body.Close()
	if method == "initialize" {
		p.mu.Lock()
		p.session = res.Header.Get("Mcp-Session-Id")
		p.mu.Unlock()
	}
	answered := p.read(res)
	if answered == nil {
		return nil, errorf(0, "cancelled")
	}
	if got := idText(answered); got != fmt.Sprint(id) {
		p.t.Errorf("the answer to %d has id %s", id, got)
	}
	return outcome(p.t, answered)
}

// read gives the answer in a body; nil if it ended before. What else is in a
// stream is handled as it comes.
func (p *httpPeer) read(res *http.Response) object {
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		data, err := io.ReadAll(res.Body)
		if err != nil {
			p.t.Errorf("reading: %v", err)
		}
		return toObject(p.t, data)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, maxMessage)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		m := toObject(p.t, []byte(data))
		if m["method"] == nil {
			return m
		}
		p.mu.Lock()
		handle := p.handle
		p.mu.Unlock()
		if handle != nil {
			handle(m)
		}
	}
	return nil
}

// listenGET opens the stream of a legacy session, until ctx ends. It is ready
// when the function returns. Over stdio there is nothing to open.
func listenGET(ctx context.Context, t *testing.T, p peer) {
	hp, ok := p.(*httpPeer)
	if !ok {
		return
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Mcp-Session-Id", hp.session)
	res, err := hp.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	go func() { // it ends with ctx
		defer res.Body.Close()
		hp.read(res)
	}()
}

func outcome(t *testing.T, m object) (object, *rpcError) {
	if e, ok := m["error"].(object); ok {
		code, _ := e["code"].(json.Number).Int64()
		return nil, &rpcError{Code: int(code), Message: e["message"].(string), Data: e["data"]}
	}
	result, ok := m["result"].(object)
	if !ok {
		t.Errorf("neither result nor error: %v", m)
	}
	return result, nil
}

func toObject(t *testing.T, data []byte) object {
	var m object
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&m); err != nil {
		t.Errorf("not a JSON object: %q: %v", data, err)
	}
	return m
}

func mustJSON(t *testing.T, v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func idText(m object) string { return fmt.Sprint(m["id"]) }
