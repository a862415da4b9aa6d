package config

import (
	"encoding/json"
	"time"
)

// Toolgate is everything under the "toolgate" key of a file. Each field says
// what its absence means; keys it does not have are errors. Sections that this
// version does not use are refused wherever they are written (see
// [Available]), so their fields are always zero.
type Toolgate struct {
	// Listen is where toolgate serves. Absent: 127.0.0.1:7777 alone.
	Listen Listen `config:"listen"`
	// Store is where state is kept: "sqlite:" for a file of its own per
	// configuration under the state folder, or "sqlite:PATH". Absent: "sqlite:".
	Store string `config:"store" default:"sqlite:" format:"store"`
	// Redis is the address of a Redis server for shared rates and events.
	// Absent: none.
	Redis string `config:"redis"`
	// Keys seal what clients hold for us; the first seals, all open.
	// Absent: one generated key beside the store.
	Keys []Key `config:"keys"`
	// Servers are settings per server, by its key in the file. Absent: the
	// defaults of each setting.
	Servers map[string]ServerSettings `config:"servers"`
	// Auth says who callers are. Absent: loopback callers only, all "local".
	Auth Auth `config:"auth"`
	// Tenants are settings per tenant. Absent: no tenant has any.
	Tenants map[string]Tenant `config:"tenants"`
	// Gate is the authorization chain. Absent: closed where
	// authentication is configured and nothing decides.
	Gate Gate `config:"gate"`
	// Registry is the catalog of capabilities. Absent: everything enabled.
	Registry Registry `config:"registry"`
	// Capsules are named sets of capabilities. Absent: the phase abstains.
	Capsules map[string]Capsule `config:"capsules"`
	// SpiceDB asks a relationship database. Absent: the phase abstains.
	SpiceDB SpiceDB `config:"spicedb"`
	// OPA evaluates a Rego policy. Absent: the phase abstains.
	OPA OPA `config:"opa"`
	// Governance checks arguments. Absent: nothing is checked.
	Governance Governance `config:"governance"`
	// Approvals says who answers questions about calls, and how long. Absent: nobody is asked.
	Approvals Approvals `config:"approvals"`
	// Plans are limits by plan name; a number is calls a month. Absent: no limits.
	Plans map[string]json.RawMessage `config:"plans"`
	// Budgets are named limits. Absent: none.
	Budgets []Budget `config:"budgets"`
	// Rates are limits of calls in a time. Absent: none.
	Rates []Rate `config:"rates"`
	// Native is the built-in and plug-in tools. Absent: none.
	Native Native `config:"native"`
	// Tools are tools declared in the file. Absent: none.
	Tools []DeclaredTool `config:"tools"`
	// Audit is the record of calls. Absent: audit.jsonl beside the store.
	Audit Audit `config:"audit"`
	// Telemetry is where traces go. Absent: nowhere.
	Telemetry Telemetry `config:"telemetry"`
	// Feedback is who is told about executions. Absent: nobody.
	Feedback Feedback `config:"feedback"`
	// Limits bound what one message, session or server may take. Absent: the defaults of each.
	Limits Limits `config:"limits"`
	// Retention is how long records are kept. Absent: the defaults of each.
	Retention Retention `config:"retention"`
}

// Listen is where toolgate serves.
type Listen struct {
	// HTTP is the host:port of the MCP endpoints; "" serves none. Absent: 127.0.0.1:7777.
	HTTP string `config:"http" default:"127.0.0.1:7777" format:"address"`
	// Admin is the host:port of the admin API beside its socket. Absent: the socket alone.
	Admin string `config:"admin" format:"address"`
	// Metrics is the host:port of /metrics; "" serves none. Absent: 127.0.0.1:7779.
	Metrics string `config:"metrics" default:"127.0.0.1:7779" format:"address"`
	// PublicURL is the address clients use where it is not the listener's own. Absent: http and the listener's address.
	PublicURL string `config:"public_url" format:"url"`
	// TLS is the certificate to serve with. Absent: plain HTTP.
	TLS TLS `config:"tls"`
	// Hosts are further names accepted in the Host header. Absent: loopback names and the host of public_url.
	Hosts []string `config:"hosts" format:"host"`
	// Origins are web origins accepted in the Origin header, as in https://app.example. Absent: loopback origins.
	Origins []string `config:"origins" format:"origin"`
	// TrustedProxies are address ranges whose Forwarded headers are believed. Absent: none.
	TrustedProxies []string `config:"trusted_proxies" format:"cidr"`
}

