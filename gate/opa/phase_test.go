package opa_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/internal/mcp"
)

// Only true and an object whose allow is exactly true allow.
func TestOnlyTrueAllows(t *testing.T) {
	t.Parallel()
	// The value is given for a tool of another name than the first question's.
	rule := func(value string) string {
		return "default decision := false\ndecision := " + value + ` if input.tool_name != "probe__probe"`
	}
	tests := []struct {
		name, rego, reason string
		allow              bool
		obligations        string
	}{
		{name: "true", rego: rule(`true`), allow: true},
		{name: "object", rego: rule(`{"allow": true, "reason": "ok", "more": 1}`), allow: true},
		{name: "obligations", rego: rule(`{"allow": true, "obligations": {"approval": {"by": ["a"]}}}`), allow: true, obligations: `{"approval":{"by":["a"]}}`},
		{name: "an obligation that is not known", rego: rule(`{"allow": true, "obligations": {"n": 9007199254740993}}`), reason: "policy_error"},
		{name: "no obligations", rego: rule(`{"allow": true, "obligations": {}}`), allow: true},
		{name: "false", rego: rule(`false`), reason: "policy_denied"},
		{name: "denying object", rego: rule(`{"allow": false, "reason": "because"}`), reason: "because"},
		{name: "denying object without reason", rego: rule(`{"allow": false, "obligations": {"a": 1}}`), reason: "policy_denied"},
		{name: "string", rego: rule(`"true"`), reason: "policy_error"},
		{name: "number", rego: rule(`1`), reason: "policy_error"},
		{name: "null", rego: rule(`null`), reason: "policy_error"},
		{name: "list", rego: rule(`[true]`), reason: "policy_error"},
		{name: "set", rego: rule(`{true}`), reason: "policy_error"},
		{name: "empty object", rego: rule(`{}`), reason: "policy_error"},
		{name: "allow is a string", rego: rule(`{"allow": "true"}`), reason: "policy_error"},
		{name: "allow is a number", rego: rule(`{"allow": 1}`), reason: "policy_error"},
		{name: "Allow", rego: rule(`{"Allow": true}`), reason: "policy_error"},
		{name: "reason is a number", rego: rule(`{"allow": true, "reason": 1}`), reason: "policy_error"},
		{name: "obligations are a list", rego: rule(`{"allow": true, "obligations": ["a"]}`), reason: "policy_error"},
		{name: "undefined", rego: `decision := true if input.tool_name == "other"`, reason: "policy_error"},
		{name: "builtin error", rego: rule(`to_number(input.server) == 1`), reason: "policy_error"},
		{
			name:   "builtin error in a deny list", // which denies nothing where errors are undefined
			rego:   "default decision := true\ndecision := false if {\n\tinput.tool_name != \"probe__probe\"\n\tto_number(input.server) == 1\n}",
			reason: "policy_error",
		},
		{name: "conflict", rego: rule(`true`) + "\ndecision := false if input.server", reason: "policy_error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := asking(t, tt.rego)
			for _, r := range []*gate.Request{view("fs__read"), call("fs__read", `{}`), enable("fs__read")} {
				d := decide(t, p, r)
				if !tt.allow {
					wantDeny(t, d, tt.reason)
					continue
				}
				wantAllow(t, d)
				if string(d.Obligations) != tt.obligations {
					t.Errorf("obligations %s, want %s", d.Obligations, tt.obligations)
				}
			}
		})
	}
}

// The zero phase, and questions without an identity, are denied.
func TestZeroPhaseDenies(t *testing.T) {
	t.Parallel()
	var zero opa.Phase
	if d, err := zero.Check(t.Context(), view("x")); err == nil || d.Effect != gate.Deny || d.Reason != "policy_error" {
		t.Errorf("decision %+v, error %v", d, err)
	}
	if _, err := zero.CheckAll(t.Context(), []gate.Request{*view("x")}); err == nil {
		t.Error("a list was decided")
	}
	if e, err := zero.Explain(t.Context(), view("x")); err == nil || e.Effect != gate.Deny {
		t.Errorf("explanation %+v, error %v", e, err)
	}
	if err := zero.Run(t.Context()); err == nil {
		t.Error("it ran")
	}
	if err := zero.SetData(opa.Data{}); err == nil {
		t.Error("it took data")
	}
	p := asking(t, "decision := true")
	anonymous := view("x")
	anonymous.Identity = nil
	for _, r := range []*gate.Request{nil, anonymous} {
		if d, err := p.Check(t.Context(), r); err == nil || d.Effect != gate.Deny {
			t.Errorf("decision %+v, error %v", d, err)
		}
		if e, err := p.Explain(t.Context(), r); err == nil || e.Effect != gate.Deny {
			t.Errorf("explanation %+v, error %v", e, err)
		}
	}
}

