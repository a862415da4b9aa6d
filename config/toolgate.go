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
	"github.com/toolgate/toolgate/internal/cluster"
	"github.com/toolgate/toolgate/internal/feedback"
	"github.com/toolgate/toolgate/internal/logs"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/telemetry"
	"github.com/toolgate/toolgate/native/agents"
	"github.com/toolgate/toolgate/native/declared"
	"github.com/toolgate/toolgate/native/queue"
	"github.com/toolgate/toolgate/proxy/auth"
	"github.com/toolgate/toolgate/proxy/findview"
	"github.com/toolgate/toolgate/proxy/intercept"
	"github.com/toolgate/toolgate/proxy/result"
	"github.com/toolgate/toolgate/proxy/schemas"
)

// Toolgate is everything under the "toolgate" key of a file. Each field says
// what its absence means; keys it does not have are errors.
type Toolgate struct {
	// Where toolgate listens for clients, operators, browsers and metrics. Default: 127.0.0.1:7777 for clients,
	// 127.0.0.1:7778 for the console, 127.0.0.1:7779 for metrics.
	Listen Listen `config:"listen"`
	// Where state is stored. "sqlite:" is one file per configuration in the state folder, "sqlite:PATH" a file of your
	// choice, and "postgres://USER:PASSWORD@HOST:PORT/DATABASE" a database that several gateways share. Default:
	// "sqlite:".
	Store string `config:"store" default:"sqlite:" format:"store"`
	// The other gateways that share the database. Default: each of them serves what it gets.
	Cluster cluster.Settings `config:"cluster"`
	// When a write to an SQLite store counts as done: full once it survives a power failure, normal once it survives a
	// crash of the process, which is faster. Default: full.
	Durability string `config:"durability" default:"full" enum:"full|normal"`
	// Redis server through which gateways share their rate limits: "redis://USER:PASSWORD@HOST:PORT/DB", or
	// "rediss://..." for TLS. Add "?addr=HOST:PORT" for each further node of a cluster. Default: each gateway counts on
	// its own.
	Redis string `config:"redis" format:"redis"`
	// Where plans and budgets are counted: store, or redis, which is faster but may lose the last charges in a failover.
	// Default: store.
	BudgetsIn string `config:"budgets_in" default:"store" enum:"store|redis"`
	// Keys that encrypt the state which clients carry for toolgate. The first key encrypts, and all of them decrypt.
	// Default: one generated key in the state folder.
	Keys []seal.KeySettings `config:"keys"`
	// Settings for each server, by its key in the file. Default: every server has the defaults below.
	Servers map[string]ServerSettings `config:"servers"`
	// How callers authenticate. Default: no authentication; only loopback callers are served, all as "local".
	Auth auth.Settings `config:"auth"`
	// Settings for each tenant; "*" is for every tenant without settings of its own. Default: none.
	Tenants map[string]budget.TenantSettings `config:"tenants"`
	// The authorization chain. Default: closed if authentication is configured and no other setting decides.
	Gate Gate `config:"gate"`
	// The catalog of capabilities: what is enabled, and what happens to new and changed definitions. Default: everything
	// is enabled.
	Registry registry.Settings `config:"registry"`
	// Named sets of capabilities for certain callers. Default: none; this phase abstains.
	Capsules map[string]capsule.Settings `config:"capsules"`
	// How tools are found where an endpoint has the find view. Default: the default of each setting.
	Find findview.Settings `config:"find"`
	// How tools' schemas are listed at endpoints that do not say it by /verbatim, /compact or /strict behind their path:
	// as their servers wrote them, without what does not help a model, or rewritten for clients that refuse anyOf or
	// $ref. Default: verbatim.
	Schemas schemas.Mode `config:"schemas" enum:"verbatim|compact|strict" default:"verbatim"`
	// Decides by relationships, in a SpiceDB server or in this file. Default: off; this phase abstains.
	SpiceDB spicedb.Settings `config:"spicedb"`
	// Decides by a Rego policy. Default: off; this phase abstains.
	OPA opa.Settings `config:"opa"`
	// Rules about calls and their arguments, and the operating mode. Default: no rules, but path arguments must not lead
	// to the gateway's own files if something else decides who may call what.
	Governance Governance `config:"governance"`
	// Programs that look at calls and results, and may refuse and change them. Default: none.
	Interceptors []intercept.Settings `config:"interceptors"`
	// Who approves calls, and how long approvals are valid. Default: nobody is asked.
	Approvals approval.Settings `config:"approvals"`
	// How the results of all servers are processed. Default: results are delivered unchanged.
	Results result.Settings `config:"results" json:",omitzero"`
	// Quotas by plan name; a number means tool calls per month. A plan applies to the tenants that have it, and also to
	// a caller whose credential names it. Default: none.
	Plans map[string]budget.PlanSettings `config:"plans"`
	// Allows plans in a store that may lose the last charges in a power failure (durability: normal). Default: false.
	BoundedPlans bool `config:"bounded_plans"`
	// Named budgets. Default: none.
	Budgets []budget.RuleSettings `config:"budgets"`
	// Rate limits: how many calls are permitted per time window. Default: none.
	Rates []rate.Settings `config:"rates"`
	// Tools that toolgate itself provides, and tools from plugins. Default: none.
	Native Native `config:"native"`
	// Agents: models that do tasks with tools, by name. Each is a tool of the server agent. Default: none.
	Agents map[string]agents.Settings `config:"agents"`
	// Declared tools: HTTP requests and commands that become tools. Default: none.
	Tools []declared.Settings `config:"tools"`
	// Files with more declared tools, each a map with the key tools. Default: none.
	ToolFiles []string `config:"tool_files" format:"path"`
	// URLs of documents with more declared tools, in the format of tool_files but without variables. Default: none.
	ToolURLs []declared.Address `config:"tool_urls"`
	// Limits for tools whose calls run as tasks. Default: the default of each setting.
	Queue queue.Settings `config:"queue"`
	// The audit log, which records every call. Default: audit.jsonl in the state folder.
	Audit audit.Settings `config:"audit"`
	// What toolgate logs to stderr. Default: the default of each setting.
	Log logs.Settings `config:"log"`
	// Where traces are sent. Default: nowhere.
	Telemetry telemetry.Settings `config:"telemetry"`
	// Who receives an event for each execution. Default: nobody.
	Feedback feedback.Settings `config:"feedback"`
	// Limits for messages, sessions, callers and servers. Default: the default of each setting.
	Limits Limits `config:"limits"`
	// How long records are kept. Default: the default of each setting.
	Retention Retention `config:"retention"`
}

