package native

import (
	"os/exec"
	"syscall"
)

// followsGateway: the system kills a child with the gateway.
const followsGateway = true

// ownGroup makes a process lead a group, and die with the thread that starts it:
// see runner.watch, which keeps that thread.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
