//go:build unix

package upstream

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/toolgate/toolgate/internal/orphan"
)

// baseVariables are what programs need to run at all.
var baseVariables = []string{"PATH", "HOME", "LANG", "TMPDIR"}

// variableKey returns what two spellings of one variable have in common.
func variableKey(name string) string { return name }

// processGroup is a process and the group it leads. Its methods other than
// awaitExit must not be called once wait was: its number may be another's then.
type processGroup struct {
	leader  *os.Process
	guarded *orphan.Child
}

// startGroup starts path as the leader of a new process group.
func startGroup(path string, argv []string, attr *os.ProcAttr) (*processGroup, error) {
	attr.Sys = groupAttr()
	leader, guarded, err := orphan.StartProcess(path, argv, attr)
	if err != nil {
		return nil, err
	}
	return &processGroup{leader, guarded}, nil
}

func (g *processGroup) pid() int { return g.leader.Pid }

// awaitExit blocks until the leader has exited, and leaves it to be reaped.
func (g *processGroup) awaitExit() error { return awaitExit(g.leader.Pid) }

// wait reaps the leader of a group that was killed.
func (g *processGroup) wait() (*os.ProcessState, error) {
	g.guarded.Ended()
	return g.leader.Wait()
}

// terminate asks all of the group to end. One that is stopped is woken for it.
func (g *processGroup) terminate() {
	g.signal(unix.SIGTERM)
	g.signal(unix.SIGCONT)
}

// kill ends all of the group.
func (g *processGroup) kill() { g.signal(unix.SIGKILL) }

// signal sends sig to the group. Its errors say that nobody is left in it, or
// only such as took another user's rights; neither leaves anything to do.
func (g *processGroup) signal(sig syscall.Signal) {
	_ = unix.Kill(-g.leader.Pid, sig)
}

// exitSignal returns the name of the signal that ended a process, or "".
func exitSignal(state *os.ProcessState) string {
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return ""
	}
	if name := unix.SignalName(status.Signal()); name != "" {
		return name
	}
	return fmt.Sprintf("%d", int(status.Signal()))
}

// findExecutable returns path if it is a file that can be run.
func findExecutable(path string, _ []string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", err
	case info.IsDir():
		return "", fmt.Errorf("%s is a directory", path)
	case info.Mode()&0o111 == 0:
		return "", fmt.Errorf("%s is not executable: chmod +x it: %w", path, os.ErrPermission)
	}
	return path, nil
}
