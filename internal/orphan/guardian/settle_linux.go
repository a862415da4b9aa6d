package guardian

import (
	"syscall"
	"unsafe"
)

const (
	prSetName     = 15
	sysCloseRange = 436
	ignored       = 1 // SIG_IGN
)

// settle lets go of everything that the gateway had, and sees that what is meant for
// the gateway does not end its guardian first. What fails here makes it no worse a
// guardian than it would be without.
func settle() {
	// It is seen as a guardian in lists of processes; /proc/self/exe would be "exe".
	name := [16]byte{'g', 'u', 'a', 'r', 'd', 'i', 'a', 'n'}
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetName, uintptr(unsafe.Pointer(&name)), 0)
	// What the gateway itself has inherited is not closed when a program is run.
	_, _, _ = syscall.RawSyscall(sysCloseRange, 3, 1<<31-1, 0)
	// A service manager sends them to all processes of a service. Without a handler
	// nothing is needed but the first word of the structure. The package os/signal
	// would have the guardian entered behind most of the program.
	action := [8]uintptr{ignored}
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
	}
}
