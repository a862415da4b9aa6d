package upstream

import (
	"bytes"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Servers of HTTP+SSE say in several ways that they have forgotten a session. Then a new
// one is opened, and the call is made there.
func TestForgottenSessionsOfSSE(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(http.ResponseWriter){
		"404": func(w http.ResponseWriter) { http.Error(w, "Could not find session", http.StatusNotFound) },
		"400": func(w http.ResponseWriter) { http.Error(w, "No transport found for sessionId", http.StatusBadRequest) },
		"400 with a fault": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"Invalid session ID"}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, mcp.Legacy)
			f.oldSSE(nil)
			var lost atomic.Bool
			f.guard = func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodGet:
					lost.Store(false)
				case lost.Load():
					refuse(w)
				}
			}
			spec := f.spec()
			spec.Transport = SSE
			r := run(t, spec)
			r.state(mcp.Ready)
			r.call(tool("old", `{}`))
			lost.Store(true)
			r.call(tool("old", `{}`))
			if n := len(f.requests(http.MethodGet)); n != 2 {
				t.Errorf("%d streams were opened, want another one", n)
			}
			if n := len(f.requests(mcp.MethodToolsCall)); n != 2 {
				t.Errorf("%d calls came in", n)
			}
		})
	}
}

// One refused request says nothing about the session.
func TestOneRefusalOfSSE(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	f.oldSSE(nil)
	f.guard = func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); bytes.Contains(body, []byte(`"bad"`)) {
			http.Error(w, "Invalid message", http.StatusBadRequest)
		}
	}
	spec := f.spec()
	spec.Transport = SSE
	r := run(t, spec)
	r.state(mcp.Ready)
	if failure := r.fails(tool("bad", `{}`)); failure.Kind != mcp.FailProtocol || failure.Renewed || failure.Status != http.StatusBadRequest {
		t.Errorf("the call is answered %+v", failure)
	}
	r.call(tool("old", `{}`))
	if n := len(f.requests(http.MethodGet)); n != 1 {
		t.Errorf("%d streams were opened", n)
	}
}

// A refused handshake reports its reason: there was no session yet.
func TestARefusedHandshakeOfSSE(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	f.oldSSE(nil)
	f.guard = func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			http.Error(w, "no licence", http.StatusBadRequest)
		}
	}
	spec := f.spec()
	spec.Transport = SSE
	r := run(t, spec)
	if reason := r.state(mcp.Failed); reason != "HTTP Bad Request: no licence" {
		t.Errorf("the server is failed because of %q", reason)
	}
}
