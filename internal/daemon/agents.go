package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/daemon/agents"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store/runs"
	native "github.com/toolgate/toolgate/native/agents"
	"github.com/toolgate/toolgate/native/queue"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// serveAgents makes what runs the agents of the configuration.
func (d *Daemon) serveAgents() {
	endpoints := new(agents.Endpoints)
	d.agents = agents.New(agents.Options{
		Log: d.log, Runs: runs.New(d.store), Keys: d.keys, Model: endpoints.Model, Present: d.identities.Present, Lasts: d.identities.Lasts,
		Agents: func() map[string]native.Settings { return d.Current().Toolgate.Agents },
		Nested: func(present func() (*gate.Identity, bool), capsule string) mcp.NestedCaller {
			return d.gateway.NestedFor(present, proxy.Scope{Capsule: capsule}, "agent")
		},
		May: d.mayRun,
		Ended: func(cause error) bool {
			return errors.Is(cause, refusal.ShutDown) || errors.Is(cause, errEnding) || errors.Is(cause, queue.ErrStopped)
		},
		Budget: func(id *gate.Identity, agent string) native.Budget {
			return &agents.Charges{Limiter: func() *budget.Limiter { return d.budgets.inForce.Load() }, Caller: id, Agent: agent}
		},
	})
}

// mayRun returns why a caller may not call the tool of an agent; empty where it may. Once the
// call has begun, what only its beginning needs does not count. The error says that nobody can
// decide it at the moment.
func (d *Daemon) mayRun(ctx context.Context, id *gate.Identity, capsule, agent string, args []byte, begun bool) (why string, err error) {
	tool := native.ServerKey + "__" + agent
	w := explained(args, func(args []byte) *proxy.Why { return d.gateway.Why(ctx, id, proxy.Scope{Capsule: capsule}, tool, args) })
	switch {
	case w == nil && begun:
		return "", fmt.Errorf("nothing has the name %s at the moment", tool)
	case w == nil:
		return fmt.Sprintf("There is no agent %.60q for you.", agent), nil
	case w.View.Err != nil:
		return "", w.View.Err
	case w.View.Effect != gate.Allow:
		return fmt.Sprintf("There is no agent %.60q for you.", agent), nil
	case !begun && (w.Call.Asks || asksApproval(&w.Call)): // also one that is granted: it is used by the call that asked for it
		return fmt.Sprintf("A call of this agent needs an approval. Call %s, which asks for it.", tool), nil
	}
	switch d := decision(&w.Call, begun); {
	case d.Err != nil:
		return "", d.Err
	case d.Effect != gate.Allow:
		return fmt.Sprintf("You may not call %s.", tool), nil
	}
	return "", nil
}

// explained asks about a call; without its arguments where those do not fit, because some of them
// are the operator's, which no caller gives. Behind an open breaker that is not the first denial.
func explained(args []byte, ask func(args []byte) *proxy.Why) *proxy.Why {
	w := ask(args)
	if w != nil && slices.ContainsFunc(w.Call.Steps, func(s proxy.Step) bool { return s.Effect == gate.Deny && s.Phase == "arguments" }) {
		w = ask(nil)
	}
	return w
}

// beginning are the steps that only the beginning of a call needs.
var beginning = []string{"breaker", "rate", "approval", "budget"}

// decision is what is decided on a call; on one that has begun, without what only its beginning
// needs. An open breaker hides nothing of what the rules say.
func decision(v *proxy.Verdict, begun bool) gate.Decision {
	if !begun || !slices.Contains(beginning, v.Phase) {
		return v.Decision
	}
	for i := range v.Steps {
		if s := &v.Steps[i]; s.Effect == gate.Deny && !slices.Contains(beginning, s.Phase) {
			return s.Decision
		}
	}
	return gate.Decision{Effect: gate.Allow}
}

// asksApproval tells whether a call needs an approval, granted or not.
func asksApproval(v *proxy.Verdict) bool {
	return slices.ContainsFunc(v.Steps, func(s proxy.Step) bool { return s.Phase == "approval" })
}
