package config

import (
	"time"

	"github.com/toolgate/toolgate/config/units"
)

// Limits bound what one message, session or server may take.
type Limits struct {
	// Largest request body of a client. Default: 16MiB.
	Body units.Size `config:"body" default:"16MiB" min:"1KiB" max:"1GiB"`
	// Total bytes of client messages in progress, beyond the first 16 KiB of each; one caller may use half. With a
	// memory limit, at most a quarter of it. Default: 256MiB.
	Bodies units.Size `config:"bodies" default:"256MiB" min:"1KiB" max:"64GiB"`
	// Open client connections, at most half of the file descriptors; one address (one /64 network of IPv6) may use half.
	// An idle connection is closed to make room for a new one. Default: 20000.
	Connections int `config:"connections" default:"20000" min:"16" max:"1000000"`
	// Largest answer of a server. Default: 32MiB.
	Result units.Size `config:"result" default:"32MiB" min:"1KiB" max:"1GiB"`
	// Longest line of a stdio server or client. Default: 32MiB.
	Line units.Size `config:"line" default:"32MiB" min:"1KiB" max:"1GiB"`
	// Largest arguments that a policy sees. Larger ones are denied, unless the policy reads no arguments or checks
	// input.args_replaced. Default: 256KiB.
	PolicyInput units.Size `config:"policy_input" default:"256KiB" min:"1KiB" max:"16MiB"`
	// Nesting depth of a message. Default: 128.
	Depth int `config:"depth" default:"128" min:"16" max:"1000"`
	// Sessions; an idle one is closed to make room for a new one. Default: 10000.
	Sessions int `config:"sessions" default:"10000" min:"1" max:"10000000"`
	// Sessions of one caller; the one that has been idle the longest is closed to make room for a new one. Default: 100.
	SessionsPerPrincipal int `config:"sessions_per_principal" default:"100" min:"1" max:"1000000"`
	// How long an unused session is kept at most. Default: 30m.
	Idle time.Duration `config:"idle" default:"30m" min:"1s" max:"30d"`
	// Suspended calls of one caller, which wait for a client's answer. Default: 64.
	ParkedPerPrincipal int `config:"parked_per_principal" default:"64" min:"1" max:"10000"`
	// Suspended calls to one server. Default: 256.
	ParkedPerServer int `config:"parked_per_server" default:"256" min:"1" max:"100000"`
	// Servers that one caller may have added, and tools that it may have registered (tool.enable). Default: 8.
	AddedPerPrincipal int `config:"added_per_principal" default:"8" min:"1" max:"1000"`
	// Calls that may wait for a free slot at one server. Default: 256.
	Queue int `config:"queue" default:"256" min:"0" max:"100000"`
	// Concurrent calls of one caller, at all servers together; more calls wait. 0 is no limit. Default: 128.
	CallsPerPrincipal int `config:"calls_per_principal" default:"128" min:"0" max:"100000"`
	// How often in a row one caller may make the same tool call with the same arguments. 0 is no limit. Default: 200.
	IdenticalCalls int `config:"identical_calls" default:"200" min:"0" max:"1000000"`
	// Rate limit: pages of lists per minute and caller. 0 is no limit. Default: 6000.
	ListsPerMinute int `config:"lists_per_minute" default:"6000" min:"0" max:"1000000"`
	// Rate limit: new sessions and server/discover requests per minute and caller. 0 is no limit. Default: 6000.
	InitializesPerMinute int `config:"initializes_per_minute" default:"6000" min:"0" max:"1000000"`
	// Rate limit: notifications per minute and caller, without cancellations. 0 is no limit. Default: 60000.
	NotificationsPerMinute int `config:"notifications_per_minute" default:"60000" min:"0" max:"1000000"`
	// Rate limit: cancellations per minute and caller; more are ignored. 0 is no limit. Default: 6000.
	CancelsPerMinute int `config:"cancels_per_minute" default:"6000" min:"0" max:"1000000"`
	// Rate limit: argument completions per minute and caller, which rates do not count. 0 is no limit. Default: 1200.
	CompletionsPerMinute int `config:"completions_per_minute" default:"1200" min:"0" max:"1000000"`
	// Rate limit: calls to unknown names per minute and caller that are answered as unknown; more are refused as too
	// many. 0 is no limit. Default: 6000.
	UnknownPerMinute int `config:"unknown_per_minute" default:"6000" min:"0" max:"1000000"`
	// Rate limit: failed authentications per minute and address (or /64 network of IPv6), after which the address is
	// refused. Callers who authenticated within the last ten minutes are still served. 0 is no limit. Default: 6000.
	AuthFailuresPerMinute int `config:"auth_failures_per_minute" default:"6000" min:"0" max:"1000000"`
	// How long calls may finish when the gateway shuts down; a second signal stops it at once. Default: 5s.
	Drain time.Duration `config:"drain" default:"5s" min:"0s" max:"1h"`
	// Tools, prompts or resources that one server may list. Default: 5000.
	Tools int `config:"tools" default:"5000" min:"1" max:"1000000"`
	// Pages of one list. Default: 1000.
	Pages int `config:"pages" default:"1000" min:"1" max:"100000"`
	// Bytes of one result that are scanned for secrets; a larger result is refused. Default: 8MiB.
	Redact units.Size `config:"redact" default:"8MiB" min:"1KiB" max:"1GiB"`
	// Time to scan one result for secrets; a result that takes longer is refused. The texts of one run of an agent have
	// it as well, where they are shown. Default: 5s.
	RedactTime time.Duration `config:"redact_time" default:"5s" min:"1ms" max:"10m"`
	// Total bytes of large results that are stored as resources. Default: 64MiB.
	KeptResults units.Size `config:"kept_results" default:"64MiB" min:"1KiB" max:"16GiB"`
	// Bytes of large results that are stored for one caller. Default: 16MiB.
	KeptResultsPerPrincipal units.Size `config:"kept_results_per_principal" default:"16MiB" min:"1KiB" max:"16GiB"`
	// How long a large result is stored. Default: 15m.
	KeptResultsTime time.Duration `config:"kept_results_time" default:"15m" min:"1s" max:"24h"`
	// Total bytes that one server may list. Default: 64MiB.
	Catalog units.Size `config:"catalog" default:"64MiB" min:"1KiB" max:"4GiB"`
	// Concurrent requests of one session or connection. Default: 256.
	InFlight int `config:"in_flight" default:"256" min:"1" max:"100000"`
	// Items on one page of a list. Default: 1000.
	Page int `config:"page" default:"1000" min:"1" max:"1000000"`
	// How much of the instructions of one server is passed on. Default: 16KiB.
	Instructions units.Size `config:"instructions" default:"16KiB" min:"1KiB" max:"1MiB"`
	// Calls that may wait for a client's answer to a question. Default: 10000.
	Rounds int `config:"rounds" default:"10000" min:"1" max:"10000000"`
	// How long a client may take to answer a question. Default: 15m.
	RoundTime time.Duration `config:"round_time" default:"15m" min:"1s" max:"7d"`
	// Total bytes of broken streams that are kept for clients that reconnect. Default: 64MiB.
	Replay units.Size `config:"replay" default:"64MiB" min:"1KiB" max:"16GiB"`
	// Tasks of legacy servers that are remembered for lists and notifications. Default: 10000.
	Tasks int `config:"tasks" default:"10000" min:"1" max:"10000000"`
}
