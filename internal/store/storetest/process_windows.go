package storetest

import (
	"os/exec"
	"syscall"
)

var (
	crash = syscall.SIGKILL
	kill  = syscall.SIGKILL
)

func confine(*exec.Cmd) error { return nil }

func hand(string) error { return nil }
