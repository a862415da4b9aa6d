package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

func testServer(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// TestClientWithFastServer has the client and the server speak to each other,
// with nothing and with the reverse proxy in between.
func TestClientWithFastServer(t *testing.T) {
	for _, s := range settings {
		for _, proxied := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, proxied %t", s, proxied), func(t *testing.T) {
				up := newFastServer(s.era == "modern", s.answers == "sse", 7)
				url := testServer(t, up)
				if proxied {
					h, err := reverseHandler(url)
					if err != nil {
						t.Fatal(err)
					}
					url = testServer(t, h)
				}
				c := newClient(url+"/mcp", s.era, "")
				defer c.close()
				if err := c.open(t.Context()); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if err := c.echo(t.Context()); err != nil {
						t.Error(err)
					}
					if got, err := c.tools(t.Context()); err != nil || got != 7+ownTools {
						t.Errorf("%d tools (%v), want %d", got, err, 7+ownTools)
					}
				}
				for _, size := range []int{0, 1, 64 << 10, 300_000} {
					if err := c.blob(t.Context(), size); err != nil {
						t.Error(err)
					}
				}
				if err := c.blob(t.Context(), -1); err == nil {
					t.Error("a result of -1 bytes")
				}
				if err := c.end(t.Context()); err != nil {
					t.Error(err)
				}
				if open := up.open.Load(); open != 0 {
					t.Errorf("%d sessions are left", open)
				}
			})
		}
	}
}

// TestClientNoticesWrongAnswers answers an echo wrongly in all ways that a
// broken proxy could.
func TestClientNoticesWrongAnswers(t *testing.T) {
	const right = `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"TEXT"}]}}`
	for _, tt := range []struct {
		name, answer string
		status       int
		ok           bool
	}{
		{name: "right", answer: right, ok: true},
		{name: "another id", answer: strings.Replace(right, "ID", "99", 1)},
		{name: "id as a string", answer: strings.Replace(right, "ID", `"ID"`, 1)},
		{name: "another text", answer: strings.Replace(right, "TEXT", "TEXT.", 1)},
		{name: "text of another call", answer: strings.Replace(right, "TEXT", "1 7 "+strings.Repeat(".", 96), 1)},
		{name: "no content", answer: `{"jsonrpc":"2.0","id":ID,"result":{"content":[]}}`},
		{name: "a refusal", answer: strings.Replace(right, `]}}`, `],"isError":true}}`, 1)},
		{name: "an error", answer: `{"jsonrpc":"2.0","id":ID,"error":{"code":-32603,"message":"no"}}`},
		{name: "neither", answer: `{"jsonrpc":"2.0","id":ID}`},
		{name: "no version", answer: strings.Replace(right, `"jsonrpc":"2.0",`, "", 1)},
		{name: "half", answer: right[:len(right)-1]},
		{name: "empty", answer: " "},
		{name: "another status", answer: right, status: http.StatusBadGateway},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url := testServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				var req request
				if err != nil || json.Unmarshal(body, &req) != nil {
					t.Errorf("the request is %q (%v)", body, err)
				}
				if len(req.Params.Arguments.Text) != echoSize {
					t.Errorf("the text has %d bytes, want %d", len(req.Params.Arguments.Text), echoSize)
				}
				w.Header().Set("Content-Type", "application/json")
				if tt.status != 0 {
					w.WriteHeader(tt.status)
				}
				_, _ = io.WriteString(w, strings.NewReplacer("ID", string(req.ID), "TEXT", req.Params.Arguments.Text).Replace(tt.answer))
			}))
			c := newClient(url, "legacy", "")
			defer c.close()
			if err := c.echo(t.Context()); (err == nil) != tt.ok {
				t.Errorf("echo: %v", err)
			}
		})
	}
}

func TestClientNoticesWrongLists(t *testing.T) {
	for _, tt := range []struct {
		name  string
		pages []string
		want  int
	}{
		{"one page", []string{`{"tools":[{"name":"a"},{"name":"b"}]}`}, 2},
		{"two pages", []string{`{"tools":[{"name":"a"}],"nextCursor":"1"}`, `{"tools":[{"name":"b"}]}`}, 2},
		{"a name twice", []string{`{"tools":[{"name":"a"}],"nextCursor":"1"}`, `{"tools":[{"name":"a"}]}`}, -1},
		{"no name", []string{`{"tools":[{}]}`}, -1},
		{"no list", []string{`[]`}, -1},
		{"no end", []string{`{"tools":[],"nextCursor":"0"}`}, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url := testServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var req struct {
					ID     json.RawMessage
					Params struct{ Cursor string }
				}
				if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
					t.Error(err)
				}
				page := 0
				if req.Params.Cursor == "1" {
					page = 1
				}
				_, _ = w.Write(mcp.AppendResult(nil, mcp.ID(req.ID), []byte(tt.pages[page])))
			}))
			c := newClient(url, "legacy", "")
			defer c.close()
			got, err := c.tools(t.Context())
			if tt.want < 0 && err == nil || tt.want >= 0 && (err != nil || got != tt.want) {
				t.Errorf("%d tools (%v), want %d", got, err, tt.want)
			}
		})
	}
}

func TestFastServerRefuses(t *testing.T) {
	legacy, modern := newFastServer(false, false, 0), newFastServer(true, false, 0)
	for _, tt := range []struct {
		name, method, body string
		header             http.Header
		server             *fastServer
		want               int
	}{
		{"no JSON", "POST", "{", nil, legacy, 400},
		{"no session", "POST", `{"id":1,"method":"tools/list"}`, nil, legacy, 400},
		{"another session", "POST", `{"id":1,"method":"tools/list"}`, http.Header{mcp.HeaderSession: {"x"}}, legacy, 404},
		{"a discovery", "POST", `{"id":1,"method":"server/discover"}`, nil, legacy, 400},
		{"a stream", "GET", "", nil, legacy, 405},
		{"no headers", "POST", `{"id":1,"method":"tools/list"}`, nil, modern, 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), tt.method, "/mcp", strings.NewReader(tt.body))
			if tt.header != nil {
				r.Header = tt.header
			}
			w := httptest.NewRecorder()
			tt.server.ServeHTTP(w, r)
			if w.Code != tt.want {
				t.Errorf("HTTP %d, want %d: %s", w.Code, tt.want, w.Body)
			}
		})
	}
}

func TestLastEvent(t *testing.T) {
	for _, tt := range []struct{ stream, want string }{
		{"", ""},
		{"event: message\ndata: {}\n\n", "{}"},
		{":\n\nid: 1\ndata: a\n\nevent: message\ndata:b\n\n", "b"},
		{"data: a\r\n\r\n", "a"},
		{"datum: a\n", ""},
	} {
		if got := string(lastEvent([]byte(tt.stream))); got != tt.want {
			t.Errorf("lastEvent(%q) = %q, want %q", tt.stream, got, tt.want)
		}
	}
}

func TestReverseNeedsAHost(t *testing.T) {
	for _, url := range []string{"", "/mcp", "http://", "%"} {
		if _, err := reverseHandler(url); err == nil {
			t.Errorf("a proxy in front of %q", url)
		}
	}
}
