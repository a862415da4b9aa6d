package capsule_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/capsule"
)

func patterns(globs ...string) []capsule.Pattern {
	var out []capsule.Pattern
	for i, g := range globs {
		out = append(out, capsule.Pattern{Glob: gate.Glob(g), At: gate.Rule{File: "f.yaml", Line: i + 1, Text: g}})
	}
	return out
}

func phase(t *testing.T, capsules ...capsule.Capsule) *capsule.Phase {
	t.Helper()
	p, err := capsule.New(capsules)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func who(persona string, groups ...string) *gate.Identity {
	return gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: "i", Subject: "s"}, Persona: persona, Groups: groups})
}

func TestCheck(t *testing.T) {
	p := phase(t,
		capsule.Capsule{Name: "reading", Visible: patterns("gh__*"), Callable: patterns("gh__get_*"), Groups: []string{"readers"}},
		capsule.Capsule{Name: "web", Visible: patterns("web__*"), Callable: patterns("*"), Personas: []string{"bot"}},
		capsule.Capsule{Name: "nothing", Personas: []string{"bot"}},
	)
	for _, tt := range []struct {
		name    string
		id      *gate.Identity
		capsule string
		action  gate.Action
		tool    string
		want    gate.Effect
		reason  string
	}{
		{"sees", who("", "readers"), "", gate.View, "gh__delete", gate.Allow, ""},
		{"calls", who("", "x", "readers"), "", gate.Call, "gh__get_x", gate.Allow, ""},
		{"sees and does not call", who("", "readers"), "", gate.Call, "gh__delete", gate.Deny, "to be seen and not to be called"},
		{"of another capsule", who("", "readers"), "", gate.View, "web__x", gate.Deny, "in no capsule of the caller"},
		{"callable and not visible", who("bot"), "", gate.Call, "gh__get_x", gate.Deny, "in no capsule of the caller"},
		{"two capsules", who("bot", "readers"), "", gate.Call, "web__x", gate.Allow, ""},
		{"the endpoint of one", who("bot", "readers"), "reading", gate.View, "web__x", gate.Deny, "in no capsule"},
		{"its own endpoint", who("bot", "readers"), "web", gate.View, "web__x", gate.Allow, ""},
		{"not held", who("", "readers"), "web", gate.View, "web__x", gate.Deny, `does not hold the capsule "web"`},
		{"does not exist", who("", "readers"), "no", gate.View, "gh__x", gate.Deny, `does not hold the capsule "no"`},
		{"empty", who("bot"), "nothing", gate.View, "web__x", gate.Deny, "in no capsule"},
		{"nobody's", who(""), "", gate.View, "gh__x", gate.Deny, "holds no capsule"},
		{"an empty group", who("", ""), "", gate.View, "gh__x", gate.Deny, "holds no capsule"},
		{"nobody", nil, "", gate.View, "gh__x", gate.Deny, "holds no capsule"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &gate.Request{Action: tt.action, Exposed: tt.tool, Capsule: tt.capsule, Identity: tt.id}
			d, err := p.Check(t.Context(), r)
			if err != nil || d.Effect != tt.want || !strings.Contains(d.Reason, tt.reason) {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
	if !p.Holds(who("bot"), "web") || p.Holds(who("x"), "web") || p.Holds(who("bot"), "no") || p.Holds(nil, "web") {
		t.Error("wrong about who holds what")
	}
	var zero *capsule.Phase
	if d, _ := zero.Check(t.Context(), &gate.Request{Action: gate.View, Exposed: "x", Identity: who("bot")}); d.Effect != gate.Deny {
		t.Errorf("the nil phase: %+v", d)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, capsules := range map[string][]capsule.Capsule{
		"no name":   {{}},
		"a path":    {{Name: "a/b"}},
		"dots":      {{Name: ".."}},
		"too long":  {{Name: strings.Repeat("a", 65)}},
		"same name": {{Name: "a"}, {Name: "a"}},
	} {
		if _, err := capsule.New(capsules); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestUnmatched(t *testing.T) {
	p := phase(t, capsule.Capsule{Name: "c", Visible: patterns("gh__*", "gl__*"), Callable: patterns("gh__get")})
	got := p.Unmatched([]gate.Names{{Exposed: "gh__get"}})
	if len(got) != 1 || got[0].Glob != "gl__*" || got[0].At.Line != 2 {
		t.Errorf("unmatched: %+v", got)
	}
}

// apply carries out a change of an explanation.
func apply(t *testing.T, capsules []capsule.Capsule, c *gate.Change) []capsule.Capsule {
	t.Helper()
	parts := strings.Split(c.Where, ".")
	if len(parts) != 3 || parts[0] != "capsules" {
		t.Fatalf("change %+v", c)
	}
	out := slices.Clone(capsules)
	i := slices.IndexFunc(out, func(c capsule.Capsule) bool { return c.Name == parts[1] })
	if i < 0 {
		out = append(out, capsule.Capsule{Name: parts[1]})
		i = len(out) - 1
	}
	switch set := &out[i]; parts[2] {
	case "visible":
		set.Visible = append(slices.Clone(set.Visible), patterns(c.Value)...)
	case "callable":
		set.Callable = append(slices.Clone(set.Callable), patterns(c.Value)...)
	case "personas":
		set.Personas = append(slices.Clone(set.Personas), c.Value)
	case "groups":
		set.Groups = append(slices.Clone(set.Groups), c.Value)
	default:
		t.Fatalf("change %+v", c)
	}
	return out
}

// Every deny proposes a change; carried out, one after the other, at most three
// make it an allow. Explain says what Check says, and what may be called may be
// viewed.
func TestChangesLeadToAnAllow(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	words := []string{"a__x", "a__y", "b__x", "a__*", "*", "b__?"}
	some := func(from []string) []string {
		var out []string
		for _, w := range from {
			if random.IntN(4) == 0 {
				out = append(out, w)
			}
		}
		return out
	}
	for n := range 2000 {
		var capsules []capsule.Capsule
		for i := range random.IntN(4) {
			capsules = append(capsules, capsule.Capsule{
				Name: fmt.Sprintf("c%d", i), Visible: patterns(some(words)...), Callable: patterns(some(words)...),
				Personas: some([]string{"p", "q"}), Groups: some([]string{"g", "h"}),
			})
		}
		r := &gate.Request{
			Action: gate.View, Exposed: words[random.IntN(3)],
			Identity: who([]string{"p", "q", "r"}[random.IntN(3)], some([]string{"g", "h"})...),
		}
		if random.IntN(2) == 0 {
			r.Action = gate.Call
		}
		if random.IntN(3) == 0 {
			r.Capsule = fmt.Sprintf("c%d", random.IntN(4))
		}
		for step := 0; ; step++ {
			p := phase(t, capsules...)
			e, err := p.Explain(t.Context(), r)
			d, _ := p.Check(t.Context(), r)
			if err != nil || d.Effect != e.Effect || d.Reason != e.Reason {
				t.Fatalf("case %d: check %+v, explain %+v, %v", n, d, e, err)
			}
			if e.Effect == gate.Allow {
				view := *r
				view.Action = gate.View
				if d, _ := p.Check(t.Context(), &view); d.Effect != gate.Allow {
					t.Fatalf("case %d: callable and not viewable", n)
				}
				if len(e.Rules) == 0 || e.Change != nil {
					t.Fatalf("case %d: an allow %+v", n, e)
				}
				break
			}
			if step == 3 || e.Change == nil || e.Change.Text == "" {
				t.Fatalf("case %d: %+v after %d changes", n, e, step)
			}
			capsules = apply(t, capsules, e.Change)
		}
	}
}

// Callers of one class view the same.
func TestViewClass(t *testing.T) {
	p := phase(t,
		capsule.Capsule{Name: "a", Visible: patterns("a__*"), Groups: []string{"g"}},
		capsule.Capsule{Name: "b", Visible: patterns("b__*"), Personas: []string{"p"}},
	)
	class := func(id *gate.Identity) string {
		class, cacheable := p.ViewClass(id)
		if !cacheable {
			t.Errorf("decisions for %v are not cacheable", id)
		}
		return class
	}
	if class(who("p")) == class(who("", "g")) || class(who("p", "x")) != class(who("p", "y")) || class(nil) != "" {
		t.Error("classes are wrong")
	}
}
