//go:build amd64 || arm64

package shim

import (
	"runtime"
	"syscall"
	"unsafe"
)

// EveryThread reports whether this process can change all of its threads at once.
// A program with C in it cannot.
func EveryThread() bool {
	_, _, errno := syscall.AllThreadsSyscall(syscall.SYS_GETPID, 0, 0, 0)
	return errno == 0
}

// ScopesSignals reports whether Landlock can block signals to other processes without
// blocking signals between the threads of one process, each of which it treats as a
// separate domain here. Unpatched kernels before Linux 6.15 cannot.
func ScopesSignals() bool {
	const erratum = 1 << 1 // the second, of LANDLOCK_CREATE_RULESET_ERRATA
	r, _, errno := syscall.RawSyscall(sysLandlockCreate, 0, 0, 2)
	return errno == 0 && r&erratum != 0
}

// Confine applies a plan to all threads of this process, which keeps running the same
// program. The parts of the plan that concern a program are ignored. After an error
// the process may be confined only partly, so the caller must exit.
func (p *Plan) Confine() error {
	_ = writeFile("/proc/self/oom_score_adj", "1000")
	opened := make([]int, len(p.Grants))
	rules := -1
	if p.Landlock != 0 {
		for i, g := range p.Grants {
			fd, err := openExact(g.Path)
			if err != nil {
				return err
			}
			opened[i] = fd
		}
		var err error
		if rules, err = p.ruleset(opened); err != nil {
			return err
		}
		for _, fd := range opened {
			_ = syscall.Close(fd)
		}
	}
	prog := p.filter(syscall.Getpid())
	for _, l := range p.Limits {
		limit := [2]uint64{uint64(l.Soft), uint64(l.Hard)}                                   // never negative
		if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, uintptr(l.Resource), // a number of the kernel
			uintptr(unsafe.Pointer(&limit)), 0, 0, 0); errno != 0 {
			return fault("limiting resource "+itoa(l.Resource), errno)
		}
	}
	if p.Privilege == 0 {
		if _, _, errno := syscall.AllThreadsSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
			return fault("giving up new privileges", errno)
		}
	}
	if rules >= 0 {
		if _, _, errno := syscall.AllThreadsSyscall(sysLandlockRestrict, uintptr(rules), 0, 0); errno != 0 {
			return fault("restricting files with Landlock", errno)
		}
		_ = syscall.Close(rules)
	}
	if p.Privilege == 0 {
		if err := dropCapabilities(syscall.AllThreadsSyscall6); err != nil {
			return err
		}
	}
	if p.Seccomp == 0 {
		return nil
	}
	// The filter passes this thread's no_new_privs flag on to all threads, which is the
	// only way in a program with C in it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return fault("giving up new privileges", errno)
	}
	return loadFilter(prog, true)
}
