// Package testserver runs the servers that tests need. It is for tests.
package testserver

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a server that a test started. Its methods may be called concurrently.
type Process struct {
	process *os.Process
	exited  chan struct{}
}

// Start starts a command that ends with the test process, even if that is killed: on
// Linux it then gets the signal death. Elsewhere it stays behind in that case. Other
// fields of SysProcAttr stay as they are. End must be called.
//
// A goroutine holds its thread until the server has ended: the signal comes when the
// thread that started the process ends, even if the tests go on.
func Start(cmd *exec.Cmd, death syscall.Signal) (*Process, error) {
	endWithParent(cmd, death)
	p := &Process{exited: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		p.process = cmd.Process
		started <- err
		if err == nil {
			_ = cmd.Wait() // a server that is killed ends with an error
		}
		close(p.exited)
	}()
	return p, <-started
}

// Signal sends a signal. One that has ended is no error.
func (p *Process) Signal(s os.Signal) error {
	if err := p.process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// End sends a signal and waits for the end of the server, which is killed when it takes
// too long.
func (p *Process) End(s os.Signal, limit time.Duration) error {
	if err := p.Signal(s); err != nil {
		return err
	}
	late := time.AfterFunc(limit, func() { p.process.Kill() }) //nolint:errcheck // it may have ended
	defer late.Stop()
	<-p.exited
	return nil
}