// TLS is a certificate to serve with.
type TLS struct {
	// Cert is the PEM file of the certificate chain. Absent: no TLS.
	Cert string `config:"cert" format:"path"`
	// Key is the PEM file of its private key. Absent: no TLS.
	Key string `config:"key" format:"path"`
	// ClientCA is the PEM file of authorities whose client certificates count. Absent: none are asked for.
	ClientCA string `config:"client_ca" format:"path"`
}

// Key is one sealing key; exactly one of File and Env is set.
type Key struct {
	// ID names the key in what it sealed. Required.
	ID string `config:"id" required:"true" format:"id"`
	// File holds 32 bytes, raw, in hex or in base64. Absent: see env.
	File string `config:"file" format:"path"`
	// Env is the variable that holds them. Absent: see file.
	Env string `config:"env" format:"envname"`
}

// ServerSettings are what toolgate adds to one server of the file. What is
// absent here comes from the client's own entry, else from the default.
type ServerSettings struct {
	// Namespace prefixes the names of the server's tools: [a-z][a-z0-9-]{0,19}, or "" for none. Absent: derived from the key.
	Namespace *string `config:"namespace" format:"namespace"`
	// Protocol is the era spoken to the server. Absent: auto.
	Protocol Protocol `config:"protocol" enum:"auto|legacy|modern"`
	// Isolation is who shares a connection. Absent: auto.
	Isolation Isolation `config:"isolation" enum:"auto|shared|principal|session"`
	// Timeouts are the deadlines. Absent: the client's, else start 30s (60s for commands that may download first), list 10s, call 120s, hard 30m.
	Timeouts TimeoutSettings `config:"timeouts"`
	// Breaker stops calling a failing server. Absent: the defaults of each.
	Breaker BreakerSettings `config:"breaker"`
	// Retry repeats what was never delivered. Absent: the defaults of each.
	Retry RetrySettings `config:"retry"`
	// Concurrency is how many calls may be in flight. Absent: 32.
	Concurrency int `config:"concurrency" min:"1" max:"10000"`
	// Processes is how many processes or connections the server may have. Absent: 8, or 256 for one
	// that is reached by URL.
	Processes int `config:"processes" min:"1" max:"1000"`
	// EnvInherit are variables of our own environment handed on where set. Absent: none beyond PATH, HOME, LANG and TMPDIR.
	EnvInherit []string `config:"env_inherit" format:"envname"`
	// Auth is how toolgate authenticates to the server. Absent: with the entry's own headers.
	Auth ServerAuth `config:"auth"`
	// ClientRequests says which questions of the server may reach a client. Absent: elicitation only.
	ClientRequests ClientRequests `config:"client_requests"`
	// Tools shapes single tools, by their original names. Absent: all as they are.
	Tools map[string]Tool `config:"tools"`
}

// TimeoutSettings are the deadlines of a server; 0 is "not set here".
type TimeoutSettings struct {
	// Start bounds the time until the server has answered its first request. Absent: 30s, or 60s for commands that may download first.
	Start time.Duration `config:"start" min:"1ms" max:"24h"`
	// List bounds one complete list. Absent: 10s.
	List time.Duration `config:"list" min:"1ms" max:"24h"`
	// Call bounds a call that reports no progress. Absent: 120s.
	Call time.Duration `config:"call" min:"1ms" max:"24h"`
	// Hard bounds every call. Absent: 30m, or call if that is longer.
	Hard time.Duration `config:"hard" min:"1ms" max:"24h"`
}

