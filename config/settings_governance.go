package config

import (
	"time"

	"github.com/toolgate/toolgate/config/units"
)

// Governance is rules about calls and their arguments.
type Governance struct {
	// Mode is the operating mode at the first start; after that the store keeps it. Absent: NORMAL.
	Mode string `config:"mode" enum:"NORMAL|ALERT|DEGRADED|LOCKDOWN|RECOVERY"`
	// OwnFiles says whether arguments that are paths may lead to the gateway's own files: configuration, policies,
	// store, audit log, keys. Absent: forbid, with authentication and without.
	OwnFiles string `config:"own_files" enum:"forbid|allow"`
	// Degraded says when the gateway goes into the mode DEGRADED by itself. Absent: the defaults of each.
	Degraded Degraded `config:"degraded"`
	// Tools are the rules, by the exposed name of a tool or a glob. Absent: none.
	Tools map[string]GovernedTool `config:"tools"`
}

// Degraded says when a gateway runs short of memory or disk. It is then in the
// mode DEGRADED as long as nobody sets another, and leaves it by itself when it
// has been well below the threshold again for a time.
type Degraded struct {
	// Auto lets the gateway do so. Absent: yes.
	Auto *bool `config:"auto"`
	// Memory is the percentage of a memory limit at which memory is short; ten less is well below. Absent: 90.
	Memory int `config:"memory" default:"90" min:"20" max:"100"`
	// MemoryLimit is how much memory this process should use. Absent: the variable GOMEMLIMIT. Without either, the limit of its cgroup counts alone, where there is one; it always counts.
	MemoryLimit units.Size `config:"memory_limit" min:"1MiB"`
	// Disk is what has to be free on the disks of the state folder, the store and the audit log; half as much again is well above. 0 asks for nothing. Absent: 64MiB.
	Disk units.Size `config:"disk" default:"64MiB"`
	// DiskPercent is the same as a percentage of each disk; the larger of both counts. Absent: 0.
	DiskPercent int `config:"disk_percent" min:"0" max:"90"`
	// After is how long there is a shortage before it counts. Absent: 5s.
	After time.Duration `config:"after" default:"5s" min:"1s" max:"1h"`
	// Back is how long there is none before it counts no more. Absent: 30s.
	Back time.Duration `config:"back" default:"30s" min:"1s" max:"1h"`
}

// GovernedTool is a rule about the calls of some tools. All rules that match a
// tool have to let a call pass, and the highest of their risks is the tool's.
type GovernedTool struct {
	// Risk of calling it. Absent: not known, which LOCKDOWN does not let pass.
	Risk string `config:"risk" enum:"low|medium|high"`
	// Class is what it does; the hints of its server can only make it stricter. Absent: destructive, unless the
	// annotations of the tool under servers say otherwise.
	Class string `config:"class" enum:"read_only|write|destructive"`
	// Category names what kind of tool it is. Absent: none.
	Category string `config:"category"`
	// HighCost tools are not called in mode DEGRADED. Absent: it is not one.
	HighCost bool `config:"high_cost"`
	// PathsIn are JSON Pointers of arguments that are paths, in which a token * stands for any; [] is an error. Absent: every
	// string argument whose name or format says path, file, dir, root, source, destination or uri, and every name of a member
	// that is one itself.
	PathsIn []string `config:"paths_in"`
	// AllowedPaths are globs one of which every path has to match; relative ones are of the folder of the file, and [] allows no path. Absent: any path.
	AllowedPaths []string `config:"allowed_paths"`
	// ForbiddenPaths are globs that no path may match or be below of; ./name is of the folder of the file, a name
	// alone holds anywhere. Absent: none.
	ForbiddenPaths []string `config:"forbidden_paths"`
	// Case is how the case of paths is compared. Absent: forbidden in any case, allowed in the one that is written.
	Case string `config:"case" enum:"exact|fold"`
	// MaxBytes bounds the arguments. Absent: limits.body.
	MaxBytes units.Size `config:"max_bytes"`
	// Commands limit arguments that are command lines. Absent: any.
	Commands []GovernedCommands `config:"commands"`
	// Patterns limit the text of arguments. Absent: any.
	Patterns []GovernedPattern `config:"patterns"`
	// RequiresApprovalInModes are modes in which a person is asked. Absent: none.
	RequiresApprovalInModes []string `config:"requires_approval_in_modes" enum:"NORMAL|ALERT|DEGRADED|LOCKDOWN|RECOVERY"`
	// ForbiddenInModes are modes in which it is not called. Absent: none.
	ForbiddenInModes []string `config:"forbidden_in_modes" enum:"NORMAL|ALERT|DEGRADED|LOCKDOWN|RECOVERY"`
}

// GovernedCommands limit arguments that are command lines: a string, or a list
// of words. An entry is a program, or a program and the arguments that it is
// about, as in "git push".
type GovernedCommands struct {
	// In are the JSON Pointers of the arguments. Required.
	In []string `config:"in" required:"true"`
	// Allow are what a command has to begin with; [] allows none. Absent: anything.
	Allow []string `config:"allow"`
	// Deny are what no command may hold. Absent: nothing.
	Deny []string `config:"deny"`
}

// GovernedPattern limits the text of arguments by regular expressions (RE2).
type GovernedPattern struct {
	// In are the JSON Pointers of the arguments. Required.
	In []string `config:"in" required:"true"`
	// Match is what each has to match, somewhere. Absent: anything.
	Match string `config:"match"`
	// Deny is what none may match. Absent: nothing.
	Deny string `config:"deny"`
}
