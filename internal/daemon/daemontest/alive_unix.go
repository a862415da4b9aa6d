//go:build !windows

package daemontest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Alive tells whether a process runs. One that has ended and was not waited for does not.
func Alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := bytes.Cut(stat, []byte(") "))
	return !bytes.HasPrefix(after, []byte("Z"))
}
