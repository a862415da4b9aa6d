package config

import "time"

// Limits bound what one message, session or server may take.
type Limits struct {
	// Body is the largest request body of a client. Absent: 16MiB.
	Body Size `config:"body" default:"16MiB" min:"1KiB" max:"1GiB"`
	// Result is the largest answer of a server. Absent: 32MiB.
	Result Size `config:"result" default:"32MiB" min:"1KiB" max:"1GiB"`
	// Line is the longest line of a stdio server or client. Absent: 32MiB.
	Line Size `config:"line" default:"32MiB" min:"1KiB" max:"1GiB"`
	// PolicyInput is the most a policy is shown of one call. Absent: 256KiB.
	PolicyInput Size `config:"policy_input" default:"256KiB" min:"1KiB" max:"16MiB"`
	// Depth is how deep a message may nest. Absent: 128.
	Depth int `config:"depth" default:"128" min:"16" max:"1000"`
	// Sessions is how many there may be. Absent: 10000.
	Sessions int `config:"sessions" default:"10000" min:"1" max:"10000000"`
	// SessionsPerPrincipal is how many one caller may have. Absent: 100.
	SessionsPerPrincipal int `config:"sessions_per_principal" default:"100" min:"1" max:"1000000"`
	// Idle is when an unused session ends. Absent: 30m.
	Idle time.Duration `config:"idle" default:"30m" min:"1s" max:"30d"`
	// ParkedPerPrincipal is how many calls of one caller may wait for an answer of a client. Absent: 8.
	ParkedPerPrincipal int `config:"parked_per_principal" default:"8" min:"1" max:"10000"`
	// ParkedPerServer is how many calls to one server may. Absent: 256.
	ParkedPerServer int `config:"parked_per_server" default:"256" min:"1" max:"100000"`
	// AddedPerPrincipal is how many servers one caller may have added (tool.enable). Absent: 8.
	AddedPerPrincipal int `config:"added_per_principal" default:"8" min:"1" max:"1000"`
	// Queue is how many calls may wait for a free place at one server. Absent: 256.
	Queue int `config:"queue" default:"256" min:"0" max:"100000"`
	// CallsPerPrincipal is how many calls of one caller may run at once, at all servers together; others wait. 0 is no limit. Absent: 128.
	CallsPerPrincipal int `config:"calls_per_principal" default:"128" min:"0" max:"100000"`
	// IdenticalCalls is how often one caller may make the same call of a tool, with the same arguments, in a row. 0 is no limit. Absent: 200.
	IdenticalCalls int `config:"identical_calls" default:"200" min:"0" max:"1000000"`
	// ListsPerMinute is how many pages of lists one caller may ask for. 0 is no limit. Absent: 6000.
	ListsPerMinute int `config:"lists_per_minute" default:"6000" min:"0" max:"1000000"`
	// InitializesPerMinute is how often one caller may open a session or ask server/discover. 0 is no limit. Absent: 6000.
	InitializesPerMinute int `config:"initializes_per_minute" default:"6000" min:"0" max:"1000000"`
	// NotificationsPerMinute is how many notifications one caller may send, besides cancellations. 0 is no limit. Absent: 60000.
	NotificationsPerMinute int `config:"notifications_per_minute" default:"60000" min:"0" max:"1000000"`
	// CancelsPerMinute is how many requests one caller may cancel; of more, the cancellation is not heard. 0 is no limit. Absent: 6000.
	CancelsPerMinute int `config:"cancels_per_minute" default:"6000" min:"0" max:"1000000"`
	// CompletionsPerMinute is how often one caller may ask to complete an argument; rates do not count that. 0 is no limit. Absent: 1200.
	CompletionsPerMinute int `config:"completions_per_minute" default:"1200" min:"0" max:"1000000"`
	// UnknownPerMinute is how many calls of what does not exist for the caller are answered so; more are refused as too many. 0 is no limit. Absent: 6000.
	UnknownPerMinute int `config:"unknown_per_minute" default:"6000" min:"0" max:"1000000"`
	// AuthFailuresPerMinute is how often one address, or one /64 network of IPv6, may show no valid credential before it is not listened to. Callers
	// who were let in within ten minutes still are. 0 is no limit. Absent: 6000.
	AuthFailuresPerMinute int `config:"auth_failures_per_minute" default:"6000" min:"0" max:"1000000"`
	// Drain is how long calls may finish when the gateway ends; a second signal ends it at once. Absent: 5s.
	Drain time.Duration `config:"drain" default:"5s" min:"0s" max:"1h"`
	// Tools is how many tools, prompts or resources one server may list. Absent: 5000.
	Tools int `config:"tools" default:"5000" min:"1" max:"1000000"`
	// Pages is how many pages one list may have. Absent: 1000.
	Pages int `config:"pages" default:"1000" min:"1" max:"100000"`
	// Catalog is the most bytes one server may list. Absent: 64MiB.
	Catalog Size `config:"catalog" default:"64MiB" min:"1KiB" max:"4GiB"`
}
