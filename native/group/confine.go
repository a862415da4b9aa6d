package group

import (
	"time"

	"github.com/toolgate/toolgate/config/units"
	"github.com/toolgate/toolgate/internal/sandbox"
)

// Sandboxing is what happens where this machine cannot confine a process as it
// should be. The zero value is [SandboxRequired] for what runs code or commands
// that a caller has a say in, and [SandboxAuto] for everything else.
type Sandboxing string

// The ways.
const (
	SandboxAuto     Sandboxing = "auto"     // it is confined as far as the machine can, which ls -o wide shows
	SandboxRequired Sandboxing = "required" // it does not start
	SandboxOff      Sandboxing = "off"      // nothing is confined
)

// ForCallers is how code and commands are confined that a caller has a say in. Where
// nothing is written they do not run unconfined.
func (s Sandboxing) ForCallers() sandbox.Mode {
	if s == "" {
		return sandbox.Required
	}
	return sandbox.Mode(s)
}

// Limits bound what a process of tools may use up.
type Limits struct {
	// Memory of each process. Default: 1GiB.
	Memory units.Size `config:"memory" min:"16MiB" max:"1024GiB"`
	// CPU time of each process. A process that serves tools is restarted when its time is used up. Default: what the
	// group needs.
	CPU time.Duration `config:"cpu" min:"1s" max:"720h"`
	// Largest file that it may write. Default: 1GiB.
	FileSize units.Size `config:"file_size" min:"1KiB" max:"1024GiB"`
	// How many files it may have open at once. Default: 256.
	Files int `config:"files" min:"16" max:"1000000"`
	// How many processes it may have at once. Default: 64.
	Processes int `config:"processes" min:"1" max:"100000"`
}

// servingCPU is the processor time of a process that serves for as long as the
// gateway does.
const servingCPU = 720 * time.Hour

// Policy returns the policy of a process that serves tools under the limits. It grants
// nothing.
func (l *Limits) Policy(mode Sandboxing) sandbox.Policy {
	p := sandbox.Policy{
		Mode: sandbox.Auto, Memory: int64(l.Memory), CPU: l.CPU, FileSize: int64(l.FileSize), Files: l.Files, Processes: l.Processes,
	}
	if mode != "" {
		p.Mode = sandbox.Mode(mode)
	}
	if p.CPU == 0 {
		p.CPU = servingCPU
	}
	return p
}
