package registered

import (
	"context"
	"errors"
	"slices"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/native/enable"
	"github.com/toolgate/toolgate/native/toolapi"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// Checker asks the gate about a tool to register, in addition to the call of register_tool
// itself: it is the chain's action tool.enable, with the name of the template and then with
// that of the new tool. A phase that denies one of them wins. What does not fit its template
// is refused before anybody is asked for an approval.
type Checker struct {
	Tools *Tools
	Mode  func() governance.Mode
	Next  proxy.ArgumentChecker // asked first, about every call
}

// CheckArguments implements [proxy.ArgumentChecker].
func (c Checker) CheckArguments(ctx context.Context, call proxy.PendingCall) ([]gate.Demand, error) {
	demands, err := c.Next.CheckArguments(ctx, call)
	if err != nil || call.Server != enable.Name || call.Original != enable.Register || !call.Tool || call.Identity == nil {
		return demands, err
	}
	if mode := c.Mode(); !mode.Enables() {
		return nil, refusal.Governed("no tools are registered in mode " + string(mode))
	}
	r, err := enable.ReadRegistration(call.Args)
	if err != nil {
		return nil, refusal.BadArguments(err.Error())
	}
	principal := call.Identity.Key()
	ctx = gate.WithCaller(ctx, call.Identity, call.Capsule)
	template := Templates(c.Tools.o.InForce())[r.Template]
	if template == nil {
		return nil, refusal.BadArguments(enable.UnknownTemplate(r.Template).Error())
	}
	of := c.Tools.decide(ctx, about(template))
	switch {
	case of.Err != nil:
		return nil, refusal.Undecided(of)
	case !permits(of):
		return nil, refusal.BadArguments(enable.UnknownTemplate(r.Template).Error())
	}
	if _, err := c.Tools.examine(principal, r); err != nil {
		if problem, is := errors.AsType[toolapi.Problem](err); is {
			return nil, refusal.BadArguments(problem.Error())
		}
		return nil, err
	}
	as := c.Tools.decide(ctx, enabling(Namespace(principal), r.Name, call.Args))
	switch {
	case as.Err != nil:
		return nil, refusal.Undecided(as)
	case !permits(as):
		return nil, refusal.Denied(as)
	}
	return slices.Concat(demands, of.Demands, as.Demands), nil
}
