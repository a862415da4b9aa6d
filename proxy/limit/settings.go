package limit

import "github.com/toolgate/toolgate/config/units"

// Settings are the settings of the section limits about messages, connections and calls of
// clients.
type Settings struct {
	// Total bytes of client messages in progress, beyond the first 16 KiB of each; one caller may use half. With a
	// memory limit, at most a quarter of it. Default: 256MiB.
	Bodies units.Size `config:"bodies" default:"256MiB" min:"1KiB" max:"64GiB"`
	// Open client connections, at most half of the file descriptors; one address (one /64 network of IPv6) may use half.
	// An idle connection is closed to make room for a new one. Default: 20000.
	Connections int `config:"connections" default:"20000" min:"16" max:"1000000"`
	// Calls that may wait for a free slot at one server. Default: 256.
	Queue int `config:"queue" default:"256" min:"0" max:"100000"`
	// Concurrent calls of one caller, at all servers together; more calls wait. 0 is no limit. Default: 128.
	CallsPerPrincipal int `config:"calls_per_principal" default:"128" min:"0" max:"100000"`
	// How often in a row one caller may make the same tool call with the same arguments. 0 is no limit. Default: 200.
	IdenticalCalls int `config:"identical_calls" default:"200" min:"0" max:"1000000"`

	Rates
}
