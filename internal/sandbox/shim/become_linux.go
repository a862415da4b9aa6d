//go:build amd64 || arm64

package shim

import (
	"syscall"
	"unsafe"
)

// Constants of prctl and capset that package syscall lacks.
const (
	prSetNoNewPrivs  = 38
	prCapAmbient     = 47
	prAmbientClear   = 4
	capabilityFormat = 0x20080522
	// Root has no capabilities, and dropped capabilities cannot return.
	securebits = 0xef
)

// become applies the plan to this process and replaces it with the program. It returns
// only on failure.
func (p *Plan) become() error {
	// This process dies with the gateway. When memory is short, the kernel kills this
	// process first.
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0); errno != 0 {
		return fault("following the gateway", errno)
	}
	if err := p.wait(); err != nil {
		return err
	}
	_ = writeFile("/proc/self/oom_score_adj", "1000")

	opened := make([]int, len(p.Grants))
	if p.NewRoot != "" || p.Landlock != 0 {
		for i, g := range p.Grants {
			fd, err := openExact(g.Path)
			if err != nil {
				return err
			}
			opened[i] = fd
		}
	}
	rules := -1
	if p.Landlock != 0 {
		var err error
		if rules, err = p.ruleset(opened); err != nil {
			return err
		}
	}
	if p.NewRoot != "" {
		if err := p.newRoot(opened); err != nil {
			return err
		}
	}
	program, err := p.program()
	if err != nil {
		return err
	}
	if p.Dir != "" && p.Probe == 0 {
		if err := syscall.Chdir(p.Dir); err != nil {
			return fault("entering "+p.Dir, err)
		}
	}
	argv, err := syscall.SlicePtrFromStrings(p.Argv)
	if err != nil {
		return fault("arguments", err)
	}
	envv, err := syscall.SlicePtrFromStrings(append(p.Env, syscall.Environ()...))
	if err != nil {
		return fault("environment", err)
	}
	prog := p.filter(syscall.Getpid())
	if err := p.take(rules, prog); err != nil {
		return err
	}
	if p.Probe != 0 {
		return nil
	}
	empty := [1]byte{}
	_, _, errno := syscall.RawSyscall6(sysExecveat, uintptr(program), uintptr(unsafe.Pointer(&empty)),
		uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&envv[0])), atEmptyPath, 0)
	return fault("running "+p.Path, errno)
}

// wait waits for the gateway to open the gate.
func (p *Plan) wait() error {
	if p.Gate == 0 {
		return nil
	}
	var one [1]byte
	for {
		n, err := syscall.Read(p.Gate, one[:])
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return fault("waiting for the gateway", err)
		case n == 0:
			return fault("waiting for the gateway", syscall.EPIPE)
		}
		return nil
	}
}

// take removes the rights that the program must not have. Little works after it, so
// everything that needs memory or files comes before.
func (p *Plan) take(rules int, prog []syscall.SockFilter) error {
	// All other descriptors are closed, even those of the Go runtime.
	keep := uintptr(p.Keep)
	if _, _, errno := syscall.RawSyscall(sysCloseRange, keep, 1<<31-1, closeRangeCloex); errno != 0 {
		return fault("closing descriptors", errno)
	}
	if p.Privilege == 0 {
		if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
			return fault("giving up new privileges", errno)
		}
	}
	for _, l := range p.Limits {
		limit := [2]uint64{uint64(l.Soft), uint64(l.Hard)}                                   // never negative
		if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, uintptr(l.Resource), // a constant of the kernel
			uintptr(unsafe.Pointer(&limit)), 0, 0, 0); errno != 0 {
			return fault("limiting resource "+itoa(l.Resource), errno)
		}
	}
	if rules >= 0 {
		if _, _, errno := syscall.RawSyscall(sysLandlockRestrict, uintptr(rules), 0, 0); errno != 0 {
			return fault("restricting files with Landlock", errno)
		}
	}
	if p.Privilege == 0 {
		if err := dropCapabilities(syscall.RawSyscall6); err != nil {
			return err
		}
	}
	if p.Seccomp != 0 {
		return loadFilter(prog, false)
	}
	return nil
}

// dropCapabilities removes all capabilities, and all ways to regain some, from the
// threads that do acts on.
func dropCapabilities(do func(nr, a1, a2, a3, a4, a5, a6 uintptr) (r1, r2 uintptr, errno syscall.Errno)) error {
	_, _, _ = do(syscall.SYS_PRCTL, prCapAmbient, prAmbientClear, 0, 0, 0, 0)
	// A process that may not do this has no capabilities to lose.
	for c := range uintptr(64) {
		if _, _, errno := do(syscall.SYS_PRCTL, syscall.PR_CAPBSET_DROP, c, 0, 0, 0, 0); errno != 0 {
			break
		}
	}
	_, _, _ = do(syscall.SYS_PRCTL, syscall.PR_SET_SECUREBITS, securebits, 0, 0, 0, 0)
	head := struct {
		version uint32
		pid     int32
	}{version: capabilityFormat}
	none := [6]uint32{}
	if _, _, errno := do(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&head)),
		uintptr(unsafe.Pointer(&none)), 0, 0, 0, 0); errno != 0 {
		return fault("dropping capabilities", errno)
	}
	return nil
}

// program returns a descriptor to run the program by. In a new root, the program is
// opened there, so that it finds itself, and compared with the file that the gateway
// opened and perhaps checked.
func (p *Plan) program() (int, error) {
	if p.Probe != 0 {
		return -1, nil
	}
	fd := p.Program
	if p.Unnamed != 0 {
		return p.reopened(fd)
	}
	var given, found syscall.Stat_t
	if err := syscall.Fstat(fd, &given); err != nil {
		return -1, fault(p.Path, err)
	}
	if p.NewRoot != "" {
		here, err := syscall.Open(p.Path, syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
		if err != nil {
			return -1, fault("opening "+p.Path, err)
		}
		if err := syscall.Fstat(here, &found); err != nil {
			return -1, fault(p.Path, err)
		}
		if given.Dev != found.Dev || given.Ino != found.Ino {
			return -1, fault(p.Path+" is another file than the one that was checked", syscall.ESTALE)
		}
		fd = here
	}
	return p.reopened(fd)
}

// reopened returns the descriptor of a program. A script gets another one that stays
// open, because its interpreter opens the script again through it.
func (p *Plan) reopened(fd int) (int, error) {
	start := [2]byte{}
	if _, err := syscall.Pread(fd, start[:], 0); err != nil || start != [2]byte{'#', '!'} {
		return fd, nil //nolint:nilerr // what cannot be read is not run either
	}
	if fd == p.Keep {
		copied, err := syscall.Dup(fd)
		if err != nil {
			return -1, fault(p.Path, err)
		}
		fd = copied
	}
	if err := syscall.Dup3(fd, p.Keep, 0); err != nil {
		return -1, fault(p.Path, err)
	}
	p.Keep++
	return p.Keep - 1, nil
}
