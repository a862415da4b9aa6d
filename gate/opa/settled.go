package opa

import (
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/toolgate/toolgate/gate"
)

// maxSettled is how many rules of a policy are remembered.
const maxSettled = 64

// settledRules returns the rules that have the same value whatever the arguments
// of a call are: rules with one value that look neither at the arguments nor at
// anything that changes by itself, and need no rule that does. Most of a policy
// is so, and need not be evaluated again for every call.
func settledRules(c *ast.Compiler, policy *reads) []ast.Ref {
	if policy.impure {
		return nil
	}
	var settled []ast.Ref
	for _, m := range c.Modules {
		for _, rule := range m.Rules {
			ref := rule.Ref()
			if len(rule.Head.Args) > 0 || rule.Head.RuleKind() != ast.SingleValue || !ref.IsGround() || has(settled, ref) >= 0 {
				continue
			}
			// Rules of the same document have a say in it, too: p[x] in what p.a is.
			all := c.GetRulesDynamicWithOpts(ref, ast.RulesOptions{IncludeHiddenModules: true})
			if len(settled) < maxSettled && independent(c, all) {
				settled = append(settled, ref)
			}
		}
	}
	return settled
}

// independent tells whether rules, and all that they need, look at nothing that
// differs between two calls of one caller to one tool.
func independent(c *ast.Compiler, rules []*ast.Rule) bool {
	return len(rules) > 0 && reach(c, rules, func(rule *ast.Rule) bool {
		own := reads{input: map[string]bool{}}
		own.add(rule, true)
		return !own.any(inputArgs, inputReplaced, inputContext)
	})
}

// has returns where a ref is in a list; -1 when it is not.
func has(list []ast.Ref, ref ast.Ref) int {
	for i, one := range list {
		if len(one) == len(ref) && one[len(one)-1].Equal(ref[len(ref)-1]) && one.Equal(ref) {
			return i
		}
	}
	return -1
}

// settledValues are those of the settled rules of a policy for one question, in their
// order. They are not changed once made.
type settledValues []settledValue

// settledValue is the value of a rule: nil when it is undefined.
type settledValue struct {
	known bool
	term  *ast.Term
}

// recall is an evaluation's memory of settled rules: what earlier ones found
// about the same caller, tool and data, and what this one finds. It implements
// topdown.VirtualCache around the engine's own, which holds everything else. A
// nil recall remembers nothing.
type recall struct {
	topdown.VirtualCache
	rules   []ast.Ref
	known   settledValues // from before
	learned settledValues // with what is new; nil when nothing is
	depth   int           // of "with", under which other values hold
	keeper  *cache[settledValues]
	key     cacheKey
}

// recall returns the memory for a call; nil where there is nothing to remember.
func (p *Phase) recall(now *policy, r *gate.Request) *recall {
	if p.settled == nil || r.Action != gate.Call || len(now.settled) == 0 {
		return nil
	}
	m := &recall{VirtualCache: topdown.NewVirtualCache(), rules: now.settled, keeper: p.settled, key: keyOf(now.generation, r)}
	m.known, _ = p.settled.get(m.key)
	return m
}

// use lets an evaluation use the memory.
func (m *recall) use(q *topdown.Query) {
	if m != nil {
		q.WithVirtualCache(m)
	}
}

// keep remembers what an evaluation found that came to its end.
func (m *recall) keep() {
	if m != nil && m.learned != nil {
		m.keeper.put(m.key, m.learned)
	}
}

// Push implements topdown.VirtualCache.
func (m *recall) Push() {
	m.depth++
	m.VirtualCache.Push()
}

// Pop implements topdown.VirtualCache.
func (m *recall) Pop() {
	m.depth--
	m.VirtualCache.Pop()
}

// Get implements topdown.VirtualCache.
func (m *recall) Get(ref ast.Ref) (value *ast.Term, undefined bool) {
	if m.depth == 0 && m.known != nil {
		if i := has(m.rules, ref); i >= 0 && m.known[i].known {
			return m.known[i].term, m.known[i].term == nil
		}
	}
	return m.VirtualCache.Get(ref)
}

// Put implements topdown.VirtualCache. Only scalars are remembered: other values
// are made for one evaluation.
func (m *recall) Put(ref ast.Ref, value *ast.Term) {
	m.VirtualCache.Put(ref, value)
	if m.depth > 0 || value != nil && !ast.IsScalar(value.Value) {
		return
	}
	i := has(m.rules, ref)
	if i < 0 || m.known != nil && m.known[i].known {
		return
	}
	if m.learned == nil {
		m.learned = make(settledValues, len(m.rules))
		copy(m.learned, m.known)
	}
	m.learned[i] = settledValue{known: true, term: value}
}

var _ topdown.VirtualCache = (*recall)(nil)