// An action or kind that there is no name for is an error.
func TestUnknownActionDenies(t *testing.T) {
	t.Parallel()
	p := asking(t, "decision := true")
	for _, r := range []*gate.Request{
		{Action: "", Kind: mcp.Tool},
		{Action: "delete", Kind: mcp.Tool},
		{Action: gate.View, Kind: mcp.NoKind},
		{Action: gate.View, Kind: 99},
	} {
		r.Identity = alice()
		if d, err := p.Check(t.Context(), r); err == nil || d.Effect != gate.Deny {
			t.Errorf("%+v: decision %+v, error %v", r, d, err)
		}
	}
}

// A decision that never ends is ended, and a list of them, too.
func TestEndlessRuleIsBounded(t *testing.T) {
	t.Parallel()
	p := newPhase(t, opa.Options{
		Settings: opa.Settings{
			Path: folder(t, policy(`default decision := false
decision if {
	input.tool_name != "probe__probe"
	some a in numbers.range(1, 1000000)
	some b in numbers.range(1, 1000000)
	a * b < 0
}`)),
		},
		Timeout: 10 * time.Millisecond, ListTimeout: 100 * time.Millisecond,
	})
	_, err := p.Check(t.Context(), view("x"))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	rs := make([]gate.Request, 1000)
	for i := range rs {
		rs[i] = *view("x")
	}
	ds, err := p.CheckAll(t.Context(), rs)
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, d := range ds {
		if d.Err == nil || d.Effect != gate.Deny || d.Reason != "policy_error" {
			t.Fatalf("decision %+v", d)
		}
		if strings.Contains(d.Err.Error(), "more than 10ms") {
			asked++
		}
	}
	// Each has 10 ms of 100 in which all must end.
	if most := 11 * runtime.GOMAXPROCS(0); asked > most {
		t.Errorf("%d of %d were evaluated to their bound", asked, len(ds))
	}
}

