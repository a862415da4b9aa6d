package config

import (
	"encoding/json"
	"time"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/native/group"
	"github.com/toolgate/toolgate/native/plugins/code"
	"github.com/toolgate/toolgate/native/plugins/fs"
	"github.com/toolgate/toolgate/native/plugins/memory"
	"github.com/toolgate/toolgate/native/plugins/notify"
	"github.com/toolgate/toolgate/native/plugins/schedule"
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
	// Tools for files. Default: off.
	FS *fs.Settings `config:"fs"`
	// Tools that report facts about this machine. Default: off.
	System *system.Settings `config:"system"`
	// Tools that fetch web pages and search the web. Default: off.
	Web *web.Settings `config:"web"`
	// Tools that run programs, linters and tests. Default: off.
	Code *code.Settings `config:"code"`
	// Tools for text. Default: off.
	Util *text.Settings `config:"util"`
	// Tools that keep texts and notes for each caller from one session to the next. Default: off.
	Memory *memory.Settings `config:"memory"`
	// Tools that have another tool called at a time. Default: off.
	Schedule *schedule.Settings `config:"schedule"`
	// A tool that tells the caller's user something. Default: off.
	Notify *notify.Settings `config:"notify"`
	// Tools from other programs, by name. Default: none.
	Plugins map[string]Plugin `config:"plugins"`
}

// Plugin is one program that serves tools.
type Plugin struct {
	// Path of the program. Required.
	Path string `config:"path" required:"true" format:"path"`
	// SHA-256 of the program, 64 hex digits. Required.
	SHA256 string `config:"sha256" required:"true" format:"sha256"`
	// Arguments of the program. Default: none.
	Args []string `config:"args"`
	// Environment variables in addition to PATH, HOME, LANG and TMPDIR; a value may contain variables, as in "${TOKEN}".
	// Default: none.
	Env map[string]secret.Text `config:"env"`
	// Makes the gateway and the plugin authenticate each other. Plugins that are not written in Go may not support this.
	// Default: true.
	AutoMTLS *bool `config:"auto_mtls"`
	// Configuration that the plugin receives unchanged. Default: {}.
	Config json.RawMessage `config:"config" format:"object"`
	// How long the plugin may take to start. Default: 10s.
	StartTimeout time.Duration `config:"start_timeout" min:"100ms" max:"10m"`
	// What happens where the plugin cannot be sandboxed. Default: auto.
	Sandbox group.Sandboxing `config:"sandbox" enum:"auto|required|off"`
	// Files and folders that the plugin may read, with everything in them. Default: what programs need to run.
	Read []string `config:"read" format:"path"`
	// Files and folders that the plugin may change. Default: only a private temporary folder.
	Write []string `config:"write" format:"path"`
	// Files and folders that the plugin may execute. Default: itself and the programs of the system.
	Run []string `config:"run" format:"path"`
	// What the plugin may reach on the network. Default: none.
	Network string `config:"network" enum:"none|full"`
	// Resource limits of the sandbox. Default: the default of each setting.
	Limits group.Limits `config:"limits"`
}
