//go:build unix && !(linux && (amd64 || arm64))

package sandbox

import (
	"os"
	"os/exec"
	"syscall"
)

const defaultPath = "/usr/local/bin:/usr/bin:/bin"

func setGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(p *os.Process) {
	_ = syscall.Kill(-p.Pid, syscall.SIGKILL)
	_ = p.Kill()
}
