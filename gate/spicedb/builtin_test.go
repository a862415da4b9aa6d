package spicedb_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/spicedb"
	"github.com/toolgate/toolgate/gate/spicedb/spicedbtest"
	"github.com/toolgate/toolgate/internal/mcp"
)

// at makes entries that stand in the lines of a file.
func at(line int, texts ...string) []spicedb.Entry {
	all := spicedb.Entries(texts...)
	for i := range all {
		all[i].File, all[i].Line = "toolgate.yaml", line+i
	}
	return all
}

func team(t *testing.T) spicedb.Config {
	t.Helper()
	return spicedb.Config{
		Teams: map[string]spicedb.Team{
			"dev": {Members: at(10, "user:alice@example.com", "team:ops")},
			"ops": {Members: at(20, "user:bob")},
		},
		Tenants: map[string]spicedb.Tenant{"acme": {Admins: at(30, "user:root"), Members: at(31, "team:ops")}},
		Servers: map[string]spicedb.Server{
			"gh":    {Tenant: "acme", Executors: at(40, "team:dev")},
			"files": {Executors: at(41, "tenant:acme")},
		},
		Tools: map[string]spicedb.Object{
			"drop.all": {Owners: at(50, "user:olga"), Banned: at(51, "user:bob")},
		},
		Prompts:   map[string]spicedb.Object{"review": {Executors: at(60, "user:mia")}},
		Resources: map[string]spicedb.Object{"web": {Executors: at(70, "team:ops")}},
	}
}

func TestBuiltinConfig(t *testing.T) {
	p, err := spicedb.NewBuiltin(spicedb.Mapping{}, team(t))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		kind             mcp.Kind
		server, name, by string
		want             gate.Effect
	}{
		{mcp.Tool, "gh", "search", "alice@example.com", gate.Allow},
		{mcp.Tool, "gh", "search", "bob", gate.Allow},
		{mcp.Tool, "gh", "search", "root", gate.Allow},
		{mcp.Tool, "gh", "search", "mia", gate.Deny},
		{mcp.Tool, "gh", "drop.all", "bob", gate.Deny},
		{mcp.Tool, "gh", "drop.all", "olga", gate.Allow},
		{mcp.Tool, "files", "read", "bob", gate.Allow},
		{mcp.Tool, "files", "read", "alice@example.com", gate.Deny},
		{mcp.Tool, "files", "read", "root", gate.Deny},
		{mcp.Prompt, "web", "review", "mia", gate.Allow},
		{mcp.Prompt, "web", "review", "bob", gate.Deny},
		{mcp.Resource, "web", "https://x", "bob", gate.Allow},
		{mcp.Template, "gh", "https://{x}", "bob", gate.Allow},
		{mcp.Resource, "web", "https://x", "mia", gate.Deny},
	}
	for _, tt := range tests {
		r := spicedbtest.Tool(tt.name, tt.by)
		r.Kind, r.Server = tt.kind, tt.server
		d, err := p.Check(t.Context(), &r)
		if err != nil || d.Effect != tt.want {
			t.Errorf("%s %s of %s by %s: %v, %v", tt.kind, tt.name, tt.server, tt.by, d.Effect, err)
		}
	}
}

func TestBuiltinRulesHaveTheirPlace(t *testing.T) {
	p, err := spicedb.NewBuiltin(spicedb.Mapping{}, team(t))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, by string
		want     []string
	}{
		{"search", "bob", []string{
			"toolgate.yaml:40: server:gh#executor@team:dev#member",
			"toolgate.yaml:11: team:dev#member@team:ops#member",
			"toolgate.yaml:20: team:ops#member@user:bob",
		}},
		{"search", "root", []string{"server:gh#tenant@tenant:acme", "toolgate.yaml:30: tenant:acme#admin@user:root"}},
		{"drop.all", "bob", []string{"toolgate.yaml:51: tool:drop=2Eall#banned@user:bob"}},
		{"search", "mia", nil},
	}
	for _, tt := range tests {
		e, err := p.Explain(t.Context(), new(spicedbtest.Tool(tt.name, tt.by)))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, rule := range e.Rules {
			got = append(got, rule.String())
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s by %s (-want +got):\n%s", tt.name, tt.by, diff)
		}
		if (e.Effect == gate.Deny) != (e.Change != nil) {
			t.Errorf("%s by %s: %v with the change %v", tt.name, tt.by, e.Effect, e.Change)
		}
	}
}

