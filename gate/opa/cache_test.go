package opa_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/opa"
)

// change sets a field of a struct to another value than it has.
func change(t *testing.T, v reflect.Value, name string) {
	t.Helper()
	f := v.FieldByName(name)
	switch f.Kind() {
	case reflect.String:
		f.SetString(f.String() + "x")
	case reflect.Bool:
		f.SetBool(!f.Bool())
	case reflect.Uint8:
		f.SetUint(f.Uint() + 1)
	case reflect.Slice:
		f.Set(reflect.Append(f, reflect.ValueOf("x").Convert(f.Type().Elem())))
	default:
		t.Fatalf("%s is a %s, which this test does not know", name, f.Kind())
	}
}

// Whatever changes in a request or in its caller changes the key, so that a
// field that is added to either and forgotten in the key fails here. Arguments
// are not in the key: decisions of a policy that reads them are not cacheable.
func TestEverythingIsInTheCacheKey(t *testing.T) {
	t.Parallel()
	base := opa.CacheKey(1, call("fs__read", ""))
	if again := opa.CacheKey(1, call("fs__read", "")); again != base {
		t.Fatal("the same request has two keys")
	}
	if other := opa.CacheKey(2, call("fs__read", "")); other == base {
		t.Error("two generations share a key")
	}
	differs := func(name string, change func(r *gate.Request)) {
		r := call("fs__read", "")
		change(r)
		if opa.CacheKey(1, r) == base {
			t.Errorf("%s is not in the key", name)
		}
	}
	for f := range reflect.TypeFor[gate.Request]().Fields() {
		switch f.Name {
		case "Args", "Identity":
			continue
		}
		differs(f.Name, func(r *gate.Request) { change(t, reflect.ValueOf(r).Elem(), f.Name) })
	}
	identity := func(change func(id reflect.Value)) func(r *gate.Request) {
		return func(r *gate.Request) {
			id := *r.Identity
			change(reflect.ValueOf(&id).Elem())
			r.Identity = gate.NewIdentity(id)
		}
	}
	for f := range reflect.TypeFor[gate.Identity]().Fields() {
		if !f.IsExported() || f.Anonymous {
			continue
		}
		differs(f.Name, identity(func(id reflect.Value) { change(t, id, f.Name) }))
	}
	for f := range reflect.TypeFor[gate.Principal]().Fields() {
		differs(f.Name, identity(func(id reflect.Value) { change(t, id.FieldByName("Principal"), f.Name) }))
	}
}

// No two callers share a key by having the same text cut differently.
func TestCacheKeyIsInjective(t *testing.T) {
	t.Parallel()
	seen := map[any]string{}
	parts := []string{"", "a", "1:a", "1#", "a1:", "0:", "#"}
	lists := [][]string{nil, {""}, {"a"}, {"a", ""}, {"", "a"}, {"1:a"}}
	for _, persona := range parts {
		for _, plan := range parts {
			for _, groups := range lists {
				for _, scopes := range lists {
					r := call("x", "")
					r.Identity = gate.NewIdentity(gate.Identity{Persona: persona, Plan: plan, Groups: groups, Scopes: scopes})
					what := fmt.Sprintf("%q %q %q %q", persona, plan, groups, scopes)
					key := opa.CacheKey(1, r)
					if other := seen[key]; other != "" && other != what {
						t.Fatalf("%s and %s share a key", what, other)
					}
					seen[key] = what
				}
			}
		}
	}
}

