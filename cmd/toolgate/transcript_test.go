//go:build e2e && unix

package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/toolgate/toolgate/internal/built"
	"github.com/toolgate/toolgate/internal/testport"
	"github.com/toolgate/toolgate/internal/testwait"
)

var update = flag.Bool("update", false, "write what is seen into the transcripts")

const (
	// commandTime bounds a command, and how long one in the background may take
	// until it is ready.
	commandTime = 30 * time.Second
	// seen is the name of the file with the transcript in an archive.
	seen = "seen"
)

// tools are the programs that a script may use besides toolgate.
var tools = []string{"sh", "cat", "chmod", "ln", "mkdir", "grep", "printf", "rm", "sleep", "touch"}

// TestTranscripts types the commands of testdata/transcripts and compares what a person
// sees with what is written there. Each file is a txtar archive. Its comment says what
// it shows and holds the commands, in lines that begin with "$ ". Its files are in the
// folder where the commands run, which is the home of somebody who has nothing else.
// One whose name ends in .sh can be executed. A command that ends with "&" goes on until
// the last one has ended; the next one begins when it says that it is ready.
func TestTranscripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/transcripts/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	bin := programs(t)
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(script)
			if err != nil {
				t.Fatal(err)
			}
			got, want := newPerson(t, bin).typed(t, archive), ""
			at := -1
			for i, f := range archive.Files {
				if f.Name == seen {
					at, want = i, string(f.Data)
				}
			}
			if got == want {
				return
			}
			if !*update {
				t.Fatalf("got\n%s\nwant\n%s", got, want)
			}
			if at < 0 {
				at = len(archive.Files)
				archive.Files = append(archive.Files, txtar.File{Name: seen})
			}
			archive.Files[at].Data = []byte(got)
			if err := os.WriteFile(script, txtar.Format(archive), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestExitCodes looks for every exit code of docs/exit-codes.md in the transcripts, and for
// others that it does not have.
func TestExitCodes(t *testing.T) {
	page, err := os.ReadFile("../../docs/exit-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllSubmatch(page, -1) {
		codes[string(row[1])] = string(row[1]) == "0"
	}
	scripts, err := filepath.Glob("testdata/transcripts/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, seen := range regexp.MustCompile(`(?m)^\[exit status (\d+)\]$`).FindAllSubmatch(text, -1) {
			if _, known := codes[string(seen[1])]; !known {
				t.Errorf("%s: the exit code %s is in no row of docs/exit-codes.md", script, seen[1])
			}
			codes[string(seen[1])] = true
		}
	}
	for code, seen := range codes {
		if !seen {
			t.Errorf("no transcript ends with the exit code %s", code)
		}
	}
}

// programs returns a folder with toolgate and the tools, for PATH.
func programs(t *testing.T) string {
	t.Helper()
	bin := folder(t, binLength)
	for name, pkg := range map[string]string{"toolgate": ".", "notes-server": "../../examples/notes-server"} {
		if err := built.Program(t.Context(), filepath.Join(bin, name), pkg); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range tools {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// person types commands in a home of their own.
type person struct {
	home    string
	bin     string
	env     []string
	address string // of the gateways that are started
	running []*exec.Cmd
}

// The lengths of the paths of folders. They are always the same, so that tables with paths
// in them are cut at the same place.
const (
	binLength  = 42
	homeLength = 80
)

// folder makes a folder for the time of the test, with a path of this length.
func folder(t *testing.T, length int) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, strings.Repeat("h", max(1, length-len(dir)-1)))
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func newPerson(t *testing.T, bin string) *person {
	t.Helper()
	p := &person{home: folder(t, homeLength), bin: bin, address: testport.Address(t)}
	if home, err := filepath.EvalSymlinks(p.home); err == nil {
		p.home = home
	}
	p.env = []string{
		"HOME=" + p.home, "PATH=" + bin, "TOOLGATE_LISTEN_HTTP=" + p.address, "TOOLGATE_LISTEN_METRICS=", "TOOLGATE_LISTEN_CONSOLE=", "LANG=C.UTF-8", "BUSY=" + p.address,
		"TOOLGATE_KEYRING=file", // whoever runs the tests keeps their own key ring
	}
	return p
}

// typed runs the commands of an archive and returns the transcript.
func (p *person) typed(t *testing.T, a *txtar.Archive) string {
	t.Helper()
	for _, f := range a.Files {
		path := filepath.Join(p.home, f.Name)
		mode := os.FileMode(0o600)
		if strings.HasSuffix(f.Name, ".sh") {
			mode = 0o700
		}
		if f.Name == seen {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, mode); err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	for line := range strings.Lines(string(a.Comment)) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ ")
		if !ok {
			continue
		}
		fmt.Fprintf(&b, "$ %s\n", command)
		background, ok := strings.CutSuffix(command, " &")
		if ok {
			b.WriteString(p.start(t, background))
		} else {
			b.WriteString(p.run(t, command))
		}
	}
	for _, c := range p.running {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGTERM)
		_ = c.Wait()
	}
	return p.clean(b.String())
}

func (p *person) command(ctx context.Context, line string) *exec.Cmd {
	c := exec.CommandContext(ctx, "/bin/sh", "-c", line)
	c.Dir, c.Env = p.home, p.env
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	return c
}

// run runs a command to its end.
func (p *person) run(t *testing.T, line string) string {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), commandTime, fmt.Errorf("not ended within %v", commandTime))
	defer cancel()
	var out bytes.Buffer
	c := p.command(ctx, line)
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	if ctx.Err() != nil {
		t.Fatalf("%s: %v; it said:\n%s", line, context.Cause(ctx), out.String())
	}
	return out.String() + ending(err)
}

