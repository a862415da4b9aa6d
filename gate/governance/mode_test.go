package governance_test

import (
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/gate/schema"
	"github.com/toolgate/toolgate/internal/mcp"
)

// classes are all classes there can be.
func classes(yield func(governance.Class) bool) {
	for bits := range 16 {
		for _, risk := range []governance.Risk{"", governance.Low, governance.Medium, governance.High} {
			c := governance.Class{ReadOnly: bits&1 != 0, Destructive: bits&2 != 0, OperatorClassed: bits&4 != 0, HighCost: bits&8 != 0, Risk: risk}
			if !yield(c) {
				return
			}
		}
	}
}

// calls are calls of all kinds, classes and ways, in a mode.
func calls(mode governance.Mode, yield func(governance.Call)) {
	for _, kind := range []mcp.Kind{mcp.NoKind, mcp.Tool, mcp.Prompt, mcp.Resource, mcp.Template} {
		for c := range classes {
			for _, queued := range []bool{false, true} {
				yield(governance.Call{Name: "x", Kind: kind, Class: c, Mode: mode, Queued: queued})
			}
		}
	}
}

func TestStricterModesAllowNoMore(t *testing.T) {
	r := rules(t)
	for _, pair := range [][2]governance.Mode{
		{governance.Normal, governance.Alert},
		{governance.Alert, governance.Recovery},
		{governance.Recovery, governance.Alert},
		{governance.Alert, governance.Lockdown},
		{governance.Recovery, governance.Lockdown},
		{governance.Normal, governance.Degraded},
		{governance.Lockdown, "NONE"},
		{governance.Degraded, ""},
	} {
		calls(pair[1], func(c governance.Call) {
			stricter := r.Judge(c).Outcome
			c.Mode = pair[0]
			if laxer := r.Judge(c).Outcome; stricter > laxer {
				t.Errorf("%+v: %s in %s, %s in %s", c, laxer, pair[0], stricter, pair[1])
			}
		})
	}
}

// A gateway that runs short goes into Degraded by itself, which lifts no rule.
func TestDegradedLiftsNoRuleOfNormal(t *testing.T) {
	r := rules(
		t, governance.Rule{Match: "asked", Tool: governance.Tool{RequiresApprovalInModes: []governance.Mode{governance.Normal}}},
		governance.Rule{Match: "banned", Tool: governance.Tool{ForbiddenInModes: []governance.Mode{governance.Alert, governance.Normal}}},
		governance.Rule{Match: "short", Tool: governance.Tool{ForbiddenInModes: []governance.Mode{governance.Degraded}}},
	)
	for name, want := range map[string]map[governance.Mode]governance.Outcome{
		"asked":  {governance.Normal: governance.Ask, governance.Degraded: governance.Ask},
		"banned": {governance.Normal: governance.Deny, governance.Degraded: governance.Deny, governance.Recovery: governance.Pass},
		"short":  {governance.Normal: governance.Pass, governance.Degraded: governance.Deny},
	} {
		for mode, want := range want {
			c := governance.Call{Name: name, Kind: mcp.Tool, Class: governance.Class{OperatorClassed: true}, Mode: mode}
			if got := r.Judge(c); got.Outcome != want {
				t.Errorf("%s in %s: %+v, want %s", name, mode, got, want)
			}
		}
	}
}

