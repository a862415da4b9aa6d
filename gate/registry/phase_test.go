package registry_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
)

func who(tenant, persona string) *gate.Identity {
	return gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: "i", Tenant: tenant, Subject: "s"}, Persona: persona})
}

// A tenant's flag is over the catalog, a persona's restriction over that, and a
// held definition over everything.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	r := newRig(t, closed)
	r.list(t, offer(t, "a", tool("x"), tool("y")))
	ctx, x := t.Context(), r.id(t, "a__x")
	expect := func(when, want string) {
		t.Helper()
		r.expect(t, when, "a", "x", want)
	}
	must(t, r.SetEnabled(ctx, x, false, r.by))
	expect("disabled", isDisabled)
	must(t, r.Flag(ctx, x, "acme", true, r.by))
	expect("on for the tenant", "pass")
	if got := r.says(t, asks("a", "x", who("other", ""))); !strings.Contains(got, isDisabled) {
		t.Errorf("another tenant: %s", got)
	}
	must(t, r.Restrict(ctx, x, "dev", r.by))
	expect("restricted", isAway)
	if got := r.says(t, asks("a", "x", who("acme", "ops"))); got != "pass" {
		t.Errorf("another persona: %s", got)
	}
	_, err := r.LiftRestriction(ctx, x, "dev")
	must(t, err)
	must(t, r.SetEnabled(ctx, x, true, r.by))
	must(t, r.Flag(ctx, x, "acme", false, r.by))
	expect("off for the tenant", isOff)
	must(t, r.Flag(ctx, x, "acme", true, r.by))
	r.list(t, offer(t, "a", tool("x", "changed"), tool("y")))
	expect("held, on for the tenant", isHeld)
	r.expect(t, "untouched", "a", "y", "pass")
	if ok, err := r.ClearFlag(ctx, x, "nobody"); ok || err != nil {
		t.Errorf("a flag that is not there: %v, %v", ok, err)
	}
	call := asks("a", "y", alice)
	call.Action = gate.Call
	if got := r.says(t, call); got != "pass" {
		t.Errorf("a call: %s", got)
	}
}

// What nobody decided about is as the default says, also when that changes.
func TestDefault(t *testing.T) {
	t.Parallel()
	disabled := open
	disabled.DefaultEnabled = false
	r := newRig(t, disabled)
	r.list(t, offer(t, "a", tool("x"), tool("on"), tool("off")))
	r.expect(t, "nobody decided", "a", "x", isDisabled)
	must(t, r.SetEnabled(t.Context(), r.id(t, "a__on"), true, r.by))
	must(t, r.SetEnabled(t.Context(), r.id(t, "a__off"), false, r.by))
	r.expect(t, "enabled", "a", "on", "pass")
	r.Configure(open)
	r.expect(t, "another default", "a", "x", "pass")
	r.expect(t, "another default", "a", "on", "pass")
	r.expect(t, "another default", "a", "off", isDisabled)
}

// A resource that no list has may come out of a template, and is as that is.
func TestUnlistedResources(t *testing.T) {
	t.Parallel()
	r := newRig(t, closed)
	r.list(t, offer(t, "a", `template {"uriTemplate":"file:///{path}","name":"t"}`, `template {"uriTemplate":"db://{table}/rows/{id}.json","name":"u"}`))
	says := func(uri string) string {
		return r.says(t, &gate.Request{Action: gate.Call, Kind: mcp.Resource, Server: "a", Original: uri, Exposed: "a+" + uri, Identity: alice})
	}
	for _, uri := range []string{"file:///x", "db://t/rows/1.json", "other://x"} {
		if got := says(uri); got != "pass" {
			t.Errorf("%s: %s", uri, got)
		}
	}
	must(t, r.SetEnabled(t.Context(), r.id(t, "a+file:///{path}"), false, r.by))
	must(t, r.Flag(t.Context(), r.id(t, "a+db://{table}/rows/{id}.json"), "acme", false, r.by))
	for uri, want := range map[string]string{
		"file:///x": "template that is not served", "file:///a/b/c": "template that is not served", "db://t/rows/1.json": "template that is not served",
		"db://t/rows/1": "pass", "other://x": "pass",
	} {
		if got := says(uri); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", uri, got, want)
		}
	}
	disabled := closed
	disabled.DefaultEnabled = false
	r.Configure(disabled)
	if got := says("other://x"); !strings.Contains(got, "not in the catalog") {
		t.Errorf("with everything disabled: %s", got)
	}
	prompt := &gate.Request{Action: gate.View, Kind: mcp.Prompt, Server: "a", Original: "p", Identity: alice}
	if got := r.says(t, prompt); !strings.Contains(got, isUnknown) {
		t.Errorf("a prompt that no list has: %s", got)
	}
	enable := &gate.Request{Action: gate.Enable, Identity: alice}
	if got := r.says(t, enable); got != "pass" {
		t.Errorf("adding a server is not a matter of this phase: %s", got)
	}
}

