package daemon

import (
	"context"
	"fmt"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/spelling"
	"github.com/toolgate/toolgate/proxy"
)

// Why implements [admin.Explainer].
func (ctl *Control) Why(ctx context.Context, q admin.WhyQuestion) (admin.Why, error) {
	id, impersonated, err := ctl.d.identities.Asked(q.As, q.Assumed)
	if err != nil {
		return admin.Why{}, err
	}
	ctl.d.gateway.Settle(ctx)
	w := ctl.d.gateway.Why(ctx, id, proxy.Scope{Capsule: q.Capsule}, q.Name, q.Args)
	if w == nil {
		return admin.Why{}, ctl.unknownName(q.Name)
	}
	return admin.Why{
		Name: w.Exposed, Kind: w.Kind.String(), Server: w.Server, Original: w.Original, CapabilityID: w.CapabilityID,
		Caller: callerName(id), Assumed: impersonated, View: verdict(&w.View), Call: verdict(&w.Call),
	}, nil
}

// WhoCan implements [admin.Explainer].
func (ctl *Control) WhoCan(ctx context.Context, name string, besides *admin.Caller) ([]admin.WhoCan, error) {
	all := ctl.d.identities.Callers()
	if besides != nil && ctl.d.identities.IsKnown(besides) {
		besides = nil
	}
	if besides != nil {
		id, err := ctl.d.identities.Impersonate(besides)
		if err != nil {
			return nil, err
		}
		all = append(all, id)
	}
	ctl.d.gateway.Settle(ctx)
	out := []admin.WhoCan{}
	for i, id := range all {
		w := ctl.d.gateway.Why(ctx, id, proxy.Scope{}, name, nil)
		if w == nil {
			return nil, ctl.unknownName(name)
		}
		who := admin.WhoCan{
			Caller: callerName(id), Assumed: besides != nil && i == len(all)-1,
			View: w.View.Effect == gate.Allow, Call: w.Call.Effect == gate.Allow, Asks: w.Call.Asks,
		}
		if !who.Call || who.Asks {
			who.Reason = w.Call.Reason
		}
		out = append(out, who)
	}
	return out, nil
}

// unknownName is the error of a name that nothing has, with the nearest one.
func (ctl *Control) unknownName(name string) error {
	for _, known := range ctl.d.gateway.Names() {
		if spelling.Similar(name, known) {
			return failure.Newf(failure.Usage, "nothing is named %s; did you mean %s?", name, known)
		}
	}
	return failure.Newf(failure.Usage, "nothing is named %s; `toolgate tools` lists what there is", name)
}

func callerName(id *gate.Identity) string {
	if id.Tenant == gate.DefaultTenant {
		return id.Subject
	}
	return fmt.Sprintf("%s of %s", id.Subject, id.Tenant)
}

func verdict(v *proxy.Verdict) admin.WhyVerdict {
	effect := func(e gate.Effect, asks bool) string {
		if asks {
			return "ask"
		}
		return e.String()
	}
	out := admin.WhyVerdict{Effect: effect(v.Effect, v.Asks), Reason: v.Reason, Steps: []admin.WhyStep{}}
	for i := range v.Steps {
		s := &v.Steps[i]
		step := admin.WhyStep{Phase: s.Phase, Effect: effect(s.Effect, s.Asks), Reason: s.Reason, Revision: s.Revision, Question: s.Question}
		for _, r := range s.Rules {
			step.Rules = append(step.Rules, r.String())
		}
		if s.Change != nil {
			step.Change = s.Change.Text
		}
		if s.Err != nil {
			step.Error = s.Err.Error()
		}
		out.Steps = append(out.Steps, step)
	}
	return out
}
