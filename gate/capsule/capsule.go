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

// Capsule is a named set of capabilities of all kinds. An empty list matches nothing
// and nobody.
type Capsule struct {
	Name     string
	Visible  []Pattern // what may be viewed
	Callable []Pattern // which of those may be called
	Personas []string  // that hold it
	Groups   []string  // that hold it
	// NarrowsOnly means that it is there for agents and tools with steps alone. Where all capsules are, they say
	// nothing about callers that no capsule narrows.
	NarrowsOnly bool
	Finds       bool     // its endpoint has the find view
	Pins        []string // names that the find view also lists; nil for those of every find view
}

// Pattern is a glob and the place where it is written.
type Pattern struct {
	Glob gate.Glob
	At   gate.Rule
}

// Phase implements [gate.Phase]. The zero Phase, and a nil one, deny everything. It is
// immutable and safe for concurrent use.
type Phase struct {
	capsules []Capsule // sorted by name
	narrows  bool      // all of them only narrow
}

// New returns the phase of the given capsules. Their names must differ and consist of
// letters, digits, "-" and "_", because endpoint paths contain them.
func New(capsules []Capsule) (*Phase, error) {
	p := &Phase{capsules: slices.Clone(capsules)}
	p.narrows = len(capsules) > 0 && !slices.ContainsFunc(capsules, func(c Capsule) bool { return !c.NarrowsOnly })
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

// ValidName tells whether a name is valid for a capsule.
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
		Name: Name, Check: p.Check, Narrows: true,
		Snapshot: p.Snapshot, Explain: p.Explain, ViewClass: p.ViewClass,
	}
}

// Decides tells whether the phase grants anything: some capsule is there for callers.
func (p *Phase) Decides() bool { return p == nil || !p.narrows }

// Holds tells whether an identity holds the named capsule. It is false for a capsule
// that does not exist, so that callers cannot tell the two cases apart.
func (p *Phase) Holds(id *gate.Identity, name string) bool {
	return len(p.held(id, name)) > 0
}

// Finds reports whether the endpoint of a capsule has the find view.
func (p *Phase) Finds(name string) bool {
	c := p.named(name)
	return c != nil && c.Finds
}

// Pins returns the names that the find view of a capsule also lists. nil means that the
// capsule has no list of its own.
func (p *Phase) Pins(name string) []string {
	if c := p.named(name); c != nil {
		return c.Pins
	}
	return nil
}

func (p *Phase) named(name string) *Capsule {
	if p == nil {
		return nil
	}
	i := slices.IndexFunc(p.capsules, func(c Capsule) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &p.capsules[i]
}

// held returns the capsules that decide for an identity: the named one or, with an
// empty name, all that it holds.
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

// counts tells whether a capsule decides for an identity: the identity must hold it,
// and a given name must be the capsule's. One that is lent counts where it is named.
func (c *Capsule) counts(id *gate.Identity, name string) bool {
	if id == nil || name != "" && c.Name != name {
		return false
	}
	if name != "" && id.Lent == name {
		return true
	}
	return id.Persona != "" && slices.Contains(c.Personas, id.Persona) ||
		slices.ContainsFunc(id.Groups, func(group string) bool { return slices.Contains(c.Groups, group) })
}

// covers returns the first pattern that matches one of the names, nil when none does.
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

// Snapshot is [gate.Part.Snapshot]: the phase itself, which is immutable.
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

// verdict is the capsules' verdict on a request, with the patterns behind it. The zero
// verdict denies.
type verdict struct {
	effect            gate.Effect
	held              bool       // the caller holds a capsule that counts
	visible, callable *Pattern   // set on an allow
	seen              []*Pattern // set on a deny: patterns that show what may not be called
	outside           string     // set on a deny: the capsule that narrows the caller's rights to less
}

// judge decides.
func (p *Phase) judge(r *gate.Request) (v verdict) {
	switch {
	case r == nil:
		return verdict{}
	case r.Action == gate.Enable: // capsules contain what servers offer, not servers
		return verdict{effect: gate.Abstain}
	}
	names := r.Names()
	if v.outside = p.outside(r, names); v.outside != "" {
		return v
	}
	if !p.Decides() && r.Capsule == "" {
		return verdict{effect: gate.Abstain}
	}
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

// outside returns the first of the capsules that narrow the caller's rights which does not
// have what is asked about; empty where all of them have it.
func (p *Phase) outside(r *gate.Request, names gate.Names) string {
	if r.Identity == nil {
		return ""
	}
	for _, name := range r.Identity.Capsules {
		c := p.named(name)
		if c == nil || covers(c.Visible, names) == nil || r.Action != gate.View && covers(c.Callable, names) == nil {
			return name
		}
	}
	return ""
}

// decision converts the verdict on a request.
func (v *verdict) decision(r *gate.Request) gate.Decision {
	d := gate.Decision{Effect: v.effect}
	switch {
	case v.effect == gate.Allow && r.Capsule != "" && r.Identity.Lent == r.Capsule:
		d.Reason = "run_as " + r.Capsule
	case v.effect != gate.Deny:
	case r == nil:
		d.Reason = "nothing was asked"
	case v.outside != "":
		d.Reason = fmt.Sprintf("it is not in the capsule %q, which narrows what the agent may do", v.outside)
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

// change returns what would make a capsule allow a request: a further name in one that
// the caller holds, or a capsule to hold.
func (p *Phase) change(r *gate.Request) *gate.Change {
	if outside := p.outside(r, r.Names()); outside != "" {
		list := "callable"
		if c := p.named(outside); c == nil || covers(c.Visible, r.Names()) == nil {
			list = "visible"
		}
		return add(outside, list, r.Exposed)
	}
	held := p.held(r.Identity, r.Capsule)
	if len(held) == 0 {
		return p.hold(r)
	}
	for _, c := range held { // one that shows it already needs only one change
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

// add returns the change that adds a name to a list of a capsule.
func add(capsule, list, name string) *gate.Change {
	return &gate.Change{
		Text:  fmt.Sprintf("add %q to capsules.%s.%s", name, capsule, list),
		Where: "capsules." + capsule + "." + list, Value: name,
	}
}

// hold returns the change that gives the caller a capsule.
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

// ViewClass is [gate.Part.ViewClass]: callers that hold the same capsules see the
// same.
func (p *Phase) ViewClass(id *gate.Identity) (class string, cacheable bool) {
	var held strings.Builder
	for _, c := range p.held(id, "") {
		held.WriteString(strconv.Quote(c.Name))
	}
	if id != nil && len(id.Capsules) > 0 {
		fmt.Fprintf(&held, " within %q", id.Capsules)
	}
	if id != nil && id.Lent != "" {
		fmt.Fprintf(&held, " lent %q", id.Lent)
	}
	return held.String(), true
}

// Unmatched returns the patterns that match none of the given capabilities, with their
// places. A pattern without a match does not confine callers as its author thinks.
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
