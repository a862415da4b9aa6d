//go:build !linux

package testserver

import (
	"os/exec"
	"syscall"
)

// endWithParent is not possible here.
func endWithParent(*exec.Cmd, syscall.Signal) {}