// A server may take a URI in another spelling for the one that it lists.
func TestSpellingsOfResources(t *testing.T) {
	t.Parallel()
	r := newRig(t, closed)
	first := []string{`resource {"uri":"notes://box/Secret a","name":"s"}`, `resource {"uri":"notes://box/open","name":"o"}`, `template {"uriTemplate":"db://Rows/{id}","name":"t"}`}
	r.list(t, offer(t, "a", first...))
	r.list(t, offer(t, "a", append(first, `resource {"uri":"notes://box/new","name":"n"}`)...))
	must(t, r.SetEnabled(t.Context(), r.id(t, "a+notes://box/Secret a"), false, r.by))
	must(t, r.Restrict(t.Context(), r.id(t, "a+db://Rows/{id}"), "dev", r.by))
	for uri, want := range map[string]string{
		"notes://box/Secret a": isDisabled, "notes://box/Secret%20a": isDisabled, "NOTES://box/Secret a": isDisabled, "notes://BOX/secret a": isDisabled,
		"notes://box/./Secret a": isDisabled, "notes://box/x/../Secret%2520a": isDisabled, "notes://box/%2e/Secret a": isDisabled, `notes:\\box\Secret a`: isDisabled,
		"notes://box//Secret a/": isDisabled, "notes://box/Secret a?x=1": isDisabled, "notes://box/Secret a/#x": isDisabled, " notes://box/Sec\tret a ": isDisabled,
		"notes://box/Secret%20%61?%": isDisabled, "notes://box/Secret%20%61#%zz": isDisabled, "notes://box/n%65w": isHeld, "notes://box/new/.": isHeld,
		"db://Rows/1": "template that is not served", "DB://rows/1": "template that is not served", "db://Rows/x/../1": "template that is not served",
		"notes://box/OPEN": "pass", "notes://box/other": "pass", "notes://box/Secret": "pass",
	} {
		q := &gate.Request{Action: gate.Call, Kind: mcp.Resource, Server: "a", Original: uri, Exposed: "a+" + uri, Identity: alice}
		if got := r.says(t, q); !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", uri, got, want)
		}
		q.Server = "b"
		if got := r.says(t, q); got != "pass" {
			t.Errorf("%q of another server: %s", uri, got)
		}
	}
}

