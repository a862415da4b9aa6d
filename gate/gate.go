package gate

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Action is what somebody wants to do with a capability.
type Action string

// The actions.
const (
	View   Action = "view"    // know that it exists
	Call   Action = "request" // call a tool, get a prompt, read a resource
	Enable Action = "enable"  // have a server added or taken away
)

// Request is one question to the gate. It is not changed by the phases.
type Request struct {
	Action       Action
	Kind         mcp.Kind
	Server       string // key of the server in the configuration
	Original     string // name or URI at the server
	Exposed      string // name or URI that the client knows
	Plain        string // see [Names]; empty where it is Exposed
	CapabilityID string
	Capsule      string // of the endpoint that was called; empty on the main one
	// Args are the arguments of a call as they came, a validated JSON object;
	// nil for everything else.
	Args     []byte
	Identity *Identity
}

// Effect is what a phase or the chain says. The zero Effect is Deny.
type Effect uint8

// The effects.
const (
	Deny Effect = iota
	Allow
	Abstain // the phase has nothing to say
)

// String returns the effect's name.
func (e Effect) String() string {
	switch e {
	case Allow:
		return "allow"
	case Abstain:
		return "abstain"
	default:
		return "deny"
	}
}

// Decision is an answer with its reason. The zero Decision denies.
type Decision struct {
	Effect Effect
	Phase  string // the phase that decided; empty when none did
	Reason string // for the audit and for whoever may know; empty for an allow
	// ID names the decision where the phase gives it one of its own.
	ID string
	// Revision names the state of the rules that decided.
	Revision string
	// Obligations are what a phase demands with its allow, a JSON object; nil for
	// none. The chain turns them into Demands.
	Obligations []byte
	// Demands are the conditions of an allow, of all phases together; nil for
	// none.
	Demands []Demand
	// Err is set when a phase could not decide, which denies. Reason then is a
	// stable word for it, such as "authz_unavailable".
	Err error
}

// Chain is the ordered phases. The zero Chain, and a nil one, deny everything.
type Chain struct {
	parts []Part
	cache *decisionCache // nil caches nothing
	of    *Chain         // which this is a pinned one of; nil for none, see Pin
	rules []any          // of each part that was pinned; nil for a chain that is no pinned one
}

// NewChain returns the chain of the phases in their order. What the first of
// them say is cached for a moment where they have a [Part.State].
func NewChain(phases ...Phase) *Chain {
	c := &Chain{parts: make([]Part, len(phases)), cache: &decisionCache{}}
	for i, p := range phases {
		c.parts[i] = p.Part()
	}
	return c
}

// undecided is the decision of a chain in which no phase allows anything.
func undecided() Decision { return Decision{Reason: "no rule allows it"} }

// Listener hears what each phase says of one request, in their order. It does
// not block.
type Listener interface {
	Said(phase string, d Decision)
}

// Decide asks the phases. The first deny ends; without an allow it is a deny.
func (c *Chain) Decide(ctx context.Context, r *Request) Decision { return c.DecideFor(ctx, r, nil) }

// DecideFor is [Chain.Decide] with somebody who hears what the phases say; nil is
// nobody.
func (c *Chain) DecideFor(ctx context.Context, r *Request, hears Listener) Decision {
	if c == nil || r == nil || r.Identity == nil {
		return undecided()
	}
	first := c.first(ctx, r)
	if hears != nil {
		for i := range first.each {
			hears.Said(c.parts[i].Name, first.each[i])
		}
	}
	verdict, ended := first.verdict, first.ended
	for i := len(first.each); i < len(c.parts); i++ {
		p := &c.parts[i]
		if ended {
			break
		}
		var d Decision
		d, ended = ask(ctx, p, r, &verdict)
		if hears != nil {
			hears.Said(p.Name, d)
		}
	}
	return verdict
}

// first returns what the phases that have a state say, up to the first that has
// none: from the cache, or what they say now.
func (c *Chain) first(ctx context.Context, r *Request) *cachedDecision {
	of, n := states{}, 0
	if c.cache != nil {
		of, n = c.states(r)
	}
	if n == 0 {
		return unasked
	}
	key := r.Key()
	if s := c.cache.get(key, of); s != nil {
		return s
	}
	s := &cachedDecision{states: of, verdict: undecided()}
	for i := range n {
		var d Decision
		d, s.ended = ask(ctx, &c.parts[i], r, &s.verdict)
		s.each = append(s.each, d)
		if s.ended {
			break
		}
	}
	// What was decided while the rules changed is not known to be of either.
	if after, _ := c.states(r); after == of && s.verdict.Err == nil {
		c.cache.put(key, s)
	}
	return s
}

