package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Layer is a feature of the system that enforces part of a policy.
type Layer string

// The layers.
const (
	Privileges Layer = "no-new-privs" // no capabilities, and no program that grants any
	Limits     Layer = "limits"       // of each process: time, memory, files
	Processes  Layer = "processes"    // their number
	Files      Layer = "landlock"     // reading, writing, running; signals and abstract sockets since version 6
	Calls      Layer = "seccomp"      // sockets, and system calls that no confined program needs
	Namespaces Layer = "namespaces"   // separate processes, network and file system
	Seatbelt   Layer = "seatbelt"     // of macOS: files, programs and the network
)

// Layers are what enforces a policy on this machine. The zero Layers enforce nothing.
type Layers struct {
	InForce []Layer
	Missing []Missing // those that are not in force
	Detail  string    // for people, such as the version of Landlock
}

// Missing is a layer that is not in force, and why.
type Missing struct {
	Layer  Layer
	Why    string // and how to enable it
	Needed bool   // by the policy
}

// Has reports whether a layer is in force.
func (l Layers) Has(layer Layer) bool {
	return slices.Contains(l.InForce, layer)
}

// add adds a layer to those in force or to the missing ones.
func (l *Layers) add(layer Layer, has, needed bool, why string) {
	if has {
		l.InForce = append(l.InForce, layer)
	} else {
		l.Missing = append(l.Missing, Missing{layer, why, needed})
	}
}

// Names returns the layers in force; nil is none.
func (l Layers) Names() []string {
	var names []string
	for _, layer := range l.InForce {
		names = append(names, string(layer))
	}
	return names
}

// String returns the layers in force, such as "landlock seccomp", or "none".
func (l Layers) String() string {
	if len(l.InForce) == 0 {
		return "none"
	}
	return strings.Join(l.Names(), " ")
}

// ErrMissing is wrapped in the error of what is refused because a layer is missing.
var ErrMissing = errors.New("this machine cannot confine it as required")

// refusal returns an error if a needed layer is missing.
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
	// What to do comes first, because the end is cut where there is little room.
	return fmt.Errorf("sandbox: %w: it lacks %s; write sandbox: auto to run it with what there is (%s), or see to what is missing: %s",
		ErrMissing, strings.Join(l.Lacks(), ", "), l, strings.Join(lines, "; "))
}

// Refusal returns why no program runs under p on this machine: a mistake in p, or an
// error that wraps [ErrMissing] if p requires a missing layer. It is nil if programs run.
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

// Lacks returns the names of the needed layers that this machine does not have, nil if
// there are none.
func (l Layers) Lacks() []string {
	var names []string
	for _, m := range l.Missing {
		if m.Needed {
			names = append(names, string(m.Layer))
		}
	}
	return names
}

// Caveat returns a sentence for the description of a tool: what these layers do not
// prevent. It is empty if no needed layer is missing.
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

// Available returns what would enforce p on this machine. The first call probes the
// machine, which starts a process for some milliseconds. The error is a mistake in p.
func Available(p Policy) (Layers, error) {
	p, err := p.checked()
	if err != nil {
		return Layers{}, err
	}
	return available(p), nil
}

// Confine confines this process with all its threads, for the rest of its life, and
// returns the layers in force. It adds no namespaces, and leaves the program, its
// arguments, environment and descriptors. The private folder of the policy is TMPDIR. A
// policy that allows no programs allows no child processes either. After an error the
// process may be confined in part and must end.
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
