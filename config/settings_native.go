package config

import (
	"encoding/json"
	"time"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/native/group"
	"github.com/toolgate/toolgate/native/plugins/code"
	"github.com/toolgate/toolgate/native/plugins/fs"
	"github.com/toolgate/toolgate/native/plugins/system"
	"github.com/toolgate/toolgate/native/plugins/text"
	"github.com/toolgate/toolgate/native/plugins/web"
)

// Native is the tools of the gateway itself and of plugins, by group. A group is
// a server like any other, with its key as its name: what is set under servers
// for it, such as tools, timeouts, breaker, concurrency and results, holds for it
// as well. A group that is written without settings, as in "util: {}", is on with
// its defaults.
//
// A field with the settings of a group registers the group: its key, its section of the
// configuration, how its process is started, and the tools, which are part of the program
// because the package is imported here.
type Native struct {
	// FS serves files. Absent: off.
	FS *fs.Settings `config:"fs"`
	// System serves facts about this machine. Absent: off.
	System *system.Settings `config:"system"`
	// Web fetches pages and searches. Absent: off.
	Web *web.Settings `config:"web"`
	// Code runs programs, linters and tests. Absent: off.
	Code *code.Settings `config:"code"`
	// Util serves text tools. Absent: off.
	Util *text.Settings `config:"util"`
	// Plugins are further programs, by name. Absent: none.
	Plugins map[string]Plugin `config:"plugins"`
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
	Sandbox group.Sandboxing `config:"sandbox" enum:"auto|required|off"`
	// Read are files and folders that it may read, with everything in them. Absent: what programs need to run.
	Read []string `config:"read" format:"path"`
	// Write are those that it may change. Absent: none but a private temporary folder.
	Write []string `config:"write" format:"path"`
	// Run are those that it may execute. Absent: itself and the programs of the system.
	Run []string `config:"run" format:"path"`
	// Network is what it may reach. Absent: none.
	Network string `config:"network" enum:"none|full"`
	// Limits bound what it may use up. Absent: the defaults of each.
	Limits group.Limits `config:"limits"`
}
