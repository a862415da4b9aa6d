package proxy

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// recorder is the response to one HTTP request in memory. It can be read while the
// handler still writes.
type recorder struct {
	mu      sync.Mutex
	header  http.Header
	sent    http.Header // when the status was written
	status  int
	body    bytes.Buffer
	flushes int
	read    int   // bytes of body that were drained
	broken  error // what writes return; nil while the client is there

	done chan struct{} // closed when the handler has returned
}

func newRecorder() *recorder {
	return &recorder{header: http.Header{}, done: make(chan struct{})}
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status == 0 {
		r.status, r.sent = status, r.header.Clone()
	}
}

func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken != nil {
		return 0, r.broken
	}
	return r.body.Write(p)
}

func (r *recorder) FlushError() error {
	r.WriteHeader(http.StatusOK)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flushes++
	return r.broken
}

func (r *recorder) SetWriteDeadline(time.Time) error { return nil }

// text is the body so far.
func (r *recorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.body.String()
}

// next is what has come since the last call.
func (r *recorder) next() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.body.String()[r.read:]
	r.read += len(s)
	return s
}

func (r *recorder) code() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

func (r *recorder) field(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent.Get(name)
}

func (r *recorder) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// httpRequest makes a request to the gateway with headers as pairs. A pair with an
// empty value removes the header; repeated names are sent twice.
func httpRequest(method, target, body string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host, r.RemoteAddr = "127.0.0.1:8080", "127.0.0.1:40000"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer alice")
	given := map[string]bool{}
	for i := 0; i+1 < len(headers); i += 2 {
		name := http.CanonicalHeaderKey(headers[i])
		switch {
		case name == "Host":
			r.Host = headers[i+1]
		case headers[i+1] == "":
			r.Header.Del(name)
		case given[name]:
			r.Header.Add(name, headers[i+1])
		default:
			r.Header.Set(name, headers[i+1])
		}
		given[name] = true
	}
	return r
}

// do serves a request to its end.
func (r *rig) do(req *http.Request) *recorder {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(req.Context(), time.Minute)
	defer cancel()
	w := newRecorder()
	r.Handler().ServeHTTP(w, req.WithContext(ctx))
	close(w.done)
	return w
}

// begin serves a request in the background; cancel disconnects the client. It ends with
// the test at the latest.
func (r *rig) begin(req *http.Request) (w *recorder, cancel context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	w = newRecorder()
	go func() {
		defer close(w.done)
		r.Handler().ServeHTTP(w, req.WithContext(ctx))
	}()
	r.t.Cleanup(func() {
		cancel()
		<-w.done
	})
	return w, cancel
}

// post sends a message to /mcp as it is.
func (r *rig) post(body string, headers ...string) *recorder {
	r.t.Helper()
	return r.do(httpRequest(http.MethodPost, "/mcp", body, headers...))
}

const initBody = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"sampling":{},"elicitation":{},"roots":{}},"clientInfo":{"name":"tester","version":"3"}}}`

// open initializes a legacy session and returns its id.
func (r *rig) open(headers ...string) string {
	r.t.Helper()
	w := r.post(initBody, headers...)
	if w.code() != http.StatusOK || w.field("Mcp-Session-Id") == "" {
		r.t.Fatalf("initialize: status %d, %s", w.code(), w.text())
	}
	return w.field("Mcp-Session-Id")
}

// request is a JSON-RPC request of a legacy client.
func request(id, method, params string) string {
	if params == "" {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `"}`
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`
}

const modernMeta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"sampling":{},"elicitation":{"form":{}}}`

// modernBody is a JSON-RPC request of a modern client. members are further members of
// params, meta further members of _meta.
func modernBody(id, method, members, meta string) string {
	if members != "" {
		members += ","
	}
	if meta != "" {
		meta = "," + meta
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + members + `"_meta":{` + modernMeta + meta + `}}}`
}

// modernRequest is the POST of a modern body with the headers that mirror it, and
// further headers.
func modernRequest(body string, headers ...string) *http.Request {
	msg, err := mcp.Parse([]byte(body), mcp.Limits{})
	if err != nil {
		panic(err)
	}
	mirrored := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", msg.Method}
	name, named := msg.ParamString("name")
	switch {
	case !named && msg.Method == mcp.MethodRead:
		name, named = msg.ParamString("uri")
	case !named:
		name, named = msg.ParamString("taskId")
	}
	if named {
		mirrored = append(mirrored, "Mcp-Name", mcp.EncodeHeaderValue(name))
	}
	req := httpRequest(http.MethodPost, "/mcp", body, mirrored...)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
		}
	}
	return req
}

// modern serves one modern request.
func (r *rig) modern(id, method, members string, headers ...string) *recorder {
	r.t.Helper()
	return r.do(modernRequest(modernBody(id, method, members, ""), headers...))
}

// legacy serves one request of a legacy session.
func (r *rig) legacy(session, id, method, params string, headers ...string) *recorder {
	r.t.Helper()
	return r.post(request(id, method, params), append([]string{"Mcp-Session-Id", session}, headers...)...)
}

// wire is a client on a pair of streams.
type wire struct {
	t    testing.TB
	in   *io.PipeWriter
	out  *syncBuffer
	done chan struct{} // closed when ServeStdio has returned
	err  error         // what it returned
}

// stdio serves a client on streams in memory. It ends with the test.
func (r *rig) stdio(id *gate.Identity) *wire {
	in, feed := io.Pipe()
	c := &wire{t: r.t, in: feed, out: &syncBuffer{}, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(c.done)
		c.err = r.ServeStdio(ctx, id, Scope{}, in, c.out)
	}()
	r.t.Cleanup(func() {
		_ = feed.Close()
		cancel()
		<-c.done
	})
	return c
}

// send writes lines.
func (c *wire) send(lines ...string) {
	c.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(c.in, line+"\n"); err != nil {
			c.t.Fatal(err)
		}
	}
}
