//go:build e2e && unix

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/testwait"
)

// stopAfter is what a process gets between the request to end and its killing.
const stopAfter = 8 * time.Second

// keptLines bounds the output that is kept of each stream of a process.
const keptLines = 4000

// process is a started program in a process group of its own, with what it
// wrote. It is ended with its group when its test ends.
type process struct {
	name   string
	cmd    *exec.Cmd
	stdout *lines
	stderr *lines
	done   chan struct{} // closed once the program has been waited for
	err    error         // of that wait; read after done

	once sync.Once
}

// ownGroup puts cmd into a process group of its own and makes the end of its
// context end the whole group.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if cmd.Cancel != nil {
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	}
}

// start runs cmd until t ends. When t has failed by then, the end of what the
// program wrote is logged.
func start(t *testing.T, name string, cmd *exec.Cmd) *process {
	t.Helper()
	ownGroup(cmd)
	p := &process{name: name, cmd: cmd, stdout: newLines(), stderr: newLines(), done: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = p.stdout
	}
	cmd.Stderr = p.stderr
	cmd.WaitDelay = 2 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.stop(t)
		if t.Failed() {
			t.Logf("%s, end of stdout:\n%s\n%s, end of stderr:\n%s", name, p.stdout.tail(40), name, p.stderr.tail(80))
		}
	})
	return p
}

// stop ends the process group: asked first, killed when that did not help. It
// reports a program that had to be killed, because a user would have to do that
// by hand.
func (p *process) stop(t *testing.T) {
	t.Helper()
	p.once.Do(func() {
		group := -p.cmd.Process.Pid
		select {
		case <-p.done:
		default:
			_ = syscall.Kill(group, syscall.SIGTERM)
			select {
			case <-p.done:
			case <-time.After(stopAfter):
				t.Errorf("%s did not end within %s of SIGTERM", p.name, stopAfter)
			}
		}
		// The leader is gone or refuses to; whatever is left of its group goes too.
		_ = syscall.Kill(group, syscall.SIGKILL)
		<-p.done
		if out := p.stderr.tail(keptLines); strings.Contains(out, "WARNING: DATA RACE") {
			t.Errorf("%s reports a data race:\n%s", p.name, out)
		}
	})
}

// lines is a stream of a process, kept by line. It is safe for concurrent use.
type lines struct {
	mu      sync.Mutex
	kept    []string
	partial string
	grown   chan struct{} // closed and replaced on each write
}

func newLines() *lines { return &lines{grown: make(chan struct{})} }

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	parts := strings.Split(l.partial+string(b), "\n")
	l.partial = parts[len(parts)-1]
	l.kept = append(l.kept, parts[:len(parts)-1]...)
	if over := len(l.kept) - keptLines; over > 0 {
		l.kept = append([]string(nil), l.kept[over:]...)
	}
	close(l.grown)
	l.grown = make(chan struct{})
	return len(b), nil
}

// tail returns the last n lines.
func (l *lines) tail(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.kept
	if l.partial != "" {
		all = append(slices.Clip(all), l.partial)
	}
	return strings.Join(all[max(0, len(all)-n):], "\n")
}

// waitFor returns the first match of re in what p writes to stdout, and fails t
// when p ends or the time is over before there is one.
func (p *process) waitFor(t *testing.T, re *regexp.Regexp, within time.Duration) string {
	t.Helper()
	deadline := time.After(within)
	for {
		p.stdout.mu.Lock()
		grown := p.stdout.grown
		p.stdout.mu.Unlock()
		if m := re.FindString(p.stdout.tail(keptLines)); m != "" {
			return m
		}
		select {
		case <-grown:
		case <-p.done:
			// What it wrote last may have arrived with its end.
			if m := re.FindString(p.stdout.tail(keptLines)); m != "" {
				return m
			}
			t.Fatalf("%s ended (%v) before it printed %s", p.name, p.err, re)
		case <-deadline:
			t.Fatalf("%s printed no %s within %s", p.name, re, within)
		}
	}
}

// leftovers returns the processes whose command line holds marker, by id. Only
// what this run started carries its marker.
func leftovers(marker string) map[int]string {
	found := map[int]string{}
	dirs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return found
	}
	for _, file := range dirs {
		data, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(data), marker) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		found[pid] = strings.ReplaceAll(strings.TrimRight(string(data), "\x00"), "\x00", " ")
	}
	return found
}

// noLeftovers fails t for each process that still carries marker, and ends it.
func noLeftovers(t *testing.T, marker string) {
	t.Helper()
	var left map[int]string
	if testwait.Within(2*time.Second, func() bool {
		left = leftovers(marker)
		return len(left) == 0
	}) {
		return
	}
	for pid, line := range left {
		t.Errorf("left behind: process %d: %s", pid, line)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}