// BreakerSettings says when a failing server is no longer called.
type BreakerSettings struct {
	// Failures in a row that open the breaker. Absent: 5.
	Failures int `config:"failures" min:"1"`
	// Ratio of failures that opens it. Absent: 0.5.
	Ratio float64 `config:"ratio" min:"0" max:"1"`
	// Open is the first time it stays open at most. Absent: 10s.
	Open time.Duration `config:"open" min:"1ms" max:"2m"`
}

// RetrySettings bounds repetition.
type RetrySettings struct {
	// Max is how many times a call that was never delivered is repeated. Absent: 2.
	Max int `config:"max" min:"0" max:"10"`
}

// ServerAuth is how toolgate authenticates to a server.
type ServerAuth struct {
	// Mode is the kind of credential. Absent: static.
	Mode string `config:"mode" enum:"static|oauth|exchange"`
	// Per is whose credential it is. Absent: shared.
	Per string `config:"per" enum:"shared|principal|tenant"`
}

// Auth says who callers are.
type Auth struct {
	// Keys are static API keys. Absent: none.
	Keys []APIKey `config:"keys"`
	// JWT accepts signed tokens. Absent: none.
	JWT JWT `config:"jwt"`
	// Introspection asks the issuer about opaque tokens. Absent: nobody is asked.
	Introspection map[string]json.RawMessage `config:"introspection"`
	// MTLS accepts client certificates. Absent: none.
	MTLS map[string]json.RawMessage `config:"mtls"`
}

// APIKey is a static key and whom it stands for.
type APIKey struct {
	// ID names the key in logs. Required.
	ID string `config:"id" required:"true" format:"id"`
	// SHA256 is the hash of the key in hex, 64 digits. Required.
	SHA256 string `config:"sha256" required:"true" format:"sha256"`
	// Subject is who calls with it. Required.
	Subject string `config:"subject" required:"true"`
	// Tenant is the caller's tenant. Absent: default.
	Tenant string `config:"tenant" default:"default"`
	// Persona is the role the caller acts in. Absent: none.
	Persona string `config:"persona"`
	// Groups the caller belongs to. Absent: none.
	Groups []string `config:"groups"`
	// Plan limits the caller. Absent: the tenant's.
	Plan string `config:"plan"`
}

// JWT accepts signed tokens of one issuer.
type JWT struct {
	// Issuer that signs. Required where tokens are used.
	Issuer string `config:"issuer"`
	// Audience the tokens must name. Required where tokens are used.
	Audience string `config:"audience"`
	// JWKS is where the issuer's keys are. Absent: found through the issuer.
	JWKS string `config:"jwks"`
	// Claims are the names of the claims to read. Absent: sub, and none else.
	Claims map[string]string `config:"claims"`
}

// Tenant is one tenant's settings.
type Tenant struct {
	// Plan limits the tenant. Absent: none.
	Plan string `config:"plan"`
	// Zone is the time zone its months and days are counted in. Absent: UTC.
	Zone string `config:"zone"`
}

// Gate is the authorization chain as a whole.
type Gate struct {
	// Open says that everyone known may call everything enabled. Absent: no.
	Open bool `config:"open"`
}

// Registry is the catalog of capabilities.
type Registry struct {
	// Default is the state of a capability nobody decided about. Absent: enabled.
	Default string `config:"default" enum:"enabled|disabled"`
	// OnNew is what happens to a new definition. Absent: hold with authentication, else enable.
	OnNew string `config:"on_new" enum:"enable|hold"`
	// OnChange is what happens to a changed definition. Absent: hold with authentication, else enable.
	OnChange string `config:"on_change" enum:"enable|hold"`
	// Seed is a file read into the catalog at the first start. Absent: none.
	Seed string `config:"seed" format:"path"`
}