// ask asks one phase, adds what it says to the verdict so far, and returns it.
func ask(ctx context.Context, p *Part, r *Request, verdict *Decision) (d Decision, ended bool) {
	d, err := check(ctx, p, r)
	if ended = judge(p, verdict, d, err); ended {
		d = *verdict
	}
	return d, ended
}

// judge adds what a phase says to the verdict so far and tells whether that
// ends it.
func judge(p *Part, verdict *Decision, d Decision, err error) (ended bool) {
	d.Phase = p.Name
	demands, unknown := readObligations(d.Obligations)
	if d.Effect == Allow && err == nil && unknown != nil {
		err, d.Reason = &RequestError{unknown}, ""
	}
	switch {
	case err != nil || d.Err != nil:
		if err == nil {
			err = d.Err
		}
		reason := d.Reason
		if reason == "" {
			reason = "policy_error"
		}
		*verdict = Decision{Phase: d.Phase, Reason: reason, ID: d.ID, Revision: d.Revision, Err: fmt.Errorf("%s: %w", d.Phase, err)}
		return true
	case d.Effect == Allow:
		d.Demands = slices.Concat(verdict.Demands, d.Demands, demands)
		*verdict = d
		return false
	case d.Effect == Abstain:
		return false
	}
	d.Effect = Deny
	*verdict = d
	return true
}

// Batches tells whether a phase gains by being asked about many at once.
func (c *Chain) Batches() bool {
	return c != nil && slices.ContainsFunc(c.parts, func(p Part) bool { return p.CheckAll != nil })
}

// DecideAll is [Chain.Decide] for many requests, which all have the identity
// and the action of the first.
func (c *Chain) DecideAll(ctx context.Context, rs []Request) []Decision {
	verdicts := make([]Decision, len(rs))
	open := make([]int, 0, len(rs)) // indexes of the requests that are not denied yet
	for i := range rs {
		verdicts[i] = undecided()
		if c != nil && rs[i].Identity != nil {
			open = append(open, i)
		}
	}
	if c == nil {
		return verdicts
	}
	for i := range c.parts {
		if len(open) == 0 {
			break
		}
		open = c.pass(ctx, &c.parts[i], rs, open, verdicts)
	}
	return verdicts
}

// pass asks one phase about the requests that are open and returns those that
// still are.
func (c *Chain) pass(ctx context.Context, p *Part, rs []Request, open []int, verdicts []Decision) []int {
	left := open[:0]
	if p.CheckAll == nil || len(open) < 2 {
		for _, i := range open {
			d, err := check(ctx, p, &rs[i])
			if !judge(p, &verdicts[i], d, err) {
				left = append(left, i)
			}
		}
		return left
	}
	batch := make([]Request, len(open))
	for n, i := range open {
		batch[n] = rs[i]
	}
	decisions, err := checkAll(ctx, p, batch)
	if err == nil && len(decisions) != len(batch) {
		err = fmt.Errorf("%d decisions for %d requests", len(decisions), len(batch))
	}
	for n, i := range open {
		var d Decision
		if n < len(decisions) {
			d = decisions[n]
		}
		if !judge(p, &verdicts[i], d, err) {
			left = append(left, i)
		}
	}
	return left
}

// check asks one phase; one that panics could not decide.
func check(ctx context.Context, p *Part, r *Request) (d Decision, err error) {
	defer caught(&err)
	if p.Check == nil {
		return Decision{}, errNoCheck
	}
	return p.Check(ctx, r)
}

func checkAll(ctx context.Context, p *Part, rs []Request) (ds []Decision, err error) {
	defer caught(&err)
	return p.CheckAll(ctx, rs)
}

func caught(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

// ViewClass returns the same string for two callers only if they may view the
// same. Where a phase cannot tell, each caller is a class of its own.
func (c *Chain) ViewClass(id *Identity) string {
	if c == nil || id == nil {
		return ""
	}
	var class strings.Builder
	for i := range c.parts {
		if c.parts[i].ViewClass == nil {
			return "caller:" + id.Fingerprint()
		}
		part := c.parts[i].ViewClass(id)
		fmt.Fprintf(&class, "%d:%s", len(part), part)
	}
	return class.String()
}

// Classifies tells whether every phase can tell which callers view the same, so
// that [Chain.ViewClass] holds at two times too.
func (c *Chain) Classifies() bool {
	return c != nil && !slices.ContainsFunc(c.parts, func(p Part) bool { return p.ViewClass == nil })
}

// Open is the phase that allows everything to everyone who is known. It is in
// a chain only where that was said: on a loopback gateway without
// authentication, or by `gate: { open: true }`.
type Open struct{}

// Part implements [Phase]: everyone views everything.
func (Open) Part() Part {
	return Part{
		Name:      "open",
		Check:     func(context.Context, *Request) (Decision, error) { return Decision{Effect: Allow}, nil },
		ViewClass: func(*Identity) string { return "" },
	}
}
