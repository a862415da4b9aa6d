package opa_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/opa"
)

// wantRules checks that each rule stands where the explanation says.
func wantRules(t *testing.T, rules []gate.Rule) {
	t.Helper()
	for _, r := range rules {
		lines := strings.Split(read(t, r.File), "\n")
		if r.Line < 1 || r.Line > len(lines) || r.Text == "" || !strings.Contains(lines[r.Line-1], r.Text) {
			t.Errorf("%v does not stand there", r)
		}
	}
}

// Each deny of the policy that we ship is explained by the rule that decided
// and by a change that, made, turns it.
func TestExplainDefaultPolicy(t *testing.T) {
	t.Parallel()
	on, off := map[string]opa.Tool{"a": {Enabled: true}}, map[string]opa.Tool{"a": {}}
	flag := func(on bool) map[string]map[string]opa.Flag {
		return map[string]map[string]opa.Flag{"acme": {"a": {Enabled: on}}}
	}
	restricted := map[string]map[string]map[string][]any{"acme": {"a": {"p": {"x", 7, "y"}, "q": {true}}}}
	tests := []struct {
		name   string
		data   opa.Data
		ask    *gate.Request
		line   string // of the deciding rule
		change gate.Change
	}{
		{
			"global deny",
			opa.Data{ToolCatalog: on, GlobalToolDeny: []string{"b", "a"}},
			view("a"), `else := "tool_globally_denied"`,
			gate.Change{Where: "global_tool_deny", Value: `{"remove":["a"]}`},
		},
		{
			"persona",
			opa.Data{ToolCatalog: on, PersonaToolDeny: map[string][]string{"bot": {"a"}, "x": {"a"}}},
			view("a"), `else := "persona_denied"`,
			gate.Change{Where: "persona_tool_deny", Value: `{"remove":{"bot":["a"]}}`},
		},
		{
			"tenant flag",
			opa.Data{ToolCatalog: on, TenantToolFlags: flag(false)},
			view("a"), `else := "tool_disabled_for_tenant"`,
			gate.Change{Where: "tenant_tool_flags", Value: `{"set":{"acme":{"a":{"enabled":true}}}}`},
		},
		{
			"not in the catalog",
			opa.Data{ToolCatalog: on},
			view("b"), `else := "tool_not_in_catalog"`,
			gate.Change{Where: "tool_catalog", Value: `{"set":{"b":{"enabled":true}}}`},
		},
		{
			"disabled",
			opa.Data{ToolCatalog: off},
			call("a", `{}`), `else := "tool_disabled"`,
			gate.Change{Where: "tool_catalog", Value: `{"set":{"a":{"enabled":true}}}`},
		},
		{
			"restricted",
			opa.Data{ToolCatalog: on, TenantRestrictedArgs: restricted},
			call("a", `{"p": ["z", 7.0, "x"], "q": true}`), `else := sprintf("restricted_arg:%s"`,
			gate.Change{Where: "tenant_restricted_args", Value: `{"remove":{"acme":{"a":{"p":["x",7],"q":[true]}}}}`},
		},
		{
			"restricted and too long",
			opa.Data{ToolCatalog: on, TenantRestrictedArgs: restricted},
			call("a", `{"p": "`+strings.Repeat("b", 300_000)+`"}`),
			`else := sprintf("restricted_arg:%s"`,
			gate.Change{Where: "tenant_restricted_args", Value: `{"remove":{"acme":{"a":{"p":["x",7,"y"]}}}}`},
		},
		{
			"may not add tools",
			opa.Data{},
			enable("n"), `else := "persona_cannot_add_tools"`,
			gate.Change{Where: "persona_permissions", Value: `{"set":{"bot":{"can_add_tools":true}}}`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPhase(t, opa.Options{Settings: opa.Settings{Path: defaultPolicy}, Data: tt.data})
			e, err := p.Explain(t.Context(), tt.ask)
			if err != nil || e.Effect != gate.Deny || e.Change == nil || e.Question != "" || e.ID == "" || e.Revision == "" {
				t.Fatalf("explanation %+v, error %v", e, err)
			}
			if d := decide(t, p, tt.ask); d.Effect != e.Effect || d.Reason != e.Reason {
				t.Errorf("explanation %+v of the decision %+v", e, d)
			}
			wantRules(t, e.Rules)
			if !strings.HasPrefix(e.Rules[0].Text, tt.line) {
				t.Errorf("rules %v, want %s first", e.Rules, tt.line)
			}
			if e.Change.Where != tt.change.Where || e.Change.Value != tt.change.Value || e.Change.Text == "" {
				t.Errorf("change %+v, want %+v", *e.Change, tt.change)
			}
			next, err := tt.data.Apply(*e.Change)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.SetData(next); err != nil {
				t.Fatal(err)
			}
			e, err = p.Explain(t.Context(), tt.ask)
			if err != nil || e.Effect != gate.Allow || e.Change != nil || len(e.Rules) == 0 {
				t.Errorf("with the change: %+v, error %v", e, err)
			}
			wantRules(t, e.Rules)
		})
	}
}

