package config

import (
	"time"

	"github.com/toolgate/toolgate/config/units"
)

// Plan is how much whoever has it may use, each unit by itself. A plan may be
// written as a number, which is its tool_calls, or as unlimited, which limits
// nothing.
type Plan struct {
	// ToolCalls is how many calls of tools a window has. Absent: no limit.
	ToolCalls *int64 `config:"tool_calls" min:"0" max:"1000000000000"`
	// Cost is how many cost units a window has. Absent: no limit.
	Cost *int64 `config:"cost" min:"0" max:"1000000000000"`
	// Bytes is how many bytes of results a window has. Absent: no limit.
	Bytes *units.Size `config:"bytes" min:"0" max:"1000000GiB"`
	// Seconds is how long servers may work in a window. Absent: no limit.
	Seconds *int64 `config:"seconds" min:"0" max:"1000000000000"`
	// Window is the time they are counted over: hour, day, month, or sliding: with a duration, as in sliding:7d.
	// Calendar windows are those of the tenant's zone. Absent: month.
	Window string `config:"window" default:"month" format:"window"`
}

// Budget is one named limit.
type Budget struct {
	// Name of the budget. Required.
	Name string `config:"name" required:"true" format:"id"`
	// Per is whose use is counted together: that of a subject of an issuer and tenant, of a persona of a tenant, of
	// a tenant, or that of everyone together of a server, of a tool, or of all tools of a class. Required.
	Per string `config:"per" required:"true" enum:"subject|persona|tenant|server|tool|class"`
	// Match is a glob of exposed names it counts. Absent: all.
	Match string `config:"match"`
	// Unit is what is counted: calls of tools, their cost, bytes of results, or seconds that servers work. Absent: calls.
	Unit string `config:"unit" default:"calls" enum:"calls|cost|bytes|seconds"`
	// Limit in that unit. Required.
	Limit int64 `config:"limit" required:"true" min:"0" max:"1000000000000"`
	// Window is the time it is counted over: hour, day, month, or sliding: with a duration, as in sliding:90m. Required.
	Window string `config:"window" required:"true" format:"window"`
	// Zone is the time zone of calendar windows. Absent: UTC.
	Zone string `config:"zone" default:"UTC" format:"zone"`
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
