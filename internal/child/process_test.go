package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

// childVariable names the part that the test binary plays when it is started
// as somebody's child.
const childVariable = "TOOLGATE_TEST_CHILD"

// reexec holds the parts, by name. Test files add theirs in init. A part that
// returns exits with code 0.
var reexec = map[string]func(){}

func TestMain(m *testing.M) {
	if name, ok := os.LookupEnv(childVariable); ok {
		part, ok := reexec[name]
		if !ok {
			fmt.Fprintf(os.Stderr, "no test child is called %q\n", name)
			os.Exit(97)
		}
		part()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// raceSetting keeps the race detector from sleeping a second at each exit.
const raceSetting = "GORACE=atexit_sleep_ms=0"

// Variables of the children below.
const (
	codeVariable  = "TOOLGATE_TEST_CODE"  // exit code
	leashVariable = "TOOLGATE_TEST_LEASH" // address of the test's leash
	nextVariable  = "TOOLGATE_TEST_NEXT"  // part of the grandchild
)

func init() {
	reexec["exit"] = func() {
		fmt.Fprintln(os.Stderr, "\x1b[31mcannot go on\x1b[0m")
		code, _ := strconv.Atoi(os.Getenv(codeVariable))
		os.Exit(code)
	}
	reexec["panic"] = func() { panic("boom") }
	reexec["echo"] = func() { _, _ = io.Copy(os.Stdout, os.Stdin) }
	reexec["env"] = func() { _ = json.NewEncoder(os.Stdout).Encode(os.Environ()) }
	reexec["where"] = func() {
		dir, _ := os.Getwd()
		_ = json.NewEncoder(os.Stdout).Encode(append(os.Args, dir))
	}
	// deaf does not care for its standard input.
	reexec["deaf"] = func() { holdLeash("deaf") }
	reexec["flood"] = func() {
		w := bufio.NewWriterSize(os.Stderr, 1<<16)
		for i := range 100_000 {
			fmt.Fprintf(w, "line %d %s\n", i, strings.Repeat("x", i%100))
		}
		_, _ = w.WriteString(strings.Repeat("y", 10<<20))
		_ = w.Flush()
	}
	// parent starts a child that holds all that it holds itself, and exits when
	// it is let go.
	reexec["parent"] = func() {
		exitOn(childOfChild(os.Getenv(nextVariable)).Start())
		holdLeash("parent")
	}
	// gateway starts a child as toolgate does, and waits to be killed.
	reexec["gateway"] = func() {
		p, err := Start(context.Background(), childSpec("loud", leashVariable+"="+os.Getenv(leashVariable)))
		exitOn(err)
		<-p.Done()
	}
	// panicking is a gateway whose reader of the child's output panics.
	reexec["panicking"] = func() {
		p, err := Start(context.Background(), childSpec("loud", leashVariable+"="+os.Getenv(leashVariable)))
		exitOn(err)
		go func() {
			_, _ = p.Stdout().Read(make([]byte, 1))
			panic("reader")
		}()
		<-p.Done()
	}
	// loud speaks when it is on the leash.
	reexec["loud"] = func() { holdLeash("deaf", "hello\n") }
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(98)
	}
}

// childOfChild is a child that holds what its parent holds.
func childOfChild(part string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{childVariable + "=" + part, raceSetting, leashVariable + "=" + os.Getenv(leashVariable)}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd
}

// holdLeash connects to the test and returns when the test lets go. So no child
// outlives the test, and the test sees when a child is gone. Once connected it
// says words.
func holdLeash(name string, words ...string) {
	conn, err := net.Dial("tcp", os.Getenv(leashVariable))
	exitOn(err)
	_, err = fmt.Fprintln(conn, name)
	exitOn(err)
	for _, word := range words {
		_, _ = os.Stdout.WriteString(word)
	}
	_, _ = conn.Read(make([]byte, 1))
}

// leash is the test's end of holdLeash. It is for one goroutine.
type leash struct {
	t        *testing.T
	listener net.Listener
	held     map[string]net.Conn
}

// childPatience is how long a test waits for a child, on a busy machine.
const childPatience = 30 * time.Second

func newLeash(t *testing.T) *leash {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &leash{t: t, listener: listener, held: make(map[string]net.Conn)}
	t.Cleanup(func() {
		listener.Close()
		for _, conn := range l.held {
			conn.Close()
		}
	})
	return l
}

func (l *leash) variable() string { return leashVariable + "=" + l.listener.Addr().String() }

// await waits until the children called names hold on.
func (l *leash) await(names ...string) {
	l.t.Helper()
	deadline := time.Now().Add(childPatience)
	_ = l.listener.(*net.TCPListener).SetDeadline(deadline)
	for _, name := range names {
		for l.held[name] == nil {
			conn, err := l.listener.Accept()
			if err != nil {
				l.t.Fatalf("wait for %s: %v", name, err)
			}
			_ = conn.SetDeadline(deadline)
			line, err := bufio.NewReader(conn).ReadString('\n')
			if err != nil {
				l.t.Fatalf("wait for %s: %v", name, err)
			}
			l.held[strings.TrimSpace(line)] = conn
		}
	}
}

// letGo ends the child called name.
func (l *leash) letGo(name string) { l.held[name].Close() }

// gone waits until the child called name is dead.
func (l *leash) gone(name string) {
	l.t.Helper()
	conn := l.held[name]
	_ = conn.SetDeadline(time.Now().Add(childPatience))
	if _, err := conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		l.t.Errorf("%s is still alive", name)
	}
}

