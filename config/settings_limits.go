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
	// Tools is how many tools, prompts or resources one server may list. Absent: 5000.
	Tools int `config:"tools" default:"5000" min:"1" max:"1000000"`
	// Pages is how many pages one list may have. Absent: 1000.
	Pages int `config:"pages" default:"1000" min:"1" max:"100000"`
	// Redact is the most bytes of one answer that are looked through for secrets; a larger one is not passed on. Absent: 8MiB.
	Redact Size `config:"redact" default:"8MiB" min:"1KiB" max:"1GiB"`
	// KeptResults is how many bytes of results that were too large are kept as resources. Absent: 64MiB.
	KeptResults Size `config:"kept_results" default:"64MiB" min:"1KiB" max:"16GiB"`
	// KeptResultsPerPrincipal is how many of one caller are. Absent: 16MiB.
	KeptResultsPerPrincipal Size `config:"kept_results_per_principal" default:"16MiB" min:"1KiB" max:"16GiB"`
	// KeptResultsTime is how long they are kept. Absent: 15m.
	KeptResultsTime time.Duration `config:"kept_results_time" default:"15m" min:"1s" max:"24h"`
	// Catalog is the most bytes one server may list. Absent: 64MiB.
	Catalog Size `config:"catalog" default:"64MiB" min:"1KiB" max:"4GiB"`
}
