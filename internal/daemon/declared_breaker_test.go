//go:build !windows

package daemon_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// The breaker of a declared tool is listed with its state, and reset.
func TestBreakersOfDeclaredTools(t *testing.T) {
	t.Parallel()
	s := newSick(t, reset)
	s.ill.Store(true)
	h := newHome(t)
	h.write(t, servers{"a": fake()}, map[string]any{"tools": []any{map[string]any{
		"name": "ill", "type": "http", "method": "POST", "url": s.URL, "class": "read_only", "input_schema": map[string]any{"type": "object"},
		"body": map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call"},
	}}})
	r := h.newRunning(t)
	c := r.client(t)
	of := func() (whole, tool *admin.Breaker) {
		for _, b := range r.Breakers() {
			switch {
			case b.Server == "tools" && b.Tool == "ill":
				tool = &b
			case b.Server == "tools":
				whole = &b
			}
		}
		return whole, tool
	}
	testwait.Until(t, patience, "the breaker opens", func() bool {
		tried(t.Context(), c, "tools__ill", `{}`)
		whole, tool := of()
		return whole != nil && tool != nil && tool.State == "open"
	})
	if err := r.ResetBreaker("tools", "ill"); err != nil {
		t.Fatal(err)
	}
	if _, tool := of(); tool.State != "closed" {
		t.Errorf("after it was reset: %+v", tool)
	}
	for _, wrong := range [][2]string{{"tools", "none"}, {"none", ""}} {
		if r.ResetBreaker(wrong[0], wrong[1]) == nil {
			t.Errorf("%q was reset", wrong)
		}
	}
	all := r.Breakers()
	for i := 1; i < len(all); i++ {
		if all[i-1].Server > all[i].Server {
			t.Errorf("not sorted: %+v", all)
		}
	}
}

// An answer of a declared tool's service is an answer, whatever its status: it is
// told to the caller, and opens no breaker.
func TestBreakersOfDeclaredToolsCountNoStatus(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	t.Cleanup(service.Close)
	h := newHome(t)
	h.write(t, servers{}, map[string]any{"tools": []any{map[string]any{"name": "ill", "type": "http", "url": service.URL}}})
	r := h.newRunning(t)
	c := r.client(t)
	for range 30 { // more than any of the conditions needs
		if got := text(t, c, "tools__ill", `{}`); !strings.Contains(got, "The service answered 500") {
			t.Fatal(got)
		}
	}
	seen := false
	for _, b := range r.Breakers() {
		if b.Server == "tools" && b.Tool == "ill" {
			seen = true
			if b.State != "closed" {
				t.Errorf("%+v", b)
			}
		}
	}
	if !seen {
		t.Error("the tool has no breaker")
	}
}

// sick is a server of 2026-07-28 over HTTP that misbehaves while it is ill, also
// when it is asked for a sign of life.
type sick struct {
	*httptest.Server
	how   func(w http.ResponseWriter, r *http.Request)
	ill   atomic.Bool
	until int64 // the call with which it is well again; 0 is none
	calm  bool  // it gives signs of life all the same
	calls atomic.Int64

	mu   sync.Mutex
	keys http.Header // of the latest call
}

func newSick(t *testing.T, how func(http.ResponseWriter, *http.Request)) *sick {
	t.Helper()
	s := &sick{how: how}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// ServeHTTP implements http.Handler.
func (s *sick) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	msg, err := mcp.Parse(body, mcp.Limits{})
	if err != nil || r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if msg.Method == mcp.MethodToolsCall {
		if s.calls.Add(1) == s.until {
			s.ill.Store(false)
		}
		s.mu.Lock()
		s.keys = r.Header.Clone()
		s.mu.Unlock()
	}
	if s.ill.Load() && (msg.Method == mcp.MethodToolsCall || msg.Method == mcp.MethodDiscover && !s.calm) {
		s.how(w, r)
		return
	}
	result := ""
	switch msg.Method {
	case mcp.MethodDiscover:
		result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`
	case mcp.MethodToolsList:
		result = `{"resultType":"complete","ttlMs":60000,"cacheScope":"public","tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`
	case mcp.MethodToolsCall:
		result = `{"resultType":"complete","content":[{"type":"text","text":"well"}]}`
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write(mcp.AppendFault(nil, msg.ID, mcp.Errorf(mcp.CodeMethodNotFound, "Method not found")))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(mcp.AppendResult(nil, msg.ID, []byte(result)))
}

func reset(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