// What guards and is not set up refuses.
func TestZeroValues(t *testing.T) {
	t.Parallel()
	q := asks("a", "x", alice)
	for name, p := range map[string]*registry.Phase{
		"nil": nil, "zero": {}, "of the nil registry": (*registry.Registry)(nil).Phase(), "of the zero registry": new(registry.Registry).Phase(),
	} {
		d, err := p.Check(t.Context(), q)
		if d.Effect != gate.Deny || !errors.Is(err, registry.ErrUnavailable) || d.Reason != "registry_unavailable" {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	r := newRig(t, open)
	r.list(t, offer(t, "a", tool("x")))
	for name, q := range map[string]*gate.Request{"nothing": nil, "nobody": asks("a", "x", nil)} {
		if d, err := r.Phase().Check(t.Context(), q); d.Effect != gate.Deny || err != nil {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	if c := new(registry.Registry).Class("cap_x"); !c.Destructive || c.ReadOnly {
		t.Errorf("an unknown class: %+v", c)
	}
}

// A pinned phase goes on deciding as it did, and is the same until something
// changes.
func TestPin(t *testing.T) {
	t.Parallel()
	r := newRig(t, open)
	r.list(t, offer(t, "a", tool("x")))
	chain := gate.NewChain(gate.Open{}, r.Phase())
	before := chain.Pin()
	if !before.Same(chain.Pin()) || before == chain {
		t.Error("it is another although nothing changed")
	}
	class := chain.ViewClass(alice)
	must(t, r.SetEnabled(t.Context(), r.id(t, "a__x"), false, r.by))
	after := chain.Pin()
	if before.Same(after) || chain.ViewClass(alice) == class {
		t.Error("a change is not seen")
	}
	q := asks("a", "x", alice)
	if before.Decide(t.Context(), q).Effect != gate.Allow || after.Decide(t.Context(), q).Effect != gate.Deny {
		t.Error("a pinned chain does not decide as it did")
	}
}

// Callers are one class only if they view the same.
func TestViewClass(t *testing.T) {
	t.Parallel()
	r := newRig(t, open)
	r.list(t, offer(t, "a", tool("x")))
	p := r.Phase()
	class := func(id *gate.Identity) string {
		class, cacheable := p.ViewClass(id)
		if !cacheable {
			t.Errorf("decisions for %v are not cacheable", id)
		}
		return class
	}
	if class(who("a", "b")) != class(who("c", "d")) {
		t.Error("callers are told apart for nothing")
	}
	must(t, r.Flag(t.Context(), r.id(t, "a__x"), "acme", false, r.by))
	must(t, r.Restrict(t.Context(), r.id(t, "a__x"), "dev", r.by))
	seen := map[string]bool{}
	for _, id := range []*gate.Identity{who("acme", ""), who("acme", "dev"), who("other", "dev"), who("other", "")} {
		if seen[class(id)] {
			t.Errorf("%+v is not told apart", id)
		}
		seen[class(id)] = true
	}
}

// model is what the phase should decide, written as the design says it.
type model struct {
	s        registry.Rules
	accepted map[string]string // hash by tool
	listed   map[string]string // description by tool
	decided  map[string]bool
	flags    map[[2]string]bool // tenant, tool
	away     map[[2]string]bool // persona, tool
}

func (m *model) allows(tool, tenant, persona string) bool {
	description, listed := m.listed[tool]
	if !listed || m.accepted[tool] != description || m.away[[2]string{persona, tool}] {
		return false
	}
	if on, flagged := m.flags[[2]string{tenant, tool}]; flagged {
		return on
	}
	if on, decided := m.decided[tool]; decided {
		return on
	}
	return m.s.DefaultEnabled
}

// Random catalogs, flags and restrictions: the phase decides as the model, says
// so in both ways, and every change that it proposes lifts the deny.
func TestDecidesAsTheModel(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	tools, tenants, personas := []string{"t0", "t1", "t2", "t3", "t4"}, []string{"acme", "other", "default"}, []string{"", "dev", "ops"}
	any := func(from []string) string { return from[random.IntN(len(from))] }
	for range 8 {
		m := &model{
			s:        registry.Rules{DefaultEnabled: random.IntN(3) > 0, OnNew: registry.Enable, OnChange: registry.Hold},
			accepted: map[string]string{}, listed: map[string]string{}, decided: map[string]bool{},
			flags: map[[2]string]bool{}, away: map[[2]string]bool{},
		}
		r := newRig(t, m.s)
		relist := func() {
			var lines []string
			for _, name := range tools {
				if description, ok := m.listed[name]; ok {
					lines = append(lines, tool(name, description))
					if m.accepted[name] == "" {
						m.accepted[name] = description
					}
				}
			}
			r.list(t, offer(t, "a", lines...))
		}
		for _, name := range tools {
			m.listed[name] = "d0"
		}
		relist()
		for range 25 {
			name, tenant, persona, on := any(tools), any(tenants), any(personas[1:]), random.IntN(2) == 0
			id := r.id(t, "a__"+name)
			switch random.IntN(8) {
			case 0, 1:
				m.decided[name] = on
				must(t, r.SetEnabled(t.Context(), id, on, r.by))
			case 2:
				m.flags[[2]string{tenant, name}] = on
				must(t, r.Flag(t.Context(), id, tenant, on, r.by))
			case 3:
				delete(m.flags, [2]string{tenant, name})
				_, err := r.ClearFlag(t.Context(), id, tenant)
				must(t, err)
			case 4:
				m.away[[2]string{persona, name}] = true
				must(t, r.Restrict(t.Context(), id, persona, r.by))
			case 5:
				delete(m.away, [2]string{persona, name})
				_, err := r.LiftRestriction(t.Context(), id, persona)
				must(t, err)
			case 6:
				if m.listed[name] = fmt.Sprintf("d%d", random.IntN(3)); random.IntN(4) == 0 {
					delete(m.listed, name)
				}
				relist()
			default:
				if e, err := r.Entry(t.Context(), id, ""); err == nil && e.Record.HeldHash != "" && m.listed[name] != "" {
					r.accept(t, id)
					m.accepted[name] = m.listed[name]
				}
			}
			for _, name := range tools {
				q := asks("a", name, who(any(tenants), any(personas)))
				got := r.says(t, q) == "pass"
				if want := m.allows(name, q.Identity.Tenant, q.Identity.Persona); got != want {
					t.Fatalf("%s for %s, %q: %v, want %v\n%+v", name, q.Identity.Tenant, q.Identity.Persona, got, want, m)
				}
			}
		}
		for _, name := range tools {
			if m.listed[name] != "" {
				r.lift(t, asks("a", name, who(any(tenants), any(personas))))
			}
		}
	}
}

// lift applies the changes that a deny proposes, one after the other.
func (r *rig) lift(t *testing.T, q *gate.Request) {
	t.Helper()
	for range 5 {
		e, err := r.Phase().Explain(context.Background(), q)
		must(t, err)
		if e.Effect != gate.Deny {
			return
		}
		if e.Change == nil || len(e.Rules) == 0 {
			t.Fatalf("a deny without a change or a rule: %+v", e)
		}
		id := e.Change.Value
		command := strings.Fields(e.Change.Text)
		if len(command) < 4 || command[0] != "toolgate" || command[1] != "catalog" || command[3] != q.Exposed {
			t.Fatalf("the command: %s", e.Change.Text)
		}
		switch e.Change.Where {
		case "tool_catalog.is_enabled":
			must(t, r.SetEnabled(t.Context(), id, true, r.by))
		case "tool_catalog.state":
			r.accept(t, id)
		case "tenant_tool_flags":
			must(t, r.Flag(t.Context(), id, q.Identity.Tenant, true, r.by))
		case "persona_tool_restrictions":
			_, err := r.LiftRestriction(t.Context(), id, q.Identity.Persona)
			must(t, err)
		default:
			t.Fatalf("the change: %+v", e.Change)
		}
	}
	t.Fatalf("five changes do not lift the deny of %s", q.Exposed)
}

// The class comes from the operator; the hints of a server only raise it.
func TestClass(t *testing.T) {
	t.Parallel()
	r := newRig(t, open)
	r.list(t, offer(t, "a", tool("plain"), `tool {"name":"reads","annotations":{"readOnlyHint":true}}`, `tool {"name":"kills","annotations":{"destructiveHint":true}}`))
	yes, no := true, false
	readOnly := store.Class{ReadOnly: &yes, Destructive: &no, Risk: "low"}
	for _, name := range []string{"a__plain", "a__reads", "a__kills"} {
		if c := r.Class(r.id(t, name)); !c.Destructive || c.OperatorClassed {
			t.Errorf("%s before anybody said something: %+v", name, c)
		}
		must(t, r.SetClass(t.Context(), r.id(t, name), readOnly, r.by))
	}
	for name, destructive := range map[string]bool{"a__plain": false, "a__reads": false, "a__kills": true} {
		c := r.Class(r.id(t, name))
		if c.Destructive != destructive || c.ReadOnly == destructive || c.Risk != "low" || !c.OperatorClassed {
			t.Errorf("%s: %+v", name, c)
		}
	}
	// The hint of a definition that is listed now counts, accepted or not.
	r.Configure(closed)
	r.list(t, offer(t, "a", `tool {"name":"plain","annotations":{"destructiveHint":true}}`))
	if c := r.Class(r.id(t, "a__plain")); !c.Destructive {
		t.Errorf("raised: %+v", c)
	}
	if c := r.Class("cap_unknown"); !c.Destructive {
		t.Errorf("unknown: %+v", c)
	}
}

func BenchmarkCheck(b *testing.B) {
	r := newRig(b, open)
	var lines []string
	for i := range 1000 {
		lines = append(lines, tool(fmt.Sprintf("t%d", i)))
	}
	r.list(b, offer(b, "a", lines...))
	all, err := r.Entries(registry.Filter{})
	if err != nil {
		b.Fatal(err)
	}
	q := asks("a", "t500", alice)
	for _, e := range all {
		if e.Original == "t500" {
			q.CapabilityID = e.ID
			must(b, r.Flag(b.Context(), e.ID, "acme", true, r.by))
		}
	}
	p := r.Phase()
	b.ReportAllocs()
	for b.Loop() {
		if d, err := p.Check(b.Context(), q); err != nil || d.Effect != gate.Abstain {
			b.Fatal(d, err)
		}
	}
}
