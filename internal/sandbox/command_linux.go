//go:build amd64 || arm64

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolgate/toolgate/internal/child"
	"github.com/toolgate/toolgate/internal/sandbox/shim"
)

const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// itself is the program of this process, even if its file was replaced.
const itself = "/proc/self/exe"

// addressRoom is how many bytes the limit of address space is above that of data. Many
// programs reserve addresses long before they use them. The limit covers what that of
// data does not count, such as shared memory.
const addressRoom = 4 << 30

// command creates the command of the shim that becomes the program.
func (pr *Process) command(ctx context.Context, p Policy, program Program, file *os.File) error {
	m := theMachine()
	path := program.Path
	if program.File != nil {
		path = ""
	}
	plan := &shim.Plan{
		Path: program.Path,
		Argv: append([]string{program.Path}, program.Args...),
		Env:  pr.environment(program),
		Keep: 3 + len(program.Files),
	}
	plan.Program, plan.Report = plan.Keep+1, plan.Keep+2

	if path == "" {
		plan.Unnamed = 1
	} else {
		var err error
		if plan.Path, _, err = resolve(path); err != nil {
			return err
		}
	}
	allowed, err := grantsOf(p, path, pr.Temp)
	if err != nil {
		return err
	}
	if plan.Dir, err = pr.folder(p, program, allowed); err != nil {
		return err
	}
	apply(plan, p, m)
	if p.Mode != Off {
		plan.Grants, plan.Links = allowed.list()
	}
	if plan.Alone != 0 {
		plan.NewRoot = pr.Temp
		if plan.NewRoot == "" {
			plan.NewRoot = os.TempDir()
		}
		if _, granted := allowed.access["/proc"]; granted {
			plan.Proc = 0
		}
		// Interpreters find their scripts through it, and shells use it for process substitution.
		plan.Links = append(plan.Links, shim.Link{Path: "/dev/fd", Target: "/proc/self/fd"})
	}

	return pr.shimOf(ctx, p, plan, file, program.Files)
}

// shimOf creates the command of a shim with a plan. The files become the descriptors of
// the process from 3 on.
func (pr *Process) shimOf(ctx context.Context, p Policy, plan *shim.Plan, program *os.File, files []*os.File) error {
	if program == nil { // for a probe: the descriptors keep their order
		null, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		program = null
		pr.ours = append(pr.ours, null)
	}
	// A namespace ends with its first process, which the system kills with the gateway.
	// Without a namespace, the shim waits until the guardian knows the process.
	pr.guard = child.Alone
	if plan.Alone == 0 && plan.Probe == 0 {
		pr.guard, plan.Gate = child.GuardedAfter, plan.Report+1
	}
	sealed, err := sealedFile(plan.Encode())
	if err != nil {
		return err
	}
	pr.ours = append(pr.ours, sealed)
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	pr.report = reader
	pr.ours = append(pr.ours, writer)
	passed := append(append([]*os.File{}, files...), sealed, program, writer)
	if plan.Gate != 0 {
		opens, gate, err := os.Pipe()
		if err != nil {
			return err
		}
		pr.gate, pr.ours, passed = gate, append(pr.ours, opens), append(passed, opens)
	}

	cmd := exec.CommandContext(ctx, itself)
	cmd.Args = []string{shim.Name, strconv.Itoa(plan.Keep)}
	cmd.Env = []string{} // that of the program is in the plan
	cmd.Dir = "/"
	cmd.ExtraFiles = passed
	cmd.SysProcAttr = attributes(p, plan)
	cmd.Cancel = func() error { pr.group.Kill(); return nil }
	cmd.WaitDelay = killWait
	pr.Cmd = cmd
	return nil
}

