package opa

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// probeTimeout bounds the first question to a policy, which need not hurry.
const probeTimeout = 2 * time.Second

// policy is a compiled policy with all its data, ready to be asked. It is not
// changed once made.
type policy struct {
	*compiled
	data       map[string]any // of the gateway and of the data files
	gateway    map[string]any // of the gateway alone
	store      storage.Store
	txn        storage.Transaction // open for reading as long as the policy is used; nothing is ever written
	documents  documents
	query      ast.Body          // binds asked to the decision
	queries    ast.QueryCompiler // that compiled it
	generation uint64            // differs between any two policies of a process
	revision   string            // of policy and data, for decisions
	identity   string            // hash of everything that decides, the options included
}

// asked is the variable that a question binds to the decision.
const asked = ast.Var("decision")

// prepare makes a policy of a compiled one and the gateway's data, and asks it
// a first question.
func (c *compiled) prepare(ctx context.Context, o *Options, decision ast.Ref, gateway gatewayData) (*policy, error) {
	p := &policy{compiled: c, data: maps.Clone(c.data), gateway: gateway.members}
	for key, v := range gateway.members {
		if own, there := p.data[key]; there {
			v = both(own, v)
		}
		p.data[key] = v
	}
	p.fill()
	if list := ast.CheckPathConflicts(c.compiler, p.has); len(list) > 0 {
		return nil, fmt.Errorf("policy data: %w", joinCompile(list))
	}
	p.store = inmem.NewFromObjectWithOpts(p.data, inmem.OptRoundTripOnWrite(false), inmem.OptReturnASTValuesOnRead(true))
	var err error
	if p.txn, err = p.store.NewTransaction(ctx); err != nil {
		return nil, fmt.Errorf("policy data: %w", err)
	}
	root, err := p.store.Read(ctx, p.txn, storage.RootPath)
	if err != nil {
		return nil, fmt.Errorf("policy data: %w", err)
	}
	if p.documents.root, err = ast.InterfaceToValue(root); err != nil {
		return nil, fmt.Errorf("policy data: %w", err)
	}
	p.queries = c.compiler.QueryCompiler()
	if p.query, err = p.queries.Compile(ast.NewBody(ast.Equality.Expr(ast.NewTerm(asked), ast.NewTerm(decision)))); err != nil {
		return nil, fmt.Errorf("prepare policy: %w", err)
	}
	p.name(o, gateway.canonical)
	return p, p.probe(ctx, o)
}

// fill adds empty values for the gateway's keys that nobody gives, where no rule
// stands: `not name in data.global_tool_deny` is undefined without the list,
// and not true.
func (p *policy) fill() {
	rules := p.compiler.RuleTree.Child(ast.DefaultRootDocument.Value)
	for key := range shapes {
		if _, given := p.data[key]; given || rules != nil && rules.Child(ast.String(key)) != nil {
			continue
		}
		if key == keyGlobalDeny {
			p.data[key] = []any{}
			continue
		}
		p.data[key] = map[string]any{}
	}
}

// has tells whether data has a path.
func (p *policy) has(path []string) (bool, error) {
	var v any = p.data
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return false, nil
		}
		if v, ok = m[key]; !ok {
			return false, nil
		}
	}
	return true, nil
}

// name gives the policy its revision and identity.
func (p *policy) name(o *Options, canonical string) {
	data := sha256.Sum256([]byte(canonical))
	p.revision = p.compiled.revision
	if len(canonical) > len("{}") {
		p.revision += "+data:" + hex.EncodeToString(data[:6])
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q %x %q %q %q %d", p.source.hash, data, o.Decision, string(o.RegoVersion), o.Actions, o.PolicyInput)
	p.identity = hex.EncodeToString(h.Sum(nil))
}

// probe asks a policy about a tool that does not exist. What goes wrong with
// that would go wrong with every question.
func (p *policy) probe(ctx context.Context, o *Options) error {
	r := &gate.Request{
		Action: gate.View, Kind: mcp.Tool, Server: "probe", Original: "probe", Exposed: "probe__probe", CapabilityID: "cap_probe",
		Identity: gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: "probe", Subject: "probe"}}),
	}
	in, err := o.value(ctx, r, &p.reads)
	if err != nil {
		return err
	}
	_, err = p.ask(ctx, in, probeTimeout)
	switch {
	case errors.Is(err, errUndefined):
		o.Logger.WarnContext(ctx, "the policy says nothing about a tool that it does not know, which denies as an error; give the rule a default", "decision", o.Decision)
	case err != nil:
		return fmt.Errorf("ask the policy a first question: %w", err)
	}
	return nil
}

