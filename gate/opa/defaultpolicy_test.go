package opa_test

import (
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/opa"
)

const catalogJSON = `"tool_catalog": {"fs__read": {"enabled": true, "category": "files"}, "fs__write": {"enabled": false}}`

// Every rule of the policy that we ship sees data in the shapes that the
// gateway's users write, and data in another shape are not loaded: they would
// be a rule that denies nothing.
func TestDefaultPolicy(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		data   string // besides the catalog
		ask    *gate.Request
		reason string // empty for an allow
		wrong  []string
	}{
		{
			name: "allow", data: `"tools": {"fs__read": {"enabled": true}}`, ask: call("fs__read", `{"path": "/tmp"}`),
			wrong: []string{`"tools": ["fs__read"]`, `"tools": {"fs__read": true}`, `"tools": {"fs__read": {"enabled": "yes"}}`, `"tools": {"fs__read": {"enable": true}}`},
		},
		{
			name: "default deny", data: `"global_tool_deny": []`, ask: call("fs__delete", `{}`), reason: "tool_not_in_catalog",
			wrong: []string{`"global_tool_deny": {}`, `"global_tool_deny": null`},
		},
		{
			name: "catalog", data: `"tenant_tool_flags": {}`, ask: call("fs__write", `{}`), reason: "tool_disabled",
			wrong: []string{`"tenant_tool_flags": []`},
		},
		{
			name: "tenant flag off", data: `"tenant_tool_flags": {"acme": {"fs__read": {"enabled": false}}}`,
			ask: call("fs__read", `{}`), reason: "tool_disabled_for_tenant",
			wrong: []string{
				`"tenant_tool_flags": {"acme": {"fs__read": false}}`, `"tenant_tool_flags": {"acme": ["fs__read"]}`,
				`"tenant_tool_flags": {"acme": {"fs__read": {"enabled": 0}}}`, `"tenant_tool_flags": {"acme": {"fs__read": {}}}`,
				`"tenant_tool_flags": {"": {"fs__read": {"enabled": false}}}`,
			},
		},
		{
			name: "tenant flag beats the catalog", data: `"tenant_tool_flags": {"acme": {"fs__write": {"enabled": true}}}`,
			ask: call("fs__write", `{}`),
		},
		{
			name: "persona", data: `"persona_tool_deny": {"bot": ["fs__read"]}`, ask: view("fs__read"), reason: "persona_denied",
			wrong: []string{
				`"persona_tool_deny": {"bot": "fs__read"}`, `"persona_tool_deny": {"bot": {"fs__read": true}}`,
				`"persona_tool_deny": ["fs__read"]`, `"persona_tool_deny": {"bot": [7]}`,
			},
		},
		{
			name: "global", data: `"global_tool_deny": ["fs__read"]`, ask: view("fs__read"), reason: "tool_globally_denied",
			wrong: []string{`"global_tool_deny": "fs__read"`, `"global_tool_deny": {"fs__read": true}`, `"global_tool_deny": [["fs__read"]]`, `"global_tool_deny": [""]`},
		},
		{
			name: "restricted arguments", data: `"tenant_restricted_args": {"acme": {"fs__read": {"path": ["/etc"]}}}`,
			ask: call("fs__read", `{"path": "/etc"}`), reason: "restricted_arg:path",
			wrong: []string{
				`"tenant_restricted_args": {"acme": {"fs__read": {"path": "/etc"}}}`, `"tenant_restricted_args": {"acme": {"fs__read": ["path"]}}`,
				`"tenant_restricted_args": {"fs__read": {"path": ["/etc"]}}`,
			},
		},
		{
			name: "can add tools", data: `"persona_permissions": {"bot": {"can_add_tools": false}}`, ask: enable("new"), reason: "persona_cannot_add_tools",
			wrong: []string{
				`"persona_permissions": {"bot": ["can_add_tools"]}`, `"persona_permissions": {"bot": {"can_add_tools": "no"}}`, `"persona_permissions": {"bot": true}`,
			},
		},
		{name: "may add tools", data: `"persona_permissions": {"bot": {"can_add_tools": true}}`, ask: enable("new")},
	}
	text := read(t, defaultPolicy+"/default.rego")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for from, p := range map[string]func(data string) (*opa.Phase, error){
				"gateway": func(data string) (*opa.Phase, error) {
					d, err := opa.ParseData([]byte(data))
					if err != nil {
						return nil, err
					}
					return opa.New(t.Context(), opa.Options{Settings: opa.Settings{Path: defaultPolicy}, Data: d, Timeout: 20 * time.Second})
				},
				"file": func(data string) (*opa.Phase, error) {
					return opa.New(t.Context(), opa.Options{Settings: opa.Settings{Path: folder(t, files{"default.rego": text, "data.json": data})}, Timeout: 20 * time.Second})
				},
			} {
				phase, err := p("{" + catalogJSON + "," + tt.data + "}")
				if err != nil {
					t.Fatalf("%s: %v", from, err)
				}
				d := decide(t, phase, tt.ask)
				if tt.reason == "" {
					wantAllow(t, d)
				} else {
					wantDeny(t, d, tt.reason)
				}
				for _, wrong := range tt.wrong {
					_, err := p("{" + catalogJSON + "," + wrong + "}")
					key := wrong[1 : 1+strings.IndexByte(wrong[1:], '"')]
					if err == nil || !strings.Contains(err.Error(), key) || from == "file" && !strings.Contains(err.Error(), "data.json: "+key) {
						t.Errorf("%s: %s: error %v", from, wrong, err)
					}
				}
			}
		})
	}
}

func TestDefaultPolicyItsOwnTests(t *testing.T) {
	t.Parallel()
	results, err := opa.RunTests(t.Context(), defaultPolicy, opa.V1)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if !r.Pass {
			t.Errorf("%s:%d: %s failed: %v\n%s", r.File, r.Line, r.Name, r.Err, r.Output)
		}
	}
	if len(results) < 15 {
		t.Errorf("%d tests", len(results))
	}
	if problems := opa.Check(opa.V1, defaultPolicy); problems != nil {
		t.Errorf("problems %+v", problems)
	}
}

func TestParseDataRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, data := range []string{
		`{"global_tool_denied": []}`, `[]`, `{`, ``, `{"tools": {}, "tools": {}}`, `{"tool_catalog": {"a": {"enabled": true, "enabled": false}}}`, `{} {}`,
	} {
		if d, err := opa.ParseData([]byte(data)); err == nil {
			t.Errorf("%s: %+v", data, d)
		}
	}
}
