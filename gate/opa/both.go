package opa

import (
	"maps"
	"slices"
)

// both merges what the policy's own data files and the gateway say under one key, which
// both have in the shape of the key. Whoever is stricter wins: what one of them does not
// enable is not enabled, and what one of them denies is denied. Of anything else that
// both say of a tool, the files win. It changes neither.
func both(own, gateway any) any {
	switch own := own.(type) {
	case map[string]any:
		members, ok := gateway.(map[string]any)
		if !ok {
			return own
		}
		merged := maps.Clone(members)
		for name, v := range own {
			theirs, there := members[name]
			switch {
			case !there:
				merged[name] = v
			case name == memberEnabled || name == memberCanAdd:
				merged[name] = permitted(v, theirs)
			default:
				merged[name] = both(v, theirs)
			}
		}
		return merged
	case []any:
		list, ok := gateway.([]any)
		if !ok {
			return own
		}
		return slices.Concat(own, list)
	}
	return own
}

// permitted is what two switches come to. A tool, a tenant or a persona may have the
// name of a switch; it is no boolean.
func permitted(own, gateway any) any {
	a, isSwitch := own.(bool)
	b, same := gateway.(bool)
	if !isSwitch || !same {
		return both(own, gateway)
	}
	return a && b
}

// says tells whether a value has what an edit changes: a member with another value than
// it sets, or an element that it takes out.
func (e edit) says(v any) bool {
	if e.Set != nil {
		return reaches(v, e.Set, func(own, wanted any) bool { return !equal(own, wanted) })
	}
	return reaches(v, e.Remove, func(list, elements any) bool {
		all, _ := list.([]any)
		out, _ := elements.([]any)
		return slices.ContainsFunc(all, func(one any) bool {
			return slices.ContainsFunc(out, func(o any) bool { return equal(one, o) })
		})
	})
}

// reaches follows the members of patch into v as far as they are objects, and asks leaf
// about the rest.
func reaches(v, patch any, leaf func(v, patch any) bool) bool {
	members, ok := patch.(map[string]any)
	if !ok {
		return leaf(v, patch)
	}
	own, _ := v.(map[string]any)
	for name, p := range members {
		if inner, there := own[name]; there && reaches(inner, p, leaf) {
			return true
		}
	}
	return false
}
