package opa

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/toolgate/toolgate/gate"
)

// reasonError is the reason of every deny that is not the policy's own word.
const reasonError = "policy_error"

// Phase asks a policy. It implements [gate.Phase] and is safe for concurrent use. The
// zero Phase denies everything as an error. [New] makes one that works, and
// [Phase.Run] keeps its policy up to date.
type Phase struct {
	o        Options
	decision ast.Ref
	remote   *remote     // nil for a policy that is evaluated here
	values   *valueCache // of rules that no argument changes, see [independentRules]
	current  atomic.Pointer[policy]
	prefix   string // of the ids of decisions
	asked    atomic.Uint64
	loader   loader
	failures failures
}

// New loads the policy and returns the phase that asks it. A policy that
// cannot be loaded is an error, which has all that is wrong with it, with
// files and lines. It waits for a bundle URL at most 10 seconds, less if ctx
// ends; where the URL does not serve and there is a last good copy, that one
// is in force and [Phase.Status] says so. A remote server is not asked.
func New(ctx context.Context, o Options) (*Phase, error) {
	o, err := o.complete()
	if err != nil {
		return nil, fmt.Errorf("opa: %w", err)
	}
	decision, err := decisionRef(o.Decision)
	if err != nil {
		return nil, fmt.Errorf("opa: %w", err)
	}
	p := &Phase{o: o, decision: decision, prefix: rand.Text()[:16] + "-", values: newValueCache(o.CacheSize, defaultCacheTTL)}
	if o.URL != "" {
		p.remote = newRemote(&p.o, decision)
		return p, nil
	}
	if err := p.start(ctx); err != nil {
		return nil, fmt.Errorf("opa: %w", err)
	}
	for _, w := range p.Warnings() {
		p.o.Logger.WarnContext(ctx, "the policy is hardly meant so", "warning", w)
	}
	return p, nil
}

// Part implements [gate.Phase].
func (p *Phase) Part() gate.Part {
	return gate.Part{
		Name: "opa", Check: p.Check,
		CheckAll: p.CheckAll, Snapshot: p.Snapshot, Explain: p.Explain, ViewClass: p.ViewClass,
	}
}

// Check is [gate.Part.Check]. The policy is asked with this input:
//
//	{
//	  "action": "tool.request",         // see Options.Actions; templates are resource.*
//	  "kind": "tool",                   // tool, prompt, resource or template; none for a server
//	  "resource": "fs__read",           // name or URI that the client knows
//	  "tool_name": "fs__read",          // the same, whatever the kind
//	  "tool_names": ["fs__read"],       // that, and the plain one where it has one; see [gate.Names]
//	  "original_name": "read",          // name or URI at the server
//	  "server": "fs",
//	  "capability_id": "cap_...",
//	  "capsule": "",                    // of the endpoint that was called
//	  "tenant": "acme", "persona_id": "bot", "user_id": "alice", "issuer": "...", "agent": "",
//	  "groups": [], "scopes": [], "plan": "team",
//	  "args": {"path": "/tmp"},         // only of a request; numbers are exact
//	  "args_replaced": ["/content"],    // JSON pointers; only if there are any
//	  "context": {"tenant_id": "acme", "persona_id": "bot", "issuer": "...", "plan": "team", "capsule": ""}
//	}
//
// An error is never the policy's own no; the decision beside it has the reason
// "policy_error". It is a [gate.RequestError] where the policy ran and gave no answer
// that can be used; see [Phase.Failures]. In the mode [Shadow] a deny and an error are an abstention.
func (p *Phase) Check(ctx context.Context, r *gate.Request) (gate.Decision, error) {
	v, err := p.decide(ctx, r)
	if err != nil {
		p.noteFailure(ctx, r, err)
	}
	d, err := p.render(v, err)
	if p.o.Mode == Shadow && d.Effect != gate.Allow { // an error is a deny, too
		return p.shadowed(ctx, r, d, err), nil
	}
	return d, err
}

// render renders a verdict as the decision of the gate.
func (p *Phase) render(v verdict, err error) (gate.Decision, error) {
	d := gate.Decision{ID: v.id, Revision: v.revision}
	if d.ID == "" && p.prefix != "" {
		d.ID = p.prefix + strconv.FormatUint(p.asked.Add(1), 36)
	}
	switch {
	case err != nil:
		d.Reason = reasonError
	case v.allow:
		d.Effect, d.Obligations = gate.Allow, v.obligations
	default:
		d.Reason = v.reason
	}
	return d, err
}

