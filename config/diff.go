package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/proxy/auth"
)

// Changes is what differs between two configurations, split by what a reload
// that nobody asked for may do. A file may have been written by a program that
// toolgate itself serves, so such a reload never starts or changes what is
// executed or reached, nor lifts what an operator has restricted; that waits
// until a person asks for it. What takes a server away, and what changes only
// how fast or under which name a running one is used, applies at once.
type Changes struct {
	// Added are servers that are new, all waiting. Removed are gone at once.
	Added, Removed []string
	// Changed are servers in both, sorted by key.
	Changed []ServerChange
	// Settings are changed settings of the toolgate section outside servers,
	// by path.
	Settings Parts
}

// ServerChange is what changed about one server.
type ServerChange struct {
	Key string
	Parts
}

// Parts names changed values: those that apply at once and those that wait.
type Parts struct {
	Now, Pending []string
}

// Pending is one thing that waits for a reload that a person asks for.
type Pending struct {
	// Server is its key, "" for a setting of the toolgate section.
	Server string
	// What is the name of the value, or "start" for a server that would
	// be started for the first time.
	What string
}

// String renders the item for a list: "server github: url".
func (p Pending) String() string {
	if p.Server == "" {
		return "setting " + p.What
	}
	return "server " + p.Server + ": " + p.What
}

// Pending lists everything that waits, servers first.
func (c Changes) Pending() []Pending {
	var out []Pending
	for _, key := range c.Added {
		out = append(out, Pending{key, "start"})
	}
	for _, s := range c.Changed {
		for _, what := range s.Pending {
			out = append(out, Pending{s.Key, what})
		}
	}
	slices.SortStableFunc(out, func(a, b Pending) int { return strings.Compare(a.Server, b.Server) })
	for _, what := range c.Settings.Pending {
		out = append(out, Pending{"", what})
	}
	return out
}

// serverParts are the values of a server that wait: what is executed, reached,
// or handed to it, and what its operator restricts. Every other one applies at
// once. Headers are to a remote
// server what the environment is to a process.
var serverParts = []struct {
	name  string
	value func(Server) any
	copy  func(from, to *Server)
}{
	{"transport", func(s Server) any { return s.Transport }, func(f, t *Server) { t.Transport = f.Transport }},
	{"command", func(s Server) any { return s.Command }, func(f, t *Server) { t.Command = f.Command }},
	{"args", func(s Server) any { return s.Args }, func(f, t *Server) { t.Args = f.Args }},
	{"env", func(s Server) any { return s.Env }, func(f, t *Server) { t.Env = f.Env }},
	{"env_inherit", func(s Server) any { return [2]any{s.EnvOnly, s.EnvInherit} }, func(f, t *Server) { t.EnvOnly, t.EnvInherit = f.EnvOnly, f.EnvInherit }},
	{"cwd", func(s Server) any { return s.Cwd }, func(f, t *Server) { t.Cwd = f.Cwd }},
	{"url", func(s Server) any { return s.URL }, func(f, t *Server) { t.URL = f.URL }},
	{"headers", func(s Server) any { return s.Headers }, func(f, t *Server) { t.Headers = f.Headers }},
	{"auth", func(s Server) any { return s.Auth }, func(f, t *Server) { t.Auth = f.Auth }},
	// What an operator has restricted stays so until a person lifts it.
	{"include", func(s Server) any { return [2]any{s.Include == nil, s.Include} }, func(f, t *Server) { t.Include = f.Include }},
	{"exclude", func(s Server) any { return s.Exclude }, func(f, t *Server) { t.Exclude = f.Exclude }},
	{"protocol", func(s Server) any { return s.Protocol }, func(f, t *Server) { t.Protocol = f.Protocol }},
	{"sandbox", func(s Server) any { return s.Sandbox }, func(f, t *Server) { t.Sandbox = f.Sandbox }},
	{"isolation", func(s Server) any { return s.Isolation }, func(f, t *Server) { t.Isolation = f.Isolation }},
	{"copies", func(s Server) any { return s.Copies }, func(f, t *Server) { t.Copies = f.Copies }},
	{"exclusive", func(s Server) any { return s.Exclusive }, func(f, t *Server) { t.Exclusive = f.Exclusive }},
	{"plain_catalog", func(s Server) any { return s.PlainCatalog }, func(f, t *Server) { t.PlainCatalog = f.PlainCatalog }},
	{"processes", func(s Server) any { return s.Processes }, func(f, t *Server) { t.Processes = f.Processes }},
	{"client_requests", func(s Server) any { return s.ClientRequests }, func(f, t *Server) { t.ClientRequests = f.ClientRequests }},
	{"native", func(s Server) any { return s.Native }, func(f, t *Server) { t.Native = f.Native }},
	{"offer", func(s Server) any { return s.Offer }, func(f, t *Server) { t.Offer = f.Offer }},
	{"renamed_from", func(s Server) any { return s.RenamedFrom }, func(f, t *Server) { t.RenamedFrom = f.RenamedFrom }},
	{"results", func(s Server) any { return s.Results }, func(f, t *Server) { t.Results = f.Results }},
	{"tools", func(s Server) any { return s.Tools }, func(f, t *Server) { t.Tools = f.Tools }},
	// What may run twice is said by a person.
	{"retry", func(s Server) any { return s.Retry }, func(f, t *Server) { t.Retry = f.Retry }},
}

