package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Layer is one of the means by which the system enforces a policy.
type Layer string

// The layers.
const (
	Privileges Layer = "no-new-privs" // no capability, and no program that gives one
	Limits     Layer = "limits"       // of each process: time, memory, files
	Processes  Layer = "processes"    // how many there are at once
	Files      Layer = "landlock"     // what is read, written and run; signals and abstract sockets since version 6
	Calls      Layer = "seccomp"      // sockets, and calls that nothing confined needs
	Namespaces Layer = "namespaces"   // processes, network and file system of its own
)

// Layers says what enforces a policy on this machine. The zero Layers is nothing.
type Layers struct {
	InForce []Layer
	Missing []Missing // of those that there are
	Detail  string    // such as the version of Landlock
}

// Missing is a layer that is not in force, and why.
type Missing struct {
	Layer  Layer
	Why    string // and how to get it
	Needed bool   // by the policy
}

// Has reports whether a layer is in force.
func (l Layers) Has(layer Layer) bool {
	return slices.Contains(l.InForce, layer)
}

// add counts a layer in or out.
func (l *Layers) add(layer Layer, has, needed bool, why string) {
	if has {
		l.InForce = append(l.InForce, layer)
	} else {
		l.Missing = append(l.Missing, Missing{layer, why, needed})
	}
}

// String returns the layers in force, such as "landlock seccomp", or "none".
func (l Layers) String() string {
	if len(l.InForce) == 0 {
		return "none"
	}
	names := make([]string, len(l.InForce))
	for i, layer := range l.InForce {
		names[i] = string(layer)
	}
	return strings.Join(names, " ")
}

// ErrMissing is in the error of what is refused because a layer is missing.
var ErrMissing = errors.New("this machine cannot confine it as required")

// refusal returns an error if a layer that is needed is missing.
func (l Layers) refusal() error {
	var lines []string
	for _, m := range l.Missing {
		if m.Needed {
			lines = append(lines, fmt.Sprintf("%s: %s", m.Layer, m.Why))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	// What is to be done comes first: where there is little room, the end is cut.
	return fmt.Errorf("sandbox: %w: it lacks %s; write sandbox: auto to run it with what there is (%s), or see to what is missing: %s",
		ErrMissing, strings.Join(l.Lacks(), ", "), l, strings.Join(lines, "; "))
}

// Refusal returns why nothing runs under p on this machine: what is wrong with p, or,
// where p requires what is missing, an error with [ErrMissing] in it. It is nil where
// something runs.
func Refusal(p Policy) error {
	l, err := Available(p)
	if err != nil {
		return err
	}
	if p.Mode == Required || p.Mode == "" {
		return l.refusal()
	}
	return nil
}

// Lacks returns the names of the layers that the policy needs and this machine does
// not have, nil where there are none.
func (l Layers) Lacks() []string {
	var names []string
	for _, m := range l.Missing {
		if m.Needed {
			names = append(names, string(m.Layer))
		}
	}
	return names
}

// Caveat says, for whoever reads what a tool does, what a run under these layers is
// not kept from; empty where nothing that the policy needs is missing.
func (l Layers) Caveat() string {
	if len(l.Lacks()) == 0 {
		return ""
	}
	var open []string
	if !l.Has(Files) && !l.Has(Namespaces) {
		open = append(open, "it can read and change the files that the gateway can")
	}
	if !l.Has(Calls) && !l.Has(Namespaces) {
		open = append(open, "it can reach the network")
	}
	if len(open) == 0 {
		return "Its confinement is partial: " + strings.Join(l.Lacks(), ", ") + " is missing."
	}
	return "It is not fully confined: " + strings.Join(open, ", and ") + "."
}

// Available returns what would enforce p on this machine. It is asked of the
// machine once, which starts a process for some milliseconds; an error is one of p.
func Available(p Policy) (Layers, error) {
	p, err := p.checked()
	if err != nil {
		return Layers{}, err
	}
	return available(p), nil
}

// Confine confines this very process, all threads of it, from now on, and returns
// what enforces that. Nothing gets it out again. It has no namespaces, and its
// program, arguments, environment and descriptors stay as they are. A policy with a
// private folder takes TMPDIR for it; one that lets it run nothing lets it start no
// process either. After an error the process may be confined in part, and ends.
func Confine(p Policy) (Layers, error) {
	p, err := p.checked()
	if err != nil {
		return Layers{}, err
	}
	if p.Mode == Off {
		return Layers{}, nil
	}
	return confine(p)
}
