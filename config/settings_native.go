package config

import (
	"encoding/json"
	"time"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/units"
)

// Native is the tools of the gateway itself and of plugins, by group. A group is
// a server like any other, with its key as its name: what is set under servers
// for it, such as tools, timeouts, breaker, concurrency and results, holds for it
// as well. A group that is written without settings, as in "util: {}", is on with
// its defaults.
type Native struct {
	// FS serves files. Absent: off.
	FS *NativeFS `config:"fs"`
	// System serves facts about this machine. Absent: off.
	System *NativeSystem `config:"system"`
	// Web fetches pages and searches. Absent: off.
	Web *NativeWeb `config:"web"`
	// Code runs programs, linters and tests. Absent: off.
	Code *NativeCode `config:"code"`
	// Util serves text tools. Absent: off.
	Util *NativeUtil `config:"util"`
	// Plugins are further programs, by name. Absent: none.
	Plugins map[string]Plugin `config:"plugins"`
}

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

// NativeLimits bound what a process of tools may use up.
type NativeLimits struct {
	// Memory is how much data each of its processes may hold. Absent: 1GiB.
	Memory units.Size `config:"memory" min:"16MiB" max:"1024GiB"`
	// CPU is how much processor time each of its processes may use; one that serves tools is started again when it is used up.
	// Absent: what the group needs.
	CPU time.Duration `config:"cpu" min:"1s" max:"720h"`
	// FileSize is how large a file may be that it writes. Absent: 1GiB.
	FileSize units.Size `config:"file_size" min:"1KiB" max:"1024GiB"`
	// Files is how many it may have open at once. Absent: 256.
	Files int `config:"files" min:"16" max:"1000000"`
	// Processes is how many there may be of it at once. Absent: 64.
	Processes int `config:"processes" min:"1" max:"100000"`
}

// Plugin is one program that serves tools.
type Plugin struct {
	// Path of the program. Required.
	Path string `config:"path" required:"true" format:"path"`
	// SHA256 of the program in hex. Required.
	SHA256 string `config:"sha256" required:"true" format:"sha256"`
	// Args are its arguments. Absent: none.
	Args []string `config:"args"`
	// Env are the variables of its environment, besides PATH, HOME, LANG and TMPDIR; a value may name variables, as in
	// "${TOKEN}". Absent: none.
	Env map[string]secret.Text `config:"env"`
	// AutoMTLS has the gateway and the plugin authenticate to each other, which plugins that are not written in Go may not
	// know how to. Absent: true.
	AutoMTLS *bool `config:"auto_mtls"`
	// Config is handed to the plugin as it is. Absent: {}.
	Config json.RawMessage `config:"config" format:"object"`
	// StartTimeout is until when it must serve. Absent: 10s.
	StartTimeout time.Duration `config:"start_timeout" min:"100ms" max:"10m"`
	// Sandbox says what happens where it cannot be confined. Absent: auto.
	Sandbox Sandboxing `config:"sandbox" enum:"auto|required|off"`
	// Read are files and folders that it may read, with everything in them. Absent: what programs need to run.
	Read []string `config:"read" format:"path"`
	// Write are those that it may change. Absent: none but a private temporary folder.
	Write []string `config:"write" format:"path"`
	// Run are those that it may execute. Absent: itself and the programs of the system.
	Run []string `config:"run" format:"path"`
	// Network is what it may reach. Absent: none.
	Network string `config:"network" enum:"none|full"`
	// Limits bound what it may use up. Absent: the defaults of each.
	Limits NativeLimits `config:"limits"`
}
