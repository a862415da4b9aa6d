//go:build !windows && !linux

package storetest

import "syscall"

// endWithParent is not possible here: the server survives when the test process is
// killed.
func endWithParent(*syscall.SysProcAttr) {}