// Every member of input other than the arguments and context, and of context
// as well, is made of what is in the key.
func TestInputIsMadeOfTheKey(t *testing.T) {
	t.Parallel()
	base, err := opa.Document(opa.Options{Settings: opa.Settings{Path: "x"}}, call("fs__read", `{}`))
	if err != nil {
		t.Fatal(err)
	}
	r := call("fs__read", `{}`)
	v := reflect.ValueOf(r).Elem()
	for f := range reflect.TypeFor[gate.Request]().Fields() {
		if f.Name != "Args" && f.Name != "Identity" && f.Name != "Kind" && f.Name != "Action" {
			change(t, v, f.Name)
		}
	}
	id := *alice()
	for f := range reflect.TypeFor[gate.Identity]().Fields() {
		if f.IsExported() && !f.Anonymous {
			change(t, reflect.ValueOf(&id).Elem(), f.Name)
		}
	}
	for f := range reflect.TypeFor[gate.Principal]().Fields() {
		change(t, reflect.ValueOf(&id.Principal).Elem(), f.Name)
	}
	r.Identity = gate.NewIdentity(id)
	other, err := opa.Document(opa.Options{Settings: opa.Settings{Path: "x"}}, r)
	if err != nil {
		t.Fatal(err)
	}
	for name := range base {
		if name == "args" || name == "kind" || name == "action" {
			continue
		}
		if reflect.DeepEqual(base[name], other[name]) {
			t.Errorf("input.%s is not made of the key", name)
		}
	}
	for name, v := range base["context"].(map[string]any) {
		if v == other["context"].(map[string]any)[name] {
			t.Errorf("input.context.%s is not made of the key", name)
		}
	}
}

// Decisions are cacheable only where the policy reads nothing that is not in the
// key, and never for tool.enable.
func TestWhatIsCacheable(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, rego    string
		view, request bool
	}{
		{"nothing", `decision := true`, true, true},
		{"the caller", `decision if input.user_id == "alice"`, true, true},
		{"data", `decision if data.a[input.tool_name]`, true, true},
		{"an import", "import input.tenant as who\ndecision if who", true, true},
		{"arguments", `decision if input.args.a`, true, false},
		{"arguments that are replaced", `decision if input.args_replaced`, true, false},
		{"arguments in a helper", "decision if f(1)\nf(x) if input.args.a == x", true, false},
		{"arguments in an else", "decision if input.tenant\nelse := false if input.args.a", true, false},
		{"arguments in a comprehension", `decision := count([1 | input.args.a]) == 0`, true, false},
		{"arguments in a reference", `decision if data.a[input.args.a]`, true, false},
		{"arguments in a value", `decision := {"allow": true, "reason": input.args.a}`, true, false},
		{"arguments in a set rule", "decision if count(s) == 0\ns contains input.args.a", true, false},
		{"arguments in every", `decision if every x in input.args { x }`, true, false},
		{"arguments in another package", `decision if data.other.x`, true, false},
		{"arguments under with", `decision if data.plain.x with input.tenant as input.args.a`, true, false},
		{"context", `decision if input.context.tenant_id`, false, false},
		{"a computed member", "decision if {\n\tsome k\n\tinput[k] == 1\n}", false, false},
		{"a member by variable", "decision if {\n\tx := input.tenant\n\tinput[x]\n}", false, false},
		{"input as a whole", `decision if count(input) > 0`, false, false},
		{"input by another name", "decision if {\n\tx := input\n\tx.tenant\n}", false, false},
		{"object.get", `decision if object.get(input, "tenant", "")`, false, false},
		{"the clock", `decision if time.now_ns() > 0`, false, false},
		{"a token with times", "decision if {\n\tinput.server != \"probe\"\n\tio.jwt.decode_verify(input.user_id, {\"secret\": \"s\"})\n}", false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := policy("default decision := false\n" + tt.rego)
			if tt.name == "nothing" || tt.name == "arguments in a comprehension" || tt.name == "arguments in a value" {
				f = policy(tt.rego)
			}
			if tt.name == "an import" {
				f = files{"policy.rego": "package toolgate\n\nimport input.tenant as who\n\ndefault decision := false\n\ndecision if who\n"}
			}
			f["other.rego"] = "package other\n\nx if " + map[bool]string{true: "input.args.a", false: "true"}[tt.name == "arguments in another package"]
			f["plain.rego"] = "package plain\n\nx if true"
			p := newPhase(t, opa.Options{Settings: opa.Settings{Path: folder(t, f)}})
			for action, want := range map[gate.Action]bool{gate.View: tt.view, gate.Call: tt.request, gate.Enable: false} {
				if got := p.Cacheable(action); got != want {
					t.Errorf("%s is cacheable: %v, want %v", action, got, want)
				}
			}
		})
	}
}

