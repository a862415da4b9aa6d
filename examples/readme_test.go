//go:build e2e && unix

package examples_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/testport"
	"github.com/toolgate/toolgate/internal/testwait"
)

var update = flag.Bool("update", false, "write into the pages what their commands print and how long they take")

// network has TestReadmes type the examples that need the network in place of the others.
var network = flag.Bool("network", false, "type the examples that need the network, and no others")

// step is a command of a page and the lines of its output that the page shows.
type step struct {
	line    int // the first line of the command in the page
	end     int // the line behind what is shown
	command string
	whole   []string // all lines that are shown
	shown   []string // those that an output is searched for
}

// hereDocument is the end of a command whose input follows, up to the word.
var hereDocument = regexp.MustCompile(`<<'?(\w+)'?$`)

// goesOn tells whether the next line belongs to a command too.
func goesOn(command string) bool {
	if strings.HasSuffix(command, `\`) {
		return true
	}
	first, rest, _ := strings.Cut(command, "\n")
	m := hereDocument.FindStringSubmatch(first)
	return m != nil && rest != m[1] && !strings.HasSuffix(rest, "\n"+m[1])
}

// steps returns the commands of the console blocks of a page. A line that begins
// with "$ " is a command. A backslash at its end continues it, and a here-document ends
// at its word. The lines below a command are lines of its output, in their order; "..." is
// any text.
func steps(readme string) (all []step, err error) {
	within := false
	for n, line := range strings.Split(readme, "\n") {
		last := len(all) - 1
		switch {
		case strings.HasPrefix(line, "```"):
			within = line == "```console"
		case !within:
		case strings.HasPrefix(line, "$ "):
			all = append(all, step{line: n + 1, end: n + 1, command: line[2:]})
		case last < 0:
			return nil, fmt.Errorf("line %d: output without a command", n+1)
		case len(all[last].whole) == 0 && goesOn(all[last].command):
			all[last].command += "\n" + line
			all[last].end = n + 1
		default:
			all[last].end = n + 1
			all[last].whole = append(all[last].whole, line)
			if line != "" && line != "..." {
				all[last].shown = append(all[last].shown, line)
			}
		}
	}
	return all, nil
}

// missing returns the first shown line that the output lacks, or "" if it lacks none.
func missing(shown []string, output string) string {
	lines := strings.Split(output, "\n")
	for _, s := range shown {
		pattern := regexp.QuoteMeta(strings.Join(strings.Fields(s), " "))
		want := regexp.MustCompile(`\A` + strings.ReplaceAll(pattern, `\.\.\.`, `.*`) + `\z`)
		for {
			if len(lines) == 0 {
				return s
			}
			line := strings.Join(strings.Fields(lines[0]), " ")
			lines = lines[1:]
			if want.MatchString(line) {
				break
			}
		}
	}
	return ""
}

func TestSteps(t *testing.T) {
	t.Parallel()
	got, err := steps("text\n\n```console\n$ one \\\n  two\nout ...\n...\nmore\n$ three <<'E'\nx\nE\ny\n```\n```sh\n$ four\n```\n")
	want := "[{4 8 one \\\n  two [out ... ... more] [out ... more]} {9 12 three <<'E'\nx\nE [y] [y]}]"
	if err != nil || fmt.Sprint(got) != want {
		t.Errorf("steps are %v, %v; want %s", got, err, want)
	}
	if _, err := steps("```console\nout\n```\n"); err == nil {
		t.Error("output without a command is no error")
	}
	for _, c := range []struct {
		shown  []string
		output string
		want   string
	}{
		{nil, "anything", ""},
		{[]string{"a ... z", "end"}, "first\na   b c z\nbetween\nend\n", ""},
		{[]string{"end", "a ... z"}, "a b z\nend\n", "a ... z"},
		{[]string{"a.b"}, "axb\n", "a.b"},
		{[]string{"part"}, "part of a line\n", "part"},
	} {
		if got := missing(c.shown, c.output); got != c.want {
			t.Errorf("missing(%q, %q) = %q, want %q", c.shown, c.output, got, c.want)
		}
	}
}

// online are the examples whose commands need the network. `make test-e2e` types them.
var online = map[string]bool{"plugin-python": true}

// TestReadmes types the commands of every example's README, in a copy of its folder.
// A command may fail only if the README shows what it prints.
func TestReadmes(t *testing.T) {
	readmes, err := filepath.Glob("*/README.md")
	if err != nil || len(readmes) == 0 {
		t.Fatalf("no README: %v", err)
	}
	var mu sync.Mutex
	took := map[string]time.Duration{}
	for _, readme := range readmes {
		folder := filepath.Dir(readme)
		if online[folder] != *network {
			continue
		}
		text, err := os.ReadFile(readme)
		if err != nil {
			t.Fatal(err)
		}
		todo, err := steps(string(text))
		if err != nil {
			t.Fatalf("%s: %v", readme, err)
		}
		if len(todo) == 0 && folder != "monitoring" { // which explains two files
			t.Errorf("%s has nothing to type", readme)
		}
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			s, replace := newShell(t, folder)
			began := time.Now()
			for _, c := range todo {
				s.step(t, fmt.Sprintf("%s:%d", readme, c.line), replace.Replace(c.command), c.shown)
			}
			if len(todo) > 0 {
				mu.Lock()
				defer mu.Unlock()
				took[folder] = time.Since(began)
			}
		})
	}
	if *update {
		t.Cleanup(func() { writeTimes(t, took) })
	}
}

