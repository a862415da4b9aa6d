package proxy

import (
	"bufio"
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/toolgate/toolgate/internal/mcp"
)

// seeds are the messages of the clients in the wire goldens.
func seeds(f *testing.F) [][]byte {
	f.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "wire", "*.txtar"))
	if err != nil || len(files) == 0 {
		f.Fatalf("no goldens: %v", err)
	}
	var out [][]byte
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, part := range archive.Files {
			if strings.HasSuffix(part.Name, "/client") {
				out = append(out, bytes.TrimSuffix(part.Data, []byte("\n")))
			}
		}
	}
	return out
}

// quick are limits under which nothing waits for long.
func quick(o *Options, _ *Config) {
	o.Limits = Limits{
		ClientLimits: ClientLimits{Body: 1 << 16, Depth: 64, SessionsPerPrincipal: 1000},
		JSONWait:     time.Minute, KeepAlive: time.Minute, FirstList: -1,
	}
}

// documented are the gateway's HTTP statuses.
var documented = []int{200, 202, 204, 400, 401, 403, 404, 405, 406, 409, 413, 415, 503}

// FuzzServeHTTP sends any request. The gateway must not panic, must answer with a
// documented status, and every refusal must be a JSON-RPC body.
func FuzzServeHTTP(f *testing.F) {
	for _, seed := range seeds(f) {
		head, body, ok := bytes.Cut(seed, []byte("\n\n"))
		if !ok {
			head, body = nil, seed
		}
		line, headers, _ := strings.Cut(string(head), "\n")
		method, path := "POST", "/mcp"
		if words := strings.Fields(line); len(words) == 3 {
			method, path = words[0], words[1]
		}
		f.Add(method, path, headers, body)
	}
	f.Add("OPTIONS", "/mcp", "Origin: http://localhost", []byte{})
	f.Add("GET", "/mcp/s/s", "Last-Event-Id: x\nMcp-Session-Id: {session}", []byte{})
	f.Add("DELETE", "/mcp", "Mcp-Session-Id: {session}", []byte{})
	f.Add("POST", "/mcp", "Mcp-Session-Id: {session}", []byte(request("1", "tools/call", `{"name":"s__echo","requestState":"k1.AAAA"}`)))
	f.Add("POST", "/mcp", "Mcp-Session-Id: {session}", []byte("["+request("1", "ping", "")+"]"))
	b := newScript(f, "s", mcp.Modern, tool("echo"), `prompt {"name":"p"}`, `resource {"uri":"x:y","name":"r"}`)
	r := newRig(f, mounted(b), quick)
	f.Fuzz(func(t *testing.T, method, path, headers string, body []byte) {
		if len(path) > 1000 || len(headers) > 4000 || len(body) > 1<<15 {
			return
		}
		r := &rig{Gateway: r.Gateway, t: t}
		session := r.open()
		defer func() {
			r.do(httpRequest("DELETE", "/mcp", "", "Mcp-Session-Id", session))
		}()
		req := httpRequest("POST", "/mcp", string(body))
		req.Method, req.URL.Path, req.URL.RawPath = method, path, ""
		if p, query, ok := strings.Cut(path, "?"); ok {
			req.URL.Path, req.URL.RawQuery = p, query
		}
		for line := range strings.Lines(headers) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				value = strings.ReplaceAll(strings.TrimSpace(value), "{session}", session)
				req.Header.Add(name, value)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // for streams, which stay open
		defer cancel()
		w := httptest.NewRecorder()
		r.Handler().ServeHTTP(w, req.WithContext(ctx))
		if !slices.Contains(documented, w.Code) {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
		if path == "/livez" || path == "/readyz" {
			return
		}
		switch kind := w.Header().Get("Content-Type"); {
		case kind == "application/json":
			for _, raw := range messages(t, w.Body.Bytes()) {
				if _, err := mcp.Parse(raw, mcp.Limits{}); err != nil {
					t.Fatalf("status %d, answered %q: %v", w.Code, raw, err)
				}
			}
		case w.Code == http.StatusOK && kind == "text/event-stream":
			for line := range strings.Lines(w.Body.String()) {
				data, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "data: ")
				if !ok || !strings.HasPrefix(data, "{") {
					continue
				}
				if _, err := mcp.Parse([]byte(data), mcp.Limits{}); err != nil {
					t.Fatalf("in the stream %q: %v", data, err)
				}
			}
		case w.Code != http.StatusAccepted && w.Code != http.StatusNoContent || w.Body.Len() > 0:
			t.Fatalf("status %d, %q, %q", w.Code, kind, w.Body)
		}
		// A batch must not smuggle in what a single message must not hold.
		for _, call := range b.seen(mcp.MethodToolsCall) {
			if call.Key != "echo" || mcp.Validate(call.Params, mcp.Limits{}) != nil {
				t.Fatalf("the server was sent %q as a call of %q", call.Params, call.Key)
			}
		}
		b.mu.Lock()
		b.got = nil
		b.mu.Unlock()
	})
}

// messages splits a batch of responses.
func messages(t *testing.T, body []byte) [][]byte {
	t.Helper()
	all, isBatch, err := mcp.SplitBatch(body, mcp.Limits{}, 1000)
	if err != nil {
		t.Fatalf("answered %q: %v", body, err)
	}
	if !isBatch {
		return [][]byte{body}
	}
	return all
}

// FuzzStdioLine sends any lines after initialize, and then a ping. Only messages may be
// written, and the ping must be answered.
func FuzzStdioLine(f *testing.F) {
	for _, seed := range seeds(f) {
		if !bytes.Contains(seed, []byte("HTTP/1.1")) {
			f.Add(seed)
		}
	}
	f.Add([]byte("a\n\r\nb\x00\n" + strings.Repeat("x", 70_000)))
	f.Add([]byte(modernBody("1", "subscriptions/listen", `"notifications":{"toolsListChanged":true,"resourceSubscriptions":["s+x:y"]}`, "")))
	b := newScript(f, "s", mcp.Legacy, tool("echo"), `resource {"uri":"x:y","name":"r"}`)
	r := newRig(f, mounted(b), quick)
	f.Fuzz(func(t *testing.T, lines []byte) {
		if len(lines) > 1<<17 || bytes.Contains(lines, []byte("notifications/cancelled")) {
			return // the last request must not be cancelled
		}
		in := strings.NewReader(initBody + "\n" + string(lines) + "\n" + request(`"last one"`, "ping", "") + "\n")
		var out syncBuffer
		if err := r.ServeStdio(t.Context(), person("alice"), Scope{}, in, &out); err != nil {
			t.Fatal(err)
		}
		pinged := false
		scanner := bufio.NewScanner(strings.NewReader(out.String()))
		scanner.Buffer(nil, 1<<24)
		for scanner.Scan() {
			for _, raw := range messages(t, scanner.Bytes()) {
				msg, err := mcp.Parse(raw, mcp.Limits{})
				if err != nil {
					t.Fatalf("written %q: %v", raw, err)
				}
				pinged = pinged || msg.ID == `"last one"` && msg.Kind == mcp.KindResponse
			}
		}
		if !pinged || scanner.Err() != nil {
			t.Fatalf("the ping was not answered: %v, %q", scanner.Err(), out.String())
		}
	})
}
