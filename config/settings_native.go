package config

import (
	"github.com/toolgate/toolgate/native"
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
	Plugins map[string]native.PluginSettings `config:"plugins"`
}