// writeTimes writes into the table of the examples how long they took.
func writeTimes(t *testing.T, took map[string]time.Duration) {
	text := readText(t, "README.md")
	for folder, d := range took {
		row := regexp.MustCompile(`(?m)^(\| \[` + folder + `\]\(` + folder + `\) \|[^|\n]*\|)[^|\n]*`)
		text = row.ReplaceAllString(text, fmt.Sprintf("${1} %.0f s ", math.Ceil(d.Seconds())))
	}
	if err := os.WriteFile("README.md", []byte(text), 0o644); err != nil {
		t.Error(err)
	}
}

// Every example is in the table, with what it shows and how long it takes.
func TestTable(t *testing.T) {
	readmes, err := filepath.Glob("*/README.md")
	if err != nil {
		t.Fatal(err)
	}
	table := readText(t, "README.md")
	for _, readme := range readmes {
		folder := filepath.Dir(readme)
		row := regexp.MustCompile(`(?m)^\| \[` + folder + `\]\(` + folder + `\) \| \S.* \| (\d+ s|-) \|`)
		if !row.MatchString(table) {
			t.Errorf("the table of README.md has no row of %s with a time; `make example-times` measures it", folder)
		}
	}
}

// sessionTime bounds the commands of one README, which may install packages.
const sessionTime = 5 * time.Minute

// shell is a bash that reads its commands from a pipe, so that the commands
// themselves read nothing.
type shell struct {
	commands io.Writer
	output   *bufio.Reader
}

func newShell(t *testing.T, folder string) (*shell, *strings.Replacer) {
	t.Helper()
	var pairs []string
	for _, written := range addresses {
		pairs = append(pairs, written, testport.Address(t))
	}
	replace := strings.NewReplacer(pairs...)
	work := filepath.Join(t.TempDir(), "examples", folder)
	if err := copyFiles(folder, work, replace); err != nil {
		t.Fatal(err)
	}
	// A README may name other files of the repository.
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, "native"), filepath.Join(work, "..", "..", "native")); err != nil {
		t.Fatal(err)
	}
	from, commands, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	output, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), sessionTime)
	cmd := exec.CommandContext(ctx, "bash", "--norc", "/dev/fd/3")
	cmd.Dir = work
	cmd.ExtraFiles = []*os.File{from}
	cmd.Stdout, cmd.Stderr = to, to
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	// The socket of a plugin has a short path wherever the test runs.
	home, err := os.MkdirTemp(bin, "") //nolint:usetesting // t.TempDir is too long for the socket
	if err != nil {
		t.Fatal(err)
	}
	if *network { // a proxy, a registry, a certificate
		cmd.Env = os.Environ()
	}
	cmd.Env = append(
		cmd.Env,
		"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"),
		"HOME="+home, "TMPDIR="+bin, "LANG=C.UTF-8", "NO_COLOR=1",
		"TOOLGATE_STATE="+filepath.Join(home, "state"), "TOOLGATE_KEYRING=file",
		"TOOLGATE_LISTEN_HTTP="+replace.Replace(addresses["GATEWAY"]),
		"TOOLGATE_LISTEN_CONSOLE="+replace.Replace(addresses["CONSOLE"]), "TOOLGATE_LISTEN_METRICS="+replace.Replace(addresses["METRICS"]),
	)
	if folder == "replicas" {
		cmd.Env = append(cmd.Env, "TOOLGATE_STORE="+postgres.URL(t))
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	from.Close()
	to.Close()
	t.Cleanup(func() {
		commands.Close()
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Errorf("end the shell: %v", err)
		}
		// The end of the output is the end of everything that writes there.
		if _, err := io.Copy(io.Discard, output); err != nil {
			t.Errorf("read the rest of the output: %v", err)
		}
		_ = cmd.Wait() // ended by the signal
		cancel()
		output.Close()
	})
	return &shell{commands: commands, output: bufio.NewReader(output)}, replace
}

// run types a command and returns its output and exit code.
func (s *shell) run(command string) (output string, code int, err error) {
	const mark = "end-of-the-command "
	if _, err := fmt.Fprintf(s.commands, "%s\necho \"%s$?\"\n", command, mark); err != nil {
		return "", 0, err
	}
	var b strings.Builder
	for {
		line, err := s.output.ReadString('\n')
		if before, end, ok := strings.Cut(line, mark); ok {
			b.WriteString(before)
			code, err := strconv.Atoi(strings.TrimSpace(end))
			return b.String(), code, err
		}
		b.WriteString(line)
		if err != nil {
			return b.String(), 0, fmt.Errorf("no end of the command within %v: %w", sessionTime, err)
		}
	}
}

// step runs a command of a README. Telemetry and the index of the audit log are
// written a moment later, and a gateway hears a moment later of one that has joined, so
// commands that read them are repeated.
func (s *shell) step(t *testing.T, at, command string, shown []string) {
	t.Helper()
	var output, lacks string
	var code int
	var err error
	once := func() bool {
		output, code, err = s.run(command)
		lacks = missing(shown, output)
		return err != nil || lacks == ""
	}
	later := strings.HasPrefix(command, "receiver ") || strings.HasPrefix(command, "toolgate audit search ") || command == "one status --all"
	if later && !strings.HasSuffix(command, "&") {
		testwait.Within(patience, once)
	} else {
		once()
	}
	switch {
	case err != nil:
		t.Fatalf("%s: %s: %v\n%s", at, command, err, output)
	case lacks != "":
		t.Fatalf("%s: %s: the output lacks %q:\n%s", at, command, lacks, output)
	case code != 0 && len(shown) == 0:
		t.Fatalf("%s: %s: exit code %d:\n%s", at, command, code, output)
	}
	t.Logf("$ %s\n%s", command, output)
}
