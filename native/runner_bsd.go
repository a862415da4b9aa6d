//go:build unix && !linux

package native

import (
	"os/exec"
	"syscall"
)

// followsGateway: a child learns of the end of the gateway by the end of its standard
// input alone.
const followsGateway = false

// ownGroup makes a process lead a group.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