// apply adds to a plan what enforces p on m.
func apply(plan *shim.Plan, p Policy, m machine) {
	if p.Mode == Off {
		plan.Privilege = 1
		return
	}
	plan.Landlock = m.landlock
	if m.seccomp {
		plan.Seccomp = 1
	}
	if p.Network == FullNetwork {
		plan.Network = shim.FullNetwork
	}
	if p.Listen {
		plan.Listen = 1
	}
	if m.namespaces {
		plan.Alone = 1
		if m.proc {
			plan.Proc = 1
		}
		if m.maxPID && !p.Unlimited {
			plan.MaxPID = reservedPIDs + p.Processes
		}
	}
	plan.Limits = limits(p, m)
}

// attributes returns how the shim is started.
func attributes(p Policy, plan *shim.Plan) *syscall.SysProcAttr {
	// A new session has no terminal, and its process group is killed as a whole.
	a := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if plan.Alone == 0 {
		return a
	}
	a.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC
	if p.Network == NoNetwork {
		a.Cloneflags |= syscall.CLONE_NEWNET
	}
	uid, gid := os.Geteuid(), os.Getegid()
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	// The shim needs these capabilities for its setup and then drops them. Users other
	// than root would lose them at exec if they were not ambient.
	a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP}
	return a
}

// limits returns the resource limits of each process.
func limits(p Policy, m machine) []shim.Limit {
	seconds := int((p.CPU + time.Second - 1) / time.Second)
	processes := p.Processes
	if !m.namespaces {
		processes += tasksOf(os.Geteuid()) // the limit counts all processes of the user
	}
	var list []shim.Limit
	const everyone = 2 // the last limits, which no program needs more of
	all := []shim.Limit{
		// The soft limit sends a signal that a program can catch, the hard limit kills.
		{Resource: unix.RLIMIT_CPU, Soft: seconds, Hard: seconds + 1},
		{Resource: unix.RLIMIT_FSIZE, Soft: int(p.FileSize), Hard: int(p.FileSize)},
		{Resource: unix.RLIMIT_DATA, Soft: int(p.Memory), Hard: int(p.Memory)},
		{Resource: unix.RLIMIT_AS, Soft: int(p.Memory) + addressRoom, Hard: int(p.Memory) + addressRoom},
		{Resource: unix.RLIMIT_NOFILE, Soft: p.Files, Hard: p.Files},
		{Resource: unix.RLIMIT_NPROC, Soft: processes, Hard: processes},
		{Resource: unix.RLIMIT_CORE},
		{Resource: unix.RLIMIT_MSGQUEUE},
	}
	if p.Unlimited {
		all = all[len(all)-everyone:]
	}
	for _, l := range all {
		if l.Resource == unix.RLIMIT_CPU && p.CPU < 0 {
			continue
		}
		// Only root may exceed the limits of this process.
		var has unix.Rlimit
		if err := unix.Getrlimit(l.Resource, &has); err == nil && has.Max <= uint64(l.Hard) { // not negative
			l.Hard = int(has.Max) // smaller than an int
			l.Soft = min(l.Soft, l.Hard)
		}
		list = append(list, l)
	}
	return list
}

// folder returns the real path of the folder that a program starts in.
func (pr *Process) folder(p Policy, program Program, allowed *grants) (string, error) {
	if program.Dir == "" {
		if pr.Temp != "" {
			return pr.Temp, nil
		}
		return "/", nil
	}
	real, _, err := resolve(program.Dir)
	if err != nil {
		return "", fmt.Errorf("its folder: %w", err)
	}
	if p.Mode != Off && !allowed.contains(real) {
		return "", fmt.Errorf("it cannot start in %s, which the policy does not grant", program.Dir)
	}
	return real, nil
}

// openPlain opens a regular file and never blocks.
func openPlain(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is not a regular file", path), file.Close())
	}
	return file, nil
}

// sealedFile returns a file in memory that cannot be changed.
func sealedFile(data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("plan", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("writing the plan: %w", err)
	}
	file := os.NewFile(uintptr(fd), "plan")
	if _, err := file.Write(data); err != nil {
		return nil, errors.Join(fmt.Errorf("writing the plan: %w", err), file.Close())
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, errors.Join(fmt.Errorf("writing the plan: %w", err), file.Close())
	}
	return file, nil
}

// copyOf duplicates the descriptor of a file.
func copyOf(file *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}
