// Package group is what the groups of shipped tools have in common: the settings that
// each of them has, and what the gateway asks of them before it starts their processes.
//
// A group is a package with its tools and a type Settings, the section of the
// configuration. A field of that type in config.Native is its registration.
package group

import (
	"github.com/toolgate/toolgate/internal/sandbox"
)

// Settings is implemented by pointers to the sections of groups.
type Settings interface {
	// Child returns how the process of the group is started.
	Child(g *Gateway) Child
}

// Gateway is what a group may learn of the gateway that starts it.
type Gateway struct {
	// Version is that of the gateway.
	Version string
	// Own are the gateway's own files, which tools neither read nor change.
	Own []string
	// Started returns what servers and tools are started from, which no tool changes.
	Started func() []string
	// Python returns the interpreter of the group code, with the folders of its
	// modules; empty where there is none.
	Python func() (path string, library []string)
}

// Child is how the process of a group is started.
type Child struct {
	// Config is what the plugin is opened with, as JSON. Nil is an empty object.
	Config any
	// Policy confines the process. The zero policy refuses to run it where this machine
	// cannot confine it.
	Policy sandbox.Policy
	// Env is the environment of the process. Nil is an empty one.
	Env []string
	// Runs are what confines the programs that the tools run, where each run is confined and
	// the process itself is not. Nil is the confinement of the process.
	Runs []string
	// Refused is why the group does not run on this machine. Nil lets it run.
	Refused error
	// Inside means that there is no process, because the gateway serves the group itself.
	// Of everything else here Config alone counts then.
	Inside bool
}

// Inside is embedded in the settings of a group that the gateway serves in its own
// process, because its tools are about what the gateway itself keeps.
type Inside struct{}

// Child implements [Settings].
func (*Inside) Child(*Gateway) Child { return Child{Inside: true} }

// Confined is what a group has set that confines its process and needs nothing
// else. It is embedded in the settings of groups.
type Confined struct {
	// What happens where the tools cannot be sandboxed. Default: auto.
	Sandbox Sandboxing `config:"sandbox" enum:"auto|required|off"`
	// Resource limits of the sandbox. Default: the default of each setting.
	Limits Limits `config:"limits"`
}

// Policy returns the policy of the process, which grants nothing.
func (c *Confined) Policy() sandbox.Policy { return c.Limits.Policy(c.Sandbox) }

// Child implements [Settings] for a group whose tools have no settings.
func (c *Confined) Child(*Gateway) Child { return Child{Policy: c.Policy()} }
