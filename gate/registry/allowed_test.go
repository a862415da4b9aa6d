package registry_test

import (
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/internal/mcp"
)

const isNotAllowed = "it is none of what is allowed to the persona"

// A persona to which something is allowed has of that kind nothing else: not what another
// server lists, not what comes later, and not what is only mentioned. Other personas and
// kinds stay as they are.
func TestAllowedPersonas(t *testing.T) {
	t.Parallel()
	s := seeded(closed, registry.SeedEntry{Name: "a__read", AllowPersonas: []string{"dev"}})
	r := newRig(t, s)
	prompt := `prompt {"name":"ask"}`
	r.list(t, offer(t, "a", tool("read"), tool("write"), prompt), offer(t, "b", tool("read")))
	other := gate.NewIdentity(gate.Identity{Principal: gate.Principal{Tenant: "acme", Subject: "bob"}, Persona: "ops"})
	nobody := gate.NewIdentity(gate.Identity{Principal: gate.Principal{Tenant: "acme", Subject: "bob"}})
	check := func(when string, want map[string]string) {
		t.Helper()
		for name, reason := range want {
			r.expect(t, when, name[:1], name[2:], reason)
			if got := r.says(t, asks(name[:1], name[2:], other)); got != "pass" {
				t.Errorf("%s: another persona: %s: %s", when, name, got)
			}
			if got := r.says(t, asks(name[:1], name[2:], nobody)); got != "pass" {
				t.Errorf("%s: no persona: %s: %s", when, name, got)
			}
		}
	}
	check("seeded", map[string]string{"a/read": "pass", "a/write": isNotAllowed, "b/read": isNotAllowed})
	q := asks("a", "ask", alice)
	q.Kind = mcp.Prompt
	if got := r.says(t, q); got != "pass" {
		t.Errorf("a prompt: %s", got)
	}
	must(t, r.Allow(t.Context(), r.id(t, "b__read"), "dev", r.by))
	check("one more", map[string]string{"a/read": "pass", "a/write": isNotAllowed, "b/read": "pass"})
	must(t, r.Restrict(t.Context(), r.id(t, "a__read"), "dev", r.by))
	check("denied", map[string]string{"a/read": isAway, "a/write": isNotAllowed, "b/read": "pass"})
	e, err := r.Phase().Part().Explain(t.Context(), asks("a", "write", alice))
	if err != nil || e.Change == nil || e.Change.Text != "toolgate catalog restrict a__write --persona dev --allow" {
		t.Errorf("explained: %+v, %v", e, err)
	}
	for _, l := range r.Listing() {
		if denied := len(l.Personas) > 0; denied != (l.Name == "a__read" || l.Name == "a__write") {
			t.Errorf("policies see %s as kept from %v", l.Name, l.Personas)
		}
	}

	// The list counts although what it has is recorded no more, and is gone once it is lifted.
	r.list(t, offer(t, "a", tool("read"), tool("write"), prompt))
	if _, err := r.Forget(t.Context(), r.id(t, "b__read")); err != nil {
		t.Fatal(err)
	}
	check("forgotten", map[string]string{"a/write": isNotAllowed})
	if got := r.says(t, q); got != isNotAllowed {
		t.Errorf("of which kind the list was is not known any more, and a prompt is decided as %q", got)
	}
}

// A resource that no list has is not allowed to a persona with a list of resources, unless
// a template that it has covers it.
func TestAllowedResources(t *testing.T) {
	t.Parallel()
	rules := closed
	rules.DefaultEnabled = true
	r := newRig(t, rules)
	r.list(t, offer(t, "a", `resource {"uri":"file:///x","name":"x"}`, `resource {"uri":"file:///y","name":"y"}`, `template {"uriTemplate":"log:///{day}","name":"log"}`))
	read := func(uri string) string {
		return r.says(t, &gate.Request{Action: gate.View, Kind: mcp.Resource, Server: "a", Original: uri, Exposed: "a+" + uri, Identity: alice})
	}
	must(t, r.Allow(t.Context(), r.id(t, "a+file:///x"), "dev", r.by))
	for uri, want := range map[string]string{
		"file:///x": "pass", "file:///X": "pass", "file:///y": isNotAllowed, "file:///elsewhere": isNotAllowed, "log:///today": "its URI matches a template that is not served",
	} {
		if got := read(uri); got != want {
			t.Errorf("%s: %s, want %s", uri, got, want)
		}
	}
	must(t, r.Allow(t.Context(), r.id(t, "a+log:///{day}"), "dev", r.by))
	if got := read("log:///today"); got != "pass" {
		t.Errorf("of a template that is allowed: %s", got)
	}
}
