//go:build unix && !linux

package native

import (
	"os/exec"
	"syscall"
)

// ownGroup makes a process lead a group.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