// childSpec runs this test binary as part, with more in its environment.
func childSpec(part string, env ...string) Spec {
	return Spec{Command: os.Args[0], Env: append([]string{childVariable + "=" + part, raceSetting}, env...)}
}

func startChild(t *testing.T, spec Spec) *Process {
	t.Helper()
	p, err := Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.Background(), 0); err != nil {
			t.Error(err)
		}
		p.Stdout().Close()
	})
	return p
}

// awaitDone waits for the end of p and returns how it ended.
func awaitDone(t *testing.T, p *Process) *ExitError {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(childPatience):
		t.Fatal("the process does not end")
	}
	var exit *ExitError
	if !errors.As(p.Err(), &exit) {
		t.Fatalf("Err = %v, want an ExitError", p.Err())
	}
	return exit
}

func TestProcessExit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, part string
		code       int
		says       string
	}{
		{"well", "exit", 0, " exited with code 0 "},
		{"with a code", "exit", 3, " exited with code 3 "},
		{"by a panic", "panic", 2, " exited with code 2 "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := startChild(t, childSpec(tt.part, codeVariable+"="+strconv.Itoa(tt.code)))
			if out, err := io.ReadAll(p.Stdout()); len(out) != 0 || err != nil {
				t.Errorf("stdout = %q, %v", out, err)
			}
			exit := awaitDone(t, p)
			if exit.Code != tt.code || exit.Signal != "" || exit.Stopped || exit.Err != nil {
				t.Errorf("exit = %+v", exit)
			}
			if got := exit.Error(); !strings.HasPrefix(got, os.Args[0]+tt.says) {
				t.Errorf("Err = %s", got)
			}
			if tt.part == "exit" {
				if !strings.HasSuffix(exit.Error(), "; it said on stderr: cannot go on") {
					t.Errorf("Err = %s", exit)
				}
			} else if !slices.Contains(p.Stderr(), "panic: boom") {
				t.Errorf("stderr = %q", p.Stderr())
			}
			if _, err := p.Stdin().Write([]byte("x")); err == nil {
				t.Error("stdin can be written to after the exit")
			}
			if err := p.Stop(t.Context(), time.Hour); err != nil {
				t.Errorf("Stop after the exit = %v", err)
			}
		})
	}
}

