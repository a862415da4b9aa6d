package opa_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/opa"
)

// The policy of a centralized registry decides as its document says, for each tenant and
// persona of its data, whatever the gateway's catalog has besides.
func TestCentralizedPolicy(t *testing.T) {
	t.Parallel()
	names := []string{"memory_load", "memory_save", "code_execute", "http_fetch", "dangerous_tool", "another"}
	catalog := map[string]opa.Tool{}
	for _, name := range names {
		catalog[name] = opa.Tool{Enabled: true, Attributes: map[string]any{"kind": "tool"}}
	}
	p := newPhase(t, opa.Options{Settings: opa.Settings{
		Path: filepath.Join("..", "..", "examples", "sources-001", "policies"), Decision: "data.soma.policy.allow",
	}})
	for range 2 {
		if err := p.SetData(opa.Data{ToolCatalog: catalog, Tools: catalog}); err != nil {
			t.Fatal(err)
		}
		catalog["another"] = opa.Tool{}
	}
	off := func(tenant, name string) bool {
		return name == "another" || tenant == "tenant-1" && name == "code_execute"
	}
	kept := func(persona, name string) bool {
		return persona == "persona-restricted" && slices.Contains([]string{"code_execute", "http_fetch"}, name)
	}
	for _, tenant := range []string{"tenant-1", "tenant-sandbox", "tenant-2"} {
		for _, persona := range []string{"", "persona-restricted", "persona-admin", "persona-user", "persona-other"} {
			for _, name := range names {
				want := map[gate.Action]bool{
					gate.View:   !off(tenant, name) && !kept(persona, name),
					gate.Call:   !off(tenant, name) && !kept(persona, name) && (tenant != "tenant-sandbox" || name != "code_execute"),
					gate.Enable: persona != "persona-user" && name != "dangerous_tool",
				}
				for action, allow := range want {
					r := call(name, "{}")
					r.Action = action
					r.Identity = gate.NewIdentity(gate.Identity{Principal: gate.Principal{Tenant: tenant, Subject: "someone"}, Persona: persona})
					d, err := p.Check(t.Context(), r)
					if got := d.Effect == gate.Allow; err != nil || got != allow {
						t.Errorf("%s of %s: %s %s: allowed %v, want %v (%v)", fmt.Sprintf("%q", persona), tenant, action, name, got, allow, err)
					}
				}
			}
		}
	}
}

// The policy of roles, in the language before OPA 1.0, decides as its document says.
func TestPolicyOfRoles(t *testing.T) {
	t.Parallel()
	p := newPhase(t, opa.Options{Settings: opa.Settings{
		Path: filepath.Join("..", "..", "examples", "sources-000", "policies"), Decision: "data.soma.tools.allow", RegoVersion: opa.V0,
		Actions: map[string]string{"tool.view": "execute", "tool.request": "execute"},
	}})
	if err := p.SetData(opa.Data{Tools: map[string]opa.Tool{"search": {Enabled: true}, "off": {}}}); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"user-1", "user-2", "user-3", "user-4"} {
		for _, name := range []string{"search", "off", "unknown"} {
			for _, action := range []gate.Action{gate.View, gate.Call, gate.Enable} {
				r := call(name, "{}")
				r.Action = action
				r.Identity = gate.NewIdentity(gate.Identity{Principal: gate.Principal{Tenant: "tenant-1", Subject: user}})
				want := (user == "user-1" || user == "user-2") && name == "search" && action != gate.Enable
				d, err := p.Check(t.Context(), r)
				if got := d.Effect == gate.Allow; err != nil || got != want {
					t.Errorf("%s: %s %s: allowed %v, want %v (%v)", user, action, name, got, want, err)
				}
			}
		}
	}
}