// Whatever the data and the request, the changes of a few explanations lead to
// an allow, each explanation agrees with the decision, and an explanation
// changes nothing.
func TestChangesLeadToAnAllow(t *testing.T) {
	t.Parallel()
	p := newPhase(t, opa.Options{Settings: opa.Settings{Path: defaultPolicy}})
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	named := map[string]int{}
	for i := 0; i < 60 || len(named) < 6 && i < 1000; i++ {
		data, r := randomData(rng), randomRequest(rng)
		for step := 0; ; step++ {
			if err := p.SetData(data); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			before := decide(t, p, r)
			e, err := p.Explain(t.Context(), r)
			after := decide(t, p, r)
			if err != nil || e.Effect != before.Effect || e.Reason != before.Reason || after.Effect != before.Effect || after.Reason != before.Reason {
				t.Fatalf("seed %d: explanation %+v (error %v) between the decisions %+v and %+v", seed, e, err, before, after)
			}
			if e.Effect == gate.Allow {
				break
			}
			if e.Change == nil || step == 6 {
				t.Fatalf("seed %d: step %d: %+v of %+v with %+v", seed, step, e, r, data)
			}
			named[e.Change.Where]++
			if data, err = data.Apply(*e.Change); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
	}
	for _, where := range []string{"tool_catalog", "tenant_tool_flags", "persona_tool_deny", "global_tool_deny", "tenant_restricted_args", "persona_permissions"} {
		if named[where] == 0 {
			t.Errorf("seed %d: no change of %s was named: %v", seed, where, named)
		}
	}
}

func pick(rng *rand.Rand, from ...string) string { return from[rng.IntN(len(from))] }

func randomRequest(rng *rand.Rand) *gate.Request {
	args := map[string]any{}
	for range rng.IntN(4) {
		args[pick(rng, "p", "q", "a/b")] = randomValue(rng)
	}
	raw, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	r := call(pick(rng, "a", "b", "c"), string(raw))
	switch rng.IntN(4) {
	case 0:
		r = view(r.Exposed)
	case 1:
		r = enable(r.Exposed)
	}
	id := *r.Identity
	id.Tenant, id.Persona = pick(rng, "acme", "other"), pick(rng, "bot", "x")
	r.Identity = gate.NewIdentity(id)
	return r
}

func randomValue(rng *rand.Rand) any {
	switch rng.IntN(5) {
	case 0:
		return []any{pick(rng, "x", "y"), rng.IntN(3)}
	case 1:
		return rng.IntN(3)
	case 2:
		return rng.IntN(2) == 0
	case 3:
		return map[string]any{"in": pick(rng, "x", "y")}
	}
	return pick(rng, "x", "y", "z")
}

func randomData(rng *rand.Rand) opa.Data {
	d := opa.Data{
		ToolCatalog: map[string]opa.Tool{}, TenantToolFlags: map[string]map[string]opa.Flag{}, PersonaToolDeny: map[string][]string{},
		PersonaPermissions: map[string]opa.Permissions{}, TenantRestrictedArgs: map[string]map[string]map[string][]any{},
	}
	for _, name := range []string{"a", "b", "c"} {
		switch rng.IntN(3) {
		case 0:
			d.ToolCatalog[name] = opa.Tool{Enabled: true, Attributes: map[string]any{"kind": "tool"}}
		case 1:
			d.ToolCatalog[name] = opa.Tool{}
		}
		if rng.IntN(4) == 0 {
			d.GlobalToolDeny = append(d.GlobalToolDeny, name, "other")
		}
	}
	for _, tenant := range []string{"acme", "other"} {
		d.TenantToolFlags[tenant], d.TenantRestrictedArgs[tenant] = map[string]opa.Flag{}, map[string]map[string][]any{}
		for _, name := range []string{"a", "b", "c"} {
			if rng.IntN(2) == 0 {
				d.TenantToolFlags[tenant][name] = opa.Flag{Enabled: rng.IntN(2) == 0}
			}
			banned := map[string][]any{}
			for range rng.IntN(4) {
				arg := pick(rng, "p", "q", "a/b")
				banned[arg] = append(banned[arg], randomValue(rng))
			}
			d.TenantRestrictedArgs[tenant][name] = banned
		}
	}
	for _, persona := range []string{"bot", "x"} {
		if rng.IntN(2) == 0 {
			d.PersonaToolDeny[persona] = []string{pick(rng, "a", "b"), pick(rng, "b", "c")}
		}
		if rng.IntN(2) == 0 {
			d.PersonaPermissions[persona] = opa.Permissions{CanAddTools: rng.IntN(2) == 0}
		}
	}
	return d
}

// Of a policy of another's making the change is only named where it helps, and
// otherwise the rule that would have to allow.
func TestExplainOtherPolicies(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, rego string
		rule       string // text of the first rule
		where      string
	}{
		{
			"default", "default decision := false\ndecision if input.tool_name == \"other\"",
			"default decision := false", "policy",
		},
		{
			"the default policy's word for something else", "default decision := {\"allow\": false, \"reason\": \"tool_globally_denied\"}",
			`default decision := {"allow": false`, "policy",
		},
		{
			"the other name of the catalog", "default decision := {\"allow\": false, \"reason\": \"no\"}\ndecision := {\"allow\": true} if data.tools[input.resource].enabled",
			`default decision :=`, "tools",
		},
		{
			"a flag without a catalog", "default decision := false\ndecision if data.tenant_tool_flags[input.context.tenant_id][input.resource].enabled",
			"default decision := false", "tenant_tool_flags",
		},
		{
			"a reason of a helper", "decision := {\"allow\": false, \"reason\": why}\nwhy := word if input.tenant\nword := \"inner\" if input.user_id",
			`word := "inner" if input.user_id`, "policy",
		},
		{
			"an allow that data cannot bring about", "default decision := false\ndecision if {\n\tdata.tool_catalog[input.resource].enabled\n\tinput.plan == \"gold\"\n}",
			"default decision := false", "policy",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e, err := asking(t, tt.rego).Explain(t.Context(), view("a"))
			if err != nil || e.Effect != gate.Deny || e.Change == nil || e.Change.Where != tt.where || len(e.Rules) == 0 {
				t.Fatalf("explanation %+v, error %v", e, err)
			}
			wantRules(t, e.Rules)
			if !strings.HasPrefix(e.Rules[0].Text, tt.rule) {
				t.Errorf("rules %v, want %q first", e.Rules, tt.rule)
			}
			if tt.where == "policy" && (e.Change.Value != "" || !strings.Contains(e.Change.Text, e.Rules[0].File)) {
				t.Errorf("change %+v", *e.Change)
			}
		})
	}
}