// settingParts are the settings that wait, because they open something, or
// because what they name is open already.
var settingParts = []struct {
	path  string
	value func(*Toolgate) any
	copy  func(from, to *Toolgate)
}{
	{"listen", func(t *Toolgate) any { return t.Listen }, func(f, t *Toolgate) { t.Listen = f.Listen }},
	{"store", func(t *Toolgate) any { return t.Store }, func(f, t *Toolgate) { t.Store = f.Store }},
	{"redis", func(t *Toolgate) any { return t.Redis }, func(f, t *Toolgate) { t.Redis = f.Redis }},
	{"keys", func(t *Toolgate) any { return t.Keys }, func(f, t *Toolgate) { t.Keys = f.Keys }},
	{"opa.bundle", func(t *Toolgate) any { return t.OPA.Bundle }, func(f, t *Toolgate) { t.OPA.Bundle = f.OPA.Bundle }},
	{"opa.bundle_key", func(t *Toolgate) any { return t.OPA.BundleKey }, func(f, t *Toolgate) { t.OPA.BundleKey = f.OPA.BundleKey }},
	{"opa.url", func(t *Toolgate) any { return t.OPA.URL }, func(f, t *Toolgate) { t.OPA.URL = f.OPA.URL }},
	{"approvals.webhook", func(t *Toolgate) any { return t.Approvals.Webhook }, func(f, t *Toolgate) { t.Approvals.Webhook = f.Approvals.Webhook }},
	{"interceptors", func(t *Toolgate) any { return t.Interceptors }, func(f, t *Toolgate) { t.Interceptors = f.Interceptors }},
	{"find.embeddings", func(t *Toolgate) any { return t.Find.Embeddings }, func(f, t *Toolgate) { t.Find.Embeddings = f.Find.Embeddings }},
	{"find.learning", func(t *Toolgate) any { return t.Find.Learning }, func(f, t *Toolgate) { t.Find.Learning = f.Find.Learning }},
	{"results", func(t *Toolgate) any { return t.Results }, func(f, t *Toolgate) { t.Results = f.Results }},
	{"tools", func(t *Toolgate) any { return t.Tools }, func(f, t *Toolgate) { t.Tools = f.Tools }},
	{"tool_urls", func(t *Toolgate) any { return t.ToolURLs }, func(f, t *Toolgate) { t.ToolURLs = f.ToolURLs }},
	{"audit", func(t *Toolgate) any { return t.Audit }, func(f, t *Toolgate) { t.Audit = f.Audit }},
	// Who may do what, and with which arguments, is changed by a person.
	{"spicedb", func(t *Toolgate) any { return t.SpiceDB }, func(f, t *Toolgate) { t.SpiceDB = f.SpiceDB }},
	{"governance", func(t *Toolgate) any { return t.Governance }, func(f, t *Toolgate) { t.Governance = f.Governance }},
}

// Diff compares the running configuration with a new one.
func Diff(old, new *Config) Changes {
	_, c := merge(old, new)
	return c
}

