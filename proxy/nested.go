package proxy

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/guard"
	"github.com/toolgate/toolgate/proxy/refusal"
	"github.com/toolgate/toolgate/proxy/revision"
	"github.com/toolgate/toolgate/proxy/schemas"
)

// This file makes calls that no client has sent: for backends of the gateway's own, within
// a call of a client (ADR 0046), and for callers that have no client at the moment. Each
// passes the same [order] as a call of a client, and has an audit entry of its own.

// maxNested is how deeply calls may be nested: an agent that calls an agent, and so on.
const maxNested = 8

// nestedIn is the call in which another one is nested.
type nestedIn struct {
	outer  *nestedIn // in which it is nested itself; nil for a call of a client
	call   string    // its id
	name   string    // exposed name of what it calls
	agent  string    // that made it; empty for none
	nested int       // how many calls it is nested in
}

// cycle reports whether an agent, or nobody, has called the same before, around this call.
func (in *nestedIn) cycle(name, agent string) bool {
	for ; in != nil; in = in.outer {
		if in.name == name && in.agent == agent {
			return true
		}
	}
	return false
}

// nestedCaller makes calls of tools for a backend. It implements [mcp.NestedCaller].
type nestedCaller struct {
	g    *Gateway
	in   *nestedIn        // nil for a caller that has no client
	call *mcp.Call        // by which its client is asked; nil for nobody
	from func() *Exchange // the caller as it is now
	// present is that of the outer [Exchange]; nil where that has a client.
	present func() (*gate.Identity, bool)
	// lend gives up the permit of the call while nested calls need permits of their own;
	// back takes it again. nil where there is none.
	lend func() (back func())
}

var _ mcp.NestedCaller = (*nestedCaller)(nil)

// nestedWithin returns what makes calls within a call; nil where none may be made.
func nestedWithin(c *call, d *serverRequests) mcp.NestedCaller {
	if c.x.Identity.Lent != "" {
		return nil // what is lent to a tool is not lent to what it calls
	}
	in := &nestedIn{outer: c.x.in, call: c.rec.entry.CallID, name: c.route.Exposed, agent: c.x.Identity.Agent()}
	if in.outer != nil {
		in.nested = in.outer.nested + 1
	}
	if in.nested >= maxNested {
		return nil
	}
	return &nestedCaller{g: c.g, in: in, call: c.request, from: d.client, lend: d.lend, present: c.x.Present}
}

// caller returns the caller as it is now, and false when its credential is not accepted any
// more: that of a long call may be revoked meanwhile.
func (n *nestedCaller) caller() (*gate.Identity, bool) {
	if n.present != nil {
		return n.present()
	}
	id := n.from().Identity
	k, ok := n.g.opts.Authenticator.(Knowing)
	return id, !ok || k.Knows(id)
}

// Detached is what makes nested calls once the request of the outer call has ended, with which
// its permit and its client are gone.
func (n *nestedCaller) Detached() mcp.NestedCaller {
	own, from := *n, n.from().detached()
	own.call, own.lend, own.from = nil, nil, func() *Exchange { return from }
	return &own
}

// NestedFor returns what makes calls on behalf of a caller that has no client at the
// moment, as [Gateway.CallFor] does. transport is what audit entries say of the way it came.
func (g *Gateway) NestedFor(present func() (id *gate.Identity, ok bool), scope Scope, transport string) mcp.NestedCaller {
	return &nestedCaller{g: g, present: present, from: func() *Exchange {
		x := absent(present, scope, transport)
		x.Identity, _ = present()
		return x
	}}
}

// absent returns the exchange of a caller without a client.
func absent(present func() (*gate.Identity, bool), scope Scope, transport string) *Exchange {
	return &Exchange{Present: present, Scope: scope, Era: mcp.Modern, Version: mcp.LatestModern, Transport: transport, responder: nobody{}}
}

// nobody is the [responder] of a call without a client of its own.
type nobody struct{}

func (nobody) notify([]byte) {}

func (nobody) ask(context.Context, []byte) bool { return false }

// exchange returns a request of the caller for a tool, with rights that as narrows, or
// those of the capsule that is lent. It is
// one of a modern client that declares what the client of the outer call can answer.
func (n *nestedCaller) exchange(as mcp.NestedAs, params []byte) (*Exchange, error) {
	from := n.from()
	if from.Identity == nil {
		return nil, revoked()
	}
	narrowed := func(id *gate.Identity) *gate.Identity {
		id = id.Narrowed(as.Agent, as.Capsule)
		if as.RunAs != "" {
			id = id.Borrowing(as.RunAs)
		}
		return id
	}
	x := absent(func() (*gate.Identity, bool) {
		id, ok := n.caller()
		if !ok || id == nil {
			return nil, false
		}
		return narrowed(id), true
	}, Scope{Capsule: cmp.Or(as.RunAs, from.Scope.Capsule), Schemas: schemas.Verbatim}, from.Transport)
	x.Identity, x.in, x.Session, x.ClientInfo = narrowed(from.Identity), n.in, from.Session, from.ClientInfo
	if n.call != nil && n.call.Askable {
		x.Capabilities = relayable(mcp.RemoveMember(from.Capabilities, "extensions"), Questions{Sampling: true, Elicitation: true, Roots: true}, false)
	}
	var err error
	x.Message, err = mcp.Parse(mcp.AppendRequest(nil, mcp.NumberID(1), mcp.MethodToolsCall, params), n.g.front.parseLimits())
	return x, err
}

