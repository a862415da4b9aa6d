package capsule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/gate"
)

// Name is the name of the phase.
const Name = "capsule"

// Capsule is a named set of capabilities of all kinds. An empty list holds
// nothing and nobody.
type Capsule struct {
	Name     string
	Visible  []Pattern // what may be viewed
	Callable []Pattern // what of that may be called
	Personas []string  // that hold it
	Groups   []string  // that hold it
}

// Pattern is a glob with the place where it is written.
type Pattern struct {
	Glob gate.Glob
	At   gate.Rule
}

// Phase implements [gate.Phase]. The zero Phase, and a nil one, deny
// everything. It is safe for concurrent use and not changed once made.
type Phase struct {
	capsules []Capsule // sorted by name
}

// New returns the phase of some capsules. Their names must differ and consist
// of letters, digits, "-" and "_", because paths name them.
func New(capsules []Capsule) (*Phase, error) {
	p := &Phase{capsules: slices.Clone(capsules)}
	slices.SortFunc(p.capsules, func(a, b Capsule) int { return strings.Compare(a.Name, b.Name) })
	var problems []error
	for i, c := range p.capsules {
		switch {
		case !ValidName(c.Name):
			problems = append(problems, fmt.Errorf("the capsule %q: a name has 1 to 64 letters, digits, - and _", c.Name))
		case i > 0 && c.Name == p.capsules[i-1].Name:
			problems = append(problems, fmt.Errorf("the capsule %q is there twice", c.Name))
		}
	}
	return p, errors.Join(problems...)
}

