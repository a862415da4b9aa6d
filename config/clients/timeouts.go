package clients

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/toolgate/toolgate/config/tree"
)

// maxTimeout bounds what a client's file can ask for.
const maxTimeout = 7 * 24 * time.Hour

// timeouts reads the deadlines in the client's own units:
//
//	Claude Code   timeout in ms, a wall for each call; below 1000 ignored
//	Gemini        timeout in ms, each call
//	Goose, Cline, Roo  timeout in s, each call
//	OpenCode      timeout in ms, fetching the tools
//	Codex, Vibe   startup_timeout_sec (or _ms), tool_timeout_sec
//	Continue      connectionTimeout in ms
//	any other     timeout in ms, each call; below 1000 read as seconds
func (x *reading) timeouts() {
	t := &x.s.Timeouts
	apply := func(key string, unit time.Duration, field string, into *time.Duration) {
		if d, n := x.duration(key, unit); n != nil {
			*into = d
			x.origin("timeouts."+field, n)
		}
	}
	switch x.File.Client {
	case ClientClaudeCode:
		if d, n := x.duration("timeout", time.Millisecond); n != nil {
			if d < time.Second {
				x.warn(n, "timeout", "less than 1000 ms is ignored, as Claude Code does")
			} else {
				t.Call, t.Hard = d, d
				x.origin("timeouts.call", n)
				x.origin("timeouts.hard", n)
			}
		}
	case ClientGemini:
		apply("timeout", time.Millisecond, "call", &t.Call)
	case ClientGoose, ClientCline, ClientRoo:
		apply("timeout", time.Second, "call", &t.Call)
	case ClientOpenCode:
		apply("timeout", time.Millisecond, "list", &t.List)
	default:
		if d, n := x.duration("timeout", time.Millisecond); n != nil {
			if d < time.Second {
				d *= 1000
				x.warn(n, "timeout", fmt.Sprintf("read as %s, because less than 1000 ms cannot be meant", d))
			}
			t.Call = d
			x.origin("timeouts.call", n)
		}
	}
	apply("startup_timeout_ms", time.Millisecond, "start", &t.Start)
	apply("startup_timeout_sec", time.Second, "start", &t.Start)
	apply("tool_timeout_sec", time.Second, "call", &t.Call)
	apply("connectionTimeout", time.Millisecond, "start", &t.Start)
}

// duration reads a positive number of units. The node is nil where the key is
// absent or cannot be used, which warns.
func (x *reading) duration(key string, unit time.Duration) (time.Duration, *tree.Node) {
	n := x.Node.Get(key)
	if n.IsNull() {
		return 0, nil
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64)
	if n.Kind != tree.KindNumber || err != nil || !(v > 0) {
		x.warn(n, key, fmt.Sprintf("ignored, because %s is not a positive number", n.Describe()))
		return 0, nil
	}
	if v > float64(maxTimeout/unit) {
		return maxTimeout, n
	}
	return max(time.Duration(v*float64(unit)), time.Millisecond), n
}
