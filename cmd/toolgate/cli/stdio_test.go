//go:build !windows

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}` + "\n" +
	`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"

func callLine(id int, tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q}}`+"\n", id, tool)
}

// onlyMCP fails for every line of stdout that is no message.
func onlyMCP(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		var m struct {
			JSONRPC string
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil || m.JSONRPC != "2.0" {
			t.Errorf("no message on stdout: %q", line)
		}
	}
}

var pidIn = regexp.MustCompile(`"text":"(\d+)"`)

func TestStdioAlone(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one"), "dead": fake("broken=" + program)}, nil)
	// --verbose, and a server that writes to stderr: stdout stays clean.
	o := h.runWith(t, hello+"garbage\n"+callLine(1, "a__pid"), "stdio", "-v", "--wait", "20s", h.file)
	onlyMCP(t, o.stdout)
	if o.code != exitOK || !pidIn.MatchString(o.stdout) || !strings.Contains(o.stdout, `"code":-32700`) {
		t.Errorf("%+v", o)
	}
	if !strings.Contains(o.stderr, `"level":"WARN"`) {
		t.Errorf("the log is not on stderr: %s", o.stderr)
	}
	if left := h.sockets(t); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestStdioView serves the find view to one client of a gateway and everything to
// another, and to a client of a gateway of its own.
func TestStdioView(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, nil)
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n"
	lists := func(args ...string) (five, all bool) {
		o := h.runWith(t, hello+list, append([]string{"stdio", "--wait", "20s", h.file}, args...)...)
		if o.code != exitOK {
			t.Errorf("%q: %+v", args, o)
		}
		return strings.Contains(o.stdout, "toolgate__find_tools"), strings.Contains(o.stdout, "a__pid")
	}
	check := func(when string) {
		if five, all := lists("--view", "find"); !five || all {
			t.Errorf("%s, --view find: its tools %v, all tools %v", when, five, all)
		}
		if five, all := lists("--view", "strict/find"); !five || all {
			t.Errorf("%s, --view strict/find: its tools %v, all tools %v", when, five, all)
		}
		if five, all := lists("--view", "full"); five || !all {
			t.Errorf("%s, --view full: the tools of the find view %v, all tools %v", when, five, all)
		}
	}
	check("alone")
	h.up(t)
	check("joined")
	if o := h.runWith(t, "", "stdio", "--view", "some", h.file); o.code != exitUsage || !strings.Contains(o.stderr, "write full, find,") {
		t.Errorf("a view that does not exist: %+v", o)
	}
}

// Several files are one configuration. A gateway that runs without one of them is joined,
// and the client is told.
func TestStdioOfSeveralFiles(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, nil)
	text, err := json.Marshal(map[string]any{"mcpServers": servers{"b": fake("two")}})
	if err != nil {
		t.Fatal(err)
	}
	more := h.keep(t, "more.json", string(text), 0o600)
	alone := h.runWith(t, hello+callLine(1, "b__pid"), "stdio", "--wait", "20s", h.file, more)
	if onlyMCP(t, alone.stdout); alone.code != exitOK || !pidIn.MatchString(alone.stdout) || strings.Contains(alone.stderr, "was started without") {
		t.Errorf("alone: %+v", alone)
	}
	h.up(t)
	joined := h.runWith(t, hello+callLine(1, "a__pid"), "stdio", h.file, more)
	if joined.code != exitOK || !pidIn.MatchString(joined.stdout) || !strings.Contains(joined.stderr, "was started without "+more) {
		t.Errorf("joined: %+v", joined)
	}
}

func TestStdioProcessesShareServers(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, nil)
	one, two := h.start(t, "stdio", h.file, "--wait", "20s"), h.start(t, "stdio", h.file, "--wait", "20s")
	var pids []string
	for _, p := range []*process{one, two} {
		if _, err := io.WriteString(p.in, hello+callLine(1, "a__pid")); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []*process{one, two} {
		pids = append(pids, p.says(t, p.out, pidIn.String())[1])
	}
	if pids[0] != pids[1] {
		t.Errorf("two server processes: %v", pids)
	}
	// The end of input is the end of a client, once it has its answers.
	for _, p := range []*process{one, two} {
		p.in.Close()
		if code := p.wait(t); code != exitOK {
			t.Errorf("exit code %d\n%s", code, p.err)
		}
		onlyMCP(t, p.out.String())
	}
	if left := h.sockets(t); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestStdioJoins(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, nil)
	up, _ := h.up(t)
	pid := fmt.Sprint(h.pid(t, "a"))
	// Everything is written, and input closed, before the first answer.
	o := h.runWith(t, hello+callLine(1, "a__pid")+callLine(2, "a__fail"), "stdio", h.file)
	onlyMCP(t, o.stdout)
	if found := pidIn.FindStringSubmatch(o.stdout); o.code != exitOK || found == nil || found[1] != pid {
		t.Errorf("not process %s: %+v", pid, o)
	}
	if !strings.Contains(o.stdout, `"isError":true`) || o.stderr != "" {
		t.Errorf("%+v", o)
	}
	open := h.start(t, "stdio", h.file)
	if _, err := io.WriteString(open.in, hello+callLine(1, "a__pid")); err != nil {
		t.Fatal(err)
	}
	open.says(t, open.out, pidIn.String())
	up.stop(t, syscall.SIGTERM)
	open.in.Close()
	if code := open.wait(t); code != exitOK {
		t.Errorf("exit code %d\n%s", code, open.err)
	}
	onlyMCP(t, open.out.String())
}

func TestStdioNeedsTheKey(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, withKeys("alice"))
	check := func(where string) {
		t.Helper()
		for _, tt := range []struct {
			key  string
			code int
		}{{"", exitAuth}, {"wrong", exitAuth}, {"alice", exitOK}} {
			h.env["TOOLGATE_API_KEY"] = tt.key
			o := h.runWith(t, hello+callLine(1, "a__pid"), "stdio", "--wait", "20s", h.file)
			if o.code != tt.code || pidIn.MatchString(o.stdout) != (tt.code == exitOK) {
				t.Errorf("%s, key %q: %+v", where, tt.key, o)
			}
			if tt.code != exitOK && (o.stdout != "" || !strings.Contains(o.stderr, "TOOLGATE_API_KEY")) {
				t.Errorf("%s, key %q: %+v", where, tt.key, o)
			}
		}
		delete(h.env, "TOOLGATE_API_KEY")
	}
	check("alone")
	h.up(t)
	check("joined")
}

func TestStdioOfABadFile(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.writeText(t, `{"mcpServers":[}`)
	for _, file := range []string{h.file, h.path("absent.json")} {
		if o := h.runWith(t, hello, "stdio", file); o.code != exitConfig || o.stdout != "" || o.stderr == "" {
			t.Errorf("%s: %+v", file, o)
		}
	}
}
