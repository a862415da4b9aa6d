package code_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/native/plugins/code"
)

// running tells whether a process has a text in its arguments.
func running(t *testing.T, mark string) bool {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	must(t, err)
	for _, e := range entries {
		if line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline"); err == nil && bytes.Contains(line, []byte(mark)) && e.Name() != fmt.Sprint(os.Getpid()) {
			return true
		}
	}
	return false
}

// What a program has started, in a session of its own and with another parent, ends
// with the call, whether the program ends by itself or not, and however it is
// confined.
func TestNothingOutlivesItsCall(t *testing.T) {
	t.Parallel()
	for _, mode := range []sandbox.Mode{sandbox.Auto, sandbox.Off} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			tool := open(t, code.Config{Python: python(t), Sandbox: mode, Timeout: 3 * time.Second})["execute"]
			for what, end := range map[string]string{"ended": "", "killed": "time.sleep(100)", "crashed": "os.kill(os.getpid(), 9)"} {
				mark := "mark-" + rand.Text()
				out := run(t, tool, fmt.Sprintf(`
import os, subprocess, sys, time
quiet = subprocess.DEVNULL
for i in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)', %q], start_new_session=True, stdin=quiet, stdout=quiet, stderr=quiet)
            os.close(1); os.close(2)
            time.sleep(100)
        os._exit(0)
    os.wait()
time.sleep(0.3)
print('begun', flush=True)
%s`, mark, end))
				if out.Stdout != "begun\n" || out.TimedOut != (what == "killed") {
					t.Errorf("%s %s: %+v", mode, what, out)
				}
				if running(t, mark) {
					t.Errorf("%s: a process outlived a program that has %s", mode, what)
				}
			}
		})
	}
}

// Runs do not end each other.
func TestRunsAtOnce(t *testing.T) {
	tool := open(t, code.Config{Python: python(t), Sandbox: sandbox.Off, Workers: 4})["execute"]
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			out := run(t, tool, fmt.Sprintf("import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'import time; time.sleep(0.05); print(%d)'], capture_output=True, text=True).stdout)", i))
			if out.Stdout != fmt.Sprintf("%d\n\n", i) {
				t.Errorf("%d: %+v", i, out)
			}
		})
	}
	all.Wait()
}
