//go:build amd64 || arm64

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolgate/toolgate/internal/child"
	"github.com/toolgate/toolgate/internal/sandbox/shim"
)

// reservedPIDs is how many process identifiers the kernel assigns only once in a
// namespace. After the highest one it continues behind them.
const reservedPIDs = 300

// machine is what this machine supports.
type machine struct {
	landlock   int // version; 0 is none
	seccomp    bool
	namespaces bool
	noSpace    error // why namespaces cannot be used
	proc       bool  // of a namespace
	maxPID     bool  // of a namespace
}

// theMachine is probed once, because it does not change while a program runs.
var theMachine = sync.OnceValue(func() machine {
	m := machine{landlock: shim.LandlockVersion(), seccomp: hasSeccomp()}
	// Each attempt needs less than the one before. Many containers forbid a new proc.
	for _, m.proc = range []bool{true, false} {
		for _, m.maxPID = range []bool{true, false} {
			if m.noSpace = tryNamespaces(m); m.noSpace == nil {
				m.namespaces = true
				return m
			}
			if errors.Is(m.noSpace, errClone) {
				m.proc, m.maxPID = false, false
				return m
			}
		}
	}
	return m
})

// errClone is wrapped in the error of a process that could not be created in namespaces.
var errClone = errors.New("the system does not allow them")

// tryNamespaces starts a shim that applies everything and ends.
func tryNamespaces(m machine) error {
	ctx, cancel := context.WithTimeout(context.Background(), reportWait)
	defer cancel()
	p, err := Policy{Mode: Auto}.checked()
	if err != nil {
		return err
	}
	m.namespaces = true
	pr := &Process{program: "the probe", group: &child.Group{}}
	if err := pr.probe(ctx, p, m); err != nil {
		return errors.Join(err, pr.Close())
	}
	if err := pr.Start(); err != nil {
		if pr.Cmd.Process == nil {
			err = fmt.Errorf("%w: %w", errClone, err)
		}
		return errors.Join(err, pr.Close())
	}
	return errors.Join(pr.Wait(), pr.Close())
}

// probe prepares a shim that runs no program.
func (pr *Process) probe(ctx context.Context, p Policy, m machine) error {
	plan := &shim.Plan{Probe: 1, Path: itself, Argv: []string{"probe"}, Keep: 3, Program: 4, Report: 5}
	apply(plan, p, m)
	plan.NewRoot = os.TempDir()
	plan.Grants = []shim.Grant{{Path: "/dev/null", Access: shim.Device}}
	return pr.shimOf(ctx, p, plan, nil, nil)
}

// available returns what would enforce p.
func available(p Policy) Layers {
	if p.Mode == Off {
		return Layers{}
	}
	m := theMachine()
	l := Layers{InForce: []Layer{Privileges, Limits}, Detail: detail(m)}
	why := ""
	if m.noSpace != nil {
		why = fmt.Sprintf("user namespaces are not to be had (%v); allow them (kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu, user.max_user_namespaces, the seccomp profile of a container)", m.noSpace)
	}
	if p.Unlimited {
		l.InForce = []Layer{Privileges}
	}
	l.add(Files, m.landlock > 0, true, noLandlock)
	l.add(Calls, m.seccomp, true, noSeccomp)
	// Without a separate root, a process that may create Unix sockets and connect them
	// reaches the sockets of others.
	l.add(Namespaces, m.namespaces, p.Network == FullNetwork && p.Listen, why)
	if p.Unlimited {
		return l
	}
	l.add(Processes, os.Geteuid() != 0 || m.maxPID, true,
		"the number of processes of root is bounded only in a namespace that can be (Linux 6.14 and newer); run toolgate as another user"+strings.TrimSuffix("; "+why, "; "))
	return l
}

// Why a layer is missing, and what to do.
const (
	noLandlock = "the kernel has no Landlock, or it is not active; Linux 5.13 and newer have it, where lsm= on the command line names it"
	noSeccomp  = "the kernel does not filter system calls (CONFIG_SECCOMP_FILTER)"
)

// detail returns the version of Landlock, for people.
func detail(m machine) string {
	if m.landlock == 0 {
		return ""
	}
	return "landlock version " + strconv.Itoa(m.landlock)
}

// hasSeccomp reports whether seccomp filters can return errors.
func hasSeccomp() bool {
	action := uint32(0x00050000)                                                                // SECCOMP_RET_ERRNO
	_, _, errno := syscall.RawSyscall(unix.SYS_SECCOMP, 2, 0, uintptr(unsafe.Pointer(&action))) // SECCOMP_GET_ACTION_AVAIL reads it
	return errno == 0
}

// tasksOf counts the threads of a user.
func tasksOf(uid int) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	n := 0
	for _, e := range entries {
		if strings.Trim(e.Name(), "0123456789") != "" {
			continue
		}
		var stat syscall.Stat_t
		if err := syscall.Stat("/proc/"+e.Name(), &stat); err != nil || int(stat.Uid) != uid {
			continue
		}
		// The folder has two links besides one per thread.
		if err := syscall.Stat("/proc/"+e.Name()+"/task", &stat); err == nil {
			n += int(stat.Nlink) - 2
		}
	}
	return n
}
