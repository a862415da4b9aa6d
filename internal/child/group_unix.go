//go:build unix

package child

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/toolgate/toolgate/internal/orphan"
)

// baseVariables are what programs need to run at all.
var baseVariables = []string{"PATH", "HOME", "LANG", "TMPDIR"}

// variableKey returns the form in which names of variables are compared.
func variableKey(name string) string { return name }

// system is empty here.
type system struct{} //nolint:unused // it holds the job on Windows

// begin starts the command as the leader of a group, or of a session if it asks for
// one; mu is held.
func (g *Group) begin(cmd *exec.Cmd, guard Guard) (err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = groupAttr()
	}
	if guard == GuardedFirst {
		files, err := standardFiles(cmd)
		if err != nil {
			return err
		}
		cmd.Process, g.guarded, err = orphan.StartProcess(cmd.Path, cmd.Args, &os.ProcAttr{
			Dir: cmd.Dir, Env: cmd.Env, Files: files, Sys: cmd.SysProcAttr,
		})
		return err
	}
	if guard == GuardedAfter || !followsGateway {
		g.guarded = orphan.Expect()
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	g.guarded.Started(cmd.Process.Pid)
	return nil
}

// awaitExit blocks until the leader has exited, without reaping it: until then its
// process id, which is the group's, is not reused.
func (g *Group) awaitExit() error { return awaitExit(g.leader.Pid) }

// terminate asks the group to end, and wakes a stopped one.
func (g *Group) terminate() {
	g.signal(unix.SIGTERM)
	g.signal(unix.SIGCONT)
}

// kill kills the group, and a leader that has left it.
func (g *Group) kill() {
	g.signal(unix.SIGKILL)
	_ = unix.Kill(g.leader.Pid, unix.SIGKILL)
}

// close tells the guardian that the group is empty.
func (g *Group) close() { g.guarded.Ended() }

// signal sends sig to the group. It ignores errors: the group is empty, or belongs to
// another user, and nothing can be done about either.
func (g *Group) signal(sig syscall.Signal) {
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

// findExecutable returns path if it is an executable file.
func findExecutable(path string, _ []string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", err
	case info.IsDir():
		return "", &fs.PathError{Op: "start", Path: path, Err: syscall.EISDIR}
	case info.Mode()&0o111 == 0:
		return "", fmt.Errorf("%s is not executable: chmod +x it: %w", path, os.ErrPermission)
	}
	return path, nil
}
