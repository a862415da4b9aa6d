package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/upstream"
)

// change is one edit of a file and what an automatic reload makes of it.
func TestMerge(t *testing.T) {
	const base = `{ command: x, args: [a], env: { T: v } }`
	tests := map[string]struct {
		old, new string // of server a
		settings string // toolgate.servers.a of the new file
		now      []string
		pending  []string
		check    func(Server) bool
	}{
		"nothing":          {old: base, new: base},
		"command":          {old: base, new: `{ command: y, args: [a], env: { T: v } }`, pending: []string{"command"}, check: func(s Server) bool { return s.Command == "x" && s.Written.Command == "x" }},
		"args":             {old: base, new: `{ command: x, args: [b], env: { T: v } }`, pending: []string{"args"}, check: func(s Server) bool { return s.Args[0] == "a" }},
		"env":              {old: base, new: `{ command: x, args: [a], env: { T: w } }`, pending: []string{"env"}, check: func(s Server) bool { return s.Env["T"] == "v" }},
		"env removed":      {old: base, new: `{ command: x, args: [a] }`, pending: []string{"env"}, check: func(s Server) bool { return s.Env["T"] == "v" }},
		"cwd":              {old: base, new: `{ command: x, args: [a], env: { T: v }, cwd: /tmp }`, pending: []string{"cwd"}, check: func(s Server) bool { return s.Cwd == "" }},
		"env_inherit":      {old: base, new: base, settings: `env_inherit: [A]`, pending: []string{"env_inherit"}, check: func(s Server) bool { return s.EnvInherit == nil }},
		"url":              {old: `{ url: "https://x" }`, new: `{ url: "https://y" }`, pending: []string{"url"}, check: func(s Server) bool { return s.URL == "https://x" && s.Written.URL == "https://x" }},
		"headers":          {old: `{ url: "https://x" }`, new: `{ url: "https://x", headers: { A: b } }`, pending: []string{"headers"}, check: func(s Server) bool { return s.Headers == nil }},
		"transport":        {old: `{ url: "https://x" }`, new: `{ url: "https://x", type: sse }`, pending: []string{"transport"}, check: func(s Server) bool { return s.Transport == upstream.Auto }},
		"stdio to http":    {old: base, new: `{ url: "https://x" }`, pending: []string{"transport", "command", "args", "env", "url", "processes"}, check: func(s Server) bool { return s.Transport == upstream.Stdio && s.Command == "x" && s.URL == "" }},
		"shaping":          {old: base, new: base, settings: `tools: { t: { hidden: true } }`, pending: []string{"tools"}, check: func(s Server) bool { return !s.Tools["t"].Hidden }},
		"results":          {old: base, new: base, settings: `results: { redact: { tokens: true } }`, pending: []string{"results"}, check: func(s Server) bool { return !s.Results.Written() }},
		"settings":         {old: base, new: base, settings: `namespace: n, concurrency: 1, processes: 1, protocol: legacy, isolation: shared, plain_catalog: never, timeouts: { call: 1s }, client_requests: { elicitation: deny }`, now: []string{"namespace", "timeouts", "concurrency"}, pending: []string{"protocol", "isolation", "plain_catalog", "processes", "client_requests"}, check: func(s Server) bool { return s.Namespace == "n" && s.Concurrency == 1 }},
		"resilience":       {old: base, new: base, settings: `breaker: { failures: 3 }, retry: { trust_hints: true }`, now: []string{"breaker"}, pending: []string{"retry"}, check: func(s Server) bool { return s.Breaker.Failures == 3 && !s.Retry.TrustHints }},
		"both":             {old: base, new: `{ command: y, args: [a], env: { T: v }, disabledTools: [t] }`, pending: []string{"command", "exclude"}, check: func(s Server) bool { return s.Command == "x" && len(s.Exclude) == 0 }},
		"disabled":         {old: base, new: `{ command: y, disabled: true }`, now: []string{"disabled", "command", "args", "env"}, check: func(s Server) bool { return s.Disabled && s.Command == "y" }},
		"enabled":          {old: `{ command: x, disabled: true }`, new: `{ command: y }`, pending: []string{"start"}, check: func(s Server) bool { return s.Disabled && s.Command == "x" }},
		"changed disabled": {old: `{ command: x, disabled: true }`, new: `{ command: y, disabled: true }`, now: []string{"command"}, check: func(s Server) bool { return s.Disabled && s.Command == "y" }},
		"became refused":   {old: base, new: `{ command: "${UNSET}" }`, pending: []string{"refused"}, check: func(s Server) bool { return s.Refused == nil && s.Command == "x" }},
		"no more refused":  {old: `{ command: "${UNSET}" }`, new: base, pending: []string{"start"}, check: func(s Server) bool { return s.Refused != nil && s.Command == "" }},
		"refused anew":     {old: `{ command: "${UNSET}" }`, new: `{ command: "${OTHER}" }`, now: []string{"refused"}, check: func(s Server) bool { return s.Refused != nil }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			old := parse(t, "x.yaml", "mcpServers:\n  a: "+tt.old, Options{})
			new := parse(t, "x.yaml", "mcpServers:\n  a: "+tt.new+"\ntoolgate: { servers: { a: { "+tt.settings+" } } }", Options{})
			c := Diff(old, new)
			var parts Parts
			if len(c.Changed) == 1 {
				parts = c.Changed[0].Parts
			}
			if diff := cmp.Diff(tt.now, parts.Now); diff != "" {
				t.Errorf("at once:\n%s", diff)
			}
			if diff := cmp.Diff(tt.pending, parts.Pending); diff != "" {
				t.Errorf("pending:\n%s", diff)
			}
			merged, pending := Merge(old, new)
			if len(pending) != len(tt.pending) {
				t.Errorf("pending: %v", pending)
			}
			s, _ := merged.Server("a")
			if tt.check != nil && !tt.check(s) {
				t.Errorf("merged: %+v", s)
			}
			mayStart(t, old, merged)
			// What waits still waits at the next automatic reload, and is
			// gone when a person reloads.
			if again := Diff(merged, new); len(again.Pending()) != len(tt.pending) {
				t.Errorf("pending the next time: %v", again.Pending())
			}
			if after := Diff(new, new); !after.Empty() {
				t.Errorf("after a reload: %+v", after)
			}
		})
	}
}

