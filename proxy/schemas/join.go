package schemas

import (
	"fmt"
	"slices"
)

// both returns the alternatives that two lists of them leave together. prefix is how many
// references lead to both.
func (b *builder) both(x, y []*branch, prefix int) (out []*branch, err error) {
	for _, one := range x {
		for _, other := range y {
			if b.left--; b.left < 0 || !b.spend(one.weight()+other.weight()) {
				return nil, errTooLarge
			}
			joined, err := one.with(other, prefix)
			if err != nil {
				return nil, err
			}
			if joined != nil {
				out = append(out, joined)
			}
		}
	}
	return out, nil
}

// weight is how many steps it takes to join a branch with another one.
func (x *branch) weight() int {
	n := 1 + len(x.enum) + len(x.bounds) + len(x.names) + len(x.required) + len(x.rest) + len(x.needs) + len(x.items) + len(x.open)
	for _, of := range x.members {
		n += len(of)
	}
	return n
}

// with returns what two branches accept together; nil for nothing.
func (x *branch) with(y *branch, prefix int) (*branch, error) {
	kind := x.kind
	switch {
	case x.kind == y.kind, y.kind == "", x.kind == "integer" && y.kind == "number":
	case x.kind == "", x.kind == "number" && y.kind == "integer":
		kind = y.kind
	default:
		return nil, nil
	}
	x, y = x.as(kind), y.as(kind)
	if x == nil || y == nil {
		return nil, nil
	}
	out := *x
	out.open = append(slices.Clip(x.open), y.open[min(prefix, len(y.open)):]...)
	if out.tag = y.tag; out.tag == "" {
		out.tag = x.tag
	}
	if out.description = y.description; out.description == "" {
		out.description = x.description
	}
	if out.header == nil {
		out.header = y.header
	}
	if out.format == nil {
		out.format = y.format
	}
	if x.enum != nil && y.enum != nil {
		out.enum = []*value{}
		its := make(map[string]bool, len(y.enum))
		for _, e := range y.enum {
			its[e.equalForm()] = true
		}
		for _, e := range x.enum {
			if its[e.equalForm()] {
				out.enum = append(out.enum, e)
			}
		}
		if len(out.enum) == 0 {
			return nil, nil
		}
	} else if y.enum != nil {
		out.enum = y.enum
	}
	out.items = append(slices.Clip(x.items), y.items...)
	if len(out.items) == 0 {
		out.items = nil
	}
	if err := out.join(y.bounds); err != nil {
		return nil, err
	}
	if !out.joinMembers(x, y) {
		return nil, nil
	}
	return &out, nil
}

// join adds the bounds of another branch.
func (x *branch) join(bounds []bound) error {
	x.bounds = slices.Clone(x.bounds)
	for _, b := range bounds {
		i := slices.IndexFunc(x.bounds, func(o bound) bool { return o.keyword == b.keyword })
		if i < 0 {
			x.bounds = append(x.bounds, b)
			continue
		}
		order := 0
		for _, k := range boundsOf {
			if k.keyword == b.keyword {
				order = k.order
			}
		}
		mine, its := number(x.bounds[i].value), number(b.value)
		switch {
		case same(x.bounds[i].value, b.value):
		case order == 0 || mine == nil || its == nil:
			return fmt.Errorf("two values of %s apply to the same value", b.keyword)
		case its.Cmp(mine) == order:
			x.bounds[i] = b
		}
	}
	return nil
}

// joinMembers sets the members to those of two branches; false if no object has them.
func (x *branch) joinMembers(a, b *branch) bool {
	if a.kind != "object" && a.kind != "" {
		return true
	}
	x.needs = append(slices.Clip(a.needs), b.needs...)
	x.closed = a.closed || b.closed
	x.rest = append(slices.Clip(a.rest), b.rest...)
	if len(x.rest) == 0 {
		x.rest = nil
	}
	x.required = unique(slices.Concat(a.required, b.required))
	required := make(map[string]bool, len(x.required))
	for _, name := range x.required {
		required[name] = true
	}
	x.names, x.members = nil, map[string]spec{}
	for _, name := range append(slices.Clip(a.names), b.names...) {
		if _, had := x.members[name]; had {
			continue
		}
		mine, inA := a.members[name]
		its, inB := b.members[name]
		if !inA && a.closed || !inB && b.closed {
			if required[name] {
				return false
			}
			continue
		}
		if !inA {
			mine = a.rest
		}
		if !inB {
			its = b.rest
		}
		x.names = append(x.names, name)
		x.members[name] = append(slices.Clip(mine), its...)
	}
	return true
}

// apart tells whether no value is accepted by a branch of each list. Members are compared
// to so many levels.
func (b *builder) apart(x, y []*branch, levels int) bool {
	for _, one := range x {
		for _, other := range y {
			if !b.spend(one.weight()+other.weight()) || !b.distinct(one, other, levels) {
				return false
			}
		}
	}
	return true
}

func (b *builder) distinct(x, y *branch, levels int) bool {
	if both, err := x.with(y, 0); err == nil && both == nil {
		return true
	}
	if x.kind != "object" || y.kind != "object" || levels == 0 {
		return false
	}
	for _, name := range slices.Concat(x.required, y.required) {
		if b.left < 0 || b.steps < 0 {
			return false
		}
		mine, err := b.conjunction(x.members[name], nil)
		if err != nil {
			continue
		}
		its, err := b.conjunction(y.members[name], nil)
		if err == nil && len(x.members[name]) > 0 && len(y.members[name]) > 0 && b.apart(mine, its, levels-1) {
			return true
		}
	}
	return false
}

// conjunction returns the alternatives of schemas that apply together.
func (b *builder) conjunction(of spec, open []*value) ([]*branch, error) {
	out := []*branch{{open: open}}
	for _, s := range of {
		inner, err := b.expand(s, open)
		if err != nil {
			return nil, err
		}
		if out, err = b.both(out, inner, len(open)); err != nil {
			return nil, err
		}
	}
	return out, nil
}
