package opa

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// reads is what a policy may look at besides data. It is the sum over all
// rules, whether the decision needs them or not, so that it can only say too
// much.
type reads struct {
	input  map[string]bool // members of input by name; those of context too, as context.NAME
	all    bool            // input as a whole, or a member by a computed name
	impure bool            // something that changes by itself, such as the time

	// replaced tells that the rule that decides, or one that it needs, names
	// input.args_replaced, so that it knows of arguments that are not shown whole.
	// This one is no sum over all rules: it must not say too much.
	replaced bool
}

// readsOf finds what compiled modules read.
func readsOf(c *ast.Compiler, decision ast.Ref) reads {
	r := reads{input: map[string]bool{}, impure: impure(c)}
	reach(c, c.GetRules(decision), func(rule *ast.Rule) bool {
		own := reads{input: map[string]bool{}}
		own.add(rule, false)
		r.replaced = own.input[inputReplaced]
		return !r.replaced
	})
	for _, m := range c.Modules {
		for _, rule := range m.Rules {
			r.add(rule, true)
		}
	}
	return r
}

// reach shows rules and all that they need, each once, until there are no more or
// show returns false. It returns false as well where it is not known what a rule needs.
func reach(c *ast.Compiler, rules []*ast.Rule, show func(*ast.Rule) bool) bool {
	seen := map[*ast.Rule]bool{}
	for open := slices.Clone(rules); len(open) > 0; {
		rule := open[len(open)-1]
		open = open[:len(open)-1]
		if rule == nil || seen[rule] {
			continue
		}
		seen[rule] = true
		if !show(rule) {
			return false
		}
		open = append(open, rule.Else)
		for dependency := range c.Graph.Dependencies(rule) {
			needed, ok := dependency.(*ast.Rule)
			if !ok {
				return false
			}
			open = append(open, needed)
		}
	}
	return true
}

// add adds what a rule reads itself, in any of its branches. What "with" puts something
// in place of counts where targets is true: whoever must not say too much leaves it
// out, because the rule need not look at it.
func (r *reads) add(rule *ast.Rule, targets bool) {
	var visitor *ast.GenericVisitor
	visitor = ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case ast.Ref:
			r.ref(x)
			for _, t := range x[min(1, len(x)):] {
				visitor.Walk(t)
			}
			if len(x) > 0 {
				if _, isVar := x[0].Value.(ast.Var); !isVar {
					visitor.Walk(x[0])
				}
			}
			return true
		case *ast.With:
			if !targets {
				visitor.Walk(x.Value)
				return true
			}
		case ast.Var:
			r.all = r.all || x.Equal(ast.InputRootDocument.Value)
		}
		return false
	})
	visitor.Walk(rule)
}

func (r *reads) ref(ref ast.Ref) {
	if len(ref) == 0 || !ref[0].Equal(ast.InputRootDocument) {
		return
	}
	if len(ref) == 1 {
		r.all = true
		return
	}
	name, ok := ref[1].Value.(ast.String)
	if !ok {
		r.all = true
		return
	}
	r.input[string(name)] = true
	if name == inputContext {
		r.input[within(ref[2:])] = true
	}
}

// within is the member of context that the rest of a reference leads to;
// [wholeContext] where that is not known.
func within(rest ast.Ref) string {
	if len(rest) > 0 {
		if name, ok := rest[0].Value.(ast.String); ok {
			return inputContext + "." + string(name)
		}
	}
	return wholeContext
}

// wholeContext stands for all members of context.
const wholeContext = inputContext + ".*"

// any tells whether one of the members of input may be read.
func (r *reads) any(names ...string) bool {
	if r.all {
		return true
	}
	for _, n := range names {
		if r.input[n] {
			return true
		}
	}
	return false
}