// repeats tells whether a chain answers a request twice with one decision.
func repeats(t *testing.T, c *gate.Chain, r *gate.Request) bool {
	t.Helper()
	first, second := c.Decide(t.Context(), r), c.Decide(t.Context(), r)
	if first.ID == "" || first.Effect != second.Effect {
		t.Errorf("%s: %+v, then %+v", r.Action, first, second)
	}
	return first.ID == second.ID
}

// A chain caches decisions of a policy that reads no arguments, other than of
// tool.enable, until the policy or its data are others.
func TestCachedDecisionsEnd(t *testing.T) {
	t.Parallel()
	dir := folder(t, policy("default decision := {\"allow\": false, \"reason\": \"no\"}\ndecision := data.tools[input.tool_name].enabled if input.tool_name"))
	p := newPhase(t, opa.Options{Settings: opa.Settings{Path: dir}, Data: opa.Data{Tools: map[string]opa.Tool{"a": {Enabled: true}}}})
	c := gate.NewChain(p)
	for _, r := range []*gate.Request{view("a"), call("a", ""), call("a", `{"x": 1}`), enable("a")} {
		wantAllow(t, c.Decide(t.Context(), r))
		if got := repeats(t, c, r); got != (r.Action != gate.Enable) {
			t.Errorf("%s %s is cached: %v", r.Action, r.Args, got)
		}
	}
	if err := p.SetData(opa.Data{Tools: map[string]opa.Tool{"a": {Enabled: false}}}); err != nil {
		t.Fatal(err)
	}
	wantDeny(t, c.Decide(t.Context(), view("a")), "policy_denied")
	wantDeny(t, c.Decide(t.Context(), call("a", "")), "policy_denied")
	if _, err := opa.Replace(p, folder(t, policy("decision := true"))); err != nil {
		t.Fatal(err)
	}
	wantAllow(t, c.Decide(t.Context(), view("a")))
}

// Values of rules are cached for calls alone, until the policy or its data are others.
func TestCachedValuesEnd(t *testing.T) {
	t.Parallel()
	p := asking(t, "default decision := false\ndecision if { listed; not input.args.x }\nlisted if input.tool_name == \"a\"")
	cached := func(when string, want int) {
		t.Helper()
		if n := p.Cached(); n != want {
			t.Errorf("%s: values are cached for %d calls, want %d", when, n, want)
		}
	}
	for _, r := range []*gate.Request{view("a"), call("a", ""), call("a", `{"y": 1}`), enable("a")} {
		wantAllow(t, decide(t, p, r))
	}
	cached("one caller and tool", 1)
	if err := p.SetData(opa.Data{GlobalToolDeny: []string{"x"}}); err != nil {
		t.Fatal(err)
	}
	cached("other data", 0)
	decide(t, p, call("a", ""))
	cached("called again", 1)
	if _, err := opa.Replace(p, folder(t, policy("decision := true"))); err != nil {
		t.Fatal(err)
	}
	cached("another policy", 0)
}

// What an evaluation of a former policy finds late is cached under a key that nobody asks
// for any more.
func TestGenerations(t *testing.T) {
	t.Parallel()
	p := asking(t, "decision := true")
	seen := map[uint64]bool{p.Generation(): true}
	for i := range 3 {
		if err := p.SetData(opa.Data{GlobalToolDeny: []string{fmt.Sprint(i)}}); err != nil {
			t.Fatal(err)
		}
		seen[p.Generation()] = true
	}
	if changed, err := opa.Replace(p, folder(t, policy("decision := false"))); !changed || err != nil {
		t.Fatalf("changed %v, error %v", changed, err)
	}
	if seen[p.Generation()] = true; len(seen) != 5 {
		t.Errorf("%d generations of 5 policies", len(seen))
	}
}

