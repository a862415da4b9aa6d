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

// Capability is a tool, prompt, resource or template as the gate is asked about it. It
// is not changed once made.
type Capability struct {
	Kind         mcp.Kind
	Server       string // key of the server in the configuration
	Original     string // name or URI at the server
	Exposed      string // name or URI that the client knows
	Unsuffixed   string // see [Names]; empty where it is Exposed
	CapabilityID string
}

// Request returns the request of a caller at the endpoint of a capsule, which is empty on
// the main one.
func (c *Capability) Request(action Action, id *Identity, capsule string) Request {
	return Request{
		Action: action, Kind: c.Kind, Server: c.Server, Original: c.Original,
		Exposed: c.Exposed, Unsuffixed: c.Unsuffixed, CapabilityID: c.CapabilityID, Capsule: capsule, Identity: id,
	}
}

// Request is one question to the gate. It is not changed by the phases.
type Request struct {
	Action       Action
	Kind         mcp.Kind
	Server       string // key of the server in the configuration
	Original     string // name or URI at the server
	Exposed      string // name or URI that the client knows
	Unsuffixed   string // see [Names]; empty where it is Exposed
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
	cache *cache // nil: nothing is cached
	of    *Chain // which this is a pinned one of; nil for none, see Pin
	rules []any  // of each part that was pinned; nil for a chain that is no pinned one
}

// NewChain returns the chain of the phases in their order. It caches what they decide,
// as far as their parts say on what that depends.
func NewChain(phases ...Phase) *Chain {
	c := &Chain{parts: make([]Part, len(phases)), cache: &cache{}}
	for i, p := range phases {
		c.parts[i] = p.Part()
	}
	return c
}

// noRule is the reason of a deny where no phase allows anything.
const noRule = "no rule allows it"

func undecided() Decision { return Decision{Reason: noRule} }

// Listener is told what each phase decides on one request, in their order. It does
// not block.
type Listener interface {
	Decided(phase string, d Decision)
}

// Decide asks the phases. The first deny ends; without an allow it is a deny.
func (c *Chain) Decide(ctx context.Context, r *Request) Decision { return c.DecideFor(ctx, r, nil) }

// DecideFor is [Chain.Decide] with a listener; nil is none.
func (c *Chain) DecideFor(ctx context.Context, r *Request, listener Listener) Decision {
	if c == nil || r == nil || !c.decidesFor(r.Identity) {
		return undecided()
	}
	key := r.Key()
	cached := c.cached(key)
	next := cached
	verdict, ended := undecided(), false
	for i := range c.parts {
		p := &c.parts[i]
		snapshot := c.snapshot(p, r)
		d, known := cached.decision(i, snapshot)
		var err error
		if !known {
			d, err = check(ctx, p, r)
		}
		ended = judge(p, &verdict, d, err)
		// What was decided while the rules changed is not known to be of either.
		if !known && snapshot != nil && verdict.Err == nil && c.snapshot(p, r) == snapshot {
			if next == cached {
				next = cached.clone(len(c.parts))
			}
			next.parts[i] = cachedDecision{snapshot, d}
		}
		if ended {
			d = verdict
		}
		if listener != nil {
			listener.Decided(p.Name, d)
		}
		if ended {
			break
		}
	}
	if next != cached {
		c.cache.putRequest(key, next)
	}
	return verdict
}

// decidesFor reports whether the chain can decide about an identity: there is one, and a
// part knows the capsules that narrow its rights.
func (c *Chain) decidesFor(id *Identity) bool {
	return id != nil && (len(id.Capsules) == 0 || slices.ContainsFunc(c.parts, func(p Part) bool { return p.Narrows }))
}

// cached returns the cached decisions on a request, nil for none.
func (c *Chain) cached(k Key) *cachedRequest {
	if c.cache == nil {
		return nil
	}
	return c.cache.request(k)
}

// snapshot returns the rules by which a part decides a request; nil where its decision is
// not cacheable.
func (c *Chain) snapshot(p *Part, r *Request) any {
	if c.cache == nil || p.Snapshot == nil {
		return nil
	}
	return p.Snapshot(r)
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

// check asks one phase; one that panics could not decide.
func check(ctx context.Context, p *Part, r *Request) (d Decision, err error) {
	defer caught(&err)
	if p.Check == nil {
		return Decision{}, errNoCheck
	}
	return p.Check(ctx, r)
}

func caught(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

// ViewClass returns the same string for two callers only if they may view the
// same. Where a phase cannot tell, each caller is a class of its own.
func (c *Chain) ViewClass(id *Identity) string {
	class, cacheable := c.Class(id)
	if !cacheable {
		return "caller:" + id.Fingerprint()
	}
	return class
}

// Class is [Part.ViewClass] of all phases together.
func (c *Chain) Class(id *Identity) (class string, cacheable bool) {
	if c == nil || id == nil {
		return "", true
	}
	var all strings.Builder
	for i := range c.parts {
		class, ok := "", false
		if of := c.parts[i].ViewClass; of != nil {
			class, ok = of(id)
		}
		if !ok {
			return "", false
		}
		fmt.Fprintf(&all, "%d:%s", len(class), class)
	}
	return all.String(), true
}

// Open is the phase that allows everything to every known caller. It is in a chain only on
// a loopback gateway without authentication, or with `gate: { open: true }`.
type Open struct{}

// Part implements [Phase]: everyone views everything.
func (Open) Part() Part {
	return Part{
		Name:      "open",
		Check:     func(context.Context, *Request) (Decision, error) { return Decision{Effect: Allow}, nil },
		ViewClass: func(*Identity) (string, bool) { return "", true },
	}
}