// Capsule is a named set of capabilities.
type Capsule struct {
	// Visible are globs of names in lists. Absent: nothing.
	Visible []string `config:"visible"`
	// Callable are globs of names that may be called. Absent: nothing.
	Callable []string `config:"callable"`
	// Personas that hold the capsule. Absent: none.
	Personas []string `config:"personas"`
	// Groups that hold the capsule. Absent: none.
	Groups []string `config:"groups"`
}

// SpiceDB asks a relationship database.
type SpiceDB struct {
	// Endpoint is its host:port. Absent: the phase abstains.
	Endpoint string `config:"endpoint"`
	// Token authenticates to it. Absent: none.
	Token Secret `config:"token"`
	// TLS encrypts the connection. Absent: yes.
	TLS *bool `config:"tls"`
	// Object is the type of tools. Absent: tool.
	Object string `config:"object"`
	// Permission asked for. Absent: execute.
	Permission string `config:"permission"`
	// Subject is the type of callers. Absent: user.
	Subject string `config:"subject"`
	// ObjectID is the template of tool ids. Absent: exposed.
	ObjectID string `config:"object_id"`
	// SubjectID is the template of caller ids. Absent: {subject}.
	SubjectID string `config:"subject_id"`
	// Builtin answers from the file where there is no server. Absent: no.
	Builtin map[string]json.RawMessage `config:"builtin"`
}

// OPA evaluates a Rego policy; at most one of Path, Bundle and URL is set.
type OPA struct {
	// Path is a folder of policies. Absent: none.
	Path string `config:"path" format:"path"`
	// Bundle is the URL of a bundle. Absent: none.
	Bundle string `config:"bundle" format:"url"`
	// URL is a remote policy server. Absent: evaluated here.
	URL string `config:"url" format:"url"`
	// Decision is the rule asked. Absent: data.toolgate.decision.
	Decision string `config:"decision"`
	// RegoVersion is the language version. Absent: v1.
	RegoVersion string `config:"rego_version" enum:"v0|v1"`
	// Mode is whether its denials count. Absent: enforce.
	Mode string `config:"mode" enum:"enforce|shadow"`
	// Actions renames the actions for the policy. Absent: unchanged.
	Actions map[string]string `config:"actions"`
}

// Governance checks arguments.
type Governance struct {
	// Mode is the operating mode at the first start. Absent: NORMAL.
	Mode string `config:"mode" enum:"NORMAL|ALERT|DEGRADED|LOCKDOWN|RECOVERY"`
	// Tools are the rules by exposed name. Absent: none.
	Tools map[string]GovernedTool `config:"tools"`
}

// GovernedTool are the rules of one tool.
type GovernedTool struct {
	// Risk of calling it. Absent: by its class.
	Risk string `config:"risk" enum:"low|medium|high"`
	// PathsIn are JSON pointers of arguments that are paths. Absent: none.
	PathsIn []string `config:"paths_in"`
	// AllowedPaths are globs one of which a path must match. Absent: any.
	AllowedPaths []string `config:"allowed_paths"`
	// ForbiddenPaths are globs a path must not match. Absent: none.
	ForbiddenPaths []string `config:"forbidden_paths"`
	// MaxBytes bounds the arguments. Absent: limits.body.
	MaxBytes Size `config:"max_bytes"`
	// RequiresApprovalInModes are modes in which a person is asked. Absent: none.
	RequiresApprovalInModes []string `config:"requires_approval_in_modes"`
	// ForbiddenInModes are modes in which it is denied. Absent: none.
	ForbiddenInModes []string `config:"forbidden_in_modes"`
}

// Approvals says who answers, and how long.
type Approvals struct {
	// Wait is how long a call waits for an answer. Absent: 30s.
	Wait time.Duration `config:"wait"`
	// Valid is how long a grant may be used. Absent: 10m.
	Valid time.Duration `config:"valid"`
	// By are groups whose answer counts. Absent: none.
	By []string `config:"by"`
	// Ask is where the question goes. Absent: admin.
	Ask []string `config:"ask"`
}

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