// Merge returns the configuration that an automatic reload runs: the new one,
// with the running one's value for everything that waits. The second result
// lists that; reloading on request runs the new configuration as it is.
func Merge(old, new *Config) (*Config, []Pending) {
	m, c := merge(old, new)
	return m, c.Pending()
}

func merge(old, new *Config) (*Config, Changes) {
	m := *new
	m.Servers = nil
	var c Changes
	for _, o := range old.Servers {
		if _, ok := new.Server(o.Key); !ok {
			c.Removed = append(c.Removed, o.Key)
		}
	}
	for _, n := range new.Servers {
		o, ok := old.Server(n.Key)
		if !ok {
			c.Added = append(c.Added, n.Key)
			continue
		}
		merged, parts := mergeServer(o, n)
		m.Servers = append(m.Servers, merged)
		if len(parts.Now)+len(parts.Pending) > 0 {
			c.Changed = append(c.Changed, ServerChange{n.Key, parts})
		}
	}
	m.Toolgate, c.Settings = mergeSettings(old.Toolgate, new.Toolgate)
	return &m, c
}

// running reports whether a server is meant to run and can.
func (s Server) running() bool { return !s.Disabled && s.Refused == nil }

func mergeServer(o, n Server) (Server, Parts) {
	merged, parts := n, Parts{Now: changedNow(o, n)}
	var differ []string
	for _, p := range serverParts {
		if !same(p.value(o), p.value(n)) {
			differ = append(differ, p.name)
		}
	}
	keep := true
	switch {
	case o.running() && n.running():
		parts.Pending = differ
	case o.running() && !n.Disabled:
		// What the new entry says cannot be run: the old one goes on.
		merged.Refused = nil
		parts.Pending = []string{"refused"}
	case n.running():
		merged.Disabled, merged.Refused = o.Disabled, o.Refused
		parts.Pending = []string{"start"}
	default:
		// Nothing of it runs, so nothing has to wait.
		parts.Now = append(parts.Now, differ...)
		keep = false
	}
	if keep {
		for _, p := range serverParts {
			p.copy(&o, &merged)
		}
		merged.Written, merged.Secrets = o.Written, o.Secrets
	}
	return merged, parts
}

