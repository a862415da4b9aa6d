//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolgate/toolgate/internal/sandbox/shim"
)

// confinedDeed is a child that confines itself, with threads that are there before,
// and does a deed on one of those.
func confinedDeed(args []string) (string, error) {
	var p Policy
	if err := json.Unmarshal([]byte(args[0]), &p); err != nil {
		return "", err
	}
	const threads = 8
	var ready, over sync.WaitGroup
	work := make(chan func())
	for range threads {
		ready.Add(1)
		over.Go(func() {
			runtime.LockOSThread()
			ready.Done()
			for f := range work {
				f()
			}
		})
	}
	ready.Wait()
	l, err := Confine(p)
	if err != nil {
		return "", fmt.Errorf("not confined: %w", err)
	}
	var text string
	done := make(chan struct{})
	work <- func() {
		defer close(done)
		text, err = deeds[args[1]](args[2:])
	}
	<-done
	close(work)
	over.Wait()
	runtime.GC() // the threads of the runtime still reach each other
	return l.String() + "; " + text, err
}

func init() { deeds["confined"] = confinedDeed }

// runConfined runs this binary, which confines itself.
func runConfined(t *testing.T, p Policy, deed ...string) string {
	t.Helper()
	policy, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), testBinary(t), append([]string{childMark, "confined", string(policy)}, deed...)...)
	cmd.Env = []string{"GORACE=atexit_sleep_ms=0"}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil && out.Len() == 0 {
		return "error: " + err.Error()
	}
	return out.String()
}

func TestConfineItself(t *testing.T) {
	folder := t.TempDir()
	outside := write(t, folder+"/outside/secret", "the secret")
	readable := write(t, folder+"/readable/file", "may be read")
	p := Policy{Mode: Auto, Read: []string{folder + "/readable"}, Write: []string{folder + "/readable"}, CPU: -1}
	every := shim.EveryThread()
	for _, tt := range []struct {
		name string
		deed []string
		want string
		// a program with C in it has no Landlock, and keeps its capabilities
		without bool
	}{
		{"reads what it may", []string{"read", readable}, "done: ", true},
		{"computes", []string{"print", "still alive"}, "done: ", true},
		{"reads outside", []string{"read", outside}, "error: ", every},
		{"writes outside", []string{"write", outside}, "error: ", every},
		{"starts a process", []string{"run", testBinary(t), childMark, "print"}, "error: ", true},
		{"makes a socket", []string{"socket", "2", "1", "0"}, "error: ", true},
		{"makes a Unix socket", []string{"socket", "1", "1", "0"}, "error: ", true},
		{"signals its parent", []string{"parent"}, "error: ", true},
		{"traces its parent", []string{"ptrace", fmt.Sprint(os.Getpid())}, "error: ", true},
		{"reads the environment of its parent", []string{"read", fmt.Sprintf("/proc/%d/environ", os.Getpid())}, "error: ", every},
		{"sets the set-user-ID bit", []string{"chmod", readable, "4755"}, "error: ", true},
		{"becomes somebody else", []string{"setuid"}, "error: ", true},
		{"makes files in memory", []string{"memfd"}, "error: ", true},
		{"mounts", []string{"mount", folder}, "error: ", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !tt.without {
				tt.want = "done: " // and so it is refused where it is required: below
			}
			if got := runConfined(t, p, tt.deed...); !strings.HasPrefix(got, tt.want) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	p.Mode = Required
	got := runConfined(t, p, "print", "hello")
	if every && !strings.HasPrefix(got, "done: limits no-new-privs landlock seccomp processes; hello") {
		t.Errorf("required: %s", got)
	}
	if !every && !strings.Contains(got, ErrMissing.Error()) {
		t.Errorf("required, with C in the program: %s", got)
	}
	p.Run = []string{"/bin"} // whoever runs programs has to be bounded in another way
	got = runConfined(t, p, "print", "hello")
	if refused := strings.Contains(got, ErrMissing.Error()); refused != (!every || os.Geteuid() == 0) {
		t.Errorf("required, with programs: %s", got)
	}
}

// What is given up is given up by threads that are made later, too.
func TestConfineBoundsMemory(t *testing.T) {
	p := Policy{Mode: Auto, Memory: roomForTests, CPU: -1, FileSize: 1 << 20, Files: 64}
	for _, deed := range [][]string{{"memory", strconv.Itoa(4 * roomForTests)}, {"manyfiles", "100"}} {
		if got := runConfined(t, p, deed...); !strings.HasPrefix(got, "error: ") {
			t.Errorf("%v: %s", deed, got)
		}
	}
}

func TestConfineOff(t *testing.T) {
	if l, err := Confine(Policy{Mode: Off}); err != nil || l.String() != "none" {
		t.Errorf("got %v, %v", l, err)
	}
	if _, err := Confine(Policy{Mode: "x"}); err == nil {
		t.Error("a mode that there is not was taken")
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < 65 {
		t.Errorf("this process was confined: %v, %v", limit, err)
	}
	if !errors.Is(Layers{Missing: []Missing{{Files, "", true}}}.refusal(), ErrMissing) {
		t.Error("a layer is missing and nothing is refused")
	}
}
