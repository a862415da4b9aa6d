package opa_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/opa"
)

// Only rules that no argument can change are independent, whichever way they
// come to look at one.
func TestIndependentRules(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		policy string
		want   []string
	}{
		"plain":           {`decision if a; a if input.tenant == "acme"`, []string{"a", "decision"}},
		"arguments":       {`decision if a; a if input.args.x == 1`, nil},
		"replaced":        {`decision if a; a if not input.args_replaced`, nil},
		"context":         {`decision if a; a if input.context.plan == "team"`, nil},
		"input itself":    {`decision if a; a if count(input) > 3`, nil},
		"computed member": {`decision if a; a if { some k in ["tenant"]; input[k] == "acme" }`, nil},
		"through a rule":  {`decision if a; a if b; b if c; c if input.args.x; d if input.plan`, []string{"d"}},
		"in an else":      {`decision if a; a := true if input.plan == "x" else := false if input.args.x`, nil},
		"in the head":     {`decision if a == 1; a := input.args.x`, nil},
		"by a function":   {`decision if a; a if f(1); f(x) if input.args.x == x`, nil},
		"function alone":  {`decision if a; a if f(input.tenant); f(x) if x == "acme"`, []string{"a", "decision"}},
		"partial":         {`decision if a; a if "x" in b; b contains x if some x, _ in input.args`, nil},
		"with":            {`decision if a; a if b with input.args as {"x": 1}; b if input.plan`, []string{"b"}},
		"by name":         {`decision if a; a if { some n in ["b"]; data.toolgate[n] }; b if input.args.x`, nil},
		"clock":           {`decision if a; a if time.now_ns() > 0; b if input.plan`, nil},
		"comprehension":   {`decision if a; a if count([x | some x in input.args]) == 0`, nil},
		"several":         {`decision if a; a if input.plan == "team"; a if input.args.x == 1`, nil},
		"default":         {"default a := false\ndecision if a; a if input.plan == \"team\"", []string{"a", "decision"}},
		"other package":   {`decision if data.other.a`, nil},
		"same document":   {`decision if a.b; a[k] := true if some k, _ in input.args; a.b := true if input.plan == "x"`, nil},
		"deep in it":      {`decision if a.b.c; a[k].c := true if some k, _ in input.args; a.b.c := true if input.plan == "x"`, nil},
		"document alone":  {`decision if a.b; a[k] := true if some k in input.groups; a.b := true if input.plan == "x"`, []string{"a.b", "decision"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPhase(t, opa.Options{Settings: opa.Settings{
				Path: folder(t, files{
					"policy.rego": "package toolgate\n\n" + strings.ReplaceAll(tt.policy, "; ", "\n"), "other.rego": "package other\n\na if input.args.x == 1\n",
				}),
			}})
			want := slices.Clone(tt.want)
			for i := range want {
				want[i] = "data.toolgate." + want[i]
			}
			if got := p.Independent(); !slices.Equal(got, want) {
				t.Errorf("independent: %v, want %v", got, want)
			}
		})
	}
}

// mixed are policies whose decisions depend on arguments and on much else, by rules
// that are independent and by rules that are not.
var mixed = []string{
	`default decision := false
	decision if { listed; not banned }
	listed if input.tool_name in {"a", "b"}
	banned if input.args.x in data.tenant_restricted_args[input.tenant][input.tool_name].x`,

	`decision := {"allow": true} if { trusted; input.args.x != 1 } else := {"allow": false, "reason": why}
	trusted if input.persona_id == "bot"
	why := "persona" if not trusted
	else := "argument"`,

	`decision := {"allow": ok, "reason": sprintf("%d", [level])}
	level := 3 if input.plan == "team" else := 2 if input.tenant == "acme" else := 1
	default ok := false
	ok if level * 1 >= object.get(input.args, "x", 0)`,

	`decision if a
	else if e
	a if { c with input.plan as "team"; not e }
	c if { e; input.tenant == "acme"; object.get(input.args, "x", 0) < 2 }
	e if input.plan == "team"`,

	`default decision := false
	decision if flags.safe
	flags[x] := true if { input.args.x == 1; x := "safe" }
	flags.safe := true if input.plan == "team"
	listed if input.tool_name in {"a", "b"}`,

	`decision if count(open) > object.get(input.args, "x", 0)
	open contains t if { some t in ["a", "b", input.tool_name]; allowed(t) }
	allowed(t) if data.tool_catalog[t].enabled
	unused if input.plan`,
}

// A phase that caches values decides as one that evaluates everything every time.
func TestCachedValuesChangeNothing(t *testing.T) {
	t.Parallel()
	for i, text := range mixed {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(uint64(i), 7))
			data := func() opa.Data {
				return opa.Data{
					ToolCatalog:          map[string]opa.Tool{"a": {Enabled: random.IntN(2) == 0}, "b": {Enabled: true}},
					TenantRestrictedArgs: map[string]map[string]map[string][]any{"acme": {"a": {"x": {random.IntN(3)}}}},
				}
			}
			first := data()
			dir := folder(t, policy(text))
			caching := newPhase(t, opa.Options{Settings: opa.Settings{Path: dir}, Data: first})
			plain := newPhase(t, opa.Options{Settings: opa.Settings{Path: dir}, Data: first, CacheSize: -1})
			if len(caching.Independent()) == 0 {
				t.Fatal("there is nothing to cache")
			}
			seen := map[gate.Effect]int{}
			for n := range 400 {
				if n%50 == 49 {
					next := data()
					for _, p := range []*opa.Phase{caching, plain} {
						if err := p.SetData(next); err != nil {
							t.Fatal(err)
						}
					}
				}
				r := call([]string{"a", "b", "c"}[random.IntN(3)], []string{`{}`, `{"x": 0}`, `{"x": 1}`, `{"x": 2}`, `{"x": 3}`}[random.IntN(5)])
				id := *alice()
				id.Tenant = []string{"acme", "other"}[random.IntN(2)]
				id.Persona = []string{"bot", "person"}[random.IntN(2)]
				id.Plan = []string{"team", "free"}[random.IntN(2)]
				r.Identity = gate.NewIdentity(id)
				want, fault := plain.Check(t.Context(), r)
				got, err := caching.Check(t.Context(), r)
				if (err == nil) != (fault == nil) || got.Effect != want.Effect || got.Reason != want.Reason {
					t.Fatalf("%d: %s %s of %v: %+v %v, without a cache %+v %v", n, r.Exposed, r.Args, r.Identity, got, err, want, fault)
				}
				seen[want.Effect]++
			}
			if seen[gate.Allow] == 0 || seen[gate.Deny] == 0 {
				t.Errorf("decisions %v; the policy is not a test", seen)
			}
		})
	}
}

// What "with" puts into the input is there for one expression.
func TestWithEndsWithItsExpression(t *testing.T) {
	t.Parallel()
	p := asking(t, `default decision := false
	decision if { a with input.plan as "gold"; input.plan == "team" }
	a if input.plan == "gold"`)
	for range 2 {
		if d, err := p.Check(t.Context(), call("a", `{}`)); err != nil || d.Effect != gate.Allow {
			t.Errorf("decision %+v, error %v", d, err)
		}
	}
}

// Of the policy that we ship, all rules are independent but those about arguments.
func TestIndependentRulesOfDefaultPolicy(t *testing.T) {
	t.Parallel()
	found := newPhase(t, opa.Options{Settings: opa.Settings{Path: defaultPolicy}}).Independent()
	for name, want := range map[string]bool{"permitted": true, "denied": true, "restrictable": true, "decision": false} {
		if got := slices.Contains(found, "data.toolgate."+name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
