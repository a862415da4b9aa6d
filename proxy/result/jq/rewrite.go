package jq

import (
	"fmt"
	"slices"
	"strings"

	"github.com/itchyny/gojq"
)

// rewriter puts the guards into a program.
type rewriter struct {
	own     bool            // it is the prelude
	known   map[string]bool // functions of the prelude, by name and number of arguments
	scope   []string        // functions that the program defines here, in the same form
	used    map[string]bool // functions of the prelude that are called
	values  int             // parts of the program that need room in each call of a function
	problem error           // the first one
}

func (r *rewriter) fail(format string, args ...any) {
	if r.problem == nil {
		r.problem = fmt.Errorf(format, args...)
	}
}

func key(name string, args int) string { return fmt.Sprintf("%s/%d", name, args) }

// call is the call of a function.
func call(name string, args ...*gojq.Query) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: name, Args: args}}}
}

func pipe(l, r *gojq.Query) *gojq.Query { return &gojq.Query{Left: l, Op: gojq.OpPipe, Right: r} }

func term(t *gojq.Term) *gojq.Query { return &gojq.Query{Term: t} }

var identity = term(&gojq.Term{Type: gojq.TermTypeIdentity})

// in puts a query into parentheses, as one term.
func in(q *gojq.Query) *gojq.Term { return &gojq.Term{Type: gojq.TermTypeQuery, Query: q} }

// guarded returns the query with a guard behind it.
func guarded(q *gojq.Query, guard string) *gojq.Query {
	if guard == "" || constant(q) {
		return q
	}
	return pipe(term(in(q)), call(guard))
}

// constant reports whether a query is a number or a text.
func constant(q *gojq.Query) bool {
	t := q.Term
	return t != nil && len(q.FuncDefs) == 0 && len(t.SuffixList) == 0 &&
		(t.Type == gojq.TermTypeNumber || t.Type == gojq.TermTypeString && t.Str.Queries == nil ||
			t.Type == gojq.TermTypeTrue || t.Type == gojq.TermTypeFalse || t.Type == gojq.TermTypeNull)
}

// query rewrites a query.
func (r *rewriter) query(q *gojq.Query) *gojq.Query {
	if q == nil {
		return nil
	}
	r.values++
	depth := len(r.scope)
	defer func() { r.scope = r.scope[:depth] }()
	out := &gojq.Query{Op: q.Op}
	for _, def := range q.FuncDefs {
		out.FuncDefs = append(out.FuncDefs, r.definition(def))
	}
	switch {
	case q.Term != nil:
		out.Term = r.term(q.Term)
		return out
	case q.Op == 0:
		r.fail("there is no filter; write . for everything")
		return out
	}
	out.Patterns = r.patterns(q.Patterns)
	before := r.values
	out.Left = r.query(q.Left)
	left := r.values - before
	out.Right = r.query(q.Right)
	defs := out.FuncDefs
	if out.FuncDefs = nil; len(defs) > 0 { // what follows is one term of them
		defer func() { *out = gojq.Query{FuncDefs: defs, Term: in(copied(out))} }()
	}
	r.operator(out, left)
	return out
}

func copied(q *gojq.Query) *gojq.Query {
	c := *q
	return &c
}

// operator puts guards at the operands of an operator. left is the number of parts of
// the left one.
func (r *rewriter) operator(q *gojq.Query, left int) {
	both := func(guard string) { q.Left, q.Right = guarded(q.Left, guard), guarded(q.Right, guard) }
	switch q.Op {
	case gojq.OpAdd:
		both(guardCopy)
	case gojq.OpDiv:
		q.Left = guarded(q.Left, guardParts)
	case gojq.OpEq, gojq.OpNe, gojq.OpGt, gojq.OpLt, gojq.OpGe, gojq.OpLe:
		both(guardCompare)
	case gojq.OpMul:
		r.paired(q, guardMultiply)
	case gojq.OpSub:
		r.paired(q, guardSubtract)
	case gojq.OpAssign:
		q.Right = guarded(q.Right, guardCopy)
		r.touching(q, guardTouch, left)
	case gojq.OpModify:
		q.Right = guarded(q.Right, guardWhole)
		r.touching(q, guardModify, left)
	case gojq.OpUpdateAdd, gojq.OpUpdateSub, gojq.OpUpdateMul, gojq.OpUpdateDiv, gojq.OpUpdateMod, gojq.OpUpdateAlt:
		r.update(q, left)
	case gojq.OpPipe, gojq.OpComma, gojq.OpMod, gojq.OpAnd, gojq.OpOr, gojq.OpAlt:
	default:
		r.fail("the operator %s is not known here", q.Op)
	}
}