// shadowed reports a deny that is not enforced.
func (p *Phase) shadowed(ctx context.Context, r *gate.Request, d gate.Decision, err error) gate.Decision {
	d.Phase, d.Err = "opa", err
	if p.o.OnShadow != nil {
		p.o.OnShadow(r, d)
	}
	// A list asks about everything there is: its denies are no news.
	if r != nil && r.Action != gate.View {
		p.o.Logger.LogAttrs(ctx, slog.LevelWarn, "the policy would deny this; it is in shadow mode",
			slog.String("action", string(r.Action)), slog.String("name", r.Exposed), slog.Any("identity", r.Identity),
			slog.String("reason", d.Reason), slog.String("decision", d.ID), slog.String("revision", d.Revision), slog.Any("error", err))
	}
	return abstained(d)
}

// abstained is a deny that is not enforced, with all that is known of it.
func abstained(d gate.Decision) gate.Decision {
	d.Effect, d.Err = gate.Abstain, nil
	return d
}

// decide asks the policy.
func (p *Phase) decide(ctx context.Context, r *gate.Request) (verdict, error) {
	if r == nil || r.Identity == nil {
		return verdict{}, errors.New("a decision without an identity was asked for")
	}
	if p.remote != nil {
		return p.remote.decide(ctx, r)
	}
	now := p.current.Load()
	if now == nil {
		return verdict{}, errLoaded
	}
	return p.evaluate(ctx, now, r)
}

// Snapshot is [gate.Part.Snapshot]: the policy with its data, where decisions depend on
// nothing else. In the mode [Shadow] each decision is reported.
func (p *Phase) Snapshot(r *gate.Request) any {
	now := p.current.Load()
	if now == nil || p.remote != nil || p.o.Mode == Shadow || r == nil || r.Identity == nil || !now.cacheable(r.Action) || !p.o.presentable(r) {
		return nil
	}
	return now
}

func (p *Phase) evaluate(ctx context.Context, now *policy, r *gate.Request) (verdict, error) {
	in, err := p.o.value(ctx, r, &now.reads)
	if err != nil {
		return unseen(verdict{revision: now.revision}, err)
	}
	rules := p.ruleCache(now, r)
	v, err := now.ask(ctx, in, p.o.Timeout, rules.use)
	v.revision = now.revision
	if err != nil {
		action, _ := p.o.action(r) // value has asked for it
		return v, fmt.Errorf("decide %s on %s: %w", action, r.Exposed, err)
	}
	rules.save()
	return v, nil
}

// unseen returns the verdict on a request that a policy is not asked about: a deny
// where it would not be shown what would be delivered, and an error else.
func unseen(v verdict, err error) (verdict, error) {
	if own, ok := errors.AsType[*unshown](err); ok {
		v.reason = own.reason
		return v, nil
	}
	return v, err
}

// CheckAll is [gate.Part.CheckAll]: it asks about each request as Check
// does, several at a time. What is not decided within [Options.ListTimeout] is
// denied as an error, alone.
func (p *Phase) CheckAll(ctx context.Context, rs []gate.Request) ([]gate.Decision, error) {
	if p.o.ListTimeout <= 0 {
		return nil, errLoaded
	}
	ctx, cancel := context.WithTimeout(ctx, p.o.ListTimeout)
	defer cancel()
	workers := runtime.GOMAXPROCS(0)
	if p.remote != nil {
		workers = maxAtOnce
	}
	decisions := make([]gate.Decision, len(rs))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(workers, len(rs)) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(rs) {
					return
				}
				d, err := p.Check(ctx, &rs[i])
				d.Err = err
				decisions[i] = d
			}
		})
	}
	wg.Wait()
	return whole(decisions), nil
}

// whole takes a policy for one that cannot run at all where it was given up on every
// request of several: a list without anything would be taken for an answer.
func whole(decisions []gate.Decision) []gate.Decision {
	if len(decisions) < 2 {
		return decisions
	}
	for i := range decisions {
		if !errors.Is(decisions[i].Err, context.DeadlineExceeded) {
			return decisions
		}
	}
	for i := range decisions {
		decisions[i].Err = fmt.Errorf("every decision took too long; the first: %s", decisions[i].Err) //nolint:errorlint // it is no error of one request
	}
	return decisions
}
