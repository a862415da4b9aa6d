package replay

import (
	"context"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
)

// Verdicts that are not effects: the policy failed, or a person has to approve.
const (
	Failed = "error"
	Asks   = "ask"
)

// Question is a call of a tool as far as its record says what a policy is asked.
type Question struct {
	Server     string   `json:"server"`
	Original   string   `json:"original"`
	Exposed    string   `json:"exposed"`
	Capability string   `json:"capability"`
	Issuer     string   `json:"issuer"`
	Tenant     string   `json:"tenant"`
	Subject    string   `json:"subject"`
	Persona    string   `json:"persona"`
	Groups     []string `json:"groups"`
	Plan       string   `json:"plan"`
}

// Asked returns what the policy was asked about a recorded call.
func Asked(r *audit.Record) Question {
	who := &r.Principal
	return Question{
		Server: r.Server, Original: r.OriginalName, Exposed: r.Name, Capability: r.CapabilityID,
		Issuer: who.Issuer, Tenant: who.Tenant, Subject: who.Subject, Persona: who.Persona, Groups: who.Groups, Plan: who.Plan,
	}
}

// IsCall tells whether a record is that of an ended call of a tool.
func IsCall(r *audit.Record) bool {
	return r.Event == audit.EventEnd && r.Method == mcp.MethodToolsCall && r.Server != ""
}

// Was returns the policy's verdict on the last round of a call; empty if the policy was
// not asked.
func Was(r *audit.Record) string {
	const phase = "opa"
	said, asked := "", false
	for _, s := range r.Steps {
		switch s.Phase {
		case "view/" + phase, phase:
			if said != Failed { // behind which the refusal stands
				said = s.Verdict
			}
		case "approval":
			asked = true
		}
	}
	if asked && said == gate.Allow.String() {
		return Asks
	}
	return said
}

// Verdict is what a policy says of a call now.
type Verdict struct {
	// Now is an effect, [Failed] or [Asks]; empty where the record lacks what the policy
	// reads.
	Now    string `json:"now"`
	Reason string `json:"reason,omitempty"` // of a deny
}

// Result is how a verdict compares with the one before.
type Result int

// The results.
const (
	Unknown Result = iota // it cannot be told what the policy would say
	Same
	Changed
)

// Compare compares the verdict with that of a record, which is not empty.
func (v Verdict) Compare(was string) Result {
	switch {
	case v.Now == "", v.Now == Failed && was == Failed:
		return Unknown
	case v.Now == gate.Allow.String() && was == Asks: // another phase may have demanded the approval
		return Unknown
	case v.Now == was:
		return Same
	}
	return Changed
}

// Decider asks a policy about recorded calls, as the chain of a gateway does.
type Decider struct {
	policy *opa.Phase
	chain  *gate.Chain
}

// NewDecider returns a Decider of a policy.
func NewDecider(policy *opa.Phase) *Decider { return &Decider{policy, gate.NewChain(policy)} }

// Decide asks about a call. args returns its arguments, or an error if they were not
// recorded; it is asked if the policy reads them and has not refused before.
func (d *Decider) Decide(ctx context.Context, q *Question, args func() ([]byte, error)) Verdict {
	if d.policy.ReadsUnrecorded() {
		return Verdict{}
	}
	question := gate.Request{
		Kind: mcp.Tool, Server: q.Server, Original: q.Original, Exposed: q.Exposed, CapabilityID: q.Capability,
		Identity: gate.NewIdentity(gate.Identity{
			Principal: gate.Principal{Issuer: q.Issuer, Tenant: q.Tenant, Subject: q.Subject},
			Persona:   q.Persona, Groups: q.Groups, Plan: q.Plan,
		}),
	}
	var said gate.Decision
	for _, action := range []gate.Action{gate.View, gate.Call} {
		question.Action = action
		if action == gate.Call && d.policy.ReadsArguments() {
			recorded, err := args()
			if err != nil {
				return Verdict{}
			}
			question.Args = recorded
		}
		if said = d.chain.Decide(ctx, &question); said.Effect != gate.Allow {
			break
		}
	}
	return Verdict{Now: verdictOf(said), Reason: said.Reason}
}

func verdictOf(d gate.Decision) string {
	switch {
	case d.Err != nil:
		return Failed
	case d.Effect == gate.Allow && len(d.Demands) > 0:
		return Asks
	}
	return d.Effect.String()
}