// mayStart asserts the promise of an automatic reload: whatever runs after it
// ran before, with the same command line, environment and address.
func mayStart(t *testing.T, old, merged *Config) {
	t.Helper()
	for _, m := range merged.Servers {
		if !m.running() {
			continue
		}
		o, ok := old.Server(m.Key)
		if !ok || !o.running() {
			t.Errorf("server %q would be started", m.Key)
			continue
		}
		for _, p := range serverParts {
			if !same(p.value(o), p.value(m)) {
				t.Errorf("server %q would run with another %s", m.Key, p.name)
			}
		}
	}
}

func TestMergeServers(t *testing.T) {
	old := parse(t, "x.yaml", "mcpServers: { gone: { command: x }, stays: { command: y } }", Options{})
	new := parse(t, "x.yaml", "mcpServers: { stays: { command: y }, added: { command: z } }", Options{})
	c := Diff(old, new)
	if diff := cmp.Diff(Changes{Added: []string{"added"}, Removed: []string{"gone"}}, c); diff != "" {
		t.Error(diff)
	}
	merged, pending := Merge(old, new)
	if len(merged.Servers) != 1 || merged.Servers[0].Key != "stays" {
		t.Errorf("merged: %+v", merged.Servers)
	}
	if len(pending) != 1 || pending[0].String() != "server added: start" {
		t.Errorf("pending: %v", pending)
	}
	mayStart(t, old, merged)
}

