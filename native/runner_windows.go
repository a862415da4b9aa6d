package native

import (
	"os/exec"
	"syscall"
)

// ownGroup makes a process one that hears nothing of our console.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
}

// adopted does what is to be done once a process has been started.
func adopted(*exec.Cmd) error { return nil }

// killGroup ends a process. It fails only where it has ended.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
