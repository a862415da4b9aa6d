package opa

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/metrics"
	"github.com/open-policy-agent/opa/v1/rego"
)

// looksPerTime is how many steps of an evaluation pass between two looks at the
// clock: a step takes less than a microsecond, a look a good part of that.
const looksPerTime = 16

// bounded ends an evaluation at a time or with its context. The engine asks it
// before every step, from the goroutine of the evaluation, so that it needs
// neither a timer nor a goroutine of its own. It implements topdown.Cancel.
type bounded struct {
	ctx   context.Context
	until time.Time
	steps int
	ended atomic.Bool
}

// Cancel implements topdown.Cancel.
func (b *bounded) Cancel() { b.ended.Store(true) }

// Cancelled implements topdown.Cancel.
func (b *bounded) Cancelled() bool {
	if b.ended.Load() {
		return true
	}
	if b.steps++; b.steps%looksPerTime == 0 && (b.ctx.Err() != nil || !time.Now().Before(b.until)) {
		b.ended.Store(true)
		return true
	}
	return false
}

// documents answers what the engine asks about data from the data of a policy,
// which does not change, without a copy of anything. It implements
// topdown.BaseCache; what is not there the engine looks for in the store, which
// has the last word on what is undefined.
type documents struct{ root ast.Value }

// Get implements topdown.BaseCache.
func (d documents) Get(ref ast.Ref) ast.Value {
	if len(ref) < 2 {
		return nil
	}
	v, err := d.root.Find(ref[1:])
	if err != nil {
		return nil
	}
	return v
}

// Put implements topdown.BaseCache: there is nothing to keep.
func (documents) Put(ast.Ref, ast.Value) {}

// options are those of every evaluation of a policy.
func (p *policy) options(b *bounded, input ast.Value) []rego.EvalOption {
	return []rego.EvalOption{
		rego.EvalParsedInput(input),
		rego.EvalExternalCancel(b),
		rego.EvalTransaction(p.txn),
		rego.EvalMetrics(metrics.NoOp()),
		rego.EvalBaseCache(p.documents),
	}
}

// inputKeys are the names of the members of input, made once.
var inputKeys = func() map[string]*ast.Term {
	keys := map[string]*ast.Term{}
	for _, name := range []string{
		"action", "kind", "resource", "tool_name", "original_name", "server", "capability_id", "capsule", inputArgs, inputReplaced, inputContext,
		"tenant_id", "tenant", "persona_id", "user_id", "groups", "scopes", "plan", "issuer",
	} {
		keys[name] = ast.StringTerm(name)
	}
	return keys
}()

// inputValue returns of an input, as the engine takes it, the members that some
// rule may read; nil is all of them. It is not an ast.LazyObject: a copy of one is
// the same one, so that what "with" puts into the input would stay there.
func inputValue(in map[string]any, reads *reads) (ast.Value, error) {
	object := ast.NewObjectWithCapacity(len(in))
	terms := make([]ast.Term, len(in))
	for name, value := range in {
		if reads != nil && !reads.any(name) {
			continue
		}
		term := &terms[0]
		terms = terms[1:]
		switch value := value.(type) {
		case string:
			term.Value = ast.String(value)
		case map[string]any:
			var err error
			if term.Value, err = inputValue(value, nil); err != nil {
				return nil, err
			}
		default:
			var err error
			if term.Value, err = ast.InterfaceToValue(value); err != nil {
				return nil, err
			}
		}
		key := inputKeys[name]
		if key == nil {
			key = ast.StringTerm(name)
		}
		object.Insert(key, term)
	}
	return object, nil
}
