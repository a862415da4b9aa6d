package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/toolgate/toolgate/internal/daemon/daemontest"
	"github.com/toolgate/toolgate/internal/fakeserver"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/upstream/oauth/oauthtest"
)

// TestScreens shows what a person sees on terminals of several widths, with servers that
// fail: testdata/screens has a file per width, to be read. No line is wider than the
// terminal, and no row of a table is there twice.
func TestScreens(t *testing.T) {
	t.Parallel()
	for _, width := range []int{80, 120, 200} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			t.Parallel()
			got := screens(t, width)
			path := filepath.Join("testdata", "screens", fmt.Sprintf("%d.txtar", width))
			if *updatePages {
				if err := os.WriteFile(path, txtar.Format(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(txtar.Format(got))); diff != "" {
				t.Errorf("another screen than in %s (-want +got):\n%s", path, diff)
			}
		})
	}
}

// screens returns what is seen of a gateway and of the commands that ask it.
func screens(t *testing.T, width int) *txtar.Archive {
	h := newHomeOfLength(t)
	web := oauthtest.NewServer(t, oauthtest.New(t))
	if err := os.Symlink(os.Args[0], h.path("bin/notes-server")); err != nil {
		t.Fatal(err)
	}
	h.env["PATH"] = h.path("bin") + ":" + os.Getenv("PATH")
	h.keep(t, "dies.sh", "#!/bin/sh\necho 'fatal: cannot reach the database at db.example.org: connection refused' >&2\nexit 3\n", 0o700)
	h.keep(t, "slow.sh", "#!/bin/sh\nuntil [ -e go ]; do sleep 0.02; done\nexec notes-server "+fakeserver.Command+"\n", 0o700)
	h.writeText(t, `mcpServers:
  dies: { command: ./dies.sh }
  hosted: { url: `+web.URL+` }
  notes: { command: notes-server, args: [`+fakeserver.Command+`] }
  off: { command: notes-server, disabled: true }
  refused: { command: notes-server, args: one two }
  slow: { command: ./slow.sh }
  variable: { command: notes-server, env: { GITHUB_PERSONAL_ACCESS_TOKEN: "${GITHUB_TOKEN}" } }
`)
	var out txtar.Archive
	show := func(name string, p *typist) {
		text := stable(h, p.sees())
		out.Files = append(out.Files, txtar.File{Name: name, Data: []byte(text)})
		if n := p.wraps(); n > 0 {
			t.Errorf("%s: %d lines are wider than the terminal:\n%s", name, n, text)
		}
		seen := map[string]bool{}
		for _, row := range tableRow.FindAllString(text, -1) {
			if seen[row] {
				t.Errorf("%s: the row %q is there twice:\n%s", name, row, text)
			}
			seen[row] = true
		}
	}

	up := h.onTerminalOf(t, width, "up", "-c", "toolgate.yaml")
	up.waits(t, `(?s)dies .*failed.*hosted .*needs_login.*notes .*ready.*slow .*starting`)
	show("toolgate up, while a server starts", up)
	h.keep(t, "go", "", 0o600)
	up.waits(t, `Next: `)
	ready := time.Now()
	show("toolgate up", up)

	h.ok(t, "call", "notes__echo", "text=hello", "-c", "toolgate.yaml")
	for _, command := range []string{"ls", "tools", "status", "login", "doctor", "audit search", "catalog ls", "validate", "why notes__echo"} {
		p := h.onTerminalOf(t, width, append(strings.Fields(command), "-c", "toolgate.yaml")...)
		<-p.ended
		show("toolgate "+command, p)
	}
	top := h.onTerminalOf(t, width, "top", "-c", "toolgate.yaml")
	top.waits(t, "q quit")
	show("toolgate top", top)
	top.types(t, "q")
	<-top.ended

	// A server that dies is said in a line, and so is its return. The line has other words
	// for one that has run for less than a second.
	testwait.Until(t, patience, "the server has run for a second", func() bool { return time.Since(ready) > time.Second })
	_ = syscall.Kill(h.pid(t, "notes"), syscall.SIGKILL)
	up.waits(t, `(?s)notes failed: .*notes is ready again`)
	show("toolgate up, after a server was killed", up)
	_ = up.process.Signal(syscall.SIGTERM)
	if code := <-up.ended; code != exitOK {
		t.Errorf("up ends with %d", code)
	}
	return &out
}

