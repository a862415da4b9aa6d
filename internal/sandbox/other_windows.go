package sandbox

import (
	"os"
	"os/exec"
)

const defaultPath = `C:\Windows\System32;C:\Windows`

func setGroup(*exec.Cmd) {}

func killGroup(p *os.Process) { _ = p.Kill() }