// Listen is where toolgate serves.
type Listen struct {
	// host:port of the MCP endpoint for clients; "" turns it off. Default: 127.0.0.1:7777.
	HTTP string `config:"http" default:"127.0.0.1:7777" format:"address"`
	// host:port of the admin API, in addition to its local socket. Default: the socket only.
	Admin string `config:"admin" format:"address"`
	// host:port of /metrics; "" turns it off. Default: 127.0.0.1:7779.
	Metrics string `config:"metrics" default:"127.0.0.1:7779" format:"address"`
	// host:port of the console for browsers; "" turns it off. Default: 127.0.0.1:7778.
	Console string `config:"console" default:"127.0.0.1:7778" format:"address"`
	// The URL that clients use, if it differs from the listener's own (for example behind a proxy). Default: http:// and
	// the address of the listener.
	PublicURL string `config:"public_url" format:"url"`
	// TLS certificate for the MCP endpoint. Default: plain HTTP.
	TLS TLS `config:"tls"`
	// Additional names that are accepted in the Host header. Default: loopback names and the host of public_url.
	Hosts []string `config:"hosts" format:"host"`
	// Web origins that are accepted in the Origin header, such as https://app.example or http://localhost:6274. The
	// gateway's own origin is always accepted, and origins on this machine are accepted if callers authenticate.
	// Default: none.
	Origins []string `config:"origins" format:"origin"`
	// Address ranges of reverse proxies. The client of their requests is the last address of X-Forwarded-For that is not
	// a proxy: its failed authentications are counted, not those of the proxy, which may have all connections.
	// Default: none.
	TrustedProxies []string `config:"trusted_proxies" format:"cidr"`
}

// TLS is a certificate to serve with.
type TLS struct {
	// PEM file with the certificate chain. Default: no TLS.
	Cert string `config:"cert" format:"path"`
	// PEM file with the private key of the certificate. Default: no TLS.
	Key string `config:"key" format:"path"`
	// PEM file with the certificate authorities whose client certificates are accepted. Default: no client certificate
	// is requested.
	ClientCA string `config:"client_ca" format:"path"`
}