func TestExitErrorSentence(t *testing.T) {
	long := strings.Repeat("é", 300)
	tests := []struct {
		exit ExitError
		want string
	}{
		{ExitError{Command: "npx", Code: 1, After: 1234567890}, "npx exited with code 1 after 1.235s"},
		{
			ExitError{Command: "npx", Code: -1, Signal: "SIGSEGV", After: time.Minute, LastLine: "oh"},
			"npx ended by signal SIGSEGV after 1m0s; it said on stderr: oh",
		},
		{ExitError{Command: "npx", Stopped: true}, "npx was stopped: exited with code 0 within a second"},
		{
			ExitError{Command: "npx", Stopped: true, Cause: errors.New("not ready within 30s"), Code: -1, Signal: "SIGKILL"},
			"npx was stopped (not ready within 30s): ended by signal SIGKILL within a second",
		},
		{ExitError{Command: "npx", Err: io.ErrNoProgress}, "npx ended in an unknown way (multiple Read calls return no data or error) within a second"},
		{
			ExitError{Command: "npx", LastLine: "x" + long},
			"npx exited with code 0 within a second; it said on stderr: x" + long[:198] + "…",
		},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, tt.exit.Error()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestProcessSpeaks(t *testing.T) {
	t.Parallel()
	p := startChild(t, childSpec("echo"))
	out := bufio.NewReader(p.Stdout())
	for _, line := range []string{"a\n", "b\n"} {
		if _, err := io.WriteString(p.Stdin(), line); err != nil {
			t.Fatal(err)
		}
		if got, err := out.ReadString('\n'); got != line || err != nil {
			t.Fatalf("echo of %q = %q, %v", line, got, err)
		}
	}
	if p.Err() != nil {
		t.Errorf("Err of a living process = %v", p.Err())
	}
	if err := p.Stop(t.Context(), childPatience); err != nil {
		t.Fatal(err)
	}
	if exit := awaitDone(t, p); exit.Code != 0 || !exit.Stopped {
		t.Errorf("exit = %+v, want a clean end after the end of stdin", exit)
	}
	if _, err := out.ReadByte(); err != io.EOF {
		t.Errorf("stdout after the end: %v, want EOF", err)
	}
	if err := p.Stdout().Close(); err != nil {
		t.Errorf("Close after EOF = %v", err)
	}
}

// TestProcessLastWords checks that output which nobody read before the exit is
// not lost.
func TestProcessLastWords(t *testing.T) {
	t.Parallel()
	p := startChild(t, childSpec("echo"))
	words := strings.Repeat("w", 60_000)
	if _, err := io.WriteString(p.Stdin(), words); err != nil {
		t.Fatal(err)
	}
	p.Stdin().Close()
	_ = awaitDone(t, p)
	got, err := io.ReadAll(p.Stdout())
	if string(got) != words || err != nil {
		t.Errorf("read %d bytes, %v, want %d", len(got), err, len(words))
	}
}

func TestProcessEnvironment(t *testing.T) {
	t.Setenv("TOOLGATE_TEST_SECRET", "must not be seen")
	for _, env := range [][]string{nil, {"B=2", "A=1", "PATH="}} {
		spec := childSpec("env", env...)
		p := startChild(t, spec)
		var got []string
		if err := json.NewDecoder(p.Stdout()).Decode(&got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wantEnviron(spec.Env), got); diff != "" {
			t.Errorf("environment (-want +got):\n%s", diff)
		}
	}
}

func TestProcessArgsAndDir(t *testing.T) {
	t.Parallel()
	spec := childSpec("where")
	spec.Args = []string{"-y", "a b", "", `"$HOME"`, "*"}
	spec.Dir = t.TempDir()
	p := startChild(t, spec)
	var got []string
	if err := json.NewDecoder(p.Stdout()).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 7 {
		t.Fatalf("got %q", got)
	}
	if diff := cmp.Diff(append([]string{spec.Command}, spec.Args...), got[:6]); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	wantDir, err := os.Stat(spec.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if gotDir, err := os.Stat(got[6]); err != nil || !os.SameFile(wantDir, gotDir) {
		t.Errorf("working directory %s, want %s", got[6], spec.Dir)
	}
}

func TestProcessFloodsStderr(t *testing.T) {
	t.Parallel()
	spec := childSpec("flood")
	spec.StderrLines, spec.StderrBytes = 20, 10_000
	p := startChild(t, spec)
	_ = awaitDone(t, p)
	lines := p.Stderr()
	if len(lines) != 20 || !strings.HasPrefix(lines[18], "line 99999 ") || !strings.HasPrefix(lines[19], "yyy") {
		t.Errorf("%d lines, the last of which are %.80q", len(lines), lines[max(0, len(lines)-2):])
	}
	if n := len(strings.Join(lines, "")); n > 10_000+2*ringLineBytes {
		t.Errorf("%d bytes were kept", n)
	}
}

// TestProcessContextEnds checks that nothing outlives the context, and that a
// blocked reader and a blocked writer are freed.
func TestProcessContextEnds(t *testing.T) {
	t.Parallel()
	l := newLeash(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	p, err := Start(ctx, childSpec("deaf", l.variable()))
	if err != nil {
		t.Fatal(err)
	}
	l.await("deaf")
	var wg sync.WaitGroup
	wg.Go(func() {
		if n, err := p.Stdout().Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("blocked read = %d, %v, want EOF", n, err)
		}
	})
	wg.Go(func() {
		if _, err := p.Stdin().Write(make([]byte, 1<<20)); err == nil {
			t.Error("a write that nobody read succeeded")
		}
	})
	why := errors.New("too slow")
	cancel(why)
	l.gone("deaf")
	if exit := awaitDone(t, p); !exit.Stopped || !errors.Is(exit, why) {
		t.Errorf("exit = %+v", exit)
	}
	wg.Wait()
}

func TestProcessContextEndedBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, childSpec("deaf")); !errors.Is(err, context.Canceled) {
		t.Errorf("Start = %v", err)
	}
}

// TestProcessContextEndsWhileStarting races the two: either way nothing is left
// for goleak or the leash to find.
func TestProcessContextEndsWhileStarting(t *testing.T) {
	t.Parallel()
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		p, err := Start(ctx, childSpec("echo"))
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			continue
		}
		_ = awaitDone(t, p)
		p.Stdout().Close()
	}
}

