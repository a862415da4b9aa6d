package config

import (
	"time"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/units"
)

// NativeFS serves files of some folders.
type NativeFS struct {
	// Roots are the folders whose files are served. Required.
	Roots []string `config:"roots" required:"true" format:"path"`
	// Write are the folders, roots or in roots, in which files may be written and deleted. Absent: none.
	Write []string `config:"write" format:"path"`
	// Forbidden are globs of paths that are not served, whatever the roots; one without a slash holds in every folder.
	// The gateway's own files always are among them. Absent: those alone.
	Forbidden []string `config:"forbidden"`
	// MaxBytes is how much of a file one call reads or writes. Absent: 10MiB.
	MaxBytes units.Size `config:"max_bytes" min:"1KiB" max:"1GiB"`
	// HardLinks serves files that have further names, which may be outside of the roots. Absent: false.
	HardLinks bool `config:"hard_links"`
	// Sandbox says what happens where it cannot be confined. Absent: auto.
	Sandbox Sandboxing `config:"sandbox" enum:"auto|required|off"`
	// Limits bound what it may use up. Absent: the defaults of each.
	Limits NativeLimits `config:"limits"`
}

// NativeSystem serves facts about this machine.
type NativeSystem struct {
	// Logs are the files, and the folders of files, that read_logs reads. Absent: none.
	Logs []string `config:"logs" format:"path"`
	// Disks are the folders whose file systems are measured. Absent: that of the system.
	Disks []string `config:"disks" format:"path"`
	// MaxBytes is how much of a log one call reads. Absent: 1MiB.
	MaxBytes units.Size `config:"max_bytes" min:"1KiB" max:"64MiB"`
	// Sandbox says what happens where it cannot be confined. Absent: auto.
	Sandbox Sandboxing `config:"sandbox" enum:"auto|required|off"`
	// Limits bound what it may use up. Absent: the defaults of each.
	Limits NativeLimits `config:"limits"`
}

// NativeWeb fetches pages and searches.
type NativeWeb struct {
	// AllowHosts are the only hosts that are reached, where "*.example.com" is any below it. Absent: all.
	AllowHosts []string `config:"allow_hosts"`
	// DenyHosts are never reached; they win over allow_hosts. Absent: none.
	DenyHosts []string `config:"deny_hosts"`
	// AllowAddresses are ranges of addresses that are reached although they are of a private or special network. Absent: none.
	AllowAddresses []string `config:"allow_addresses" format:"cidr"`
	// Ports are those that are reached. Absent: 80 and 443.
	Ports []int `config:"ports" min:"1" max:"65535"`
	// MaxBytes is how much of an answer is read. Absent: 5MiB.
	MaxBytes units.Size `config:"max_bytes" min:"1KiB" max:"64MiB"`
	// Timeout bounds one request with its redirects. Absent: 20s.
	Timeout time.Duration `config:"timeout" min:"100ms" max:"10m"`
	// Redirects is how many are followed. Absent: 5.
	Redirects *int `config:"redirects" min:"0" max:"20"`
	// UserAgent is what it calls itself. Absent: toolgate and its version.
	UserAgent string `config:"user_agent"`
	// Search is the engine that web__search asks. Absent: search answers that there is none.
	Search WebSearch `config:"search"`
	// Sandbox says what happens where it cannot be confined. Absent: auto.
	Sandbox Sandboxing `config:"sandbox" enum:"auto|required|off"`
	// Limits bound what it may use up. Absent: the defaults of each.
	Limits NativeLimits `config:"limits"`
}

// WebSearch is a search engine that answers in JSON.
type WebSearch struct {
	// URL is that of a search, with {query} where the words go and {count} where the number of results does. Absent: there is no engine.
	URL string `config:"url"`
	// Headers are sent with each; a value may name variables, as in "Bearer ${TOKEN}". Absent: none.
	Headers map[string]secret.Text `config:"headers"`
	// Results is where the list of results is in the answer, as names with dots. Absent: results.
	Results string `config:"results"`
	// Title is where a result's title is. Absent: title.
	Title string `config:"title"`
	// Link is where a result's address is. Absent: url.
	Link string `config:"link"`
	// Snippet is where a result's text is. Absent: content.
	Snippet string `config:"snippet"`
}

// NativeCode runs programs, linters and tests.
type NativeCode struct {
	// Roots are the folders in which linters, tests and git work. Absent: none, so that only execute is there.
	Roots []string `config:"roots" format:"path"`
	// Write are the folders, roots or in roots, that linters and tests may change. Absent: none.
	Write []string `config:"write" format:"path"`
	// Python runs what execute is given. Absent: python3 of the PATH.
	Python string `config:"python" format:"path"`
	// Container runs it in a container instead. Absent: it runs in the sandbox alone.
	Container CodeContainer `config:"container"`
	// Linters are the commands that run_linter knows, by name, each a program with its arguments. Absent: none.
	Linters map[string]CodeCommand `config:"linters"`
	// Tests are the commands that run_tests knows, by name. Absent: none.
	Tests map[string]CodeCommand `config:"tests"`
	// Timeout bounds one run. Absent: 60s.
	Timeout time.Duration `config:"timeout" min:"100ms" max:"24h"`
	// MaxBytes is how much of what a run prints is kept. Absent: 1MiB.
	MaxBytes units.Size `config:"max_bytes" min:"1KiB" max:"64MiB"`
	// Queue has runs be tasks, which wait for a worker. Absent: false.
	Queue bool `config:"queue"`
	// Workers is how many runs there may be at once. Absent: 4.
	Workers int `config:"workers" min:"1" max:"1000"`
	// Sandbox says what happens where a run cannot be confined. Absent: required, so that the group does not start there.
	Sandbox Sandboxing `config:"sandbox" enum:"auto|required|off"`
	// Limits bound what each run may use up. Absent: the defaults of each.
	Limits NativeLimits `config:"limits"`
}

// CodeContainer is a container that programs run in.
type CodeContainer struct {
	// Runtime is the program that runs containers, such as docker or podman. Absent: no container.
	Runtime string `config:"runtime"`
	// Image is what they are made of. Required with runtime.
	Image string `config:"image"`
	// Args are further arguments of its run command. Absent: none.
	Args []string `config:"args"`
}

// CodeCommand is a program that works in a folder.
type CodeCommand struct {
	// Command is the program and its arguments; {path} alone is where the caller's path goes. Required.
	Command []string `config:"command" required:"true"`
	// Env are variables of its environment besides PATH, HOME, LANG and TMPDIR. Absent: none.
	Env map[string]string `config:"env"`
}

// NativeUtil serves text tools. It needs nothing, so that it is on as "util: {}".
type NativeUtil struct {
	// Sandbox says what happens where it cannot be confined. Absent: auto.
	Sandbox Sandboxing `config:"sandbox" enum:"auto|required|off"`
	// Limits bound what it may use up. Absent: the defaults of each.
	Limits NativeLimits `config:"limits"`
}
