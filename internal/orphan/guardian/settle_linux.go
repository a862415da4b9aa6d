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

// settle closes everything inherited from the gateway, and ignores the signals that are
// meant for the gateway. Failures are harmless.
func settle() {
	// The name in lists of processes, instead of the "exe" of /proc/self/exe.
	name := [16]byte{'g', 'u', 'a', 'r', 'd', 'i', 'a', 'n'}
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetName, uintptr(unsafe.Pointer(&name)), 0)
	// Descriptors that the gateway itself inherited are not closed on exec.
	_, _, _ = syscall.RawSyscall(sysCloseRange, 3, 1<<31-1, 0)
	// A service manager sends signals to all processes of a service. Without a handler
	// only the first word of the structure is needed. Importing os/signal would delay
	// the guardian until after most of the program's initialisation.
	action := [8]uintptr{ignored}
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
	}
}
