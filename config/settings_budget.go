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

// Rate is a limit of calls in a time.
type Rate struct {
	// Per is whose calls are counted together. Required.
	Per string `config:"per" required:"true"`
	// Match is a glob of names it counts. Absent: all.
	Match string `config:"match"`
	// Limit of calls. Required.
	Limit int64 `config:"limit" required:"true"`
	// Window is the time. Required.
	Window time.Duration `config:"window" required:"true"`
}
