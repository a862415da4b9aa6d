//go:build unix

package child

import (
	"errors"
	"io"
	"os"
	ossignal "os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func init() {
	// stubborn cares neither for its standard input nor for signals.
	reexec["stubborn"] = func() {
		ossignal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		holdLeash("stubborn")
	}
	// graceful takes leave when it is told to terminate.
	reexec["graceful"] = func() {
		told := make(chan os.Signal, 1)
		ossignal.Notify(told, syscall.SIGTERM)
		go holdLeash("graceful")
		<-told
		_, _ = os.Stdout.WriteString("goodbye\n")
	}
	// runaway starts a child that leaves the group and keeps the pipes.
	reexec["runaway"] = func() {
		cmd := childOfChild("deaf")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		exitOn(cmd.Start())
		_, _ = os.Stdout.WriteString("started\n")
		holdLeash("parent")
	}
}

func wantEnviron(env []string) []string { return env }

// TestProcessStopSteps checks each step of Stop with a child that ends at none
// before it.
func TestProcessStopSteps(t *testing.T) {
	t.Parallel()
	tests := []struct {
		part  string
		grace time.Duration
		want  ExitError
	}{
		{"deaf", 300 * time.Millisecond, ExitError{Code: -1, Signal: "SIGTERM", Stopped: true}},
		{"graceful", 300 * time.Millisecond, ExitError{Code: 0, Stopped: true}},
		{"stubborn", 30 * time.Millisecond, ExitError{Code: -1, Signal: "SIGKILL", Stopped: true}},
	}
	for _, tt := range tests {
		t.Run(tt.part, func(t *testing.T) {
			t.Parallel()
			l := newLeash(t)
			p := startChild(t, childSpec(tt.part, l.variable()))
			l.await(tt.part)
			if err := p.Stop(t.Context(), tt.grace); err != nil {
				t.Error(err)
			}
			got := *awaitDone(t, p)
			if got.After < tt.grace {
				t.Errorf("it lived %v, less than the first wait", got.After)
			}
			got.Command, got.After = "", 0
			if diff := cmp.Diff(tt.want, got, cmp.Comparer(errors.Is)); diff != "" {
				t.Errorf("exit (-want +got):\n%s", diff)
			}
			if err := unix.Kill(p.group.PID(), 0); err != unix.ESRCH {
				t.Errorf("signal to it after the end = %v, want ESRCH: it was not reaped", err)
			}
			out, err := io.ReadAll(p.Stdout())
			if want := map[string]string{"graceful": "goodbye\n"}[tt.part]; string(out) != want || err != nil {
				t.Errorf("stdout = %q, %v", out, err)
			}
		})
	}
}

// TestProcessStubbornGrandchild ends the leader of a group in which another
// ignores SIGTERM.
func TestProcessStubbornGrandchild(t *testing.T) {
	t.Parallel()
	l := newLeash(t)
	p := startChild(t, childSpec("parent", nextVariable+"=stubborn", l.variable()))
	l.await("parent", "stubborn")
	l.letGo("parent")
	if exit := awaitDone(t, p); exit.Code != 0 {
		t.Errorf("exit = %+v", exit)
	}
	l.gone("stubborn")
}

// TestProcessGrandchildTakesLeave checks that the rest of a group is told
// before it is killed.
func TestProcessGrandchildTakesLeave(t *testing.T) {
	t.Parallel()
	l := newLeash(t)
	p := startChild(t, childSpec("parent", nextVariable+"=graceful", l.variable()))
	l.await("parent", "graceful")
	l.letGo("parent")
	if out, err := io.ReadAll(p.Stdout()); string(out) != "goodbye\n" || err != nil {
		t.Errorf("stdout = %q, %v", out, err)
	}
	_ = awaitDone(t, p)
	l.gone("graceful")
}

// TestProcessRunaway checks that a process which left the group and keeps the
// pipes blocks nobody.
func TestProcessRunaway(t *testing.T) {
	t.Parallel()
	l := newLeash(t)
	p := startChild(t, childSpec("runaway", l.variable()))
	l.await("parent", "deaf")
	l.letGo("parent")
	out, err := io.ReadAll(p.Stdout())
	if string(out) != "started\n" || err != nil {
		t.Errorf("stdout = %q, %v", out, err)
	}
	_ = awaitDone(t, p)
	if _, err := p.Stdin().Write(make([]byte, 1<<20)); err == nil {
		t.Error("stdin can be written to after the exit")
	}
	l.letGo("deaf")
}