func TestErrorsAreNotCached(t *testing.T) {
	t.Parallel()
	p := asking(t, "default decision := false\ndecision := 1 if input.tool_name == \"a\"")
	wantDeny(t, decide(t, p, view("a")), "policy_error")
	if c := gate.NewChain(p); repeats(t, c, view("a")) || repeats(t, c, call("a", "")) {
		t.Error("an error is cached")
	}
}

// The cache has a bound, gives up what was used least recently, and forgets
// what is old.
func TestCacheBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := opa.NewTestCache(2, 10*time.Second)
		c.Put("a", "1")
		c.Put("b", "2")
		c.Get("a")
		c.Put("c", "3")
		c.Put("c", "4")
		for name, want := range map[string]string{"a": "1", "b": "", "c": "4"} {
			if got, ok := c.Get(name); got != want || ok != (want != "") {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		time.Sleep(10*time.Second - 1)
		if _, ok := c.Get("a"); !ok {
			t.Error("forgotten too early")
		}
		time.Sleep(time.Nanosecond)
		if _, ok := c.Get("a"); ok {
			t.Error("cached too long")
		}
		none := opa.NewTestCache(-1, time.Second)
		none.Put("a", "1")
		if _, ok := none.Get("a"); ok {
			t.Error("a cache that is off holds something")
		}
	})
}

// Callers are in one class only if the policy reads nothing that tells them
// apart.
func TestViewClass(t *testing.T) {
	t.Parallel()
	class := func(p *opa.Phase, id gate.Identity) string {
		class, cacheable := p.ViewClass(gate.NewIdentity(id))
		if !cacheable {
			t.Error("decisions are not cacheable")
		}
		return class
	}
	classes := func(p *opa.Phase, field string) (string, string) {
		a, b := *alice(), *alice()
		if field != "" {
			v := reflect.ValueOf(&b).Elem()
			change(t, v, field)
		}
		return class(p, a), class(p, b)
	}
	member := map[string]string{
		"Tenant": "tenant", "Persona": "persona_id", "Subject": "user_id",
		"Groups": "groups", "Scopes": "scopes", "Plan": "plan", "Issuer": "issuer", "Agents": "agent",
	}
	for field, name := range member {
		for other, read := range member {
			p := asking(t, "default decision := false\ndecision if input."+read)
			if a, b := classes(p, field); (a == b) != (field != other) {
				t.Errorf("callers with another %s and a policy that reads input.%s: %q and %q", name, read, a, b)
			}
		}
		for _, rego := range []string{"count(input) > 0", "input.context.x", "object.get(input, \"a\", 1)"} {
			p := asking(t, "default decision := false\ndecision if "+rego)
			if a, b := classes(p, field); a == b {
				t.Errorf("callers with another %s and a policy with %s: both %q", name, rego, a)
			}
		}
	}
	read := opa.CallerMembers()
	slices.Sort(read)
	var all []string
	for _, name := range member {
		all = append(all, name)
	}
	slices.Sort(all)
	if !slices.Equal(read, all) {
		t.Errorf("members %v, tested %v", read, all)
	}

	plain := asking(t, "decision := true")
	if a, b := classes(plain, ""); a != b {
		t.Errorf("one caller has the classes %q and %q", a, b)
	}
	if err := plain.SetData(opa.Data{GlobalToolDeny: []string{"x"}}); err != nil {
		t.Fatal(err)
	}
	after, _ := classes(plain, "")
	other := asking(t, "decision := true # other")
	if before, _ := classes(other, ""); after == before {
		t.Error("two policies share a class")
	}
	clock := asking(t, "decision := time.now_ns() > 0")
	if _, cacheable := clock.ViewClass(alice()); cacheable {
		t.Error("decisions of a policy that looks at the clock are cacheable")
	}
	remote := newPhase(t, opa.Options{Settings: opa.Settings{URL: "http://127.0.0.1:1"}})
	if _, cacheable := remote.ViewClass(alice()); cacheable {
		t.Error("decisions of a remote policy are cacheable")
	}
}
