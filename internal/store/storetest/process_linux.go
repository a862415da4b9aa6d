package storetest

import "syscall"

// endWithParent kills the server when the test process is killed.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = crash }