// ask evaluates the decision for an input. Change, where it is not nil, has the
// last word on how.
func (p *policy) ask(ctx context.Context, in ast.Value, bound time.Duration, change ...func(*topdown.Query)) (v verdict, err error) {
	defer func() {
		// A fault in the engine denies one request and does not end the gateway.
		if fault := recover(); fault != nil {
			v, err = verdict{}, failed(fmt.Errorf("%w: %v\n%s", errPanic, fault, debug.Stack()))
		}
	}()
	// The engine begins an evaluation before it looks whether it may.
	if cause := ended(ctx); cause != nil {
		return verdict{}, fmt.Errorf("the decision was given up: %w", cause)
	}
	values, err := p.values(ctx, in, bound, change)
	if errors.Is(err, errStarved) {
		values, err = p.values(ctx, in, bound, change)
	}
	switch {
	case err != nil && (topdown.IsCancel(err) || errors.Is(err, errStarved)):
		if cause := ended(ctx); cause != nil {
			return verdict{}, fmt.Errorf("the decision was given up: %w", cause)
		}
		late := fmt.Errorf("the decision took more than %v: %w", bound, context.DeadlineExceeded)
		if errors.Is(err, errStarved) {
			return verdict{}, late
		}
		return verdict{}, failed(late)
	case err != nil:
		return verdict{}, failed(err)
	case len(values) == 0:
		return verdict{}, failed(errUndefined)
	case len(values) != 1:
		return verdict{}, failed(fmt.Errorf("the decision has %d values and must have one", len(values)))
	}
	v, err = interpretValue(values[0])
	v.revision = p.revision
	return v, failed(err)
}

// errStarved is an evaluation whose time was over when it had hardly begun: the
// machine was busy with something else. It is made once more.
var errStarved = errors.New("the machine is too busy to evaluate it")

// hardlyBegun is how many steps an evaluation has made by its end that is not to
// blame for it. Those of usual policies take some hundred steps, and so many take
// well under a millisecond.
const hardlyBegun = 1000

// values evaluates the decision once.
func (p *policy) values(ctx context.Context, in ast.Value, bound time.Duration, change []func(*topdown.Query)) (values []ast.Value, err error) {
	b := &bounded{ctx: ctx, until: time.Now().Add(bound)}
	if end, ok := ctx.Deadline(); ok && end.Before(b.until) {
		b.until = end
	}
	query := p.question(b, in)
	for _, c := range change {
		c(query)
	}
	err = query.Iter(ctx, func(found topdown.QueryResult) error {
		term := found[asked]
		if term == nil {
			return errUndefined
		}
		values = append(values, term.Value)
		return nil
	})
	if err != nil && topdown.IsCancel(err) && b.steps < hardlyBegun && ended(ctx) == nil {
		return nil, errStarved
	}
	return values, err
}

// ended tells why a context has ended. The clock counts, because the timer of a
// context may be late on a busy machine.
func ended(ctx context.Context) error {
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// askOf is ask for an input as a document.
func (p *policy) askOf(ctx context.Context, in map[string]any, bound time.Duration, change ...func(*topdown.Query)) (verdict, error) {
	value, err := ast.InterfaceToValue(in)
	if err != nil {
		return verdict{}, fmt.Errorf("input: %w", err)
	}
	return p.ask(ctx, value, bound, change...)
}

// cacheable tells whether a decision depends on nothing but the policy, its data and what
// is in [gate.Key].
func (p *policy) cacheable(action gate.Action) bool {
	if p.reads.impure || p.reads.any(inputContext) {
		return false
	}
	switch action {
	case gate.View:
		return true
	case gate.Call:
		return !p.reads.any(inputArgs, inputReplaced)
	default:
		return false
	}
}