// Call implements [mcp.NestedCaller]. What the tool asks the caller is asked by the outer
// call.
func (n *nestedCaller) Call(ctx context.Context, as mcp.NestedAs, call mcp.NestedCall) mcp.NestedAnswer {
	if n.lend != nil {
		defer n.lend()()
	}
	args := call.Args
	if args == nil {
		args = []byte("{}")
	}
	if mcp.Validate(args, n.g.front.parseLimits()) != nil || !mcp.IsObject(bytes.TrimSpace(args)) { // else they could hold members beside the arguments
		return mcp.NestedAnswer{Fault: mcp.Errorf(mcp.CodeInvalidParams, "The arguments are not a JSON object.")}
	}
	params := mcp.SetMember(mcp.SetMember(nil, "arguments", args), "name", mcp.Quote(call.Tool))
	if meta := n.traceContext(); meta != nil {
		params = mcp.SetMember(params, "_meta", meta)
	}
	for given := params; ; {
		x, err := n.exchange(as, given)
		if err != nil {
			return mcp.NestedAnswer{Fault: invalid(err)}
		}
		if err := n.refusal(x, as, call.Tool); err != nil {
			answer := n.g.refuseCall(x, mcp.Tool, call.Tool, err)
			return mcp.NestedAnswer{Result: answer.result, Fault: answer.fault}
		}
		waitCall(ctx, n.g, x, mcp.Tool, call.Tool)
		c := n.g.newRequest(x, &planCall, mcp.Tool, call.Tool)
		answer := c.serve(ctx)
		made := mcp.NestedAnswer{
			CallID: c.rec.entry.CallID, Result: answer.result, Fault: answer.fault, Delivered: c.rec.begun && !c.reserved.undelivered,
		}
		if !c.waits {
			return made
		}
		responses, fault := n.askInputs(ctx, answer.result)
		if fault != nil {
			made.Result, made.Fault = nil, fault
			return made
		}
		given = mcp.SetMember(mcp.SetMember(params, "inputResponses", responses), "requestState", mcp.Lookup(answer.result, "requestState"))
	}
}

// refusal returns why a nested call is not made; nil where it may pass the order.
func (n *nestedCaller) refusal(x *Exchange, as mcp.NestedAs, tool string) error {
	switch agents := x.Identity.Agents; {
	case as.Only != nil && !slices.Contains(as.Only, tool):
		return unknown(x, mcp.Tool, tool)
	case as.Agent != "" && slices.Index(agents, as.Agent) < len(agents)-1:
		return refusal.NestedCycle("the agent " + as.Agent + " works on this call already, further out")
	case n.in.cycle(tool, x.Identity.Agent()):
		return refusal.NestedCycle("a call of " + tool + " is under way already, within which this one would be made")
	}
	return nil
}

// traceContext returns the trace context of the outer call; nil where it is not traced.
func (n *nestedCaller) traceContext() (meta []byte) {
	if n.call == nil {
		return nil
	}
	outer := mcp.Lookup(n.call.Params, "_meta")
	for _, member := range [...]string{metaTraceparent, metaTracestate} {
		if value := mcp.Lookup(outer, member); value != nil {
			meta = mcp.SetMember(meta, member, value)
		}
	}
	return meta
}

// askInputs puts the questions of an input request to the client of the outer call, all at
// once. It returns the InputResponses.
func (n *nestedCaller) askInputs(ctx context.Context, result []byte) ([]byte, *mcp.Error) {
	var mu sync.Mutex
	answers := make(map[string][]byte)
	var failed *mcp.Error
	var all sync.WaitGroup
	requests, asked := mcp.Lookup(result, "inputRequests"), 0
	for range mcp.Members(requests) {
		asked++
	}
	if asked > maxInputs || n.call == nil || n.call.Ask == nil {
		return nil, mcp.Errorf(mcp.CodeInternal, "The tool asks for input that nobody can give here.")
	}
	for m := range mcp.Members(requests) {
		key, err := mcp.Unquote(m.Key(requests))
		if err != nil {
			continue
		}
		request := m.Value.Of(requests)
		method, _ := mcp.LookupString(request, "method")
		all.Go(func() {
			answer, fault := n.call.AskAndWait(ctx, method, mcp.Lookup(request, "params"))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case fault == nil:
				answers[key] = answer
			case method == mcp.MethodElicit:
				answers[key] = []byte(`{"action":"cancel"}`)
			default:
				failed = fault
			}
		})
	}
	all.Wait()
	if failed != nil {
		return nil, failed
	}
	responses := []byte("{}")
	for _, key := range slices.Sorted(maps.Keys(answers)) {
		responses = mcp.SetMember(responses, key, answers[key])
	}
	return responses, nil
}

