package opa

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/metrics"
	"github.com/open-policy-agent/opa/v1/topdown"
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

// question returns the query for the decision on an input.
func (p *policy) question(b *bounded, input ast.Value) *topdown.Query {
	return topdown.NewQuery(p.query).
		WithQueryCompiler(p.queries).
		WithCompiler(p.compiler).
		WithStore(p.store).
		WithTransaction(p.txn).
		WithBaseCache(p.documents).
		WithInput(ast.NewTerm(input)).
		WithCancel(b).
		WithMetrics(metrics.NoOp()).
		WithStrictBuiltinErrors(true)
}
