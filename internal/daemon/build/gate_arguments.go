package build

import (
	"context"
	"errors"
	"slices"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/composite"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/gate/schema"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/inflight"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// Examiner checks calls against the schemas of their tools, the operator's rules and
// the operating mode.
type Examiner struct {
	Checker *schema.Checker
	held    bool // arguments are checked against the tools' schemas, also for untrusted servers
	Rules   *governance.Rules
	ruled   bool                                          // there are rules; without them, only a mode other than NORMAL matters
	Said    func(server, tool string) governance.Operator // statements in the file
	catalog func(capabilityID string) governance.Operator // statements in the catalog
	// category of a capability in the catalog, empty for none
	category func(capabilityID string) string
	mode     func() governance.Mode
	steps    *composite.Phase // what tools with steps call; nil where there are none
}

// addExaminer adds the check of arguments against schemas and rules. A gateway without
// a gate and rules leaves arguments to the servers, except paths to the gateway's own
// files, until its mode changes from NORMAL.
func (g *Gates) addExaminer(c *config.Config, authenticated bool, around Surroundings) error {
	rules := governed(c)
	guarded := authenticated || g.decides || len(rules) > 0
	if len(around.Own) > 0 && c.Toolgate.Governance.OwnFiles != "allow" {
		rules = append([]governance.Rule{OwnFilesRule(around.Own)}, rules...)
	}
	require := governance.Require(c.Toolgate.Approvals.Require)
	e := &Examiner{ruled: len(rules) > 0 || require != "" && require != governance.RequireNever, Said: operatorClasses(c), mode: around.Mode, steps: g.Steps}
	if around.Native != nil {
		e.Said = either(e.Said, around.Native)
	}
	e.catalog = func(string) governance.Operator { return governance.Operator{} }
	e.category = func(string) string { return "" }
	if around.Registry != nil {
		e.catalog, e.category = around.Registry.Operator, around.Registry.Category
	}
	checker := around.Schemas
	if checker == nil {
		checker = schema.New(schema.Options{})
	}
	e.Checker, e.held = checker, guarded
	if e.mode == nil {
		e.mode = func() governance.Mode { return governance.Normal }
	}
	var err error
	e.Rules, err = governance.New(rules, governance.Options{Home: homeDir(), Schemas: checker, Require: require})
	g.Examiner = e
	return err
}

// CheckArguments implements [proxy.ArgumentChecker]: it checks the schema first,
// because the rules may rely on it.
func (e *Examiner) CheckArguments(_ context.Context, c proxy.PendingCall) ([]gate.Demand, error) {
	args := schema.ReadArguments(c.Args)
	defer args.Free() // what is said of them is text by then
	prepared := func() (*schema.Schema, error) { return e.Checker.Compile(c.Schema) }
	if c.Tool && (e.held || c.Native) {
		s, err := prepared()
		if err := fits(c, s, err, args); err != nil {
			return nil, err
		}
		prepared = func() (*schema.Schema, error) { return s, nil }
		if stops := e.steps.Stops(composite.Tool{Server: c.Server, Original: c.Original}); stops != "" && e.held {
			return nil, refusal.Unfit(c.Exposed, stops)
		}
	}
	mode := e.mode()
	if !e.ruled && mode == governance.Normal {
		return nil, nil
	}
	v, class := governance.Verdict{Outcome: governance.Pass}, governance.Class{}
	if mode != governance.Normal || e.Rules.NeedClass() { // else it does not depend on the class
		class = e.Class(c.Request, c.Listed)
	}
	call := governance.Call{
		Kind: c.Kind, Category: e.category(c.CapabilityID), Class: class, Mode: mode, Queued: c.Queued, Arguments: args, Schema: prepared,
	}
	for _, call.Name = range c.Names().All() { // the strictest name counts
		under := e.Rules.Judge(call)
		if under.Outcome < v.Outcome {
			v = under
		}
	}
	switch v.Outcome {
	case governance.Pass:
		return nil, nil
	case governance.Ask:
		return []gate.Demand{{Reason: v.Reason, Rule: v.Rule}}, nil
	default:
		refused := refusal.Governed(v.Reason)
		refused.Rule, refused.Change = v.Rule, v.Change
		return nil, refused
	}
}

// fits checks the arguments of a tool against its schema. err says why the schema
// could not be compiled, if it could not.
func fits(c proxy.PendingCall, s *schema.Schema, err error, args *schema.Arguments) error {
	if quarantined, ok := errors.AsType[*schema.Quarantined](err); ok {
		return refusal.Quarantined(c.Exposed, quarantined.Reason, quarantined.Busy)
	}
	if err != nil {
		return err
	}
	if result := s.Check(args); !result.Valid {
		return refusal.BadArguments(result.Text())
	}
	return nil
}

// Misfits returns the calls of tools with steps that fit no tool as its server lists it.
func (e *Examiner) Misfits() []string { return e.steps.Misfits() }

// Class returns the effective class of a capability, from the operator's statements in
// the catalog and, for a tool, under servers. A tool with steps has the strictest class of
// what it calls, and no laxer one by what is said of itself.
func (e *Examiner) Class(r *gate.Request, listed []byte) governance.Class {
	own := e.ownClass(r, listed)
	parts, made := e.steps.Parts(composite.Tool{Server: r.Server, Original: r.Original})
	if !made || r.Kind != mcp.Tool {
		return own
	}
	class := governance.Class{ReadOnly: true, OperatorClassed: true}
	for _, part := range parts {
		if part == nil {
			class = class.With(governance.Class{Destructive: true})
			continue
		}
		request := part.Request(r.Action, r.Identity, r.Capsule)
		its := e.ownClass(&request, part.Definition)
		if _, too := e.steps.Parts(composite.Tool{Server: part.Server, Original: part.Original}); too {
			its = unlessClassed(its, class)
		}
		class = class.With(its)
	}
	return class.With(unlessClassed(own, class))
}

// unlessClassed returns the own class of a tool with steps. Where the operator does not
// class it, it is no stricter than what it calls, but for its risk and cost.
func unlessClassed(own, parts governance.Class) governance.Class {
	if !own.OperatorClassed {
		own.ReadOnly, own.Destructive, own.OperatorClassed = parts.ReadOnly, parts.Destructive, parts.OperatorClassed
	}
	return own
}

// ownClass returns the class of a capability by what is said of itself.
func (e *Examiner) ownClass(r *gate.Request, listed []byte) governance.Class {
	said := e.catalog(r.CapabilityID)
	if r.Kind == mcp.Tool {
		said = said.With(e.Said(r.Server, r.Original))
	}
	return e.Rules.Class(r.Names(), e.category(r.CapabilityID), said, governance.ReadHints(listed))
}

// Reusable implements [proxy.Reusable]. A tool is read-only where the operator classes it
// so. Where the operator does not class it, what its server says counts: that its results
// may be reused was written by the operator. A tool that is read-only may be called again
// (MCP schema, ToolAnnotations: idempotentHint has a meaning for other tools alone).
func (e *Examiner) Reusable(r *gate.Request, listed []byte) (state string, ok bool) {
	class := e.Class(r, listed)
	readOnly := class.ReadOnly && !class.Destructive
	if !class.OperatorClassed {
		hints := governance.ReadHints(listed)
		readOnly = hints.ReadOnly != nil && *hints.ReadOnly && (hints.Destructive == nil || !*hints.Destructive)
	}
	return string(e.mode()), readOnly
}

// InMode returns what a mode makes of calls of a capability, whatever their arguments
// are.
func (e *Examiner) InMode(r *gate.Request, listed []byte, mode governance.Mode) governance.Outcome {
	outcome := governance.Pass
	call := governance.Call{Kind: r.Kind, Category: e.category(r.CapabilityID), Class: e.Class(r, listed), Mode: mode}
	for _, call.Name = range r.Names().All() { // the strictest name counts
		outcome = min(outcome, e.Rules.InMode(call))
	}
	return outcome
}

// Cancelled returns the refusal of a running call that a change of mode ends, nil for
// a call that continues.
func (e *Examiner) Cancelled(call *inflight.Call, to governance.Mode) *refusal.Error {
	class := e.Class(&call.Request, call.Listed)
	if !slices.ContainsFunc(call.Names().All(), func(name string) bool {
		return e.Rules.Cancels(governance.Running{Name: name, Kind: call.Kind, Category: e.category(call.CapabilityID), Class: class}, to)
	}) {
		return nil
	}
	return refusal.Governed("the gateway went into mode " + string(to) + " while it ran, which cancelled it; what it had done by then is done")
}

// either prefers the first source of statements, and uses the second where the first
// says nothing about the class.
func either(first, second func(server, tool string) governance.Operator) func(server, tool string) governance.Operator {
	return func(server, tool string) governance.Operator {
		said, also := first(server, tool), second(server, tool)
		if said.ReadOnly == nil && said.Destructive == nil {
			said.ReadOnly, said.Destructive = also.ReadOnly, also.Destructive
		}
		said.HighCost = said.HighCost || also.HighCost
		if said.Risk == "" {
			said.Risk = also.Risk
		}
		return said
	}
}
