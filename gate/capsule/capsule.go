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

// Part implements [gate.Phase].
func (p *Phase) Part() gate.Part {
	return gate.Part{
		Name: Name, Check: p.Check,
		Snapshot: p.Snapshot, Explain: p.Explain, ViewClass: p.ViewClass,
	}
}

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
		if c := &p.capsules[i]; c.counts(id, name) {
			held = append(held, c)
		}
	}
	return held
}

// counts tells whether a capsule decides for an identity: whether it holds it,
// and it is the one of a name, if there is one.
func (c *Capsule) counts(id *gate.Identity, name string) bool {
	if id == nil || name != "" && c.Name != name {
		return false
	}
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

// Check is [gate.Part.Check].
func (p *Phase) Check(_ context.Context, r *gate.Request) (gate.Decision, error) {
	v := p.judge(r)
	return v.decision(r), nil
}

// Snapshot is [gate.Part.Snapshot]: the phase, which is not changed.
func (p *Phase) Snapshot(*gate.Request) any { return p }

// Explain is [gate.Part.Explain].
func (p *Phase) Explain(_ context.Context, r *gate.Request) (gate.Explanation, error) {
	v := p.judge(r)
	e := gate.Explanation{Decision: v.decision(r)}
	for _, pattern := range []*Pattern{v.callable, v.visible} {
		if pattern != nil {
			e.Rules = append(e.Rules, pattern.At)
		}
	}
	for _, pattern := range v.seen {
		e.Rules = append(e.Rules, pattern.At)
	}
	if e.Effect != gate.Allow {
		e.Change = p.change(r)
	}
	return e, nil
}

// verdict is what the capsules say of a request, with the patterns that say so.
// The zero verdict denies.
type verdict struct {
	effect            gate.Effect
	held              bool       // the caller holds a capsule that counts
	visible, callable *Pattern   // of an allow
	seen              []*Pattern // of a deny: those that show what may not be called
}

// judge decides.
func (p *Phase) judge(r *gate.Request) (v verdict) {
	switch {
	case r == nil:
		return verdict{}
	case r.Action == gate.Enable: // a capsule is a set of what servers offer, and not of servers
		return verdict{effect: gate.Abstain}
	}
	names := r.Names()
	for i := range p.all() {
		c := &p.capsules[i]
		if !c.counts(r.Identity, r.Capsule) {
			continue
		}
		v.held = true
		visible := covers(c.Visible, names)
		if visible == nil {
			continue
		}
		if r.Action == gate.View {
			return verdict{effect: gate.Allow, visible: visible}
		}
		if callable := covers(c.Callable, names); callable != nil {
			return verdict{effect: gate.Allow, visible: visible, callable: callable}
		}
		v.seen = append(v.seen, visible)
	}
	return v
}

// decision renders the verdict on a request.
func (v *verdict) decision(r *gate.Request) gate.Decision {
	d := gate.Decision{Effect: v.effect}
	switch {
	case v.effect != gate.Deny:
	case r == nil:
		d.Reason = "nothing was asked"
	case !v.held && r.Capsule != "":
		d.Reason = fmt.Sprintf("the caller does not hold the capsule %q", r.Capsule)
	case !v.held:
		d.Reason = "the caller holds no capsule"
	case v.seen != nil:
		d.Reason = "it is in a capsule of the caller to be seen and not to be called"
	default:
		d.Reason = "it is in no capsule of the caller"
	}
	return d
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

// ViewClass is [gate.Part.ViewClass]: callers that hold the same capsules
// view the same.
func (p *Phase) ViewClass(id *gate.Identity) (class string, cacheable bool) {
	var held strings.Builder
	for _, c := range p.held(id, "") {
		held.WriteString(strconv.Quote(c.Name))
	}
	return held.String(), true
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