func TestProcessStopConcurrently(t *testing.T) {
	t.Parallel()
	l := newLeash(t)
	p := startChild(t, childSpec("deaf", l.variable()))
	l.await("deaf")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if err := p.Stop(t.Context(), time.Duration(i)*5*time.Millisecond); err != nil {
				t.Error(err)
			}
			if p.Err() == nil {
				t.Error("Stop returned before the end")
			}
		})
	}
	wg.Wait()
	l.gone("deaf")
}

// TestProcessStopHurries checks that the end of Stop's context ends the waiting
// and not the process only.
func TestProcessStopHurries(t *testing.T) {
	t.Parallel()
	l := newLeash(t)
	p := startChild(t, childSpec("deaf", l.variable()))
	l.await("deaf")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Stop(ctx, time.Hour); err != nil {
		t.Error(err)
	}
	l.gone("deaf")
}

// TestProcessGrandchildHoldsStdout ends the leader, while its child would go on
// for ever with all three pipes.
func TestProcessGrandchildHoldsStdout(t *testing.T) {
	t.Parallel()
	l := newLeash(t)
	p := startChild(t, childSpec("parent", nextVariable+"=deaf", l.variable()))
	l.await("parent", "deaf")
	l.letGo("parent")
	if out, err := io.ReadAll(p.Stdout()); len(out) != 0 || err != nil {
		t.Errorf("stdout = %q, %v", out, err)
	}
	if exit := awaitDone(t, p); exit.Code != 0 || exit.Stopped {
		t.Errorf("exit = %+v", exit)
	}
	l.gone("deaf")
}

// TestProcessStopEndsGrandchild stops a pair neither of whom listens.
func TestProcessStopEndsGrandchild(t *testing.T) {
	t.Parallel()
	l := newLeash(t)
	p := startChild(t, childSpec("parent", nextVariable+"=deaf", l.variable()))
	l.await("parent", "deaf")
	if err := p.Stop(t.Context(), 10*time.Millisecond); err != nil {
		t.Error(err)
	}
	l.gone("parent")
	l.gone("deaf")
}

func TestProcessCannotStart(t *testing.T) {
	t.Parallel()
	before := childSpec("echo")
	before.Dir = t.TempDir() + "/none"
	if _, err := Start(t.Context(), before); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in a directory that is not there: %v", err)
	}
	if _, err := Start(t.Context(), Spec{}); err == nil {
		t.Error("started nothing")
	}
	broken := childSpec("echo", "A=\x00")
	if _, err := Start(t.Context(), broken); err == nil {
		t.Error("started with a variable that cannot be")
	}
}

// TestProcessLeavesNothing starts and ends many processes, and looks for what
// they left behind.
func TestProcessLeavesNothing(t *testing.T) {
	for i := range 20 {
		p, err := Start(t.Context(), childSpec("echo"))
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			p.Stdin().Close()
		}
		if err := p.Stop(t.Context(), time.Duration(i)*time.Millisecond); err != nil {
			t.Error(err)
		}
		if _, err := io.Copy(io.Discard, p.Stdout()); err != nil {
			t.Error(err)
		}
	}
	goleak.VerifyNone(t)
}
