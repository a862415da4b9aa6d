package config

import (
	"github.com/toolgate/toolgate/proxy/guard"
	"github.com/toolgate/toolgate/proxy/result"
	"github.com/toolgate/toolgate/upstream"
	"github.com/toolgate/toolgate/upstream/credential"
)

// ServerSettings are what toolgate adds to one server of the file. What is
// absent here comes from the client's own entry, else from the default.
type ServerSettings struct {
	// Namespace prefixes the names of the server's tools: [a-z][a-z0-9-]{0,19}, or "" for none. Absent: derived from the key.
	Namespace *string `config:"namespace" format:"namespace"`
	// RenamedFrom is the name that the server had in the file before: what the store keeps of it, such as flags, restrictions and
	// accepted definitions, is this server's from then on. Relations go by what spicedb.object_id says. Absent: it has no other name.
	RenamedFrom string `config:"renamed_from"`
	// Protocol is the era spoken to the server. Absent: auto.
	Protocol Protocol `config:"protocol" enum:"auto|legacy|modern"`
	// Isolation is who shares a connection. Absent: auto.
	Isolation upstream.Isolation `config:"isolation" enum:"auto|shared|principal|session"`
	// PlainCatalog is how toolgate finds out what a legacy server lists to a client that it may ask nothing,
	// which is what such a legacy client is shown: auto over HTTP alone and from processes that run anyway,
	// always by a process of its own too and before the first list is shown, never not at all, so that everyone is shown the same. Absent: auto.
	PlainCatalog PlainCatalog `config:"plain_catalog" enum:"auto|always|never"`
	// Timeouts are the deadlines. Absent: the client's, else start 30s (60s for commands that may download first), list 10s, call 120s, hard 30m.
	Timeouts upstream.Timeouts `config:"timeouts"`
	// Breaker stops calling a failing server. Absent: the defaults of each.
	Breaker guard.Breaker `config:"breaker"`
	// Retry repeats what was never delivered. Absent: the defaults of each.
	Retry guard.Retry `config:"retry"`
	// Concurrency is how many calls may be in flight. Absent: 32.
	Concurrency int `config:"concurrency" min:"1" max:"10000"`
	// Processes is how many processes or connections the server may have. Absent: 8, or 256 for one
	// that is reached by URL.
	Processes int `config:"processes" min:"1" max:"1000"`
	// EnvInherit are variables of toolgate's own environment that the server gets where they are set, besides PATH, HOME, LANG and TMPDIR. Absent: those of proxies and certificates (HTTPS_PROXY, SSL_CERT_FILE, NODE_EXTRA_CA_CERTS, REQUESTS_CA_BUNDLE, PIP_CERT and their like), LC_ALL, LC_CTYPE and TZ. An empty list hands on none of these.
	EnvInherit []string `config:"env_inherit" format:"envname"`
	// Auth is how toolgate authenticates to the server. Absent: with the entry's own headers, or where it has none by signing in once the server asks for that.
	Auth credential.Auth `config:"auth"`
	// ClientRequests says which questions of the server may reach a client. Absent: elicitation only.
	ClientRequests ClientRequests `config:"client_requests"`
	// Tools shapes single tools, by their original names. Absent: all as they are.
	Tools map[string]Tool `config:"tools"`
	// Results say what is done with what the server answers. Absent: as for all servers.
	Results result.Settings `config:"results" json:",omitzero"`
	// Offer makes the server one that agents may add (tool.enable) instead of one that is started. Absent: it is started.
	Offer *Offer `config:"offer"`
}

// Offer is what agents are told of a server that they may add.
type Offer struct {
	// Description says what the server is for. Required.
	Description string `config:"description" required:"true"`
	// Arguments are the values that may take the place of {NAME} in the server's args, url and env. Absent: there are no such places.
	Arguments map[string][]string `config:"arguments"`
}