// paired lets a guard see both operands before the operator does.
func (r *rewriter) paired(q *gojq.Query, guard string) {
	element := func(i string) *gojq.Query {
		return term(&gojq.Term{Type: gojq.TermTypeIndex, Index: &gojq.Index{Start: term(&gojq.Term{Type: gojq.TermTypeNumber, Number: i})}})
	}
	*q = *pipe(call(guard, q.Left, q.Right), &gojq.Query{Left: element("0"), Op: q.Op, Right: element("1")})
}

// maxParts is how many parts a program may have with its guards.
const maxParts = 10_000

// touching charges what a change copies before it is made. What is changed is in the
// program twice then, and so a change inside of it four times.
func (r *rewriter) touching(q *gojq.Query, guard string, left int) {
	if r.values += left; r.values > maxParts {
		r.values = maxParts
		r.fail("there are too many changes inside changes; change one after the other with |")
	}
	paths := term(&gojq.Term{Type: gojq.TermTypeArray, Array: &gojq.Array{Query: pipe(guarded(call("path", q.Left), guardCopy), call(guardElement))}})
	*q = *pipe(call(guard, paths), term(in(copied(q))))
}

// operand is the variable with the right operand of an update.
const operand = "$__tg"

// update writes l += r as r as $x | l |= . + $x.
func (r *rewriter) update(q *gojq.Query, left int) {
	op := map[gojq.Operator]gojq.Operator{
		gojq.OpUpdateAdd: gojq.OpAdd, gojq.OpUpdateSub: gojq.OpSub, gojq.OpUpdateMul: gojq.OpMul,
		gojq.OpUpdateDiv: gojq.OpDiv, gojq.OpUpdateMod: gojq.OpMod, gojq.OpUpdateAlt: gojq.OpAlt,
	}[q.Op]
	with := &gojq.Query{Left: identity, Op: op, Right: call(operand)}
	r.operator(with, 0)
	change := &gojq.Query{Left: q.Left, Op: gojq.OpModify, Right: term(in(with))}
	r.operator(change, left)
	*q = gojq.Query{Left: q.Right, Op: gojq.OpPipe, Patterns: []*gojq.Pattern{{Name: operand}}, Right: change}
}

// definition rewrites the definition of a function.
func (r *rewriter) definition(def *gojq.FuncDef) *gojq.FuncDef {
	if strings.HasPrefix(def.Name, "_") && !r.own {
		r.fail("a function cannot have the name %s", def.Name)
	}
	r.scope = append(r.scope, key(def.Name, len(def.Args)))
	depth := len(r.scope)
	for _, arg := range def.Args {
		if strings.HasPrefix(strings.TrimPrefix(arg, "$"), "_") {
			r.fail("an argument cannot have the name %s", arg)
		}
		r.scope = append(r.scope, key(strings.TrimPrefix(arg, "$"), 0))
	}
	body := r.query(def.Body)
	r.scope = r.scope[:depth]
	return &gojq.FuncDef{Name: def.Name, Args: def.Args, Body: pipe(call(guardEnter), term(in(body)))}
}

