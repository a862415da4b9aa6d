package opa

import (
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/toolgate/toolgate/gate"
)

// maxIndependent is how many rules of a policy have their values cached.
const maxIndependent = 64

// independentRules returns the rules that have the same value whatever the arguments
// of a call are: rules with one value that look neither at the arguments nor at
// anything that changes by itself, and need no rule that does. Most rules of a policy
// are independent, and need not be evaluated again for every call.
func independentRules(c *ast.Compiler, policy *reads) []ast.Ref {
	if policy.impure {
		return nil
	}
	var found []ast.Ref
	for _, m := range c.Modules {
		for _, rule := range m.Rules {
			ref := rule.Ref()
			if len(rule.Head.Args) > 0 || rule.Head.RuleKind() != ast.SingleValue || !ref.IsGround() || has(found, ref) >= 0 {
				continue
			}
			// Rules of the same document have a say in it, too: p[x] in what p.a is.
			all := c.GetRulesDynamicWithOpts(ref, ast.RulesOptions{IncludeHiddenModules: true})
			if len(found) < maxIndependent && independent(c, all) {
				found = append(found, ref)
			}
		}
	}
	return found
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

// ruleValues are the values of the independent rules of a policy for one caller and
// tool, in the order of the rules. They are not changed once made.
type ruleValues []ruleValue

// ruleValue is the value of a rule.
type ruleValue struct {
	known bool
	term  *ast.Term // nil when the rule is undefined
}

// ruleCache gives an evaluation the cached values of independent rules, and collects
// those that it finds. It implements topdown.VirtualCache around the engine's own,
// which holds everything else. A nil ruleCache does nothing.
type ruleCache struct {
	topdown.VirtualCache
	rules  []ast.Ref
	cached ruleValues // from before
	found  ruleValues // with what is new; nil when nothing is
	depth  int        // of "with", under which other values hold
	values *valueCache
	key    cacheKey
}

// ruleCache returns the values for a call; nil where there are none to cache.
func (p *Phase) ruleCache(now *policy, r *gate.Request) *ruleCache {
	if p.values == nil || r.Action != gate.Call || len(now.independent) == 0 {
		return nil
	}
	key := keyOf(now.generation, r)
	return &ruleCache{
		VirtualCache: topdown.NewVirtualCache(), rules: now.independent,
		cached: p.values.get(key), values: p.values, key: key,
	}
}

// use has an evaluation use the cache.
func (c *ruleCache) use(q *topdown.Query) {
	if c != nil {
		q.WithVirtualCache(c)
	}
}

// save caches what a completed evaluation found.
func (c *ruleCache) save() {
	if c != nil && c.found != nil {
		c.values.put(c.key, c.found)
	}
}

// Push implements topdown.VirtualCache.
func (c *ruleCache) Push() {
	c.depth++
	c.VirtualCache.Push()
}

// Pop implements topdown.VirtualCache.
func (c *ruleCache) Pop() {
	c.depth--
	c.VirtualCache.Pop()
}

// Get implements topdown.VirtualCache.
func (c *ruleCache) Get(ref ast.Ref) (value *ast.Term, undefined bool) {
	if c.depth == 0 && c.cached != nil {
		if i := has(c.rules, ref); i >= 0 && c.cached[i].known {
			return c.cached[i].term, c.cached[i].term == nil
		}
	}
	return c.VirtualCache.Get(ref)
}

// Put implements topdown.VirtualCache. Only scalars are cached: other values are made for
// one evaluation.
func (c *ruleCache) Put(ref ast.Ref, value *ast.Term) {
	c.VirtualCache.Put(ref, value)
	if c.depth > 0 || value != nil && !ast.IsScalar(value.Value) {
		return
	}
	i := has(c.rules, ref)
	if i < 0 || c.cached != nil && c.cached[i].known {
		return
	}
	if c.found == nil {
		c.found = make(ruleValues, len(c.rules))
		copy(c.found, c.cached)
	}
	c.found[i] = ruleValue{known: true, term: value}
}

var _ topdown.VirtualCache = (*ruleCache)(nil)