// Where nothing is configured, a decision has 50 ms.
func TestDefaultBound(t *testing.T) {
	t.Parallel()
	p, err := opa.New(t.Context(), opa.Options{Settings: opa.Settings{
		Path: folder(t, policy(`default decision := false
decision if {
	input.tool_name != "probe__probe"
	some a in numbers.range(1, 100000)
	some b in numbers.range(1, 100000)
	a * b < 0
}`)),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Check(t.Context(), call("x", "")); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "more than 50ms") {
		t.Errorf("error %v", err)
	}
}

// A caller that goes away ends the evaluation.
func TestCancelledCallerEndsDecision(t *testing.T) {
	t.Parallel()
	p := newPhase(t, opa.Options{
		Settings: opa.Settings{
			Path: folder(t, policy(`default decision := false
decision if {
	input.tool_name != "probe__probe"
	some a in numbers.range(1, 1000000)
	some b in numbers.range(1, 1000000)
	a * b < 0
}`)),
		},
		Timeout: time.Hour,
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if d, err := p.Check(ctx, view("x")); !errors.Is(err, context.DeadlineExceeded) || d.Effect != gate.Deny {
		t.Errorf("decision %+v, error %v", d, err)
	}
}

// A list is decided as its requests are one by one, in their order.
func TestCheckAllAgreesWithCheck(t *testing.T) {
	t.Parallel()
	p := asking(t, `default decision := {"allow": false, "reason": "no"}
decision := true if endswith(input.tool_name, "1")
decision := to_number(input.tool_name) if endswith(input.tool_name, "2")`)
	var rs []gate.Request
	for i := range 300 {
		rs = append(rs, *view("tool" + strings.Repeat("x", i%7) + string(rune('0'+i%4))))
	}
	ds, err := p.CheckAll(t.Context(), rs)
	if err != nil || len(ds) != len(rs) {
		t.Fatalf("%d decisions, error %v", len(ds), err)
	}
	ids := map[string]bool{}
	for i := range rs {
		want, err := p.Check(t.Context(), &rs[i])
		if ds[i].Effect != want.Effect || ds[i].Reason != want.Reason || (ds[i].Err != nil) != (err != nil) || ds[i].Revision != want.Revision {
			t.Errorf("%s: %+v in the list, %+v alone", rs[i].Exposed, ds[i], want)
		}
		ids[ds[i].ID], ids[want.ID] = true, true
	}
	if len(ids) != 2*len(rs) {
		t.Errorf("%d ids for %d decisions", len(ids), 2*len(rs))
	}
}

func TestShadow(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var reported []gate.Decision
	p := newPhase(t, opa.Options{
		Settings: opa.Settings{
			Path: folder(t, policy(`default decision := {"allow": false, "reason": "no"}
decision := true if input.tool_name == "good"
decision := 1 if input.tool_name == "broken"`)),
			Mode: opa.Shadow,
		},
		OnShadow: func(r *gate.Request, d gate.Decision) {
			mu.Lock()
			defer mu.Unlock()
			if r.Exposed == "good" {
				t.Errorf("an allow was reported: %+v", d)
			}
			reported = append(reported, d)
		},
	})
	wantAllow(t, decide(t, p, call("good", "")))
	for _, name := range []string{"bad", "broken"} {
		d, err := p.Check(t.Context(), call(name, ""))
		if d.Effect != gate.Abstain || err != nil || d.Err != nil || d.ID == "" || d.Revision == "" {
			t.Errorf("decision %+v, error %v", d, err)
		}
		if d := gate.NewChain(gate.Open{}, p).Decide(t.Context(), call(name, "")); d.Effect != gate.Allow {
			t.Errorf("beside a phase that allows: %+v", d)
		}
		e, err := p.Explain(t.Context(), call(name, ""))
		if err != nil || e.Effect != gate.Abstain || e.Reason != d.Reason || e.Change == nil {
			t.Errorf("explanation %+v, error %v", e, err)
		}
	}
	if _, err := p.CheckAll(t.Context(), []gate.Request{*view("bad"), *view("good")}); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(reported) != 5 {
		t.Fatalf("%d reports: %+v", len(reported), reported)
	}
	for _, i := range []int{0, 4} {
		if d := reported[i]; d.Effect != gate.Deny || d.Reason != "no" || d.Err != nil || d.ID == "" {
			t.Errorf("report %+v", d)
		}
	}
	if d := reported[2]; d.Reason != "policy_error" || d.Err == nil {
		t.Errorf("report %+v", d)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	dir := folder(t, policy("decision := true"))
	tests := []struct {
		name string
		o    opa.Options
		want string
	}{
		{"no source", opa.Options{}, "exactly one of path"},
		{"two sources", opa.Options{Settings: opa.Settings{Path: dir, URL: "http://localhost"}}, "exactly one of path"},
		{"version", opa.Options{Settings: opa.Settings{Path: dir, RegoVersion: "v2"}}, `rego_version "v2"`},
		{"mode", opa.Options{Settings: opa.Settings{Path: dir, Mode: "Shadow"}}, `mode "Shadow"`},
		{"unknown action", opa.Options{Settings: opa.Settings{Path: dir, Actions: map[string]string{"tool.call": "x"}}}, `"tool.call" is none of`},
		{"empty action", opa.Options{Settings: opa.Settings{Path: dir, Actions: map[string]string{"tool.view": ""}}}, "new name of tool.view"},
		{"decision", opa.Options{Settings: opa.Settings{Path: dir, Decision: "toolgate.decision"}}, "must be the name of a rule"},
		{"decision with a variable", opa.Options{Settings: opa.Settings{Path: dir, Decision: "data.toolgate[x]"}}, "must be the name of a rule"},
		{"decision of everything", opa.Options{Settings: opa.Settings{Path: dir, Decision: "data"}}, "must be the name of a rule"},
		{"bundle is not a URL", opa.Options{Settings: opa.Settings{Bundle: "policies/"}}, "must begin with http"},
		{"url with a query", opa.Options{Settings: opa.Settings{URL: "http://localhost?x=1"}}, "base URL"},
		{"password is not repeated", opa.Options{Settings: opa.Settings{URL: "http://user:geheim@[bad"}}, "url: not a URL"},
		{"no such folder", opa.Options{Settings: opa.Settings{Path: "testdata/none"}}, "testdata/none"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := opa.New(t.Context(), tt.o)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "geheim") {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// Another rule may decide, in the older language, too.
func TestDecisionAndVersion(t *testing.T) {
	t.Parallel()
	dir := folder(t, files{"authz.rego": "package authz\n\ndefault allow = false\n\nallow {\n\tinput.action == \"use\"\n}\n"})
	p := newPhase(t, opa.Options{
		Settings: opa.Settings{Path: dir, Decision: "data.authz.allow", RegoVersion: opa.V0, Actions: map[string]string{"tool.request": "use"}},
	})
	wantAllow(t, decide(t, p, call("x", "")))
	wantDeny(t, decide(t, p, view("x")), "policy_denied")
	if _, err := opa.New(t.Context(), opa.Options{Settings: opa.Settings{Path: dir, Decision: "data.authz.allow", RegoVersion: opa.V1}}); err == nil {
		t.Error("the older language was read as the newer one")
	}
}
