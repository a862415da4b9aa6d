//go:build !windows

package daemon_test

import (
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// A restarted server is another process with the same tools, its breaker is closed, and
// nothing else is touched.
func TestRestartServer(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake(), "b": fake()}, nil)
	r := h.newRunning(t)
	c := r.client(t)
	process := func(name string) string {
		result, err := c.Request(t.Context(), mcp.MethodToolsCall, []byte(`{"name":"`+name+`__pid","arguments":{}}`))
		if err != nil {
			return ""
		}
		return string(mcp.Lookup(result, "content"))
	}
	running := func(name string) bool { return process(name) != "" }
	testwait.Until(t, patience, "both are ready", func() bool { return running("a") && running("b") })
	before, other := process("a"), process("b")
	if err := r.RestartServer("a"); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patience, "the server is another process", func() bool { return running("a") && process("a") != before })
	if now := process("b"); now != other {
		t.Errorf("the other server was restarted, too: %s, %s", other, now)
	}
	if err := r.RestartServer("none"); err == nil || !strings.Contains(err.Error(), "there is no server \"none\"") {
		t.Errorf("a server that is not there: %v", err)
	}
}