// An error is explained as an error, with the rules up to it.
func TestExplainError(t *testing.T) {
	t.Parallel()
	p := asking(t, "default decision := false\ndecision if {\n\tknown\n\tto_number(input.server) == 1\n}\nknown if input.server != \"probe\"")
	e, err := p.Explain(t.Context(), view("a"))
	if err == nil || e.Effect != gate.Deny || e.Reason != "policy_error" || e.Change == nil || e.Change.Where != "policy" {
		t.Errorf("explanation %+v, error %v", e, err)
	}
	if !slices.ContainsFunc(e.Rules, func(r gate.Rule) bool { return strings.HasPrefix(r.Text, "known if") }) {
		t.Errorf("rules %v", e.Rules)
	}
	wantRules(t, e.Rules)
}

// A change of data that is in the policy's own file says so.
func TestChangeInAFile(t *testing.T) {
	t.Parallel()
	p := newPhase(t, opa.Options{Settings: opa.Settings{Path: folder(t, files{"default.rego": read(t, defaultPolicy+"/default.rego"), "data.json": `{"tool_catalog": {"a": {"enabled": false}}}`})}})
	e, err := p.Explain(t.Context(), view("a"))
	if err != nil || e.Change == nil || e.Change.Where != "tool_catalog" || !strings.Contains(e.Change.Text, "data.json") {
		t.Errorf("explanation %+v, error %v", e, err)
	}
}

func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []gate.Change{
		{Where: "policy"},
		{Where: "global_tool_deny"},
		{Where: "global_tool_deny", Value: `["a"]`},
		{Where: "global_tool_deny", Value: `{"add": ["a"]}`},
		{Where: "global_tool_deny", Value: `{"set": ["a"], "remove": ["a"]}`},
		{Where: "global_tool_deny", Value: `{"set": {"a": 1}}`},
		{Where: "tool_catalog", Value: `{"set": {"a": {"enabled": "yes"}}}`},
	} {
		if d, err := (opa.Data{}).Apply(c); err == nil {
			t.Errorf("%+v: %+v", c, d)
		}
	}
}

// What is applied leaves the former data as they were.
func TestApplyCopies(t *testing.T) {
	t.Parallel()
	d := opa.Data{GlobalToolDeny: []string{"a", "b"}, ToolCatalog: map[string]opa.Tool{"a": {Attributes: map[string]any{"n": json.Number("9007199254740993")}}}}
	before := fmt.Sprintf("%+v", d)
	next, err := d.Apply(gate.Change{Where: "global_tool_deny", Value: `{"remove": ["a"]}`})
	if err != nil || !slices.Equal(next.GlobalToolDeny, []string{"b"}) {
		t.Errorf("data %+v, error %v", next, err)
	}
	next, err = next.Apply(gate.Change{Where: "tool_catalog", Value: `{"set": {"a": {"enabled": true}}}`})
	if err != nil || !next.ToolCatalog["a"].Enabled || next.ToolCatalog["a"].Attributes["n"] != json.Number("9007199254740993") {
		t.Errorf("data %+v, error %v", next, err)
	}
	if after := fmt.Sprintf("%+v", d); after != before {
		t.Errorf("data %s, before %s", after, before)
	}
}
