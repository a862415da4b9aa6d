package config

import (
	"fmt"
	"strings"

	"github.com/toolgate/toolgate/config/clients"
	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/native/enable"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/guard"
	"github.com/toolgate/toolgate/proxy/result"
	"github.com/toolgate/toolgate/proxy/reuse"
	"github.com/toolgate/toolgate/upstream"
	"github.com/toolgate/toolgate/upstream/credential"
)

// Config is one configuration, read and checked. It is plain data: nothing in
// it changes after [Load] returned, and any number of goroutines may read it.
type Config struct {
	// Path is the file as it was named, "" where there is none.
	Path string
	// Sum is the SHA-256 of the file's text in hexadecimal, "" where there is none.
	Sum string
	// With are the further files whose servers joined those of Path.
	With []Source
	// Client is what kind of file it is.
	Client clients.Client
	// Servers are the servers of the file sorted by key, the disabled and
	// the refused ones included.
	Servers []Server
	// Toolgate is the "toolgate" section with defaults and overrides in it.
	Toolgate Toolgate
	// Skipped are entries that are no servers of ours.
	Skipped []clients.Skipped
	// Warnings are things worth telling, in file order.
	Warnings []tree.Warning
	// Files are the absolute paths of every file that was read or is named
	// by a setting, Path first: what [Watcher] looks at.
	Files []string
	// Secrets are those that were kept outside the file and stand in the Toolgate
	// section.
	Secrets []secret.Text `json:"-"`
	// Origins says where each value came from, by its path: listen.http,
	// limits.body, servers.github.url. A value without an entry is a
	// default.
	Origins map[string]tree.Origin
}

// Names are the files of the configuration as they were named, for a person.
func (c *Config) Names() string {
	all := []string{c.Path}
	for _, f := range c.With {
		all = append(all, f.Path)
	}
	return strings.Join(all, ", ")
}

// Server returns the server of a key.
func (c *Config) Server(key string) (Server, bool) {
	for i := range c.Servers {
		if c.Servers[i].Key == key {
			return c.Servers[i], true
		}
	}
	return Server{}, false
}

// Origin returns where the value of a path came from.
func (c *Config) Origin(path string) tree.Origin {
	if o, ok := c.Origins[path]; ok {
		return o
	}
	return tree.Origin{Kind: tree.OriginDefault}
}

// TransportNative is that of a group of the gateway's own tools, or a plugin.
const TransportNative upstream.Transport = "native"

// Policy allows or denies something. The zero value denies.
type Policy string

// The policies.
const (
	PolicyDeny  Policy = "deny"
	PolicyAllow Policy = "allow"
)

// Allowed reports whether the policy is [PolicyAllow].
func (p Policy) Allowed() bool { return p == PolicyAllow }

