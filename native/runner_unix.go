//go:build unix

package native

import (
	"os/exec"
	"syscall"
)

// killGroup ends a process and what it has started, as far as that has stayed in
// its group. It fails only where nobody is left.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
