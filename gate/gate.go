package gate

import (
	"context"
	"fmt"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Action is what somebody wants to do with a capability.
type Action string

// The actions.
const (
	View Action = "view"    // know that it exists
	Call Action = "request" // call a tool, get a prompt, read a resource
)

// Request is one question to the gate. It is not changed by the phases.
type Request struct {
	Action       Action
	Kind         mcp.Capability
	Server       string // key of the server in the configuration
	Original     string // name or URI at the server
	Exposed      string // name or URI that the client knows
	CapabilityID string
	Identity     *Identity
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
	// Revision names the state of the rules that decided.
	Revision string
	// Err is set when a phase could not decide, which denies.
	Err error
}

// Phase is one check. It is safe for concurrent use and bounds its own waits.
type Phase interface {
	// Name is the phase's name in decisions and audit entries.
	Name() string
	// Check answers a request. An error denies.
	Check(ctx context.Context, r *Request) (Decision, error)
}

// Chain is the ordered phases. The zero Chain, and a nil one, deny everything.
type Chain struct {
	phases []Phase
}

// NewChain returns the chain of the phases in their order.
func NewChain(phases ...Phase) *Chain { return &Chain{phases: phases} }

// Decide asks the phases. The first deny ends; without an allow it is a deny.
func (c *Chain) Decide(ctx context.Context, r *Request) Decision {
	if c == nil || r == nil || r.Identity == nil {
		return Decision{Reason: "no rule allows it"}
	}
	verdict := Decision{Reason: "no rule allows it"}
	for _, p := range c.phases {
		d, err := p.Check(ctx, r)
		if err != nil {
			return Decision{Phase: p.Name(), Reason: "the check could not be made", Err: fmt.Errorf("%s: %w", p.Name(), err)}
		}
		d.Phase = p.Name()
		switch d.Effect {
		case Allow:
			verdict = d
		case Abstain:
		default:
			d.Effect = Deny
			return d
		}
	}
	return verdict
}

// Classifier is a [Phase] that tells which callers it lets view the same.
type Classifier interface {
	// ViewClass returns the same string for two callers only if the phase
	// decides the same for both, on every capability, for the action View.
	ViewClass(id *Identity) string
}

// ViewClass returns the same string for two callers only if they may view the
// same. Where a phase cannot tell, each caller is a class of its own.
func (c *Chain) ViewClass(id *Identity) string {
	if c == nil || id == nil {
		return ""
	}
	var class strings.Builder
	for _, p := range c.phases {
		own, ok := p.(Classifier)
		if !ok {
			return "principal:" + id.Key()
		}
		part := own.ViewClass(id)
		fmt.Fprintf(&class, "%d:%s", len(part), part)
	}
	return class.String()
}

// Open is the phase that allows everything to everyone who is known. It is in
// a chain only where that was said: on a loopback gateway without
// authentication, or by `gate: { open: true }`.
type Open struct{}

// Name implements [Phase].
func (Open) Name() string { return "open" }

// ViewClass implements [Classifier]: everyone views everything.
func (Open) ViewClass(*Identity) string { return "" }

// Check implements [Phase].
func (Open) Check(context.Context, *Request) (Decision, error) {
	return Decision{Effect: Allow}, nil
}
