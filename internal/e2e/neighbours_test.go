//go:build e2e && unix

package e2e

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/testwait"
)

// neighbourly is how long anything of a healthy server may take while others
// misbehave. The broken ones would hold their callers for 10 s and more, so that
// this is a matter of waiting for them or not, and not of speed.
const neighbourly = 3 * time.Second

// TestNeighbours puts every way of being broken beside two healthy servers:
// their tools are listed and called as if they were alone.
func TestNeighbours(t *testing.T) {
	faulty := func(fault string) object {
		return object{"command": built(t, lab.fixture), "args": []string{"-fault", fault, "-tag", dirMark}}
	}
	release := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { close(release); silent.Close() })
	missing := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(missing.Close)
	garbage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":1,"resu`))
	}))
	t.Cleanup(garbage.Close)

	healthy := object{
		"child":  fixtureServer(t, "stdio", "legacy"),
		"remote": fixtureServer(t, "http", "legacy"),
	}
	want := append(fixtureTools("child"), fixtureTools("remote")...)
	s := newSetup(t, with(healthy, object{
		"hung":      faulty("hang"),
		"crashed":   faulty("crash"),
		"crashing":  faulty("crash-on-call"),
		"absent":    object{"command": "/nonexistent/server"},
		"silent":    object{"type": "http", "url": silent.URL + "/mcp"},
		"missing":   object{"type": "http", "url": missing.URL + "/mcp"},
		"garbage":   object{"type": "http", "url": garbage.URL + "/mcp"},
		"refused":   object{"type": "http", "url": closedPort(t)},
		"silentsse": object{"type": "sse", "url": silent.URL + "/sse"},
	}), nil)
	g := s.up(t)

	for _, path := range []string{"/livez", "/readyz"} {
		ctx, cancel := context.WithTimeout(t.Context(), neighbourly)
		a, err := (&raw{}).send(ctx, http.MethodGet, strings.TrimSuffix(g.mcp, "/mcp")+path, "", nil)
		cancel()
		if err != nil {
			t.Errorf("%s: %v", path, err)
		} else if a.status != http.StatusOK || strings.Contains(strings.TrimSpace(a.body), " ") || strings.TrimSpace(a.body) == "" {
			t.Errorf("%s answers %d %q, want 200 and one word", path, a.status, a.body)
		}
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := &raw{url: g.mcp}
	timed(t, "initialize", func() error { return c.initialize(ctx) })
	timed(t, "listing the healthy tools", func() error {
		var names []string
		var err error
		if !testwait.Within(neighbourly, func() bool {
			names, err = c.toolNames(ctx)
			return err == nil && containsAll(names, want)
		}) {
			t.Fatalf("tools/list: %q (%v), want all of %q", names, err, want)
		}
		for _, name := range names {
			if server, _, _ := strings.Cut(name, "__"); !slices.Contains([]string{"child", "remote", "crashing"}, server) {
				t.Errorf("%s is listed, and its server never listed anything", name)
			}
		}
		return nil
	})
	callHealthy := func() {
		for _, server := range []string{"child", "remote"} {
			timed(t, "calling "+server, func() error {
				text, err := c.callTool(ctx, server+"__echo", object{"from": server})
				if err == nil && text != `{"from":"`+server+`"}` {
					t.Errorf("%s__echo returned %q", server, text)
				}
				return err
			})
		}
	}
	callHealthy()

	// The crash happens under a call. That call fails, in time and with a word;
	// the next ones to the neighbours do not notice.
	for range 3 {
		timed(t, "calling the crashing server", func() error {
			if text, err := c.callTool(ctx, "crashing__die", object{}); err == nil {
				t.Errorf("the call that ends its server returned %q", text)
			} else if errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the call that ends its server: %v", err)
			}
			return nil
		})
		callHealthy()
	}
	// A server that cannot be reached has no tools, so a call is of an unknown
	// one, and is answered at once.
	for _, server := range []string{"hung", "crashed", "absent", "silent", "missing", "garbage", "refused", "silentsse"} {
		timed(t, "calling "+server, func() error {
			_, err := c.callTool(ctx, server+"__echo", object{})
			var rpc *rpcError
			if !errors.As(err, &rpc) || rpc.Code != -32602 {
				t.Errorf("%s__echo: %v, want JSON-RPC error -32602", server, err)
			}
			return nil
		})
	}
	callHealthy()
}

// timed fails t when fn fails or takes as long as one that waits for a broken
// server.
func timed(t *testing.T, what string, fn func() error) {
	t.Helper()
	began := time.Now()
	if err := fn(); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if took := time.Since(began); took > neighbourly {
		t.Errorf("%s took %s, more than %s", what, took.Round(time.Millisecond), neighbourly)
	}
}

// closedPort returns a URL at which nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("finding a port: %v", err)
	}
	defer l.Close()
	return "http://" + l.Addr().String() + "/mcp"
}
