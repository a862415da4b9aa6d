package redistest

import (
	"os/exec"
	"syscall"
)

// endWithParent ends the server when the test process is killed, so that it
// never stays behind.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
