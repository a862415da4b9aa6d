package config

import (
	"github.com/toolgate/toolgate/native/enable"
	"github.com/toolgate/toolgate/proxy/guard"
	"github.com/toolgate/toolgate/proxy/result"
	"github.com/toolgate/toolgate/upstream"
	"github.com/toolgate/toolgate/upstream/credential"
)

// ServerSettings are what toolgate adds to one server of the file. What is
// absent here comes from the client's own entry, else from the default.
type ServerSettings struct {
	// Prefix of the server's exposed names, matching [a-z][a-z0-9-]{0,19}; "" for no prefix. Default: derived from the
	// key.
	Namespace *string `config:"namespace" format:"namespace"`
	// Former key of the server in the file. The state that the store has under the former key, such as flags,
	// restrictions and accepted definitions, moves to this server. Relationships follow spicedb.object_id instead.
	// Default: the server was not renamed.
	RenamedFrom string `config:"renamed_from"`
	// Era of MCP that is spoken to the server. Default: auto.
	Protocol upstream.Protocol `config:"protocol" enum:"auto|legacy|modern"`
	// Who shares a connection to the server. Default: auto.
	Isolation upstream.Isolation `config:"isolation" enum:"auto|shared|principal|session"`
	// At how many gateways the process of a server with isolation shared runs, where several gateways share a database.
	// The others use it from there. Default: 1.
	Copies int `config:"copies" min:"1" max:"64"`
	// The process must not run twice, not even while it moves to another gateway: the old one ends before the new one
	// starts, and calls wait. Default: false.
	Exclusive bool `config:"exclusive"`
	// How toolgate finds out what a legacy server lists to clients without capabilities. auto asks only over HTTP and
	// through processes that already run; always starts a process for it before the first list is shown; never shows the
	// same list to everyone. Default: auto.
	PlainCatalog upstream.WithoutCapabilities `config:"plain_catalog" enum:"auto|always|never"`
	// Timeouts of the server. Default: those of the client's file, else the defaults below.
	Timeouts upstream.Timeouts `config:"timeouts"`
	// Circuit breaker, which stops calls to a failing server for a while. Default: the default of each setting.
	Breaker guard.Breaker `config:"breaker"`
	// Retries of calls that failed. Default: the default of each setting.
	Retry guard.Retry `config:"retry"`
	// How many calls to the server may run at once. Default: 32.
	Concurrency int `config:"concurrency" min:"1" max:"10000"`
	// How many processes or connections the server may have. Default: 8, or 256 for a server with a URL.
	Processes int `config:"processes" min:"1" max:"1000"`
	// Variables of toolgate's own environment that the server receives, in addition to PATH, HOME, LANG and TMPDIR. An
	// empty list passes on none of the defaults either. Default: variables for proxies and certificates (HTTPS_PROXY,
	// SSL_CERT_FILE, NODE_EXTRA_CA_CERTS, REQUESTS_CA_BUNDLE, PIP_CERT and similar), LC_ALL, LC_CTYPE and TZ.
	EnvInherit []string `config:"env_inherit" format:"envname"`
	// Confines the process of the server. It reads what programs need to run and what the sandbox names, and reaches no
	// network unless the sandbox says so. HOME and TMPDIR are a private folder. Where this machine cannot confine it,
	// the server does not start. Default: the server has the rights of toolgate.
	Sandbox *upstream.Sandbox `config:"sandbox" json:",omitempty"`
	// How toolgate authenticates to the server. Default: with the headers of the entry; without headers, by OAuth once
	// the server asks for it.
	Auth credential.Auth `config:"auth"`
	// Which requests of the server may reach a client. Default: elicitation only.
	ClientRequests ClientRequests `config:"client_requests"`
	// Settings for single tools, by the names that the server gives them. Default: all tools as the server lists them.
	Tools map[string]Tool `config:"tools"`
	// How results of the server are processed. Default: as for all servers.
	Results result.Settings `config:"results" json:",omitzero"`
	// Puts the server on the list of servers that agents may add (tool.enable), instead of starting it. Default: the
	// server is started.
	Offer *enable.Offer `config:"offer"`
}
