package proxy

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
)

// counted records the calls of the metrics.
type counted struct {
	mu    sync.Mutex
	lines []string
}

func (c *counted) add(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, fmt.Sprintf(format, args...))
}

func (c *counted) metrics() *Metrics {
	return &Metrics{
		Call: func(e *audit.Entry) { c.add("%s %s %s %q", e.Method, e.Name, e.Outcome, e.Code) },
		Served: func(method, transport string, took time.Duration, failed bool) {
			if took < 0 {
				c.add("%s took %v", method, took)
			}
			c.add("%s over %s, failed: %v", method, transport, failed)
		},
		Listed:       func(persona string, tools int) { c.add("listed %d for %q", tools, persona) },
		SessionEnded: func(transport string, _ time.Duration) { c.add("end of a session over %s", transport) },
	}
}

// Every request is counted once: calls with their outcome, other requests as served.
func TestRequestsAreCounted(t *testing.T) {
	c := &counted{}
	r := newRig(t, mounted(newScript(t, "one", mcp.Legacy, tool("echo"))), func(o *Options, _ *Config) { o.Metrics = c.metrics() })
	id := r.open()
	r.legacy(id, "1", "tools/list", "")
	r.legacy(id, "2", "tools/list", `{"cursor":"forged"}`)
	r.legacy(id, "3", "ping", "")
	r.legacy(id, "4", "tools/call", `{"name":"one__echo"}`)
	r.legacy(id, "5", "tools/call", `{"name":"one__none"}`)
	r.legacy(id, "6", "tools/call", `{"name":7}`)
	r.legacy(id, "7", "nonsense", "")
	r.do(httpRequest("DELETE", "/mcp", "", "Mcp-Session-Id", id))
	want := []string{
		`initialize over http, failed: false`,
		`listed 1 for ""`, `tools/list over http, failed: false`,
		`tools/list over http, failed: true`,
		`ping over http, failed: false`,
		`tools/call one__echo ok ""`,
		`tools/call one__none denied "-32602"`,
		`tools/call  denied "-32602"`,
		`end of a session over http`,
	}
	if !slices.Equal(c.lines, want) {
		t.Errorf("counted\n%s\nwant\n%s", strings.Join(c.lines, "\n"), strings.Join(want, "\n"))
	}
}
