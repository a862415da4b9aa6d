package schemas

import (
	"errors"
	"fmt"
	"slices"
)

// unsupported are the keywords that cannot be said in another way.
var unsupported = setOf("not", "if", "contains", "prefixItems", "unevaluatedItems", "unevaluatedProperties", "dependencies", "dependentRequired",
	"dependentSchemas", "propertyNames", "patternProperties", "$dynamicRef", "$recursiveRef")

// expand returns the alternatives of one schema; none for one that accepts nothing. open
// are the targets of the references that lead here.
func (b *builder) expand(s *value, open []*value) ([]*branch, error) {
	if b.left--; b.left < 0 || !b.spend(s.weight()) {
		return nil, errTooLarge
	}
	if s.kind != '{' {
		if s.kind == 't' {
			return []*branch{{open: open}}, nil
		}
		return nil, nil
	}
	if not := s.get("not"); not != nil && (not.kind == 't' || not.kind == '{' && len(not.keys) == 0) {
		return nil, nil
	}
	for _, key := range s.keys {
		if unsupported[key] && !anyNames(key, s.get(key)) {
			return nil, fmt.Errorf("%s cannot be said in another way", key)
		}
	}
	out, err := b.own(s, open)
	if err != nil {
		return nil, err
	}
	if ref, ok := s.get("$ref").string(); ok {
		to := b.targets.follow(ref)
		if to == nil {
			return nil, fmt.Errorf("the reference to %.80q leads nowhere", ref)
		}
		inner, err := b.target(to, ref, open)
		if err != nil {
			return nil, err
		}
		if out, err = b.both(out, inner, len(open)); err != nil {
			return nil, err
		}
	}
	for _, part := range s.get("allOf").elements() {
		inner, err := b.expand(part, open)
		if err != nil {
			return nil, err
		}
		if out, err = b.both(out, inner, len(open)); err != nil {
			return nil, err
		}
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if out, err = b.alternatives(s, keyword, out, open); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// weight is how many steps it takes to read a schema without those below it.
func (v *value) weight() int {
	n := 1
	for _, e := range v.values {
		n += 1 + len(e.values) + len(e.raw)/bytesOfStep
	}
	return n
}

// bytesOfStep is how many bytes of a text are read or written in one step.
const bytesOfStep = 16

// spend takes steps off those that are left, and tells whether there were enough.
func (b *builder) spend(steps int) bool {
	b.steps -= steps
	return b.steps >= 0
}

// anyNames tells whether a keyword accepts all names of members.
func anyNames(key string, v *value) bool {
	return key == "propertyNames" && (v.kind == 't' || v.kind == '{' && (len(v.keys) == 0 || len(v.keys) == 1 && v.get("type").is("string")))
}

// target returns the alternatives of what a reference leads to; none once it has led there
// too often.
func (b *builder) target(to *value, ref string, open []*value) ([]*branch, error) {
	times := 0
	for _, o := range open {
		if o == to {
			times++
		}
	}
	if times >= b.unroll {
		return nil, nil
	}
	out, err := b.expand(to, append(slices.Clip(open), to))
	if name, ok := definition(ref); ok && len(out) == 1 && out[0].tag == "" {
		out[0].tag = name
	}
	return out, err
}

// alternatives applies anyOf or oneOf of a schema to what it says itself.
func (b *builder) alternatives(s *value, keyword string, own []*branch, open []*value) ([]*branch, error) {
	list := s.get(keyword).elements()
	if len(list) == 0 {
		return own, nil
	}
	for _, one := range list {
		if !b.spend(1 + len(one.get("required").elements())) {
			return nil, errTooLarge
		}
	}
	if sets := requiredOnly(list); sets != nil && len(own) == 1 && own[0].kind == "object" {
		own[0].needs = append(own[0].needs, need{sets, keyword == "oneOf"})
		return own, nil
	}
	groups, alone := make([][]*branch, len(list)), make([][]*branch, len(list))
	for i, one := range list {
		inner, err := b.expand(one, open)
		if err != nil {
			return nil, err
		}
		if title, ok := one.get("title").string(); ok && len(inner) == 1 {
			inner[0].tag = title
		}
		if groups[i], err = b.both(own, inner, len(open)); err != nil {
			return nil, err
		}
		if keyword == "anyOf" {
			continue
		}
		// Without the references on the way here, as they may have ended an alternative.
		if inner, err = b.expand(one, nil); err != nil {
			return nil, err
		}
		if alone[i], err = b.both(own, inner, 0); err != nil {
			return nil, err
		}
	}
	if keyword == "oneOf" && !b.separate(groups, alone) {
		if b.left < 0 || b.steps < 0 {
			return nil, errTooLarge
		}
		return nil, errors.New("two alternatives of a oneOf may accept the same value")
	}
	return slices.Concat(groups...), nil
}

// separate makes sure that no value is accepted by two alternatives of a oneOf: alone are
// the alternatives as they are. Where two may overlap, objects get no other members than
// those that are listed. It returns false where that does not help.
func (b *builder) separate(groups, alone [][]*branch) bool {
	for i := range groups {
		others := slices.Concat(slices.Delete(slices.Clone(alone), i, i+1)...)
		if b.apart(alone[i], others, 2) {
			continue
		}
		if !b.apart(closed(alone[i]), others, 2) {
			return false
		}
		groups[i] = closed(groups[i])
	}
	return true
}

func closed(list []*branch) []*branch {
	out := make([]*branch, len(list))
	for i, x := range list {
		if out[i] = x; x.kind == "object" {
			one := *x
			one.closed, one.rest = true, nil
			out[i] = &one
		}
	}
	return out
}

// requiredOnly returns the names of alternatives that only require members, nil for others.
func requiredOnly(list []*value) (sets [][]string) {
	for _, one := range list {
		keys, _ := one.members()
		names := namesIn(one.get("required"))
		if len(names) == 0 || slices.ContainsFunc(keys, func(k string) bool { return k != "required" && !annotations[k] }) {
			return nil
		}
		sets = append(sets, names)
	}
	return sets
}