// changedNow names the values that differ and apply at once.
func changedNow(o, n Server) []string {
	var now []string
	if n.Disabled && !o.Disabled {
		now = append(now, "disabled")
	}
	if !n.running() && !o.running() && errorText(o.Refused) != errorText(n.Refused) {
		now = append(now, "refused")
	}
	for _, f := range []struct {
		name     string
		old, new any
	}{
		{"namespace", o.Namespace, n.Namespace},
		{"timeouts", o.Timeouts, n.Timeouts},
		{"concurrency", o.Concurrency, n.Concurrency},
		{"breaker", o.Breaker, n.Breaker},
	} {
		if !reflect.DeepEqual(f.old, f.new) {
			now = append(now, f.name)
		}
	}
	return now
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// same compares values of which nil and empty mean the same.
func same(a, b any) bool {
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	if k := va.Kind(); (k == reflect.Slice || k == reflect.Map) && va.Len() == 0 && vb.Len() == 0 {
		return true
	}
	return reflect.DeepEqual(a, b)
}

func mergeSettings(o, n Toolgate) (Toolgate, Parts) {
	merged, parts := n, Parts{}
	for _, p := range settingParts {
		if !reflect.DeepEqual(p.value(&o), p.value(&n)) {
			parts.Pending = append(parts.Pending, p.path)
			p.copy(&o, &merged)
		}
	}
	// Opening the gate and letting someone in wait; closing and locking out do
	// not.
	switch {
	case n.Gate.Open && !o.Gate.Open:
		merged.Gate.Open = false
		parts.Pending = append(parts.Pending, "gate.open")
	case o.Gate.Open && !n.Gate.Open:
		parts.Now = append(parts.Now, "gate.open")
	}
	authParts := mergeAuth(&o, &n, &merged.Auth)
	parts.Pending = append(parts.Pending, authParts.Pending...)
	parts.Now = append(parts.Now, authParts.Now...)
	if !reflect.DeepEqual(o.Limits, n.Limits) {
		parts.Now = append(parts.Now, "limits")
	}
	return merged, parts
}

// mergeAuth keeps the ways in that are the same in both: one that is removed is
// closed at once, a new or changed one waits. Removing the last one waits too,
// because without any nobody is asked who they are.
func mergeAuth(o, n *Toolgate, merged *auth.Settings) Parts {
	if o.Authenticates() && !n.Authenticates() {
		*merged = o.Auth
		return Parts{Pending: lastWays(&o.Auth)}
	}
	var parts, own Parts
	merged.Keys, parts = mergeKeys(o.Auth.Keys, n.Auth.Keys)
	merged.JWT, own = mergeIssuers(o.Auth.JWT, n.Auth.JWT)
	parts.Pending, parts.Now = append(parts.Pending, own.Pending...), append(parts.Now, own.Now...)
	for _, role := range []struct {
		path   string
		o, n   auth.Role
		merged *auth.Role
	}{
		{"auth.admins", o.Auth.Admins, n.Auth.Admins, &merged.Admins},
		{"auth.auditors", o.Auth.Auditors, n.Auth.Auditors, &merged.Auditors},
		{"auth.viewers", o.Auth.Viewers, n.Auth.Viewers, &merged.Viewers},
	} {
		*role.merged, own = mergeAdmins(role.path, role.o, role.n)
		parts.Pending, parts.Now = append(parts.Pending, own.Pending...), append(parts.Now, own.Now...)
	}
	switch {
	case reflect.DeepEqual(o.Auth.Introspection, n.Auth.Introspection):
	case n.Auth.Introspection.Endpoint == "":
		parts.Now = append(parts.Now, "auth.introspection")
	default:
		merged.Introspection = o.Auth.Introspection
		parts.Pending = append(parts.Pending, "auth.introspection")
	}
	if !reflect.DeepEqual(o.Auth.MTLS, n.Auth.MTLS) {
		merged.MTLS = o.Auth.MTLS
		parts.Pending = append(parts.Pending, "auth.mtls")
	}
	if !reflect.DeepEqual(o.Auth.Scopes, n.Auth.Scopes) {
		merged.Scopes = o.Auth.Scopes
		parts.Pending = append(parts.Pending, "auth.scopes")
	}
	return parts
}

// lastWays are the kinds of callers that a configuration lets in.
func lastWays(a *auth.Settings) []string {
	var out []string
	if len(a.Keys) > 0 {
		out = append(out, "auth.keys")
	}
	if len(a.JWT) > 0 {
		out = append(out, "auth.jwt")
	}
	if a.Introspection.Endpoint != "" {
		out = append(out, "auth.introspection")
	}
	return out
}

// mergeIssuers keeps the issuers that are in both, as they run.
func mergeIssuers(o, n []auth.Issuer) ([]auth.Issuer, Parts) {
	var parts Parts
	next := map[string]*auth.Issuer{}
	for i := range n {
		next[n[i].Issuer] = &n[i]
	}
	running := map[string]bool{}
	var merged []auth.Issuer
	for i := range o {
		running[o[i].Issuer] = true
		path := "auth.jwt." + o[i].Issuer
		switch now := next[o[i].Issuer]; {
		case now == nil:
			parts.Now = append(parts.Now, path)
			continue
		case !reflect.DeepEqual(o[i], *now):
			parts.Pending = append(parts.Pending, path)
		}
		merged = append(merged, o[i])
	}
	for _, issuer := range slices.Sorted(maps.Keys(next)) {
		if !running[issuer] {
			parts.Pending = append(parts.Pending, "auth.jwt."+issuer)
		}
	}
	return merged, parts
}

// mergeKeys is mergeIssuers for API keys.
func mergeKeys(o, n []auth.Key) ([]auth.Key, Parts) {
	var parts Parts
	byID := map[string]auth.Key{}
	for _, k := range n {
		byID[k.ID] = k
	}
	oldIDs := map[string]bool{}
	var keys []auth.Key
	for _, k := range o {
		oldIDs[k.ID] = true
		now, ok := byID[k.ID]
		switch {
		case !ok:
			parts.Now = append(parts.Now, "auth.keys."+k.ID)
			continue
		case !reflect.DeepEqual(k, now):
			parts.Pending = append(parts.Pending, "auth.keys."+k.ID)
		}
		keys = append(keys, k)
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		if !oldIDs[id] {
			parts.Pending = append(parts.Pending, "auth.keys."+id)
		}
	}
	return keys, parts
}
