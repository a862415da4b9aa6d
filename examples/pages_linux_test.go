//go:build e2e

package examples_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/built"
	"github.com/toolgate/toolgate/internal/terminal"
	"github.com/toolgate/toolgate/internal/testport"
	"github.com/toolgate/toolgate/internal/testwait"
)

// Whoever types the commands of a page has a terminal of this size. No sample is wider.
const (
	columns = 100
	rows    = 40
)

// pages are those whose samples are what a person sees. Besides toolgate, the programs are
// those that a page may use.
var pages = []struct {
	file     string
	programs []string
	home     map[string]string // files that its reader has
}{
	{"../README.md", nil, map[string]string{
		".cursor/mcp.json": `{ "mcpServers": { "demo": { "command": "toolgate", "args": ["demo-server"] } } }`,
	}},
	{"../docs/tutorial.md", []string{"cat", "mkdir"}, nil},
}

// TestPages types the commands of a page on a terminal, in an empty home, with a PATH that
// has nothing besides what the page asks for. The output is exactly what the page shows,
// except for what differs from run to run.
func TestPages(t *testing.T) {
	for _, page := range pages {
		t.Run(filepath.Base(page.file), func(t *testing.T) {
			t.Parallel()
			text := readText(t, page.file)
			todo, err := steps(text)
			if err != nil || len(todo) == 0 {
				t.Fatalf("%d commands, %v", len(todo), err)
			}
			for _, untested := range shBlocks(text) {
				t.Errorf("nothing types this sh block; make it a console block:\n%s", untested)
			}
			p := newPerson(t, page.programs)
			for name, content := range page.home {
				file := filepath.Join(p.home, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var outputs []string
			for _, s := range todo {
				outputs = append(outputs, p.step(t, fmt.Sprintf("%s:%d", page.file, s.line), s))
			}
			p.stop(t)
			if !*update {
				return
			}
			lines := strings.Split(text, "\n")
			for i, s := range slices.Backward(todo) { // so that the numbers of lines stay true
				if len(s.whole) > 0 && !same(s.whole, outputs[i]) {
					begin := s.end - len(s.whole)
					lines = append(lines[:begin:begin], append(strings.Split(strings.TrimSuffix(outputs[i], "\n"), "\n"), lines[s.end:]...)...)
				}
			}
			if err := os.WriteFile(page.file, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestPicture compares the picture of the README with what the program prints.
func TestPicture(t *testing.T) {
	t.Parallel()
	picture := filepath.Join(bin, "picture")
	if err := built.Program(t.Context(), picture, "../internal/picture"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), picture, "-check", "-listen", testport.Address(t), filepath.Join(bin, "toolgate"), "../docs/picture.svg")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// shBlocks are the sh blocks of a page, besides those that say how to install toolgate.
func shBlocks(page string) (all []string) {
	section := ""
	for i, part := range strings.Split(page, "\n```") {
		if i%2 == 1 {
			if block, ok := strings.CutPrefix(part, "sh\n"); ok && !strings.Contains(section, "\n## Install") {
				all = append(all, block)
			}
			continue
		}
		if at := strings.LastIndex("\n"+part, "\n## "); at >= 0 {
			section = ("\n" + part)[at:]
		}
	}
	return all
}

// volatile is what differs from run to run, and what it is compared as.
var volatile = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\dZ?`), "DATE"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "CLOCK"},
	{regexp.MustCompile(`\b\d+(\.\d+)? ?(ns|µs|ms|s|min|m|h)\b`), "TIME"},
	{regexp.MustCompile(`\b\d+\.\d+\.\d+(-[a-z]+)?\b`), "VERSION"},
	{regexp.MustCompile(`\b[0-9a-f]{6,}…|\b[0-9a-f]{12,}`), "HEX"},
	{regexp.MustCompile(`\bcap_[a-z0-9]+…?`), "ID"},
	{regexp.MustCompile(`\bpid \d+\b`), "PID"},
	{regexp.MustCompile(`\b\d+\.\d\b`), "NUMBER"},
	{regexp.MustCompile(` +`), " "},
}

// comparable replaces what differs from run to run.
func comparable(line string) string {
	for _, v := range volatile {
		line = v.is.ReplaceAllString(line, v.as)
	}
	return strings.TrimSpace(line)
}

// same tells whether an output is what a page shows. A line "..." stands for any lines, and
// "..." within a line for any text.
func same(shown []string, output string) bool {
	var pattern strings.Builder
	pattern.WriteString(`\A`)
	for _, s := range shown {
		if s == "..." {
			pattern.WriteString(`(.*\n)*`)
			continue
		}
		quoted := regexp.QuoteMeta(comparable(s))
		pattern.WriteString(strings.ReplaceAll(quoted, `\.\.\.`, `.*`) + `\n`)
	}
	pattern.WriteString(`\z`)
	var text strings.Builder
	for line := range strings.Lines(output) {
		text.WriteString(comparable(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return regexp.MustCompile(pattern.String()).MatchString(text.String())
}

func TestSame(t *testing.T) {
	for _, c := range []struct {
		shown  []string
		output string
		want   bool
	}{
		{nil, "", true},
		{nil, "a\n", false},
		{[]string{"ready in 48 ms", "b"}, "ready  in 1.5s\nb\n", true},
		{[]string{"a"}, "a\nb\n", false},
		{[]string{"a", "..."}, "a\nb\nc\n", true},
		{[]string{"...", "c"}, "a\nb\nc\n", true},
		{[]string{"a ... c"}, "a b c\n", true},
		{[]string{"4 tools"}, "5 tools\n", false},
		{[]string{"since 2026-01-02 03:04:05 as 0123456789ab"}, "since 2027-01-02 23:04:05 as 0123456789cd\n", true},
		{[]string{"toolgate 0.1.0-dev", "", "end"}, "toolgate 1.2.3\n\nend\n", true},
	} {
		if got := same(c.shown, c.output); got != c.want {
			t.Errorf("same(%q, %q) = %v", c.shown, c.output, got)
		}
	}
}

// person types commands on a terminal, and starts what serves on another one.
type person struct {
	home, work string
	env        []string
	replace    *strings.Replacer // what only this run has, by what the page shows

	shell    *exec.Cmd
	seen     *terminal.Terminal
	commands io.WriteCloser
	typed    int

	serves  *exec.Cmd // nil if nothing does
	serving *terminal.Terminal
}

func newPerson(t *testing.T, programs []string) *person {
	t.Helper()
	p := &person{home: shortHome(t)}
	p.work = filepath.Join(p.home, "work")
	path := filepath.Join(p.home, "bin")
	for _, folder := range []string{p.work, path} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	links := map[string]string{"toolgate": filepath.Join(bin, "toolgate")}
	for _, name := range programs {
		program, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		links[name] = program
	}
	for name, program := range links {
		if err := os.Symlink(program, filepath.Join(path, name)); err != nil {
			t.Fatal(err)
		}
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	address, pages := testport.Address(t), testport.Address(t)
	p.env = []string{
		"HOME=" + p.home, "PATH=" + path, "TERM=xterm-256color", "LANG=C.UTF-8",
		"TOOLGATE_KEYRING=file", "TOOLGATE_LISTEN_HTTP=" + address, "TOOLGATE_LISTEN_METRICS=", "TOOLGATE_LISTEN_CONSOLE=" + pages,
	}
	p.replace = strings.NewReplacer(
		filepath.Join(bin, "toolgate"), "/usr/local/bin/toolgate", p.home, "/home/anna", address, "127.0.0.1:7777", pages, "127.0.0.1:7778", "user "+me.Username, "user anna",
	)
	from, commands, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.commands = commands
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), sessionTime)
	p.shell = exec.CommandContext(ctx, bash, "--norc", "/dev/fd/3")
	p.shell.Dir, p.shell.Env, p.shell.ExtraFiles = p.work, p.env, []*os.File{from}
	p.seen, err = terminal.Start(p.shell, columns, rows)
	if err != nil {
		t.Fatal(err)
	}
	from.Close()
	t.Cleanup(func() {
		commands.Close()
		_ = p.shell.Wait() // its exit code is that of the last command
		p.seen.Close()
		cancel()
	})
	return p
}

// shortHome makes a home whose name is as long as /home/anna, so that a sample with the one
// has the columns of the other.
func shortHome(t *testing.T) string {
	t.Helper()
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	for range 1000 {
		name := []byte("/tmp/.....")
		for i := 5; i < len(name); i++ {
			name[i] = letters[rand.IntN(len(letters))]
		}
		err := os.Mkdir(string(name), 0o700)
		if os.IsExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(string(name)) })
		return string(name)
	}
	t.Fatal("no name for a home is free")
	return ""
}

// endless is a command that serves until it is stopped.
var endless = regexp.MustCompile(`^toolgate up\b[^&]*$`)

// step types a command of a page and returns its output, as the page would show it. The
// index of the audit log is written a moment later.
func (p *person) step(t *testing.T, at string, s step) (output string) {
	t.Helper()
	if endless.MatchString(s.command) {
		return p.serve(t, at, s)
	}
	code := ""
	once := func() bool {
		output, code = p.run(t, at, s)
		return same(s.whole, output)
	}
	if ok := once(); !ok && strings.HasPrefix(s.command, "toolgate audit search ") && !*update {
		testwait.Within(patience, once)
	}
	t.Logf("$ %s\n%s", s.command, output)
	p.compare(t, at, s, output)
	if code != "0" {
		t.Errorf("%s: %s: exit code %s:\n%s", at, s.command, code, output)
	}
	return output
}

// run types a command, and the answers to its questions, which the page shows behind them.
func (p *person) run(t *testing.T, at string, s step) (output, code string) {
	t.Helper()
	p.seen.Clear()
	p.typed++
	if _, err := fmt.Fprintf(p.commands, "%s\nprintf '\\033]0;%%s %%s\\a' %d $?\n", s.command, p.typed); err != nil {
		t.Fatal(err)
	}
	for _, shown := range s.whole {
		question, answer, ok := strings.Cut(shown, "] ")
		if !ok || !strings.Contains(question, "? [") {
			continue
		}
		testwait.Until(t, sessionTime, at+": the question "+question, func() bool {
			return strings.Contains(terminal.Text(p.seen.Lines()), question)
		})
		if err := p.seen.Type(answer + "\n"); err != nil {
			t.Fatal(err)
		}
	}
	testwait.Until(t, sessionTime, at+": the end of "+s.command, func() bool {
		n, c, ok := strings.Cut(p.seen.Title(), " ")
		code = c
		return ok && n == strconv.Itoa(p.typed)
	})
	return p.replace.Replace(terminal.Text(p.seen.Lines())), code
}

// compare holds an output against what the page shows. A page need not show what a command
// prints.
func (p *person) compare(t *testing.T, at string, s step, output string) {
	t.Helper()
	if len(s.whole) > 0 && !same(s.whole, output) && !*update {
		t.Errorf("%s: %s (-page +prints; -update writes it):\n%s", at, s.command, cmp.Diff(strings.Join(s.whole, "\n")+"\n", output))
	}
}

// serve starts what serves on a terminal of its own, after it has stopped what served
// before.
func (p *person) serve(t *testing.T, at string, s step) string {
	t.Helper()
	p.stop(t)
	p.serves = exec.CommandContext(t.Context(), p.shell.Path, "--norc", "-c", "exec "+s.command)
	p.serves.Dir, p.serves.Env = p.work, p.env
	var err error
	if p.serving, err = terminal.Start(p.serves, columns, rows); err != nil {
		t.Fatal(err)
	}
	output := ""
	testwait.Within(patience, func() bool {
		output = p.replace.Replace(terminal.Text(p.serving.Lines()))
		if len(s.whole) > 0 && !*update {
			return same(s.whole, output)
		}
		return strings.Contains(output, "\nready ")
	})
	t.Logf("$ %s\n%s", s.command, output)
	p.compare(t, at, s, output)
	return output
}

// stop presses Ctrl-C where something serves.
func (p *person) stop(t *testing.T) {
	t.Helper()
	if p.serves == nil {
		return
	}
	if err := p.serving.Type("\x03"); err != nil {
		t.Error(err)
	}
	if err := p.serves.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v\n%s", err, terminal.Text(p.serving.Lines()))
	}
	if err := p.serving.Close(); err != nil {
		t.Error(err)
	}
	p.serves = nil
}
