package added

import (
	"context"
	"slices"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/enable"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// Checker asks the gate about a server that is to be added, beside the tool by
// which it is: the chain's action tool.enable. A phase that denies it wins; what
// no phase says anything about is decided by the call of the tool alone. A server
// that the caller may not add at all is unknown to it, which the tool itself says,
// as of every other. Not every mode lets servers be added.
type Checker struct {
	Chain   *gate.Chain
	Servers *Servers
	Mode    func() governance.Mode
	Next    proxy.ArgumentChecker // asked of every call, this one too
}

// CheckArguments implements [proxy.ArgumentChecker].
func (c Checker) CheckArguments(ctx context.Context, call proxy.PendingCall) ([]gate.Demand, error) {
	var demands []gate.Demand
	if call.Server == enable.Name && call.Original == enable.Add {
		if mode := c.Mode(); !mode.Enables() {
			return nil, refusal.Governed("no servers are added in mode " + string(mode))
		}
		name, _ := mcp.LookupString(call.Args, "name")
		switch d := c.Chain.Decide(ctx, addition(call.Request, name)); {
		case d.Err != nil:
			return nil, refusal.Undecided(d)
		case permits(d):
			demands = d.Demands
		case c.Servers.shows(gate.WithCaller(ctx, call.Identity, call.Capsule), name):
			return nil, refusal.Denied(d)
		}
	}
	more, err := c.Next.CheckArguments(ctx, call)
	return slices.Concat(demands, more), err
}
