package native

import (
	"os/exec"
	"syscall"
)

// followsGateway: a child is in the job of the gateway, which ends with it.
const followsGateway = true

// ownGroup makes a process one that hears nothing of our console.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
}

// startGuarded starts a process, which is in the job of the gateway.
func (p *plain) startGuarded() error { return p.Cmd.Start() }

// killGroup ends a process. It fails only where it has ended.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
