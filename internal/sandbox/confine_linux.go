//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"os"

	"github.com/toolgate/toolgate/internal/sandbox/shim"
)

// confine applies p to this process.
func confine(p Policy) (Layers, error) {
	m := machine{landlock: shim.LandlockVersion(), seccomp: hasSeccomp()}
	plan := &shim.Plan{}
	every := shim.EveryThread()
	if !every {
		m.landlock, plan.Privilege = 0, 1
	}
	if m.landlock >= 6 && !shim.ScopesSignals() {
		m.landlock = 5
	}
	l := Layers{InForce: []Layer{Limits}, Detail: detail(m)}
	const build = "this build of the program has C in it, which keeps it from changing all of its threads; build it with CGO_ENABLED=0"
	l.add(Privileges, every, true, build)
	if every {
		l.add(Files, m.landlock > 0, true, noLandlock)
	} else {
		l.add(Files, false, true, build)
	}
	l.add(Calls, m.seccomp, true, noSeccomp)
	l.add(Namespaces, false, p.Network == FullNetwork && p.Listen, "a process that runs already is not given any")
	// A process that may run no program starts no processes, even as root.
	alone := len(p.Run) == 0 && m.seccomp
	l.add(Processes, alone || os.Geteuid() != 0, true, "the number of processes of root is not bounded here; run toolgate as another user, or let the process run nothing")
	if p.Mode == Required {
		if err := l.refusal(); err != nil {
			return Layers{}, err
		}
	}

	keep := plan.Privilege
	apply(plan, p, m)
	plan.Privilege = keep
	if alone {
		plan.NoProcesses = 1
	}
	temp := ""
	if p.Temp {
		temp = os.TempDir() // set by the parent process
	}
	allowed, err := grantsOf(p, "", temp)
	if err != nil {
		return Layers{}, fmt.Errorf("sandbox: %w", err)
	}
	plan.Grants, plan.Links = allowed.list()
	if err := plan.Confine(); err != nil {
		return Layers{}, fmt.Errorf("sandbox: confining this process: %w", err)
	}
	return l, nil
}