func (r *rewriter) patterns(ps []*gojq.Pattern) []*gojq.Pattern {
	if len(ps) > 1 {
		r.fail("?// is not known here")
	}
	out := make([]*gojq.Pattern, len(ps))
	for i, p := range ps {
		r.values++
		c := &gojq.Pattern{Name: p.Name, Array: r.arrayPattern(p.Array)}
		for _, o := range p.Object {
			c.Object = append(c.Object, &gojq.PatternObject{Key: o.Key, KeyString: r.str(o.KeyString), KeyQuery: r.query(o.KeyQuery), Val: r.onePattern(o.Val)})
		}
		out[i] = c
	}
	return out
}

func (r *rewriter) arrayPattern(ps []*gojq.Pattern) []*gojq.Pattern {
	var out []*gojq.Pattern
	for _, p := range ps {
		out = append(out, r.onePattern(p))
	}
	return out
}

func (r *rewriter) onePattern(p *gojq.Pattern) *gojq.Pattern {
	if p == nil {
		return nil
	}
	return r.patterns([]*gojq.Pattern{p})[0]
}

// term rewrites a term with what follows it.
func (r *rewriter) term(t *gojq.Term) *gojq.Term {
	r.values++
	bare := *t
	bare.SuffixList = nil
	out := r.bare(&bare)
	for _, s := range t.SuffixList {
		switch {
		case s.Iter:
			out = in(pipe(term(out), call(guardEach)))
		case s.Index != nil && s.Index.Name == "" && s.Index.Str == nil:
			out = in(pipe(term(out), call(guardScan)))
		}
		c := *s
		c.Index = r.index(s.Index)
		out.SuffixList = append(slices.Clip(out.SuffixList), &c)
	}
	return out
}

// bare rewrites a term without suffixes.
func (r *rewriter) bare(t *gojq.Term) *gojq.Term {
	switch t.Type {
	case gojq.TermTypeIndex:
		index := &gojq.Term{Type: gojq.TermTypeIndex, Index: r.index(t.Index)}
		if t.Index.Name == "" && t.Index.Str == nil {
			return in(pipe(call(guardScan), term(index)))
		}
		return index
	case gojq.TermTypeRecurse:
		return r.function(&gojq.Func{Name: "recurse"})
	case gojq.TermTypeFunc:
		return r.function(t.Func)
	case gojq.TermTypeObject:
		return r.object(t.Object)
	case gojq.TermTypeArray:
		out := &gojq.Array{Query: r.query(t.Array.Query)}
		if out.Query != nil {
			out.Query = pipe(term(in(out.Query)), call(guardElement))
		}
		return &gojq.Term{Type: t.Type, Array: out}
	case gojq.TermTypeUnary:
		return &gojq.Term{Type: t.Type, Unary: &gojq.Unary{Op: t.Unary.Op, Term: r.term(t.Unary.Term)}}
	case gojq.TermTypeFormat:
		return r.format(t)
	case gojq.TermTypeString:
		return &gojq.Term{Type: t.Type, Str: r.str(t.Str)}
	case gojq.TermTypeIf:
		out := &gojq.If{Cond: r.query(t.If.Cond), Then: r.query(t.If.Then), Else: r.query(t.If.Else)}
		for _, e := range t.If.Elif {
			out.Elif = append(out.Elif, &gojq.IfElif{Cond: r.query(e.Cond), Then: r.query(e.Then)})
		}
		return &gojq.Term{Type: t.Type, If: out}
	case gojq.TermTypeTry:
		return &gojq.Term{Type: t.Type, Try: &gojq.Try{Body: r.query(t.Try.Body), Catch: r.query(t.Try.Catch)}}
	case gojq.TermTypeReduce:
		f := t.Reduce
		return &gojq.Term{Type: t.Type, Reduce: &gojq.Reduce{Query: r.query(f.Query), Patterns: r.patterns(f.Patterns), Start: r.query(f.Start), Update: r.query(f.Update)}}
	case gojq.TermTypeForeach:
		f := t.Foreach
		return &gojq.Term{Type: t.Type, Foreach: &gojq.Foreach{
			Query: r.query(f.Query), Patterns: r.patterns(f.Patterns), Start: r.query(f.Start), Update: r.query(f.Update), Extract: r.query(f.Extract),
		}}
	case gojq.TermTypeLabel:
		return &gojq.Term{Type: t.Type, Label: &gojq.Label{Ident: t.Label.Ident, Body: r.query(t.Label.Body)}}
	case gojq.TermTypeQuery:
		return &gojq.Term{Type: t.Type, Query: r.query(t.Query)}
	case gojq.TermTypeIdentity, gojq.TermTypeNull, gojq.TermTypeTrue, gojq.TermTypeFalse, gojq.TermTypeNumber, gojq.TermTypeBreak:
		return t
	}
	r.fail("%s is not known here", t)
	return t
}

