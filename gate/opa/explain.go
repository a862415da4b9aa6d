package opa

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/toolgate/toolgate/gate"
)

const (
	// explainTimeout bounds one of the further questions of an explanation,
	// which is asked for by a person.
	explainTimeout = time.Second
	maxRules       = 32
	maxExits       = 4096
)

// Explain is [gate.Part.Explain]. The rules are those of the policy that
// were true, the deciding one first: the innermost one that gave the reason of
// a deny, otherwise the decision itself. For what the change of a deny means
// see [Data.Apply]. Of a remote server it says what was asked, and no rules.
func (p *Phase) Explain(ctx context.Context, r *gate.Request) (gate.Explanation, error) {
	if r == nil || r.Identity == nil {
		d, err := p.render(p.decide(ctx, r))
		return gate.Explanation{Decision: d}, err
	}
	if p.remote != nil {
		return p.explainRemote(ctx, r)
	}
	now := p.current.Load()
	if now == nil {
		d, err := p.render(verdict{}, errLoaded)
		return gate.Explanation{Decision: d}, err
	}
	v, err := p.evaluate(ctx, now, r)
	d, err := p.render(v, err)
	e := gate.Explanation{Decision: d}
	asked := *r
	if !now.reads.any(inputArgs, inputReplaced) {
		asked.Args = nil // which play no part
	}
	in, fault := p.o.document(&asked, !now.reads.replaced)
	if fault == nil {
		e.Rules = p.rules(ctx, now, in, v.reason)
	}
	switch _, unseen := errors.AsType[*unshown](fault); {
	case unseen:
		e.Change = &gate.Change{Where: wherePolicy, Text: "the policy is not asked about arguments that it is not shown: raise limits.policy_input, or have the policy look at input.args_replaced"}
	case err == nil && d.Effect == gate.Deny:
		c := p.change(ctx, now, in, e.Rules)
		e.Change = &c
	case err != nil:
		e.Change = &gate.Change{Where: wherePolicy, Text: "the policy has to decide without an error: " + err.Error()}
	}
	if p.o.Mode == Shadow && d.Effect != gate.Allow {
		e.Decision = abstained(d)
		return e, nil
	}
	return e, err
}

func (p *Phase) explainRemote(ctx context.Context, r *gate.Request) (gate.Explanation, error) {
	d, err := p.render(p.remote.decide(ctx, r))
	e := gate.Explanation{Decision: d}
	if body, fault := p.remote.question(r); fault == nil {
		e.Question = fmt.Sprintf("POST %s %s", strings.TrimRight(p.sourceName(), "/")+p.remote.path, body)
	}
	if err != nil || d.Effect == gate.Deny {
		e.Change = &gate.Change{Where: wherePolicy, Text: p.o.Decision + " on the policy server would have to allow"}
	}
	if p.o.Mode == Shadow && (err != nil || d.Effect == gate.Deny) {
		e.Decision, err = abstained(d), nil
	}
	return e, err
}

// exit is a rule that was true, with its value.
type exit struct {
	rule  *ast.Rule
	value string // of a rule whose value is a string
}

// exits collects the rules that are true in an evaluation, inner ones first.
type exits struct{ list []exit }

// Enabled implements topdown.QueryTracer.
func (t *exits) Enabled() bool { return len(t.list) < maxExits }

// Config implements topdown.QueryTracer.
func (t *exits) Config() topdown.TraceConfig { return topdown.TraceConfig{} }

// TraceEvent implements topdown.QueryTracer.
func (t *exits) TraceEvent(e topdown.Event) {
	rule, ok := e.Node.(*ast.Rule)
	if !ok || e.Op != topdown.ExitOp || len(t.list) >= maxExits {
		return
	}
	x := exit{rule: rule}
	if rule.Head.Value != nil {
		if s, ok := e.Plug(rule.Head.Value).Value.(ast.String); ok {
			x.value = string(s)
		}
	}
	t.list = append(t.list, x)
}

// rules returns where the rules stand that were true for an input.
func (p *Phase) rules(ctx context.Context, now *policy, in map[string]any, reason string) []gate.Rule {
	trace := &exits{}
	// The verdict is known; what counts is what was true on the way.
	_, _ = now.askOf(ctx, in, explainTimeout, func(q *topdown.Query) { q.WithQueryTracer(trace) })
	list := trace.list
	deciding := slices.IndexFunc(list, func(x exit) bool { return reason != "" && x.value == reason })
	if deciding < 0 {
		for i, x := range list {
			if p.decides(x.rule) {
				deciding = i
			}
		}
	}
	var rules []gate.Rule
	if deciding >= 0 {
		rules = append(rules, now.place(list[deciding].rule))
	} else if rule := p.defaultRule(now); rule != nil {
		rules = append(rules, now.place(rule))
	}
	for _, x := range slices.Backward(list) {
		if at := now.place(x.rule); len(rules) < maxRules && !slices.Contains(rules, at) {
			rules = append(rules, at)
		}
	}
	return rules
}

// decides tells whether a rule is of the decision.
func (p *Phase) decides(rule *ast.Rule) bool {
	return rule.Module != nil && rule.Ref().GroundPrefix().Equal(p.decision)
}

// defaultRule returns the rule that holds where no other of the decision does.
func (p *Phase) defaultRule(now *policy) *ast.Rule {
	for _, rule := range now.compiler.GetRulesExact(p.decision) {
		if rule.Default {
			return rule
		}
	}
	return nil
}

// place returns where a rule stands, with the text of that line.
func (c *compiled) place(rule *ast.Rule) gate.Rule {
	at := rule.Location
	if at == nil {
		return gate.Rule{Text: rule.String()}
	}
	lines := c.lines[at.File]
	if at.Row < 1 || at.Row > len(lines) {
		return gate.Rule{File: at.File, Line: at.Row, Text: rule.Head.String()}
	}
	return gate.Rule{File: at.File, Line: at.Row, Text: strings.TrimSpace(lines[at.Row-1])}
}
