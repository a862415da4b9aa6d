package config

// Governance is rules about calls and their arguments.
type Governance struct {
	// Mode is the operating mode at the first start; after that the store keeps it. Absent: NORMAL.
	Mode string `config:"mode" enum:"NORMAL|ALERT|DEGRADED|LOCKDOWN|RECOVERY"`
	// OwnFiles says whether arguments that are paths may lead to the gateway's own files: configuration, policies,
	// store, audit log, keys. Absent: they may not, unless nobody is asked who they are and nothing else is configured to decide.
	OwnFiles string `config:"own_files" enum:"forbid|allow"`
	// Tools are the rules, by the exposed name of a tool or a glob. Absent: none.
	Tools map[string]GovernedTool `config:"tools"`
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
	MaxBytes Size `config:"max_bytes"`
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