func TestMergeSettings(t *testing.T) {
	const a = `{ id: a, subject: a, sha256: "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752" }`
	const a2 = `{ id: a, subject: root, sha256: "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752" }`
	const b = `{ id: b, subject: b, sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" }`
	tests := map[string]struct {
		old, new     string
		now, pending []string
		check        func(Toolgate) bool
	}{
		"limits":      {`limits: { tools: 1 }`, `limits: { tools: 2 }`, []string{"limits"}, nil, func(t Toolgate) bool { return t.Limits.Items == 2 }},
		"listen":      {`listen: { hosts: [] }`, `listen: { http: "0.0.0.0:1" }`, nil, []string{"listen"}, func(t Toolgate) bool { return t.Listen.HTTP == "127.0.0.1:7777" }},
		"store":       {``, `store: "sqlite:/tmp/x"`, nil, []string{"store"}, func(t Toolgate) bool { return t.Store == "sqlite:" }},
		"audit":       {``, `audit: { path: /tmp/x }`, nil, []string{"audit"}, func(t Toolgate) bool { return t.Audit.Path == "" }},
		"gate opened": {``, `gate: { open: true }`, nil, []string{"gate.open"}, func(t Toolgate) bool { return !t.Gate.Open }},
		"gate closed": {`gate: { open: true }`, ``, []string{"gate.open"}, nil, func(t Toolgate) bool { return !t.Gate.Open }},
		"key removed": {`auth: { keys: [` + a + `,` + b + `] }`, `auth: { keys: [` + b + `] }`, []string{"auth.keys.a"}, nil, func(t Toolgate) bool { return len(t.Auth.Keys) == 1 && t.Auth.Keys[0].ID == "b" }},
		"key added":   {`auth: { keys: [` + a + `] }`, `auth: { keys: [` + a + `,` + b + `] }`, nil, []string{"auth.keys.b"}, func(t Toolgate) bool { return len(t.Auth.Keys) == 1 }},
		"key changed": {`auth: { keys: [` + a + `] }`, `auth: { keys: [` + a2 + `] }`, nil, []string{"auth.keys.a"}, func(t Toolgate) bool { return t.Auth.Keys[0].Subject == "a" }},
		"role given": {
			`auth: { keys: [` + a + `] }`, `auth: { keys: [` + a + `], admins: [{ group: ops }] }`, nil,
			[]string{"auth.admins"},
			func(t Toolgate) bool { return len(t.Auth.Admins) == 0 },
		},
		"role taken": {
			`auth: { keys: [` + a + `], admins: [{ group: ops }, { subject: a }] }`, `auth: { keys: [` + a + `], admins: [{ subject: a }] }`,
			[]string{"auth.admins"},
			nil,
			func(t Toolgate) bool { return len(t.Auth.Admins) == 1 && t.Auth.Admins[0].Subject == "a" },
		},
		"role passed on": {
			`auth: { keys: [` + a + `], admins: [{ group: ops }] }`, `auth: { keys: [` + a + `], admins: [{ group: dev }] }`,
			[]string{"auth.admins"},
			[]string{"auth.admins"},
			func(t Toolgate) bool { return len(t.Auth.Admins) == 0 },
		},
		"last key gone": {`auth: { keys: [` + a + `] }, audit: { mode: required }`, `audit: { mode: required }`, nil, []string{"auth.keys"}, func(t Toolgate) bool { return len(t.Auth.Keys) == 1 }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			old := parse(t, "x.yaml", "toolgate: { "+tt.old+" }", Options{})
			new := parse(t, "x.yaml", "toolgate: { "+tt.new+" }", Options{})
			c := Diff(old, new)
			if diff := cmp.Diff(Parts{Now: tt.now, Pending: tt.pending}, c.Settings); diff != "" {
				t.Error(diff)
			}
			merged, pending := Merge(old, new)
			if !tt.check(merged.Toolgate) || len(pending) != len(tt.pending) {
				t.Errorf("merged %+v, pending %v", merged.Toolgate, pending)
			}
		})
	}
}

// Empty reports whether nothing differs.
func (c Changes) Empty() bool {
	return len(c.Added)+len(c.Removed)+len(c.Changed)+len(c.Settings.Now)+len(c.Settings.Pending) == 0
}
