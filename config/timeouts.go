package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/upstream"
)

// maxTimeout bounds what a client's file can ask for.
const maxTimeout = 7 * 24 * time.Hour

// timeouts reads the deadlines in the client's own units, and lays
// toolgate's own settings over them:
//
//	Claude Code   timeout in ms, a wall for each call; below 1000 ignored
//	Gemini        timeout in ms, each call
//	Goose, Cline, Roo  timeout in s, each call
//	OpenCode      timeout in ms, fetching the tools
//	Codex, Vibe   startup_timeout_sec (or _ms), tool_timeout_sec
//	Continue      connectionTimeout in ms
//	any other     timeout in ms, each call; below 1000 read as seconds
func (x *reading) timeouts(set upstream.Timeouts) {
	t := upstream.Timeouts{Start: DefaultStart, List: DefaultList, Call: DefaultCall, Hard: DefaultHard}
	if launcher(x.s.Command, x.s.Args) {
		t.Start = DefaultLauncherStart
	}
	wall := false
	apply := func(key string, unit time.Duration, field string, into *time.Duration) {
		if d, n := x.duration(key, unit); n != nil {
			*into = d
			x.origin("timeouts."+field, n)
		}
	}
	switch x.client {
	case ClientClaudeCode:
		if d, n := x.duration("timeout", time.Millisecond); n != nil {
			if d < time.Second {
				x.warn(n, "timeout", "less than 1000 ms is ignored, as Claude Code does")
			} else {
				t.Call, t.Hard, wall = d, d, true
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

	for _, o := range [...]struct {
		from time.Duration
		into *time.Duration
	}{{set.Start, &t.Start}, {set.List, &t.List}, {set.Call, &t.Call}, {set.Idle, &t.Idle}, {set.Hard, &t.Hard}} {
		if o.from != 0 {
			*o.into = o.from
		}
	}
	// A longer call deadline than the hard one can only come from someone who
	// set the first and did not think of the second, unless both are set.
	if set.Hard == 0 && (t.Call > t.Hard || wall && set.Call != 0) {
		t.Hard = max(t.Hard, t.Call)
	}
	t.Call = min(t.Call, t.Hard)
	x.s.Timeouts = t
}

// duration reads a positive number of units. The node is nil where the key is
// absent or cannot be used, which warns.
func (x *reading) duration(key string, unit time.Duration) (time.Duration, *tree.Node) {
	n := x.node.Get(key)
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

// launchers are commands that may download what they run, and so take long to
// start; with words, only when one of these is the first argument.
var launchers = map[string][]string{
	"npx": nil, "uvx": nil, "bunx": nil, "pipx": nil, "docker": nil, "podman": nil, "nerdctl": nil, "nix": nil,
	"npm":  {"exec", "x"},
	"pnpm": {"dlx", "exec"}, "yarn": {"dlx"}, "bun": {"x"},
	"uv": {"run", "tool"}, "go": {"run"}, "cargo": {"run"}, "deno": {"run"}, "mise": {"exec", "x"},
}

// Fetched tells whether the server's program may be downloaded when it starts: its
// command is npx, uvx, docker or another that does so.
func (s *Server) Fetched() bool { return launcher(s.Command, s.Args) }

// launcher reports whether a command line begins with one of the launchers,
// behind "cmd /c" too.
func launcher(command string, args []string) bool {
	name := commandName(command)
	if name == "cmd" && len(args) > 1 && strings.EqualFold(args[0], "/c") {
		name, args = commandName(args[1]), args[2:]
	}
	words, ok := launchers[name]
	return ok && (words == nil || len(args) > 0 && slices.Contains(words, args[0]))
}

// commandName is the name of a program without folder and Windows extension.
func commandName(command string) string {
	base := filepath.Base(strings.ReplaceAll(command, `\`, "/"))
	name := strings.ToLower(base)
	for _, ext := range [...]string{".exe", ".cmd", ".bat", ".ps1"} {
		name = strings.TrimSuffix(name, ext)
	}
	return name
}
