package config

import (
	"time"

	"github.com/toolgate/toolgate/config/units"
)

// Limits bound what one message, session or server may take.
type Limits struct {
	// Body is the largest request body of a client. Absent: 16MiB.
	Body units.Size `config:"body" default:"16MiB" min:"1KiB" max:"1GiB"`
	// Bodies is how many bytes of request bodies and lines of clients are handled at once, beyond 16 KiB of each; one caller may have half. At most
	// a quarter of the memory limit, where one is set. Absent: 256MiB.
	Bodies units.Size `config:"bodies" default:"256MiB" min:"1KiB" max:"64GiB"`
	// Connections is how many connections clients may have open, at most half of the file descriptors; one address, or one /64 network of IPv6, may
	// have half. One without a request under way makes room for a new one. Absent: 20000.
	Connections int `config:"connections" default:"20000" min:"16" max:"1000000"`
	// Result is the largest answer of a server. Absent: 32MiB.
	Result units.Size `config:"result" default:"32MiB" min:"1KiB" max:"1GiB"`
	// Line is the longest line of a stdio server or client. Absent: 32MiB.
	Line units.Size `config:"line" default:"32MiB" min:"1KiB" max:"1GiB"`
	// PolicyInput is the most a policy is shown of one call; larger arguments are denied, unless the policy reads none or looks at input.args_replaced. Absent: 256KiB.
	PolicyInput units.Size `config:"policy_input" default:"256KiB" min:"1KiB" max:"16MiB"`
	// Depth is how deep a message may nest. Absent: 128.
	Depth int `config:"depth" default:"128" min:"16" max:"1000"`
	// Sessions is how many there may be; idle ones make room for new ones. Absent: 10000.
	Sessions int `config:"sessions" default:"10000" min:"1" max:"10000000"`
	// SessionsPerPrincipal is how many one caller may have; the one that is idle for longest makes room for a new one. Absent: 100.
	SessionsPerPrincipal int `config:"sessions_per_principal" default:"100" min:"1" max:"1000000"`
	// Idle is when an unused session ends at the latest. Absent: 30m.
	Idle time.Duration `config:"idle" default:"30m" min:"1s" max:"30d"`
	// ParkedPerPrincipal is how many calls of one caller may wait for an answer of a client. Absent: 64.
	ParkedPerPrincipal int `config:"parked_per_principal" default:"64" min:"1" max:"10000"`
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
	// Redact is the most bytes of one answer that are looked through for secrets; a larger one is not passed on. Absent: 8MiB.
	Redact units.Size `config:"redact" default:"8MiB" min:"1KiB" max:"1GiB"`
	// RedactTime is how long that may take; what takes longer is not passed on. Absent: 5s.
	RedactTime time.Duration `config:"redact_time" default:"5s" min:"1ms" max:"10m"`
	// KeptResults is how many bytes of results that were too large are kept as resources. Absent: 64MiB.
	KeptResults units.Size `config:"kept_results" default:"64MiB" min:"1KiB" max:"16GiB"`
	// KeptResultsPerPrincipal is how many bytes of them are kept of one caller. Absent: 16MiB.
	KeptResultsPerPrincipal units.Size `config:"kept_results_per_principal" default:"16MiB" min:"1KiB" max:"16GiB"`
	// KeptResultsTime is how long results are kept as resources. Absent: 15m.
	KeptResultsTime time.Duration `config:"kept_results_time" default:"15m" min:"1s" max:"24h"`
	// Catalog is the most bytes one server may list. Absent: 64MiB.
	Catalog units.Size `config:"catalog" default:"64MiB" min:"1KiB" max:"4GiB"`
	// InFlight is how many requests one session or connection may have in flight. Absent: 256.
	InFlight int `config:"in_flight" default:"256" min:"1" max:"100000"`
	// Batch is how many messages a batch of 2025-03-26 may have. Absent: 100.
	Batch int `config:"batch" default:"100" min:"1" max:"10000"`
	// Listens is how many subscriptions/listen one caller may have open. Absent: 100.
	Listens int `config:"listens" default:"100" min:"1" max:"100000"`
	// Watches is how many resources one session or subscription may follow. Absent: 1000.
	Watches int `config:"watches" default:"1000" min:"1" max:"100000"`
	// ClientQueue is how many messages may wait for a client that reads slowly. Absent: 1024.
	ClientQueue int `config:"client_queue" default:"1024" min:"1" max:"1000000"`
	// ClientQueueBytes is how many bytes of messages may wait for such a client, beyond the first message. Absent: 4MiB.
	ClientQueueBytes units.Size `config:"client_queue_bytes" default:"4MiB" min:"1KiB" max:"1GiB"`
	// Page is how many items one page of a list has at most. Absent: 1000.
	Page int `config:"page" default:"1000" min:"1" max:"1000000"`
	// PageBytes is how many bytes of items one page has at most, beyond the first item. Absent: 4MiB.
	PageBytes units.Size `config:"page_bytes" default:"4MiB" min:"1KiB" max:"1GiB"`
	// Instructions is how much of what one server says of itself is passed on. Absent: 16KiB.
	Instructions units.Size `config:"instructions" default:"16KiB" min:"1KiB" max:"1MiB"`
	// NotificationsPerSecond is how many progress and log messages of one call are passed on in a second. Absent: 1000.
	NotificationsPerSecond int `config:"notifications_per_second" default:"1000" min:"1" max:"1000000"`
	// NotificationsPerCall is how many notifications of one call of a server may wait to be passed on. Absent: 256.
	NotificationsPerCall int `config:"notifications_per_call" default:"256" min:"1" max:"100000"`
	// QuestionsPerCall is how many questions a server may ask during one call. Absent: 64.
	QuestionsPerCall int `config:"questions_per_call" default:"64" min:"1" max:"10000"`
	// Rounds is how many calls may wait for the answer of a client to a question. Absent: 10000.
	Rounds int `config:"rounds" default:"10000" min:"1" max:"10000000"`
	// RoundsPerPrincipal is how many calls of one caller may wait so, at least twice parked_per_principal. Absent: 1000.
	RoundsPerPrincipal int `config:"rounds_per_principal" default:"1000" min:"1" max:"1000000"`
	// RoundTime is how long a client may take to answer a question. Absent: 15m.
	RoundTime time.Duration `config:"round_time" default:"15m" min:"1s" max:"7d"`
	// Replay is how many bytes of streams that broke are kept for clients that come back. Absent: 64MiB.
	Replay units.Size `config:"replay" default:"64MiB" min:"1KiB" max:"16GiB"`
	// ReplayTime is how long broken streams are kept. Absent: 1m.
	ReplayTime time.Duration `config:"replay_time" default:"1m" min:"1s" max:"1h"`
	// Tasks is how many tasks of legacy servers are remembered for lists and notifications. Absent: 10000.
	Tasks int `config:"tasks" default:"10000" min:"1" max:"10000000"`
	// TasksPerPrincipal is how many tasks of one caller are remembered. Absent: 1000.
	TasksPerPrincipal int `config:"tasks_per_principal" default:"1000" min:"1" max:"1000000"`
	// TasksPerListen is how many tasks one subscription may follow. Absent: 64.
	TasksPerListen int `config:"tasks_per_listen" default:"64" min:"1" max:"10000"`
}
