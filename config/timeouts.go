package config

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/upstream"
)

// timeouts are a server's deadlines: the defaults, over them what its entry says, over
// that what toolgate.servers.<key>.timeouts says.
func (s *Server) timeouts(entry, set upstream.Timeouts) upstream.Timeouts {
	start := upstream.DefaultStart
	if s.Fetched() {
		start = upstream.DefaultLauncherStart
	}
	t := upstream.Timeouts{
		Start: cmp.Or(set.Start, entry.Start, start),
		List:  cmp.Or(set.List, entry.List, upstream.DefaultList),
		Call:  cmp.Or(set.Call, entry.Call, upstream.DefaultCall),
		Idle:  set.Idle,
		Hard:  cmp.Or(set.Hard, entry.Hard, upstream.DefaultHard),
	}
	// A longer call deadline than the hard one can only come from someone who
	// set the first and did not think of the second, unless both are set. An
	// entry's hard deadline is its call deadline, which set.Call replaces.
	if set.Hard == 0 && (t.Call > t.Hard || entry.Hard != 0 && set.Call != 0) {
		t.Hard = max(t.Hard, t.Call)
	}
	t.Call = min(t.Call, t.Hard)
	return t
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