func (r *rewriter) index(i *gojq.Index) *gojq.Index {
	if i == nil {
		return nil
	}
	out := &gojq.Index{Name: i.Name, Str: r.str(i.Str), Start: r.query(i.Start), End: r.query(i.End), IsSlice: i.IsSlice}
	if out.Start != nil && !i.IsSlice {
		out.Start = guarded(out.Start, guardIndex)
	}
	return out
}

func (r *rewriter) object(o *gojq.Object) *gojq.Term {
	out := &gojq.Object{}
	for _, kv := range o.KeyVals {
		r.values++
		out.KeyVals = append(out.KeyVals, &gojq.ObjectKeyVal{Key: kv.Key, KeyString: r.str(kv.KeyString), KeyQuery: r.query(kv.KeyQuery), Val: r.objectValue(kv.Val)})
	}
	return in(pipe(term(&gojq.Term{Type: gojq.TermTypeObject, Object: out}), call(guardObject)))
}

// objectValue rewrites the value of a member, as one term.
func (r *rewriter) objectValue(q *gojq.Query) *gojq.Query {
	if q == nil {
		return nil
	}
	return term(in(r.query(q)))
}

// str rewrites a text with values in it.
func (r *rewriter) str(s *gojq.String) *gojq.String {
	if s == nil || s.Queries == nil {
		return s
	}
	out := &gojq.String{Str: s.Str}
	for _, q := range s.Queries {
		if q.Term != nil && q.Term.Str != nil { // a part of the text itself
			out.Queries = append(out.Queries, q)
			continue
		}
		out.Queries = append(out.Queries, term(in(guarded(r.query(q), guardText))))
	}
	return out
}

// formats are the formats that may be used; base32 does not exist in gojq.
var formats = []string{"@text", "@json", "@html", "@uri", "@urid", "@csv", "@tsv", "@sh", "@base64", "@base64d"}

func (r *rewriter) format(t *gojq.Term) *gojq.Term {
	if !slices.Contains(formats, t.Format) {
		r.fail("the format %s is not known here", t.Format)
	}
	out := &gojq.Term{Type: t.Type, Format: t.Format, Str: r.str(t.Str)}
	if t.Str != nil {
		return out
	}
	return in(pipe(call(guardText), term(out)))
}

// function rewrites a call.
func (r *rewriter) function(f *gojq.Func) *gojq.Term {
	out := &gojq.Func{Name: f.Name}
	for _, arg := range f.Args {
		out.Args = append(out.Args, r.query(arg))
	}
	made := &gojq.Term{Type: gojq.TermTypeFunc, Func: out}
	name := key(f.Name, len(f.Args))
	why, isRefused := refused[f.Name]
	switch c, listed := functions[name]; {
	case slices.Contains(r.scope, name), strings.HasPrefix(f.Name, "$") && !isRefused:
		return made
	case isRefused:
		r.fail("%s is not known here: %s", f.Name, why)
	case r.known[name] && (r.own || !strings.HasPrefix(f.Name, "_")):
		r.used[name] = true
	case !listed || c.own && !r.own:
		r.fail("the function %s is not known here", name)
	default:
		for i, guard := range c.args {
			out.Args[i] = guarded(out.Args[i], guard)
		}
		if c.rest != "" {
			out.Args[0] = call(c.rest, out.Args[0])
		}
		if c.result != "" {
			made = in(pipe(term(made), call(c.result)))
		}
		if c.input != "" {
			return in(pipe(call(c.input), term(made)))
		}
	}
	return made
}