func TestModes(t *testing.T) {
	readOnly := governance.Class{ReadOnly: true, OperatorClassed: true, Risk: governance.Low}
	writing := governance.Class{OperatorClassed: true, Risk: governance.Medium}
	risky := governance.Class{OperatorClassed: true, Risk: governance.High}
	destructive := governance.Class{OperatorClassed: true, Destructive: true, Risk: governance.Low}
	costly := governance.Class{ReadOnly: true, OperatorClassed: true, Risk: governance.Low, HighCost: true}
	claimed := governance.Class{ReadOnly: true, Risk: governance.Low} // by its server alone
	const (
		p = governance.Pass
		a = governance.Ask
		d = governance.Deny
	)
	tests := []struct {
		name  string
		class governance.Class
		kind  mcp.Kind
		queue bool
		want  map[governance.Mode]governance.Outcome
	}{
		{"read-only", readOnly, mcp.Tool, false, map[governance.Mode]governance.Outcome{"NORMAL": p, "ALERT": p, "DEGRADED": p, "LOCKDOWN": p, "RECOVERY": p}},
		{"writing", writing, mcp.Tool, false, map[governance.Mode]governance.Outcome{"NORMAL": p, "ALERT": p, "DEGRADED": p, "LOCKDOWN": d, "RECOVERY": p}},
		{"risky", risky, mcp.Tool, false, map[governance.Mode]governance.Outcome{"NORMAL": p, "ALERT": a, "DEGRADED": p, "LOCKDOWN": d, "RECOVERY": a}},
		{"destructive", destructive, mcp.Tool, false, map[governance.Mode]governance.Outcome{"NORMAL": p, "ALERT": a, "DEGRADED": p, "LOCKDOWN": d, "RECOVERY": a}},
		{"costly", costly, mcp.Tool, false, map[governance.Mode]governance.Outcome{"NORMAL": p, "ALERT": p, "DEGRADED": d, "LOCKDOWN": p, "RECOVERY": p}},
		{"queued", readOnly, mcp.Tool, true, map[governance.Mode]governance.Outcome{"NORMAL": p, "ALERT": p, "DEGRADED": d, "LOCKDOWN": p, "RECOVERY": p}},
		{"claimed read-only", claimed, mcp.Tool, false, map[governance.Mode]governance.Outcome{"NORMAL": p, "ALERT": a, "DEGRADED": p, "LOCKDOWN": d, "RECOVERY": a}},
		{"unknown", governance.Class{}, mcp.Tool, false, map[governance.Mode]governance.Outcome{"NORMAL": p, "ALERT": a, "DEGRADED": p, "LOCKDOWN": d, "RECOVERY": a}},
		{"unknown resource", governance.Class{}, mcp.Resource, false, map[governance.Mode]governance.Outcome{"NORMAL": p, "ALERT": p, "DEGRADED": p, "LOCKDOWN": d, "RECOVERY": p}},
		{"claimed resource", claimed, mcp.Resource, false, map[governance.Mode]governance.Outcome{"NORMAL": p, "ALERT": p, "LOCKDOWN": d}},
		{"no mode", readOnly, mcp.Tool, false, map[governance.Mode]governance.Outcome{"": d, "normal": d, "PANIC": d}},
	}
	r := rules(t)
	for _, tt := range tests {
		for mode, want := range tt.want {
			v := r.Judge(governance.Call{Name: "x", Kind: tt.kind, Class: tt.class, Mode: mode, Queued: tt.queue})
			if v.Outcome != want || (v.Outcome == governance.Pass) != (v.Reason == "") || (v.Outcome == governance.Deny) != (v.Change != nil) {
				t.Errorf("%s in %q: %+v, want %s", tt.name, mode, v, want)
			}
		}
	}
}

func TestAModeChangeCancelsWhatItWouldNotLetStart(t *testing.T) {
	r := rules(t, governance.Rule{Match: "banned", Tool: governance.Tool{ForbiddenInModes: []governance.Mode{governance.Lockdown, governance.Alert}}}, governance.Rule{Match: "risky", Tool: governance.Tool{Risk: governance.High}})
	for _, name := range []string{"x", "banned", "risky"} {
		calls(governance.Lockdown, func(c governance.Call) {
			c.Name, c.Queued = name, false
			running := governance.Running{Name: c.Name, Kind: c.Kind, Class: c.Class}
			if got, want := r.Cancels(running, governance.Lockdown), r.Judge(c).Outcome == governance.Deny; got != want {
				t.Errorf("%+v is cancelled: %v, want %v", running, got, want)
			}
			for _, mode := range []governance.Mode{governance.Normal, governance.Alert, governance.Degraded, governance.Recovery} {
				if r.Cancels(running, mode) {
					t.Errorf("%+v is cancelled by %s", running, mode)
				}
			}
			if !r.Cancels(running, "") || !(*governance.Rules)(nil).Cancels(running, governance.Normal) {
				t.Errorf("%+v goes on in a mode that is none, or without rules", running)
			}
		})
	}
}

func TestConcurrencyAndEnable(t *testing.T) {
	for mode, want := range map[governance.Mode][3]int{
		governance.Normal: {10, 1, 0}, governance.Alert: {10, 1, 0}, governance.Degraded: {10, 1, 0}, governance.Lockdown: {10, 1, 0}, governance.Recovery: {5, 1, 0}, "": {0, 0, 0},
	} {
		if got := [3]int{mode.Concurrency(10), mode.Concurrency(1), mode.Concurrency(0)}; got != want {
			t.Errorf("%q: %v, want %v", mode, got, want)
		}
		if got, want := mode.Enables(), mode != governance.Lockdown && mode != ""; got != want {
			t.Errorf("%q enables: %v", mode, got)
		}
	}
	for text, want := range map[string]governance.Mode{"NORMAL": governance.Normal, " lockdown ": governance.Lockdown, "": "", "off": ""} {
		got, err := governance.ParseMode(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v", text, got, err)
		}
		var m governance.Mode
		if err := m.UnmarshalText([]byte(text)); (err == nil) != (want != "") || m != want {
			t.Errorf("%q is %q, %v", text, m, err)
		}
	}
}

