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

// Checker asks the gate about a server to add, in addition to the call of add_server
// itself: it is the chain's action tool.enable. A phase that denies it wins. If no
// phase decides, the decision on the call stands. The tool itself reports a server
// that the caller may not add as unknown. Some modes forbid adding servers.
type Checker struct {
	Chain   *gate.Chain
	Servers *Servers
	Mode    func() governance.Mode
	Next    proxy.ArgumentChecker // asked about every call, including this one
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
