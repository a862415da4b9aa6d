package storetest

import "syscall"

// endWithParent makes the server crash when the test process is killed, so
// that it never stays behind.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = crash }