// TestProcessStopped checks that a group which is suspended ends all the same.
func TestProcessStopped(t *testing.T) {
	t.Parallel()
	l := newLeash(t)
	p := startChild(t, childSpec("deaf", l.variable()))
	l.await("deaf")
	if err := unix.Kill(p.group.PID(), unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(t.Context(), 300*time.Millisecond); err != nil {
		t.Error(err)
	}
	if exit := awaitDone(t, p); exit.Signal != "SIGTERM" {
		t.Errorf("exit = %+v, want it woken and terminated", exit)
	}
}

// TestProcessCrash checks that a signal nobody of ours sent is named.
func TestProcessCrash(t *testing.T) {
	t.Parallel()
	l := newLeash(t)
	p := startChild(t, childSpec("deaf", l.variable()))
	l.await("deaf")
	if err := unix.Kill(p.group.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	exit := awaitDone(t, p)
	if exit.Signal != "SIGKILL" || exit.Stopped || !strings.Contains(exit.Error(), " ended by signal SIGKILL ") {
		t.Errorf("exit = %v", exit)
	}
}

// TestProcessOwnGroup checks that the child leads a group that is not ours.
func TestProcessOwnGroup(t *testing.T) {
	t.Parallel()
	p := startChild(t, childSpec("echo"))
	if group, err := unix.Getpgid(p.group.PID()); group != p.group.PID() || err != nil {
		t.Errorf("group = %d, %v, want %d", group, err, p.group.PID())
	}
}

func TestLookCommand(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!"), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var (
		first  = write("a/tool", 0o755)
		second = write("b/tool", 0o755)
		only   = write("b/only", 0o755)
	)
	write("a/plain", 0o644)
	plain := write("b/plain", 0o755)
	write("a/never", 0o644)
	write("a/dir/x", 0o644)
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	t.Setenv("PATH", b)
	t.Chdir(b)

	tests := []struct {
		name, command, dir string
		env                []string
		want, err          string
	}{
		{"first of PATH", "tool", "", []string{"PATH=" + a + ":" + b}, first, ""},
		{"second of PATH", "only", "", []string{"PATH=" + a + ":" + b}, only, ""},
		{"the last PATH counts", "tool", "", []string{"PATH=" + a, "PATH=" + b}, second, ""},
		{"what cannot run is passed over", "plain", "", []string{"PATH=" + a + ":" + b}, plain, ""},
		{"not our PATH", "only", "", []string{"PATH=" + a}, "", `command "only" is not in its PATH "` + a + `": install it`},
		{"no PATH", "tool", "", nil, "", `is not in its PATH ""`},
		{"relative entries do not count", "tool", b, []string{"PATH=.::b"}, "", "is not in its PATH"},
		{"not executable", "never", "", []string{"PATH=" + a}, "", "never is not executable"},
		{"directory", "dir", "", []string{"PATH=" + a}, "", "dir is a folder; name the program in it"},
		{"absolute", first, b, nil, first, ""},
		{"absolute, missing", first + "x", b, nil, "", "there is no "},
		{"relative to dir", "a/tool", dir, nil, first, ""},
		{"relative to dir, up", "../b/tool", a, nil, second, ""},
		{"relative to ours", "./tool", "", nil, second, ""},
		{"empty", "", "", []string{"PATH=" + a}, "", `set "command"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Look(tt.command, tt.dir, tt.env)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want one with %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want, wantErr := filepath.EvalSymlinks(tt.want)
			if resolved, err := filepath.EvalSymlinks(got); resolved != want || err != nil || wantErr != nil {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestBaseEnv(t *testing.T) {
	ours := map[string]string{
		"PATH": "/bin", "HOME": "/home/me", "LANG": "C.UTF-8", "AWS_SECRET_ACCESS_KEY": "x",
		"GITHUB_TOKEN": "ghp", "EMPTY": "", "path": "lower",
	}
	lookup := func(name string) (string, bool) {
		value, ok := ours[name]
		return value, ok
	}
	tests := []struct {
		name       string
		configured map[string]string
		inherit    []string
		want       []string
	}{
		{"nothing more", nil, nil, []string{"HOME=/home/me", "LANG=C.UTF-8", "PATH=/bin"}},
		{
			"inherited", nil,
			[]string{"GITHUB_TOKEN", "EMPTY", "NOT_SET", "HOME"},
			[]string{"EMPTY=", "GITHUB_TOKEN=ghp", "HOME=/home/me", "LANG=C.UTF-8", "PATH=/bin"},
		},
		{
			"configured wins",
			map[string]string{"PATH": "/opt", "GITHUB_TOKEN": "", "A": "b=c"},
			[]string{"GITHUB_TOKEN"},
			[]string{"A=b=c", "GITHUB_TOKEN=", "HOME=/home/me", "LANG=C.UTF-8", "PATH=/opt"},
		},
		{
			"names that cannot be",
			map[string]string{"": "x", "A=B": "y", "C\x00": "z"},
			[]string{"", "="},
			[]string{"HOME=/home/me", "LANG=C.UTF-8", "PATH=/bin"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Environment(tt.configured, tt.inherit, lookup)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	got := Environment(nil, nil, func(string) (string, bool) { return "", false })
	if got == nil || len(got) != 0 {
		t.Errorf("of nothing: %#v, want empty and not nil", got)
	}
}