// ending says how a command ended, where that was not well.
func ending(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf("[%v]\n", err)
}

// start starts a command and waits until it says that it is ready. What is said is not
// shown where the command ends with " > FILE".
func (p *person) start(t *testing.T, line string) string {
	t.Helper()
	out := &output{}
	line, _, hide := strings.Cut(line, " > ")
	c := p.command(t.Context(), "exec "+line)
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	p.running = append(p.running, c)
	t.Cleanup(func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) })
	testwait.Until(t, commandTime, line+" is ready", func() bool {
		said := out.String()
		return readyLine.MatchString(said) && (!strings.Contains(said, "built-in demo") || strings.Contains(said, "self-test"))
	})
	if hide {
		return ""
	}
	return out.String()
}

var readyLine = regexp.MustCompile(`(?m)^ready +(in|\d+ of \d+ servers?,).*\n`)

// output collects what a process writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// changing are the parts of an output that differ each time, and what is written for them.
var changing = []struct {
	what *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`\b\d+(\.\d+)?(ns|µs|us|ms|s)\b`), "TIME"},
	{regexp.MustCompile(`\b\d+(\.\d+)? (ms|s)\b`), "TIME"},
	{regexp.MustCompile(`within a second|after TIME`), "after TIME"},
	{regexp.MustCompile(`\bpid \d+\b`), "pid PID"},
	{regexp.MustCompile(`\b(process|kill) \d+\b`), "$1 PID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(Z|[+-]\d\d:\d\d)`), "CLOCK"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`), "CLOCK"},
	{regexp.MustCompile(`CLOCK  +user \S+`), "CLOCK  user NAME"},
	{regexp.MustCompile(`in \d+ seconds`), "in N seconds"},
	{regexp.MustCompile(`tgk_[-\w]{43}`), "tgk_KEY"},
	{regexp.MustCompile(`cap_[0-9a-z]{26}`), "cap_ID"},
	{regexp.MustCompile(`\b[0-9a-f]{16}\b`), "ID"},
	{regexp.MustCompile(`toolgate \d+\.\d+\.\d+\S*`), "toolgate VERSION"},
	{regexp.MustCompile(`127\.0\.0\.1:[2-6]\d{4}`), "127.0.0.1:PORT"},
	{regexp.MustCompile(`\.toolgate-\d+`), ".toolgate-N"},
	{regexp.MustCompile(`before-toolgate-[0-9a-f]{12}`), "before-toolgate-ID"},
	{regexp.MustCompile(`  +`), "  "},
	{regexp.MustCompile(` +\n`), "\n"},
}

func (p *person) clean(s string) string {
	s = strings.ReplaceAll(s, p.home, "~")
	s = strings.ReplaceAll(s, p.bin, "/usr/bin")
	s = strings.ReplaceAll(s, p.address, "127.0.0.1:7777")
	for _, c := range changing {
		s = c.what.ReplaceAllString(s, c.to)
	}
	return readyLines.ReplaceAllStringFunc(s, func(lines string) string { // servers are ready in any order
		return strings.Join(slices.Sorted(strings.Lines(lines)), "")
	})
}

// readyLines are the lines of up for servers that are ready, which come as they are.
var readyLines = regexp.MustCompile(`(?m)(^ready  [a-z]\S*  \S+  \d+ tools.*\n)+`)
