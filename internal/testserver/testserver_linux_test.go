package testserver_test

import (
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/testserver"
)

// TestOutlivesItsThread starts a server from goroutines whose threads end.
func TestOutlivesItsThread(t *testing.T) {
	type started struct {
		process *testserver.Process
		err     error
	}
	answer := make(chan started)
	for range 20 {
		go func() {
			runtime.LockOSThread() // for good: the thread ends with this goroutine
			p, err := testserver.Start(exec.CommandContext(t.Context(), "sleep", "60"), syscall.SIGKILL)
			answer <- started{p, err}
		}()
		s := <-answer
		if s.err != nil {
			t.Fatal(s.err)
		}
		if err := s.process.Signal(syscall.Signal(0)); err != nil {
			t.Error(err)
		}
		if err := s.process.End(syscall.SIGTERM, time.Minute); err != nil {
			t.Error(err)
		}
		if err := s.process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("a signal to one that has ended: %v", err)
		}
	}
	if _, err := testserver.Start(exec.CommandContext(t.Context(), t.TempDir()+"/none"), syscall.SIGKILL); err == nil {
		t.Error("a program that does not exist was started")
	}
}
