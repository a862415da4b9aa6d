package opa

import (
	"fmt"
	"net/url"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/toolgate/toolgate/internal/loopback"
)

// Warnings are what is right about the policy in force and is hardly meant so, each
// with its place; of a remote one nothing is known.
func (p *Phase) Warnings() []string {
	var list []string
	if u, err := url.Parse(p.o.Bundle); err == nil && p.o.Bundle != "" && p.o.signer == nil && !loopback.Host(u.Hostname()) {
		list = append(list, "opa.bundle: nobody has to sign the bundle, so that whoever serves it says what is allowed; sign it, and name the public key in opa.bundle_key")
	}
	if now := p.current.Load(); now != nil {
		list = append(list, now.warnings...)
	}
	return list
}

// warn looks for what is hardly meant so.
func (c *compiled) warn(decision ast.Ref) (warnings []string) {
	rules := c.compiler.GetRulesExact(decision)
	if len(rules) > 0 && !total(c.compiler, rules, maxTotal) {
		at := ""
		if rules[0].Location != nil {
			at = rules[0].Location.String() + ": "
		}
		warnings = append(warnings, fmt.Sprintf("%s%s has no default; what no rule of it applies to is denied and hidden as an error", at, decision))
	}
	return warnings
}

// maxTotal bounds how many rules are followed from one to the next.
const maxTotal = 16

// total tells whether rules have a value whatever they are asked: one of them is a
// default, or applies without a condition.
func total(c *ast.Compiler, rules []*ast.Rule, depth int) bool {
	for _, rule := range rules {
		for ; rule != nil; rule = rule.Else {
			if rule.Default || depth > 0 && unconditional(c, rule, depth-1) {
				return true
			}
		}
	}
	return false
}

// unconditional tells whether the body of a rule is true whatever it is asked. What
// the compiler moves there out of the head counts as what it is: a value.
func unconditional(c *ast.Compiler, rule *ast.Rule, depth int) bool {
	if rule.Head.RuleKind() == ast.MultiValue {
		return true // a set, if an empty one
	}
	for _, e := range rule.Body {
		if e.Negated || len(e.With) > 0 || !holds(c, e, depth) {
			return false
		}
	}
	return true
}

// holds tells whether an expression gives a name to a value that there always is.
func holds(c *ast.Compiler, e *ast.Expr, depth int) bool {
	if term, ok := e.Terms.(*ast.Term); ok {
		return term.Equal(ast.InternedTerm(true))
	}
	operands := e.Operands()
	if !e.IsCall() || len(operands) == 0 {
		return false
	}
	name := operands[len(operands)-1]
	values := operands[:len(operands)-1]
	if e.IsEquality() || e.IsAssignment() {
		name, values = operands[0], operands[1:]
	} else if f := ast.BuiltinMap[e.Operator().String()]; f == nil || len(operands) != len(f.Decl.FuncArgs().Args)+1 {
		return false
	}
	if _, ok := name.Value.(ast.Var); !ok {
		return false
	}
	for _, v := range values {
		if !there(c, v, depth) {
			return false
		}
	}
	return true
}

// there tells whether what a term refers to has a value whatever is asked.
func there(c *ast.Compiler, term *ast.Term, depth int) bool {
	all := true
	ast.WalkRefs(term, func(ref ast.Ref) bool {
		all = all && ref.IsGround() && total(c, c.GetRulesExact(ref), depth)
		return true
	})
	return all
}