// Server is one upstream server with its settings, every variable expanded.
type Server struct {
	// Key is the server's name in the file, as it is written there.
	Key string
	// Namespace prefixes the names of its tools. It is "" only where
	// toolgate.servers.<key>.namespace says so; no other server has the
	// same one.
	Namespace string
	Transport upstream.Transport

	// Command and Args start a stdio server. They may hold expanded
	// secrets: show Written instead.
	Command string   `json:"-"`
	Args    []string `json:"-"`
	// Env is what the file sets, env files included; EnvInherit are the
	// names, sorted, of variables handed on from our own environment where
	// they are set. EnvOnly tells that no others are, as the settings of the
	// server name them.
	Env        map[string]secret.Text
	EnvInherit []string
	EnvOnly    bool `json:",omitempty"`
	// Cwd is the absolute working folder, "" for our own.
	Cwd string

	// URL and Headers reach a remote server. URL may hold an expanded
	// secret: show Written instead.
	URL     string `json:"-"`
	Headers map[string]secret.Text

	// Secrets are those that were kept outside the file and stand in the fields
	// above.
	Secrets []secret.Text `json:"-"`

	// Written is how the file spells what is started or reached, before
	// variables are expanded: what to show to a person.
	Written clients.Written

	// Disabled servers are listed and never started.
	Disabled bool
	// Refused is why this server cannot be started as written, nil if it
	// can. Each reason is an *[tree.Error] with its line. Everything that would
	// be started or reached is empty then, but for Transport and Written.
	Refused error `json:"-"`

	// Include are the only tools to list: nil is all, empty is none.
	// Exclude are tools not to list; it wins over Include.
	Include, Exclude []string

	// Sandbox is what the process of a stdio server may reach; nil confines nothing.
	Sandbox *upstream.Sandbox `json:",omitempty"`

	Timeouts       upstream.Timeouts
	Protocol       upstream.Protocol
	Isolation      upstream.Isolation
	Copies         int  `json:",omitempty"` // gateways that run the process of a shared server
	Exclusive      bool `json:",omitempty"` // it must not run twice
	PlainCatalog   upstream.WithoutCapabilities
	Concurrency    int // calls in flight
	Processes      int // processes or connections at most
	ClientRequests ClientRequests
	// Auth is how toolgate authenticates to a remote server; see AuthMode and
	// AuthPer for what is in force.
	Auth    credential.Auth `json:",omitzero"`
	Breaker guard.Breaker
	Retry   guard.Retry
	// Tools shapes single tools, by their original names.
	Tools map[string]Tool
	// Added tells that an agent has added the server while the gateway runs.
	Added bool
	// RenamedFrom is the key that the server had before; empty for none.
	RenamedFrom string
	// Results say what is done with what it answers, as far as that is said for it.
	Results result.Settings `json:",omitzero"`
	// Offer is set for a server that is not started, and that agents may add.
	Offer *enable.Offer
	// Native is what is set for a group of the gateway's own tools, a
	// [group.Settings], or for a
	// *[native.PluginSettings]; nil for every other server.
	Native any `json:",omitempty"`

	// File and Line are where the server's entry begins.
	File string `json:"-"`
	Line int
}

// Format writes the server's key and transport whatever the verb, because its
// command line and address may hold expanded secrets.
func (s Server) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "server %s (%s)", s.Key, s.Transport)
}

// ClientRequests says which questions of a server may reach a client. The zero
// value denies all.
type ClientRequests struct {
	// Whether the server may ask the client's model to generate text. Default: deny.
	Sampling Policy `config:"sampling" enum:"allow|deny" default:"deny"`
	// Agent whose model generates the text in place of the client's, within the agent's budget. Default: none; the client
	// is asked.
	SamplingAgent string `config:"sampling_agent"`
	// Whether the server may ask the user a question. Default: allow.
	Elicitation Policy `config:"elicitation" enum:"allow|deny" default:"allow"`
	// Whether the server may ask for the client's folders. Default: deny.
	Roots Policy `config:"roots" enum:"allow|deny" default:"deny"`
	// Hosts that the server may send a user to; "*.example.com" includes all subdomains. Default: any.
	URLHosts []string `config:"url_hosts"`
	// How many requests of the server may reach one caller per hour. Default: 600.
	PerHour int `config:"per_hour" default:"600" min:"1" max:"1000000"`
}

// Samples reports whether the server may ask for generated text, whoever answers.
func (r *ClientRequests) Samples() bool { return r.Sampling.Allowed() || r.SamplingAgent != "" }

// Tool is what is set for one tool of a server.
type Tool struct {
	proxy.ToolShape

	// Circuit breaker for this tool alone, in addition to the server's. Default: none.
	Breaker *guard.Breaker `config:"breaker"`
	// Whether toolgate may repeat a call of this tool if its answer was lost. Default: false, unless the server's
	// retry.trust_hints allows it.
	Idempotent *bool `config:"idempotent"`
	// Rate limit: how many calls all callers together may make in any 60 minutes. Default: no limit.
	RateLimitPerHour int64 `config:"rate_limit_per_hour" min:"1" max:"1000000"`
	// Reuse of the results of this tool, which has to be read-only. Default: each call is sent to the server.
	Cache *reuse.Settings `config:"cache"`
	// How results of this tool are processed. Default: as for its server.
	Results result.Settings `config:"results" json:",omitzero"`
}