// options are all that a flag can say.
var options = []*bool{nil, new(false), new(true)}

func TestHintsCanOnlyRaiseAClass(t *testing.T) {
	r := rules(t)
	for _, readOnly := range options {
		for _, destructive := range options {
			for _, risk := range []governance.Risk{"", governance.Low, governance.High} {
				said := governance.Operator{ReadOnly: readOnly, Destructive: destructive, Risk: risk}
				plain := r.Class(gate.Names{Exposed: "x"}, "", said, governance.Hints{})
				if readOnly == nil && destructive == nil && (!plain.Destructive || plain.OperatorClassed) {
					t.Errorf("unknown is %+v", plain)
				}
				for _, h := range options {
					for _, d := range options {
						hinted := r.Class(gate.Names{Exposed: "x"}, "", said, governance.Hints{ReadOnly: h, Destructive: d})
						for _, mode := range governance.Modes() {
							c := governance.Call{Name: "x", Kind: mcp.Tool, Class: plain, Mode: mode}
							before := r.Judge(c).Outcome
							c.Class = hinted
							if after := r.Judge(c).Outcome; after > before {
								t.Errorf("%+v in %s: %s without hints and %s with them", hinted, mode, before, after)
							}
						}
					}
				}
			}
		}
	}
}

// A list of allowed modes denies in all others, but where a person may approve; a rule
// may demand an approval in every mode.
func TestAllowedModes(t *testing.T) {
	r := rules(t,
		governance.Rule{Match: "write", Tool: governance.Tool{
			AllowedInModes: []governance.Mode{governance.Normal}, RequiresApprovalInModes: []governance.Mode{governance.Alert}, ForbiddenInModes: []governance.Mode{governance.Lockdown},
		}},
		governance.Rule{Match: "never", Tool: governance.Tool{AllowedInModes: []governance.Mode{}}},
		governance.Rule{Match: "ask", Tool: governance.Tool{RequiresApproval: true, Class: "read_only", Risk: governance.Low}},
	)
	const deny, ask, pass = governance.Deny, governance.Ask, governance.Pass
	for name, want := range map[string][]governance.Outcome{ // NORMAL, ALERT, DEGRADED, LOCKDOWN, RECOVERY
		"write": {pass, ask, pass, deny, deny},
		"never": {deny, deny, deny, deny, deny},
		"ask":   {ask, ask, ask, ask, ask},
	} {
		for i, mode := range governance.Modes() {
			call := governance.Call{Name: name, Kind: mcp.Tool, Mode: mode, Class: r.Class(gate.Names{Exposed: name}, "", governance.Operator{}, governance.Hints{})}
			v := r.Judge(call)
			if v.Outcome != want[i] || r.InMode(call) != want[i] {
				t.Errorf("%s in %s: %s and %s, want %s", name, mode, v.Outcome, r.InMode(call), want[i])
			}
			if name == "write" && mode == governance.Recovery && (v.Change == nil || v.Change.Where != "governance.tools.write.allowed_in_modes[+]" || v.Change.Value != "RECOVERY") {
				t.Errorf("what would lift it: %+v", v.Change)
			}
		}
	}
}

// Approvals can be demanded of all calls, or of unsafe ones, whatever the rules say.
func TestRequiredApprovals(t *testing.T) {
	safe := governance.Class{ReadOnly: true, OperatorClassed: true, Risk: governance.Low}
	for require, want := range map[governance.Require][3]governance.Outcome{ // safe, of high risk, unknown
		"":                       {governance.Pass, governance.Pass, governance.Pass},
		governance.RequireNever:  {governance.Pass, governance.Pass, governance.Pass},
		governance.RequireUnsafe: {governance.Pass, governance.Ask, governance.Ask},
		governance.RequireAlways: {governance.Ask, governance.Ask, governance.Ask},
	} {
		r, err := governance.New(nil, governance.Options{Require: require})
		if err != nil {
			t.Fatal(err)
		}
		risky := safe
		risky.Risk = governance.High
		for i, class := range []governance.Class{safe, risky, {Destructive: true}} {
			call := governance.Call{Name: "x", Kind: mcp.Tool, Mode: governance.Normal, Class: class}
			if got := r.Judge(call).Outcome; got != want[i] || r.InMode(call) != want[i] {
				t.Errorf("%q of %+v: %s and %s, want %s", require, class, got, r.InMode(call), want[i])
			}
			if call.Kind = mcp.Resource; r.Judge(call).Outcome != governance.Pass {
				t.Errorf("%q demands an approval of a resource", require)
			}
		}
		if r.NeedClass() != (require == governance.RequireUnsafe) {
			t.Errorf("%q: needs the class: %t", require, r.NeedClass())
		}
	}
}