// ValidName tells whether a capsule can have a name.
func ValidName(name string) bool {
	if name == "" || len(name) > 64 {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

// Name implements [gate.Phase].
func (*Phase) Name() string { return Name }

// Holds tells whether an identity holds the capsule of a name. It is false for
// a capsule that does not exist, so that the two look the same.
func (p *Phase) Holds(id *gate.Identity, name string) bool {
	return len(p.held(id, name)) > 0
}

// held returns the capsules that decide for an identity: the one of a name, or
// with an empty name all that it holds.
func (p *Phase) held(id *gate.Identity, name string) []*Capsule {
	if p == nil || id == nil {
		return nil
	}
	var held []*Capsule
	for i := range p.capsules {
		if c := &p.capsules[i]; (name == "" || c.Name == name) && c.heldBy(id) {
			held = append(held, c)
		}
	}
	return held
}

func (c *Capsule) heldBy(id *gate.Identity) bool {
	return id.Persona != "" && slices.Contains(c.Personas, id.Persona) ||
		slices.ContainsFunc(id.Groups, func(group string) bool { return slices.Contains(c.Groups, group) })
}

// covers returns the first of some patterns that grants what has some names, nil
// when none does.
func covers(patterns []Pattern, names gate.Names) *Pattern {
	for i := range patterns {
		if names.Granted(patterns[i].Glob) {
			return &patterns[i]
		}
	}
	return nil
}

// Check implements [gate.Phase].
func (p *Phase) Check(_ context.Context, r *gate.Request) (gate.Decision, error) {
	e := p.explain(r)
	return e.Decision, nil
}

// Explain implements [gate.Explainer].
func (p *Phase) Explain(_ context.Context, r *gate.Request) (gate.Explanation, error) {
	e := p.explain(r)
	if e.Effect != gate.Allow {
		e.Change = p.change(r)
	}
	return e, nil
}

// explain decides, and says which patterns did.
func (p *Phase) explain(r *gate.Request) gate.Explanation {
	if r == nil {
		return gate.Explanation{Decision: gate.Decision{Reason: "nothing was asked"}}
	}
	if r.Action == gate.Enable { // a capsule is a set of what servers offer, and not of servers
		return gate.Explanation{Decision: gate.Decision{Effect: gate.Abstain}}
	}
	held := p.held(r.Identity, r.Capsule)
	seen := gate.Explanation{}
	for _, c := range held {
		visible := covers(c.Visible, r.Names())
		if visible == nil {
			continue
		}
		if r.Action == gate.View {
			return gate.Explanation{Decision: gate.Decision{Effect: gate.Allow}, Rules: []gate.Rule{visible.At}}
		}
		if callable := covers(c.Callable, r.Names()); callable != nil {
			return gate.Explanation{Decision: gate.Decision{Effect: gate.Allow}, Rules: []gate.Rule{callable.At, visible.At}}
		}
		seen.Rules = append(seen.Rules, visible.At)
	}
	switch {
	case len(held) == 0:
		seen.Reason = "the caller holds no capsule"
		if r.Capsule != "" {
			seen.Reason = fmt.Sprintf("the caller does not hold the capsule %q", r.Capsule)
		}
	case seen.Rules != nil:
		seen.Reason = "it is in a capsule of the caller to be seen and not to be called"
	default:
		seen.Reason = "it is in no capsule of the caller"
	}
	return seen
}

// change is what would make a capsule allow a request: a further name in one
// that the caller holds, or a capsule to hold.
func (p *Phase) change(r *gate.Request) *gate.Change {
	held := p.held(r.Identity, r.Capsule)
	if len(held) == 0 {
		return p.hold(r)
	}
	for _, c := range held { // one that shows it already needs one change alone
		if r.Action != gate.View && covers(c.Visible, r.Names()) != nil {
			return add(c.Name, "callable", r.Exposed)
		}
	}
	for _, c := range held {
		if covers(c.Callable, r.Names()) != nil {
			return add(c.Name, "visible", r.Exposed)
		}
	}
	return add(held[0].Name, "visible", r.Exposed)
}

// add is the change that puts a name into a list of a capsule.
func add(capsule, list, name string) *gate.Change {
	return &gate.Change{
		Text:  fmt.Sprintf("add %q to capsules.%s.%s", name, capsule, list),
		Where: "capsules." + capsule + "." + list, Value: name,
	}
}

// hold is the change that lets the caller hold a capsule.
func (p *Phase) hold(r *gate.Request) *gate.Change {
	if r.Identity == nil {
		return nil
	}
	name := r.Capsule
	if i := slices.IndexFunc(p.all(), func(c Capsule) bool { return covers(c.Visible, r.Names()) != nil }); name == "" && i >= 0 {
		name = p.capsules[i].Name
	}
	if name == "" {
		name = "NAME"
		if len(p.all()) > 0 {
			name = p.capsules[0].Name
		}
	}
	list, who := "personas", r.Identity.Persona
	if who == "" && len(r.Identity.Groups) > 0 {
		list, who = "groups", r.Identity.Groups[0]
	}
	if who == "" {
		return &gate.Change{
			Text:  fmt.Sprintf("give the caller a persona or a group that holds the capsule %s", name),
			Where: "capsules." + name, Value: "",
		}
	}
	return &gate.Change{
		Text:  fmt.Sprintf("add %q to capsules.%s.%s", who, name, list),
		Where: "capsules." + name + "." + list, Value: who,
	}
}

func (p *Phase) all() []Capsule {
	if p == nil {
		return nil
	}
	return p.capsules
}

// ViewClass implements [gate.Classifier]: callers that hold the same capsules
// view the same.
func (p *Phase) ViewClass(id *gate.Identity) string {
	var class strings.Builder
	for _, c := range p.held(id, "") {
		class.WriteString(strconv.Quote(c.Name))
	}
	return class.String()
}

// Unmatched returns the patterns that grant none of some capabilities, with
// where they are written: a list that names what does not exist confines nobody
// in the way that its writer thinks.
func (p *Phase) Unmatched(names []gate.Names) []Pattern {
	var out []Pattern
	for _, c := range p.all() {
		for _, pattern := range slices.Concat(c.Visible, c.Callable) {
			if !slices.ContainsFunc(names, func(n gate.Names) bool { return n.Granted(pattern.Glob) }) {
				out = append(out, pattern)
			}
		}
	}
	return out
}