// Native is the built-in and plug-in tools.
type Native struct {
	// FS serves files. Absent: off.
	FS map[string]json.RawMessage `config:"fs"`
	// System serves facts about this machine. Absent: off.
	System map[string]json.RawMessage `config:"system"`
	// Web fetches pages. Absent: off.
	Web map[string]json.RawMessage `config:"web"`
	// Util serves text tools. Absent: off.
	Util map[string]json.RawMessage `config:"util"`
	// Plugins are further programs, by name. Absent: none.
	Plugins map[string]Plugin `config:"plugins"`
}

// Plugin is one program that serves tools.
type Plugin struct {
	// Path of the program. Required.
	Path string `config:"path" required:"true" format:"path"`
	// SHA256 of the program in hex. Required.
	SHA256 string `config:"sha256" required:"true" format:"sha256"`
}

// DeclaredTool is a tool declared in the file.
type DeclaredTool struct {
	// Name of the tool. Required.
	Name string `config:"name" required:"true"`
	// Type is what calling it does. Required.
	Type string `config:"type" required:"true" enum:"http|command"`
	// Method of the request. Absent: GET.
	Method string `config:"method"`
	// URL of the request. Required for http.
	URL string `config:"url"`
	// InputSchema is the JSON Schema of its arguments. Absent: none.
	InputSchema json.RawMessage `config:"input_schema"`
}

// Audit is the record of calls.
type Audit struct {
	// Path is the file the record is appended to. Absent: audit.jsonl beside the store.
	Path string `config:"path" format:"path"`
	// Mode is whether calls are refused while it cannot be written. Absent: required where authentication is configured, else best_effort.
	Mode string `config:"mode" enum:"required|best_effort"`
	// Fsync is when the file is forced to disk: after every entry, at short intervals, or by the system. Absent: interval.
	Fsync string `config:"fsync" enum:"always|interval|never" default:"interval"`
	// ArgsHash is how arguments are recorded. Absent: sha256.
	ArgsHash string `config:"args_hash" enum:"sha256" default:"sha256"`
}

// Telemetry is where traces go.
type Telemetry struct {
	// OTLP is the collector's address. Absent: none.
	OTLP string `config:"otlp"`
	// Sample is the share of calls traced. Absent: 0.01.
	Sample float64 `config:"sample" min:"0" max:"1"`
}

// Feedback is who is told about executions.
type Feedback struct {
	// Webhook is a URL each is posted to. Absent: none.
	Webhook string `config:"webhook" format:"url"`
	// Kafka is a topic each is written to. Absent: none.
	Kafka Kafka `config:"kafka"`
}

// Kafka is a topic.
type Kafka struct {
	// Brokers of the cluster. Absent: off.
	Brokers []string `config:"brokers"`
	// Topic written to. Absent: tool.executions.
	Topic string `config:"topic"`
}

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
	// Queue is how many calls may wait for a free place at one server. Absent: 256.
	Queue int `config:"queue" default:"256" min:"0" max:"100000"`
	// Tools is how many tools, prompts or resources one server may list. Absent: 5000.
	Tools int `config:"tools" default:"5000" min:"1" max:"1000000"`
	// Pages is how many pages one list may have. Absent: 1000.
	Pages int `config:"pages" default:"1000" min:"1" max:"100000"`
	// Catalog is the most bytes one server may list. Absent: 64MiB.
	Catalog Size `config:"catalog" default:"64MiB" min:"1KiB" max:"4GiB"`
}

// Retention is how long records are kept.
type Retention struct {
	// Executions is for the execution log. Absent: 90d.
	Executions time.Duration `config:"executions"`
	// Audit is for the audit record. Absent: 365d.
	Audit time.Duration `config:"audit"`
}