// TestUpOnAResizedTerminal changes the width of the terminal while the table of `up` is
// drawn: the table is drawn once, in the new width.
func TestUpOnAResizedTerminal(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.keep(t, "dies.sh", "#!/bin/sh\necho 'fatal: cannot reach the database at db.example.org: connection refused' >&2\nexit 3\n", 0o700)
	h.keep(t, "waits.sh", "#!/bin/sh\nuntil [ -e go ]; do sleep 0.02; done\nexit 0\n", 0o700)
	h.writeText(t, "mcpServers:\n  dies: { command: ./dies.sh }\n  waits: { command: ./waits.sh }\n")
	up := h.onTerminalOf(t, 240, "up", "-c", "toolgate.yaml")
	up.waits(t, `(?s)dies .*failed.*connection refused.*waits .*starting`)
	for _, width := range []int{60, 250, 70, 90} {
		up.resizes(t, width)
		whole := "…"
		if width > 200 {
			whole = "connection refused"
		}
		up.waits(t, `(?m)^dies +.*`+whole+`$`)
		text := up.sees()
		rows := tableRow.FindAllString(text, -1)
		if len(rows) != 3 {
			t.Errorf("%d columns: the table has %d rows, not a header and two:\n%s", width, len(rows), text)
		}
		for line := range strings.SplitSeq(text[strings.Index(text, "SERVER"):], "\n") {
			if n := utf8.RuneCountInString(line); n > width {
				t.Errorf("%d columns: a line has %d characters: %s", width, n, line)
			}
		}
	}
	h.keep(t, "go", "", 0o600)
	up.waits(t, `Next: `)
}

// TestUpSaysWhatAnAutomaticReloadDoes changes the file of a gateway on a terminal: what waits
// for a person, what is there after that, and what is gone, is said below the table.
func TestUpSaysWhatAnAutomaticReloadDoes(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, nil)
	up := h.onTerminalOf(t, 120, "up", "-c", h.file)
	up.waits(t, `Next: `)
	h.write(t, servers{"a": fake("one"), "late": fake("two")}, nil)
	up.waits(t, "(?m)^late is pending: waits for `toolgate reload`: start$")
	h.ok(t, "reload", "-c", h.file)
	up.waits(t, `(?m)^late is ready, \d+ tools?$`)
	h.write(t, servers{"late": fake("two")}, nil)
	up.waits(t, `(?m)^a is removed$`)
	h.keep(t, filepath.Base(h.file), "{", 0o600)
	up.waits(t, `reload refused; the old configuration stays in force`)
	h.write(t, servers{"b": fake("one")}, nil)
	up.waits(t, `(?m)^late is removed$`) // it is good again
	if n := strings.Count(up.sees(), "SERVER "); n != 1 {
		t.Errorf("the table is there %d times:\n%s", n, up.sees())
	}
}

// homeLength is the length of the path of the home of somebody whose screen is compared,
// because cells are cut by their length. shownHome is written for it.
const homeLength = 64

var shownHome = "/home/ada" + strings.Repeat("/work", (homeLength-len("/home/ada"))/len("/work"))

// newHomeOfLength makes a home whose path has that length.
func newHomeOfLength(t *testing.T) *home {
	t.Helper()
	h := newHome(t)
	outer := h.dir
	dir := filepath.Join(outer, strings.Repeat("h", max(1, len(shownHome)-len(outer)-1)))
	for _, name := range []string{dir, filepath.Join(dir, "bin")} {
		if err := os.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h.Home = &daemontest.Home{Dir: dir, File: filepath.Join(dir, "toolgate.yaml")}
	h.dir, h.file = h.Dir, h.File
	for name, value := range h.env {
		if rest, ok := strings.CutPrefix(value, outer); ok {
			h.env[name] = dir + rest
		}
	}
	return h
}

// tableRow is the beginning of a row about one of the servers in a table of servers.
var tableRow = regexp.MustCompile(`(?m)^(SERVER|[a-z]+) +(KIND|stdio|http) `)

// volatile are the parts of a screen that differ each time, and what is written for them.
// What stands in a table keeps its width.
var volatile = []struct {
	what *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`(?m)(\b\d+(\.\d)? (ms|s)|\b\d+m\d+s) *(  |$)`), "TIME      "},
	{regexp.MustCompile(`\b\d+(\.\d)? (ms|s)\b`), "TIME"},
	{regexp.MustCompile(`\bMEAN +`), "MEAN      "},
	{regexp.MustCompile(`127\.0\.0\.1:[2-6]\d{4}`), "127.0.0.1:PORT1"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "12:34:56"},
	{regexp.MustCompile(`toolgate \d+\.\d+\.\d+\S*`), "toolgate VERSION"},
	{regexp.MustCompile(`\s+after\s+\d+(\.\d+)?m?s\n`), " after TIME\n"},
	{regexp.MustCompile(`\bMS +ID`), "MS   ID"},
	{regexp.MustCompile(`(?m)\d+\.\d +[0-9a-f]{8,16}(…|-\w+)$`), "0.5  0123456789abcdef"},
	{regexp.MustCompile(`\bcap_[0-9a-z]+`), "cap_0123456789abcdef"},
	{regexp.MustCompile(` +\n`), "\n"},
}

// stateFolder is a path that may be cut.
var stateFolder = regexp.MustCompile(`/state/[0-9a-f]{1,16}`)

// stable replaces what differs each time.
func stable(h *home, text string) string {
	home := regexp.MustCompile(regexp.QuoteMeta(filepath.Dir(h.dir)) + "/h*") // it may be cut
	text = home.ReplaceAllStringFunc(text, func(path string) string { return shownHome[:len(path)] })
	text = stateFolder.ReplaceAllStringFunc(text, func(path string) string { return "/state/0123456789abcdef"[:len(path)] })
	for _, v := range volatile {
		text = v.what.ReplaceAllString(text, v.to)
	}
	return text
}
