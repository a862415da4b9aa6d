package config

import (
	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/rate"
	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/gate/capsule"
	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/gate/spicedb"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/feedback"
	"github.com/toolgate/toolgate/internal/logs"
	"github.com/toolgate/toolgate/internal/telemetry"
	"github.com/toolgate/toolgate/native/declared"
	"github.com/toolgate/toolgate/native/queue"
	"github.com/toolgate/toolgate/proxy/result"
)

// Toolgate is everything under the "toolgate" key of a file. Each field says
// what its absence means; keys it does not have are errors. Sections that this
// version does not use are refused wherever they are written (see
// [Available]), so their fields are always zero.
type Toolgate struct {
	// Listen is where toolgate serves. Absent: 127.0.0.1:7777 alone.
	Listen Listen `config:"listen"`
	// Store is where state is kept: "sqlite:" for a file of its own per
	// configuration under the state folder, "sqlite:PATH", or for gateways that
	// share their state "postgres://USER:PASSWORD@HOST:PORT/DATABASE". Absent: "sqlite:".
	Store string `config:"store" default:"sqlite:" format:"store"`
	// Durability is when a write to a store in a file counts as done: full once it survives a loss of power,
	// normal once it survives the end of the process, however sudden, which is faster. Absent: full.
	Durability string `config:"durability" default:"full" enum:"full|normal"`
	// Redis is the address of a Redis server that gateways share their rates in:
	// "redis://USER:PASSWORD@HOST:PORT/DB", "rediss://..." with TLS, and with
	// "?addr=HOST:PORT" for each further node of a cluster. Absent: each gateway counts for itself.
	Redis string `config:"redis" format:"redis"`
	// BudgetsIn is where plans and budgets are counted: store, or redis, which is faster and may lose the last
	// charges when it fails over. Absent: store.
	BudgetsIn string `config:"budgets_in" default:"store" enum:"store|redis"`
	// Keys seal what clients hold for us; the first seals, all open.
	// Absent: one generated key in the state folder.
	Keys []Key `config:"keys"`
	// Servers are settings per server, by its key in the file. Absent: the
	// defaults of each setting.
	Servers map[string]ServerSettings `config:"servers"`
	// Auth says who callers are. Absent: loopback callers only, all "local".
	Auth Auth `config:"auth"`
	// Tenants are settings per tenant; those of "*" are of every tenant that has none of its own. Absent: no tenant has any.
	Tenants map[string]budget.TenantSettings `config:"tenants"`
	// Gate is the authorization chain. Absent: closed where
	// authentication is configured and nothing decides.
	Gate Gate `config:"gate"`
	// Registry is the catalog of capabilities. Absent: everything enabled.
	Registry registry.Settings `config:"registry"`
	// Capsules are named sets of capabilities. Absent: the phase abstains.
	Capsules map[string]capsule.Settings `config:"capsules"`
	// SpiceDB asks a relationship database. Absent: the phase abstains.
	SpiceDB spicedb.Settings `config:"spicedb"`
	// OPA evaluates a Rego policy. Absent: the phase abstains.
	OPA opa.Settings `config:"opa"`
	// Governance is rules about calls and their arguments, and the operating mode. Absent: no rules but that paths
	// do not lead to the gateway's own files, where something else decides who may call what.
	Governance Governance `config:"governance"`
	// Approvals says who answers questions about calls, and how long. Absent: nobody is asked.
	Approvals approval.Settings `config:"approvals"`
	// Results say what is done with what servers answer, for all of them. Absent: it is passed on as it is.
	Results result.Settings `config:"results" json:",omitzero"`
	// Plans are limits by plan name; a number is calls of tools a month. A plan counts for the tenants that have it,
	// and, of a credential that names one, for its caller as well. Absent: no limits.
	Plans map[string]budget.PlanSettings `config:"plans"`
	// BoundedPlans allows plans in a store that may lose the last charges with the power (durability: normal). Absent: false.
	BoundedPlans bool `config:"bounded_plans"`
	// Budgets are named limits. Absent: none.
	Budgets []budget.RuleSettings `config:"budgets"`
	// Rates are limits of calls in a time. Absent: none.
	Rates []rate.Settings `config:"rates"`
	// Native is the built-in and plug-in tools. Absent: none.
	Native Native `config:"native"`
	// Tools are tools declared in the file. Absent: none.
	Tools []declared.Settings `config:"tools"`
	// ToolFiles are files of further declared tools, each a map with the key tools. Absent: none.
	ToolFiles []string `config:"tool_files" format:"path"`
	// ToolURLs are addresses of documents of further declared tools, each like a file of tool_files without variables. Absent: none.
	ToolURLs []ToolURL `config:"tool_urls"`
	// Queue bounds the calls of tools that run as tasks. Absent: the defaults of each.
	Queue queue.Settings `config:"queue"`
	// Audit is the record of calls. Absent: audit.jsonl in the state folder.
	Audit audit.Settings `config:"audit"`
	// Log is what is written to stderr. Absent: the defaults of each.
	Log logs.Settings `config:"log"`
	// Telemetry is where traces go. Absent: nowhere.
	Telemetry telemetry.Settings `config:"telemetry"`
	// Feedback is who is told about executions. Absent: nobody.
	Feedback feedback.Settings `config:"feedback"`
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
	// Origins are web origins accepted in the Origin header, as in https://app.example or http://localhost:6274, besides the gateway's own and, where
	// callers authenticate, those of this machine. Absent: none.
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
