package config

import "time"

// Budget is one named limit.
type Budget struct {
	// Name of the budget. Required.
	Name string `config:"name" required:"true"`
	// Per is whose use is counted together. Required.
	Per string `config:"per" required:"true"`
	// Match is a glob of names it counts. Absent: all.
	Match string `config:"match"`
	// Unit is what is counted. Absent: calls.
	Unit string `config:"unit" enum:"calls|cost|bytes|seconds"`
	// Limit in that unit. Required.
	Limit int64 `config:"limit" required:"true"`
	// Window is the time it is counted over. Required.
	Window string `config:"window" required:"true"`
	// Zone is the time zone of calendar windows. Absent: UTC.
	Zone string `config:"zone"`
}

// Rate is a limit of calls in a time: so many at once, and one more whenever
// window/limit has passed.
type Rate struct {
	// Name of the limit. One that is changed under its name goes on with what was
	// counted. Absent: made of per, match and window.
	Name string `config:"name" format:"id"`
	// Per is whose calls are counted apart: principal, server, tenant, tool or persona, or
	// several of them, as in [principal, tool]. Required.
	Per []string `config:"per" required:"true" list:"one" enum:"principal|server|tenant|tool|persona"`
	// Match is a glob of exposed names that it counts. Absent: all.
	Match string `config:"match"`
	// Limit of calls. Required.
	Limit int64 `config:"limit" required:"true" min:"1" max:"1000000"`
	// Window is the time. Required.
	Window time.Duration `config:"window" required:"true" min:"1s" max:"31d"`
}
