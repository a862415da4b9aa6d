//go:build !windows

package cli

import (
	"net"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/spelling"
)

// Each message says what happened, where, and what to do.
func TestMessages(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one"), "broken": fake("broken=" + program)}, nil)
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	write := func(name, text string) string {
		if err := os.WriteFile(h.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return h.path(name)
	}
	seal := func(key string) string { return `{"mcpServers":{},"toolgate":{"keys":[` + key + `]}}` }
	tests := []struct {
		name string
		args []string
		code int
		says []string
	}{
		{"unknown command", []string{"validat"}, exitUsage, []string{"no command `toolgate validat`", "did you mean `toolgate validate`?", "see `toolgate --help`"}},
		{"unknown command without a like", []string{"frobnicate"}, exitUsage, []string{"no command `toolgate frobnicate`", "see `toolgate --help`"}},
		{"unknown command of a group", []string{"config", "shwo"}, exitUsage, []string{"`toolgate config shwo`", "`toolgate config show`?", "see `toolgate config --help`"}},
		{"unknown shell", []string{"completion", "tcsh"}, exitUsage, []string{"`toolgate completion tcsh`", "see `toolgate completion --help`"}},
		{"unknown flag", []string{"up", "--listn", "x"}, exitUsage, []string{"`toolgate up` has no flag --listn", "did you mean --listen?", "see `toolgate up --help`"}},
		{"unknown short flag", []string{"up", "-z"}, exitUsage, []string{"has no flag -z", "see `toolgate up --help`"}},
		{"bad value of a flag", []string{"ls", "--wait", "long"}, exitUsage, []string{`"long"`, "--wait", "see `toolgate ls --help`"}},
		{"too many arguments", []string{"ls", "a", "b"}, exitUsage, []string{"`toolgate ls` takes one file", "`toolgate up` takes several", "write `toolgate ls`"}},
		{"no arguments wanted", []string{"key", "new", "x"}, exitUsage, []string{"`toolgate key new` takes no arguments", "see `toolgate key new --help`"}},
		{"no tool", []string{"call"}, exitUsage, []string{"`toolgate call` lacks an argument", "`toolgate call TOOL [NAME=VALUE ...]`"}},
		{"no pair", []string{"call", "x", "y"}, exitUsage, []string{`"y" is not NAME=VALUE`, "--json"}},

		{"no file", []string{"up", h.path("absent.json")}, exitConfig, []string{h.path("absent.json"), "no such file", "name an existing one"}},
		{"a folder", []string{"up", h.dir}, exitConfig, []string{h.dir, "a folder", "name the file itself"}},
		{"unknown shape", []string{"validate", write("shape.json", `{"foo":{"bar":1}}`)}, exitConfig, []string{"shape.json:1", "no servers", "add mcpServers"}},
		{"a list", []string{"validate", write("list.json", `[]`)}, exitConfig, []string{"list.json:1", "is a list", "begin with mcpServers"}},

		{"port in use", []string{"up", h.file, "--listen", busy.Addr().String()}, exitUnreachable, []string{busy.Addr().String() + " is in use", "pid", "--listen"}},
		{"no such address", []string{"up", h.file, "--listen", "192.0.2.1:0"}, exitUnreachable, []string{"listen.http", "192.0.2.1:0", "--listen"}},
		{"no gateway to reload", []string{"reload", h.file}, exitUnreachable, []string{"no gateway is running", h.file, "toolgate up " + h.file}},
		{"no gateway to wait for", []string{"ls", h.file, "--wait", "10ms"}, exitUnreachable, []string{"after 10ms", "no gateway is running", "toolgate up " + h.file}},

		{"unknown tool", []string{"call", "a__pidd", "--file", h.file}, exitTool, []string{"Unknown tool: a__pidd", "did you mean a__pid?", "one server offers nothing now", "toolgate tools"}},
		{"unset key", []string{"up", write("env.json", seal(`{"id":"k","env":"NO_SUCH_KEY"}`))}, exitConfig, []string{"the key k", "NO_SUCH_KEY is not set", "toolgate.keys"}},
		{"absent key", []string{"up", write("file.json", seal(`{"id":"k","file":"`+h.path("no.key")+`"}`))}, exitConfig, []string{"the key k", h.path("no.key"), "openssl rand -hex 32"}},
		{"short key", []string{"up", write("short.json", seal(`{"id":"k","file":"`+write("short.key", "abc")+`"}`))}, exitConfig, []string{"the key k", "32 raw bytes", "openssl rand -hex 32"}},
	}
	for _, tt := range tests {
		o := h.run(t, tt.args...)
		if o.code != tt.code || o.stdout != "" {
			t.Errorf("%s: exit code %d, output %q", tt.name, o.code, o.stdout)
		}
		if !strings.HasPrefix(o.stderr, "toolgate: ") && !strings.Contains(o.stderr, "\ntoolgate: ") {
			t.Errorf("%s: %q", tt.name, o.stderr)
		}
		for _, part := range tt.says {
			if !strings.Contains(o.stderr, part) {
				t.Errorf("%s: %q does not say %q", tt.name, o.stderr, part)
			}
		}
	}
	if o := h.run(t, "tools", h.file); o.code != exitOK || !strings.Contains(o.stderr, "warning: server broken has failed: ") {
		t.Errorf("a server that offers nothing: %+v", o)
	}
	if o := h.run(t, "validate", write("empty.json", "")); o.code != exitOK || !strings.Contains(o.stderr, "empty.json has no server to run; add one") {
		t.Errorf("no servers: %+v", o)
	}
	for _, group := range [][]string{nil, {"config"}, {"key"}, {"completion"}} {
		if o := h.run(t, group...); o.code != exitOK || !strings.Contains(o.stdout, "Usage:") || o.stderr != "" {
			t.Errorf("%v: %+v", group, o)
		}
	}
}

func TestSimilar(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"a__pid", "a__pid", true},
		{"a__pidd", "a__pid", true},
		{"A__PID", "a__pid", true},
		{"a__dip", "a__pid", false},
		{"listn", "listen", true},
		{"x", "listen", false},
		{"", "listen", false},
		{"li", "listen", false},
		{"lis", "listen", true},
		{strings.Repeat("a", 101), strings.Repeat("a", 101), false},
		{"ab", "b", true},
		{"shwo", "show", true},
		{"wosh", "show", false},
	} {
		if spelling.Similar(tt.a, tt.b) != tt.want {
			t.Errorf("%q, %q: %v", tt.a, tt.b, !tt.want)
		}
	}
}

// Each line that a command tells has the one form, or goes on with the one before.
func TestOneFormOfWhatCommandsTell(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.writeText(t, `{"mcpServers":{"me":{"command":"toolgate","args":["stdio"]},"a":{"command":"x","agrs":[]}}}`)
	form := regexp.MustCompile(`^(toolgate: |warning: |note: |  )\S`)
	for _, args := range [][]string{{"validate", h.file}, {"ls", h.file}, {"tools", h.file}, {"ls"}, {"key", "new"}, {"why", "a__b", "-c", h.file}, {"nonsense"}} {
		o := h.run(t, args...)
		if o.stderr == "" {
			t.Errorf("%v says nothing: %+v", args, o)
		}
		for line := range strings.Lines(o.stderr) {
			if !form.MatchString(line) && !strings.HasPrefix(line, `{"time":`) {
				t.Errorf("%v says %q", args, line)
			}
		}
	}
}