// A rule for a category covers its tools whatever their names, and only restricts.
func TestRulesForCategories(t *testing.T) {
	r := rules(t,
		governance.Rule{Match: "a", Tool: governance.Tool{Class: "read_only", Risk: governance.Low}},
		governance.Rule{InCategory: "money", Tool: governance.Tool{Risk: governance.High, ForbiddenInModes: []governance.Mode{governance.Recovery}, MaxBytes: 9}},
		governance.Rule{InCategory: "safe", Tool: governance.Tool{Class: "read_only", Risk: governance.Low}},
		governance.Rule{InCategory: "unsafe", Tool: governance.Tool{Class: "destructive"}},
	)
	for _, tt := range []struct {
		name, category string
		want           governance.Class
	}{
		{"a", "", governance.Class{ReadOnly: true, OperatorClassed: true, Risk: governance.Low}},
		{"a", "money", governance.Class{ReadOnly: true, OperatorClassed: true, Risk: governance.High}},
		{"a", "unsafe", governance.Class{Destructive: true, OperatorClassed: true, Risk: governance.Low}},
		{"b", "safe", governance.Class{Destructive: true, Risk: governance.Low}},
		{"money", "", governance.Class{Destructive: true}},
	} {
		if got := r.Class(gate.Names{Exposed: tt.name}, tt.category, governance.Operator{}, governance.Hints{}); got != tt.want {
			t.Errorf("%s in %q: %+v, want %+v", tt.name, tt.category, got, tt.want)
		}
	}
	for mode, want := range map[governance.Mode]governance.Outcome{governance.Normal: governance.Pass, governance.Alert: governance.Ask, governance.Recovery: governance.Deny} {
		call := governance.Call{Name: "b", Kind: mcp.Tool, Category: "money", Mode: mode, Arguments: schema.ReadArguments([]byte(`{"a":1}`))}
		if v := r.Judge(call); v.Outcome != want {
			t.Errorf("in mode %s: %s, want %s", mode, v.Outcome, want)
		}
		if got := r.InMode(call); got != want {
			t.Errorf("in mode %s, whatever the arguments: %s, want %s", mode, got, want)
		}
	}
	large := governance.Call{Name: "b", Kind: mcp.Tool, Category: "money", Mode: governance.Normal, Arguments: schema.ReadArguments([]byte(`{"a":"long enough"}`))}
	v := r.Judge(large)
	if v.Outcome != governance.Deny || v.Change == nil || v.Change.Where != "governance.categories.money.max_bytes" || v.Rule.Text != "category money: max_bytes: 9" {
		t.Errorf("large arguments: %+v, %+v", v, v.Change)
	}
	if large.Category = "other"; r.Judge(large).Outcome != governance.Pass {
		t.Error("a rule for a category is about another one")
	}
	if _, err := governance.New([]governance.Rule{{Match: "a", InCategory: "b"}}, governance.Options{}); err == nil {
		t.Error("a rule is about a name and a category")
	}
	if (*governance.Rules)(nil).InMode(large) != governance.Deny || (&governance.Rules{}).InMode(large) != governance.Deny {
		t.Error("no rules let pass")
	}
}

func TestClassOfRules(t *testing.T) {
	r := rules(t,
		governance.Rule{Match: "a*", Tool: governance.Tool{Class: "read_only", Risk: governance.Low, Category: "reading"}},
		governance.Rule{Match: "ab", Tool: governance.Tool{Risk: governance.High, HighCost: true, Category: "other"}},
		governance.Rule{Match: "ac", Tool: governance.Tool{Class: "destructive"}},
	)
	for name, want := range map[string]governance.Class{
		"a":  {ReadOnly: true, OperatorClassed: true, Risk: governance.Low},
		"ab": {ReadOnly: true, OperatorClassed: true, Risk: governance.High, HighCost: true},
		"ac": {Destructive: true, OperatorClassed: true, Risk: governance.Low},
		"b":  {Destructive: true},
	} {
		if got := r.Class(gate.Names{Exposed: name}, "", governance.Operator{}, governance.Hints{}); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	h := governance.ReadHints([]byte(`{"name":"a","annotations":{"readOnlyHint":false,"destructiveHint":"yes"}}`))
	if h.ReadOnly == nil || *h.ReadOnly || h.Destructive != nil {
		t.Errorf("hints %+v", h)
	}
	if got := r.Class(gate.Names{Exposed: "b"}, "", governance.Operator{ReadOnly: new(true)}, h); got.ReadOnly || !got.Destructive {
		t.Errorf("with a hint that it writes: %+v", got)
	}
	if r.Category("ab") != "reading" || r.Category("zz") != "" {
		t.Error("the first category is not the tool's")
	}
}
