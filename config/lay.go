package config

import (
	"cmp"
	"reflect"
	"slices"

	"github.com/toolgate/toolgate/config/clients"
	"github.com/toolgate/toolgate/upstream"
	"github.com/toolgate/toolgate/upstream/credential"
)

// joined is the server of a client's entry with what toolgate.servers.<key> says laid
// over it. A server that is disabled is never refused.
func joined(e *clients.Server, set *ServerSettings) Server {
	s := Server{
		Key: e.Key, File: e.Source, Line: e.Line, Namespace: Namespace(e.Key), Transport: e.Transport,
		Command: e.Command, Args: e.Args, Env: e.Env, EnvInherit: e.EnvInherit, Cwd: e.Cwd,
		URL: e.URL, Headers: e.Headers, Auth: e.Auth, Secrets: e.Secrets, Written: e.Written,
		Disabled: e.Disabled, Include: e.Include, Exclude: e.Exclude,
	}
	s.lay(e.Timeouts, set)
	if s.Disabled {
		return s
	}
	if s.Transport == upstream.Stdio && authSet(set) && set.Auth.Mode != credential.Static {
		e.Refused.At(e.Node, e.Path, "hand it what it needs under env", "toolgate.servers.%s.auth is for servers that are reached by a url", e.Key)
	}
	if s.Transport != upstream.Stdio && set.Sandbox != nil {
		e.Refused.At(e.Node, e.Path, "remove it: the process of this server is confined where it runs", "toolgate.servers.%s.sandbox is for servers that toolgate starts", e.Key)
	}
	if where, why := misplaced(set, e.URL != ""); where != "" {
		e.Refused.At(e.Node, e.Path, why, "toolgate.servers.%s.%s is for servers that toolgate starts and that all callers share", e.Key, where)
	}
	s.Refused = e.Refused.Err()
	return s
}

// misplaced names a setting of a server that several gateways share which does not fit the
// others, and what to do; empty if all fit.
func misplaced(set *ServerSettings, remote bool) (setting, cure string) {
	switch setting = "copies"; {
	case set.Exclusive && set.Copies > 1:
		return "exclusive", "remove copies: what must not run twice has one"
	case set.Copies == 0 && !set.Exclusive:
		return "", ""
	case set.Exclusive:
		setting = "exclusive"
	}
	switch {
	case remote:
		return setting, "remove it: the server runs where its url leads"
	case set.Isolation != upstream.IsolateShared:
		return setting, "add isolation: shared"
	}
	return "", ""
}

func authSet(set *ServerSettings) bool { return !reflect.DeepEqual(set.Auth, credential.Auth{}) }

// lay lays what toolgate.servers.<key> says over a server that has what its entry says,
// but for the deadlines of the entry.
func (s *Server) lay(entry upstream.Timeouts, set *ServerSettings) {
	s.Timeouts = s.timeouts(entry, set.Timeouts)
	if set.Namespace != nil {
		s.Namespace = *set.Namespace
	}
	s.Protocol = cmp.Or(set.Protocol, upstream.ProtocolAuto)
	s.Isolation = cmp.Or(set.Isolation, upstream.IsolateAuto)
	s.Copies, s.Exclusive = set.Copies, set.Exclusive
	s.PlainCatalog = cmp.Or(set.PlainCatalog, upstream.WithoutAuto)
	processes := upstream.DefaultProcesses
	if s.URL != "" {
		processes = upstream.DefaultConnections
	}
	s.Concurrency = cmp.Or(set.Concurrency, upstream.DefaultConcurrency)
	s.Processes = cmp.Or(set.Processes, processes)
	s.EnvInherit = slices.Concat(s.EnvInherit, set.EnvInherit)
	slices.Sort(s.EnvInherit)
	s.EnvInherit, s.EnvOnly = slices.Compact(s.EnvInherit), set.EnvInherit != nil
	s.ClientRequests, s.Sandbox = set.ClientRequests, set.Sandbox
	s.Tools, s.Offer, s.RenamedFrom, s.Results = set.Tools, set.Offer, set.RenamedFrom, set.Results
	s.Breaker, s.Retry = set.Breaker, set.Retry
	if authSet(set) {
		s.Auth = set.Auth
	}
}
