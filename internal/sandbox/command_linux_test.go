//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testBinary is this program, by its real path.
func testBinary(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		t.Fatal(err)
	}
	return self
}

// runChild runs a deed of this binary under a policy and returns what it printed.
func runChild(t *testing.T, p Policy, deed string, args ...string) string {
	t.Helper()
	return runProgram(t, p, Program{
		Path: testBinary(t), Args: append([]string{childMark, deed}, args...),
		Env: []string{"GORACE=atexit_sleep_ms=0"}, // or the race detector waits for a second
	})
}

// runProgram runs a program to its end and returns what it printed.
func runProgram(t *testing.T, p Policy, program Program) string {
	t.Helper()
	pr, err := Command(t.Context(), p, program)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	pr.Cmd.Stdout, pr.Cmd.Stderr = &out, &out
	if err := pr.Start(); err != nil {
		t.Fatal(err)
	}
	err = pr.Wait()
	if err := pr.Close(); err != nil {
		t.Error(err)
	}
	if out.Len() == 0 && err != nil {
		return "error: " + err.Error()
	}
	return out.String()
}

func TestWhatIsGranted(t *testing.T) {
	folder := t.TempDir()
	readable := write(t, folder+"/readable/file", "may be read")
	writable := folder + "/writable"
	write(t, writable+"/file", "may be written")
	if err := os.Symlink(folder+"/readable", folder+"/way"); err != nil {
		t.Fatal(err)
	}
	p := Policy{Mode: Auto, Temp: true, Read: []string{folder + "/way"}, Write: []string{writable}, Run: []string{"/bin/sh", "/usr/bin/true"}}
	eachMachine(t, func(t *testing.T, m machine) {
		for _, tt := range []struct {
			want string
			deed []string
		}{
			{"done: hello", []string{"print", "hello"}},
			{"done: " + testBinary(t), []string{"self"}},
			{"done: may be read", []string{"read", readable}},
			{"done: may be read", []string{"read", folder + "/way/file"}},
			{"done: file", []string{"list", folder + "/way"}},
			{"done: ", []string{"write", writable + "/new"}},
			{"done: written", []string{"read", writable + "/new"}},
			{"done: ", []string{"mknod", writable + "/fifo", "010600"}},
			{"done: ", []string{"remove", writable + "/fifo"}},
			{"done: ", []string{"rename", writable + "/new", writable + "/newer"}},
			{"done: run", []string{"run", "/bin/sh", "-c", "echo run"}},
			{"done: ", []string{"write", "/dev/null"}},
			{"done: ", []string{"write", "/dev/urandom"}}, // a device, which can be opened
			{"done: ", []string{"socketpair", "1"}},
			{"done: ", []string{"socketpair", "5"}}, // with which runtimes start processes
			{"done: root", []string{"read", "/etc/passwd"}},
		} {
			if got := runChild(t, p, tt.deed[0], tt.deed[1:]...); !strings.HasPrefix(got, tt.want) {
				t.Errorf("%v: got %q, want %q", tt.deed, got, tt.want)
			}
		}
	})
}

func TestEnvironmentAndFolder(t *testing.T) {
	t.Setenv("TOOLGATE_SECRET", "canary")
	p := Policy{Mode: Auto, Temp: true}
	self := testBinary(t)
	eachMachine(t, func(t *testing.T, _ machine) {
		got := runProgram(t, p, Program{Path: self, Args: []string{childMark, "env"}, Env: []string{"A=b", "HOME=/root"}})
		if strings.Contains(got, "canary") || strings.Contains(got, "HOME=/root") || !strings.Contains(got, "A=b\n") || !strings.Contains(got, "PATH="+defaultPath) {
			t.Errorf("environment: %s", got)
		}
		got = runProgram(t, p, Program{Path: self, Args: []string{childMark, "where"}})
		folder, ok := strings.CutPrefix(strings.TrimSpace(got), "done: ")
		if !ok || !strings.Contains(folder, "toolgate-sandbox-") {
			t.Errorf("folder: %s", got)
		}
		if _, err := os.Stat(folder); !os.IsNotExist(err) {
			t.Errorf("the private folder is still there: %v", err)
		}
	})
}