func TestBuiltinRefuses(t *testing.T) {
	one := func(relation string) spicedb.Config { return spicedb.Config{Relations: at(7, relation)} }
	tests := []struct {
		name string
		c    spicedb.Config
		want string
	}{
		{"not a relationship", one("tool:x"), "toolgate.yaml:7: \"tool:x\" is not a relationship"},
		{"unknown type", one("gadget:x#executor@user:alice"), "gadget has no relation executor"},
		{"unknown relation", one("tool:x#user@user:alice"), "tool has no relation user"},
		{"unknown subject", one("tool:x#executor@robot:r"), "does not take a robot"},
		{"a team as owner", spicedb.Config{
			Teams: map[string]spicedb.Team{"dev": {}},
			Tools: map[string]spicedb.Object{"x": {Owners: at(3, "team:dev")}},
		}, "toolgate.yaml:3: tool#owner does not take a team#member"},
		{"no such team", spicedb.Config{Servers: map[string]spicedb.Server{"gh": {Executors: at(4, "team:dve")}}}, "toolgate.yaml:4: there is no team dve"},
		{"no such tenant", spicedb.Config{Servers: map[string]spicedb.Server{"gh": {Tenant: "amce"}}}, "there is no tenant amce"},
		{"a bare name", spicedb.Config{Servers: map[string]spicedb.Server{"gh": {Executors: at(4, "alice")}}}, "\"alice\" is not an object"},
		{"no name", spicedb.Config{Tools: map[string]spicedb.Object{"": {}}}, "a tool has no name"},
	}
	good := team(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := spicedb.NewBuiltin(spicedb.Mapping{}, good)
			if err != nil {
				t.Fatal(err)
			}
			err = p.Replace(tt.c)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
			if d, err := p.Check(t.Context(), new(spicedbtest.Tool("search", "bob"))); err != nil || d.Effect != gate.Allow {
				t.Errorf("the configuration before is not in force: %v, %v", d, err)
			}
		})
	}
}

// Ids may be written as people write them, or as they are.
func TestBuiltinIDs(t *testing.T) {
	for _, text := range []string{"tool:a.b#executor@user:alice@example.com", "tool:a=2Eb#executor@user:alice=40example=2Ecom"} {
		p, err := spicedb.NewBuiltin(spicedb.Mapping{}, spicedb.Config{Relations: spicedb.Entries(text)})
		if err != nil {
			t.Fatal(err)
		}
		if d, err := p.Check(t.Context(), new(spicedbtest.Tool("a.b", "alice@example.com"))); err != nil || d.Effect != gate.Allow {
			t.Errorf("%s: %v, %v", text, d.Effect, err)
		}
		if d, err := p.Check(t.Context(), new(spicedbtest.Tool("a=2Eb", "alice@example.com"))); err != nil || d.Effect != gate.Deny {
			t.Errorf("%s allows another tool: %v, %v", text, d.Effect, err)
		}
	}
}

func TestBuiltinReplaceUnderLoad(t *testing.T) {
	p, err := spicedb.NewBuiltin(spicedb.Mapping{}, team(t))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 500 {
				if d, err := p.Check(t.Context(), new(spicedbtest.Tool("search", "bob"))); err != nil || d.Effect != gate.Allow {
					t.Error(d, err)
					return
				}
			}
		})
	}
	for range 50 {
		if err := p.Replace(team(t)); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
}

func TestBuiltinViewClass(t *testing.T) {
	t.Parallel()
	config := team(t)
	p, err := spicedb.NewBuiltin(spicedb.Mapping{}, config)
	if err != nil {
		t.Fatal(err)
	}
	class := func(tenant, subject, persona string) string {
		class, cacheable := p.ViewClass(gate.NewIdentity(gate.Identity{Principal: gate.Principal{Tenant: tenant, Subject: subject}, Persona: persona}))
		if !cacheable {
			t.Errorf("decisions for %s are not cacheable", subject)
		}
		return class
	}
	alice := class("acme", "alice", "")
	if class("acme", "alice", "bot") != alice {
		t.Error("a persona, which no relationship is about, makes another class")
	}
	if class("acme", "bob", "") == alice || class("other", "alice", "") == alice {
		t.Error("different callers are in one class")
	}
	snapshot := p.Snapshot(nil)
	if p.Snapshot(nil) != snapshot || snapshot == nil {
		t.Error("the same relationships have two snapshots")
	}
	delete(config.Prompts, "review")
	if err := p.Replace(config); err != nil {
		t.Fatal(err)
	}
	if p.Snapshot(nil) == snapshot || (&spicedb.Builtin{}).Snapshot(nil) != nil {
		t.Error("other relationships leave the snapshot as it was, or none have one")
	}
	if class("acme", "alice", "") == alice {
		t.Error("other relationships leave the class as it was")
	}
	if none, _ := (&spicedb.Builtin{}).ViewClass(gate.NewIdentity(gate.Identity{})); none == class("default", "", "") {
		t.Error("a phase that denies everything is of a class with one that does not")
	}
}
