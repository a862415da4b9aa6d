package orphan

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// guarded returns a keeper whose guardian runs.
func guarded(t *testing.T) *keeper {
	t.Helper()
	k := &keeper{}
	t.Cleanup(k.guard(func(err error) { t.Error(err) }))
	k.expect()
	return k
}

// output starts a program with a keeper, and returns what it writes and its state.
func output(t *testing.T, k *keeper, path string, argv, env []string, more ...*os.File) (string, *os.ProcessState) {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	process, c, err := k.start(path, argv, &os.ProcAttr{
		Dir: "/usr", Env: env, Files: append([]*os.File{null, writer, writer}, more...), Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	writer.Close()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	state, err := process.Wait()
	if err != nil {
		t.Fatal(err)
	}
	c.Ended()
	return string(text), state
}

// A program that is started behind a gate finds everything as it would without one.
func TestGateLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "script")
	const text = `#!/bin/sh
echo "$0" "$@"; pwd; env; ls /proc/self/fd; ulimit -a; grep -E '^(Sig[BIC]|Shd|NoNew|Seccomp|Cap)' /proc/self/status; cat <&3
tr '\\0' ' ' </proc/$$/cmdline; cat /proc/$$/comm; exit 7
`
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	big := "BIG=" + strings.Repeat("x", 100_000) // more than a pipe holds
	var got [2]string
	for i, k := range []*keeper{{}, guarded(t)} {
		file, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		out, state := output(t, k, script, []string{"another name", "a b", "", "", "c"}, []string{"A=", "B=1", "A=2", big}, file)
		if state.ExitCode() != 7 {
			t.Errorf("it ended with %d", state.ExitCode())
		}
		got[i] = out
	}
	if diff := cmp.Diff(got[0], got[1]); diff != "" || !strings.Contains(got[0], big) {
		t.Errorf("without a gate (-) and behind one (+):\n%s", diff)
	}
}

// A program that does not run is told about as without a gate.
func TestGateTellsWhyAProgramDoesNotRun(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	none, text := filepath.Join(folder, "none"), filepath.Join(folder, "text")
	if err := os.WriteFile(text, []byte("no program"), 0o700); err != nil {
		t.Fatal(err)
	}
	k := guarded(t)
	for path, want := range map[string]error{none: fs.ErrNotExist, folder: fs.ErrPermission, text: syscall.ENOEXEC} {
		for _, k := range []*keeper{{}, k} {
			process, _, err := k.start(path, []string{path}, &os.ProcAttr{Sys: &syscall.SysProcAttr{Setpgid: true}})
			if process != nil || !errors.Is(err, want) || err.Error() != "fork/exec "+path+": "+errno(err).Error() {
				t.Errorf("%s: %v, %v", path, process, err)
			}
		}
	}
	for _, argv := range [][]string{{"a\x00b"}, {"sh", "\x00"}} {
		if _, _, err := k.start("/bin/sh", argv, &os.ProcAttr{}); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%q: %v", argv, err)
		}
	}
	if n := len(k.children); n != 0 {
		t.Errorf("%d children are known that were not started", n)
	}
}

func errno(err error) error {
	var e syscall.Errno
	errors.As(err, &e)
	return e
}

// Where the program is another one by now, that knows no gates, children are started
// all the same.
func TestProgramWithoutAGate(t *testing.T) {
	t.Parallel()
	other := filepath.Join(t.TempDir(), "other")
	// A guardian has three arguments, and a gate has two.
	if err := os.WriteFile(other, []byte("#!/bin/sh\n[ $# = 3 ] && exec sleep 600\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	k := &keeper{path: other}
	defer k.guard(func(err error) { t.Error(err) })() // which kills such a guardian
	if out, _ := output(t, k, "/bin/echo", []string{"echo", "it runs"}, nil); out != "it runs\n" || k.pid() == 0 {
		t.Errorf("%q, guardian %d", out, k.pid())
	}
}
