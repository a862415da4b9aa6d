//go:build unix

package native

import (
	"os/exec"
	"syscall"
)

// adopted does what is to be done once a process has been started.
func adopted(*exec.Cmd) error { return nil }

// killGroup ends a process and what it has started, as far as that has stayed in
// its group. It fails only where nobody is left.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
