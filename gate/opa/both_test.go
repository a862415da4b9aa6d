package opa_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/opa"
)

// Of what the policy's own files and the gateway both say, the stricter counts. The rule
// asks for one thing each, and allows where it is allowed.
func TestDataOfFilesAndGateway(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		rule    string
		own     string
		gateway opa.Data
		want    bool
	}{
		"in the catalog of both": {
			`data.tool_catalog.a.enabled`, `{"tool_catalog": {"a": {"enabled": true}}}`,
			opa.Data{ToolCatalog: map[string]opa.Tool{"a": {Enabled: true}}},
			true,
		},
		"off in the gateway's catalog": {
			`data.tool_catalog.a.enabled`, `{"tool_catalog": {"a": {"enabled": true}}}`,
			opa.Data{ToolCatalog: map[string]opa.Tool{"a": {}}},
			false,
		},
		"off in the file's catalog": {
			`data.tool_catalog.a.enabled`, `{"tool_catalog": {"a": {"enabled": false}}}`,
			opa.Data{ToolCatalog: map[string]opa.Tool{"a": {Enabled: true}}},
			false,
		},
		"in the gateway's catalog alone": {
			`data.tool_catalog.b.enabled`, `{"tool_catalog": {"a": {"enabled": true}}}`,
			opa.Data{ToolCatalog: map[string]opa.Tool{"b": {Enabled: true}}},
			true,
		},
		"in the file's catalog alone": {
			`data.tool_catalog.a.enabled`, `{"tool_catalog": {"a": {"enabled": true}}}`,
			opa.Data{ToolCatalog: map[string]opa.Tool{"b": {Enabled: true}}},
			true,
		},
		"a member of the file": {
			`data.tools.a.risk == "low"`, `{"tools": {"a": {"enabled": true, "risk": "low"}}}`,
			opa.Data{Tools: map[string]opa.Tool{"a": {Enabled: true, Attributes: map[string]any{"risk": "high"}}}},
			true,
		},
		"a member of the gateway": {
			`data.tools.a.kind == "tool"`, `{"tools": {"a": {"enabled": true, "risk": "low"}}}`,
			opa.Data{Tools: map[string]opa.Tool{"a": {Enabled: true, Attributes: map[string]any{"kind": "tool"}}}},
			true,
		},
		"a flag that the gateway has off": {
			`data.tenant_tool_flags.acme.a.enabled`, `{"tenant_tool_flags": {"acme": {"a": {"enabled": true}}}}`,
			opa.Data{TenantToolFlags: map[string]map[string]opa.Flag{"acme": {"a": {}}}},
			false,
		},
		"a flag of another tenant": {
			`data.tenant_tool_flags.acme.a.enabled`, `{"tenant_tool_flags": {"acme": {"a": {"enabled": true}}}}`,
			opa.Data{TenantToolFlags: map[string]map[string]opa.Flag{"globex": {"a": {}}}},
			true,
		},
		"denied to a persona by the file": {
			`not "a" in data.persona_tool_deny.bot`, `{"persona_tool_deny": {"bot": ["a"]}}`,
			opa.Data{PersonaToolDeny: map[string][]string{"bot": {"b"}}},
			false,
		},
		"denied to a persona by the gateway": {
			`not "b" in data.persona_tool_deny.bot`, `{"persona_tool_deny": {"bot": ["a"]}}`,
			opa.Data{PersonaToolDeny: map[string][]string{"bot": {"b"}}},
			false,
		},
		"denied by either": {
			`count(data.global_tool_deny) == 2`, `{"global_tool_deny": ["a"]}`,
			opa.Data{GlobalToolDeny: []string{"b"}},
			true,
		},
		"a persona that the gateway keeps from adding": {
			`data.persona_permissions.bot.can_add_tools`, `{"persona_permissions": {"bot": {"can_add_tools": true}}}`,
			opa.Data{PersonaPermissions: map[string]opa.Permissions{"bot": {}}},
			false,
		},
		"a tool that has the name of a switch": {
			`data.tool_catalog.enabled.enabled`, `{"tool_catalog": {"enabled": {"enabled": true}}}`,
			opa.Data{ToolCatalog: map[string]opa.Tool{"enabled": {}}},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPhase(t, opa.Options{Settings: opa.Settings{Path: folder(t, files{
				"policy.rego": "package toolgate\n\ndefault decision := false\n\ndecision if " + tt.rule + "\n",
				"data.json":   tt.own,
			})}})
			for range 2 { // at a change of the catalog, and at the next one
				if err := p.SetData(tt.gateway); err != nil {
					t.Fatal(err)
				}
				if err := p.SetData(opa.Data{}); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.SetData(tt.gateway); err != nil {
				t.Fatal(err)
			}
			if got := decide(t, p, view("a")).Effect == gate.Allow; got != tt.want {
				t.Errorf("allowed %v, want %v", got, tt.want)
			}
		})
	}
}

// What has to change is said to be in the file where the file says it, and to be the
// gateway's where the gateway does.
func TestChangeOfDataOfBoth(t *testing.T) {
	t.Parallel()
	p := newPhase(t, opa.Options{Settings: opa.Settings{Path: folder(t, files{
		"policy.rego": "package toolgate\n\ndefault decision := false\n\ndecision if data.tool_catalog[input.resource].enabled\n",
		"data.json":   `{"tool_catalog": {"a": {"enabled": false}, "b": {"enabled": true}}}`,
	})}})
	if err := p.SetData(opa.Data{ToolCatalog: map[string]opa.Tool{"a": {Enabled: true}, "b": {}}}); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, name := range []string{"a", "b"} {
		e, err := p.Explain(t.Context(), view(name))
		if err != nil || e.Change == nil || e.Change.Where != "tool_catalog" {
			t.Fatalf("%s: %+v, %v", name, e, err)
		}
		got[name] = strings.Contains(e.Change.Text, "data.json")
	}
	if diff := cmp.Diff(map[string]bool{"a": true, "b": false}, got); diff != "" {
		t.Errorf("in the file (-want +got):\n%s", diff)
	}
}