// Tools implements [mcp.NestedCaller]. It returns what the caller may view; whether it may
// call a tool can depend on the arguments.
func (n *nestedCaller) Tools(ctx context.Context, as mcp.NestedAs) ([]mcp.NestedTool, error) {
	x, err := n.exchange(as, []byte(`{"name":""}`))
	if err != nil {
		return nil, invalid(err)
	}
	n.g.waitList(ctx, x, mcp.Tool)
	snap := n.g.snapshot.Load()
	var all []mcp.NestedTool
	for r, d := range snap.views(ctx, x.Identity, x.Scope, snap.Catalog(x).lists[mcp.Tool].entries) {
		switch {
		case d.Err != nil && !d.Undecidable():
			return nil, refusal.Undecided(d)
		case d.Effect != gate.Allow, as.Only != nil && !slices.Contains(as.Only, r.Exposed):
			continue
		}
		all = append(all, r.nestedTool())
	}
	return all, nil
}

// nestedTool describes the tool for nested calls. The texts are made once and shared: many runs
// of agents wait with the same ones.
func (r *Route) nestedTool() mcp.NestedTool {
	made := r.nested.Load()
	if made == nil {
		listed := r.listed(revision.Of(mcp.LatestModern), schemas.Verbatim)
		made = &mcp.NestedTool{
			Name: r.Exposed, Input: slices.Clip(mcp.Lookup(listed, "inputSchema")), Output: slices.Clip(mcp.Lookup(listed, "outputSchema")),
		}
		made.Title, _ = mcp.LookupString(listed, "title")
		made.Description, _ = mcp.LookupString(listed, "description")
		r.nested.Store(made) // a concurrent caller stores an equal one
	}
	t := *made
	hint := func(name string) bool { return string(mcp.Lookup(r.raw, "annotations", name)) == "true" }
	if g, guarded := r.to.backend.(*guard.Guard); guarded && !r.to.mount.Native {
		t.Idempotent = g.MayRepeat(r.Original) // a server's own hints are believed only where the operator says so
		t.ReadOnly = t.Idempotent && hint("readOnlyHint")
		return t
	}
	t.ReadOnly, t.Idempotent = hint("readOnlyHint"), hint("readOnlyHint") || hint("idempotentHint")
	return t
}

// Made is what has become of a call that nobody waits for.
type Made struct {
	CallID string // in the audit log
	// Outcome is that of the audit entry; empty where the tool asks for input, which
	// nobody can give.
	Outcome audit.Outcome
	Result  []byte // a tool result; nil with a fault
	Fault   *mcp.Error
}

// CallFor calls a tool on behalf of a caller that has no client at the moment. The call
// passes the same [order] as one of a client that declares no capabilities. present
// returns the caller with the rights that it has now, and false when its credential is
// not accepted any more: a call that has waited asks again before it is delivered. args
// is a JSON object. CallFor returns at the latest when ctx has ended, which should have
// a deadline.
func (g *Gateway) CallFor(ctx context.Context, present func() (id *gate.Identity, ok bool), scope Scope, tool string, args []byte) Made {
	id, ok := present()
	if !ok {
		return Made{Outcome: audit.OutcomeDenied, Fault: revoked()}
	}
	params := append(mcp.AppendQuote([]byte(`{"name":`), tool), `,"arguments":`...)
	params = append(append(params, args...), '}')
	message, err := mcp.Parse(mcp.AppendRequest(nil, mcp.NumberID(1), mcp.MethodToolsCall, params), mcp.Limits{})
	if err != nil {
		return Made{Outcome: audit.OutcomeDenied, Fault: invalid(err)}
	}
	x := absent(present, scope, "schedule")
	x.Message, x.Identity = message, id
	waitCall(ctx, g, x, mcp.Tool, tool)
	c := g.newRequest(x, &planCall, mcp.Tool, tool)
	answer := c.serve(ctx)
	if c.waits {
		return Made{CallID: c.rec.entry.CallID}
	}
	return Made{CallID: c.rec.entry.CallID, Outcome: c.rec.entry.Outcome, Result: answer.result, Fault: answer.fault}
}
