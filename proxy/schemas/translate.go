package schemas

import (
	"errors"
	"slices"
	"strings"
)

// translator turns a value of a rewritten schema into one of the original. A nil one
// changes nothing. A value of another form than the rewritten schema has stays as it is.
type translator struct {
	members map[string]*translator // of an object
	rest    *translator            // of its other members
	nulls   []string               // members that are null where they are left out
	needs   []need
	items   *translator            // of an array
	tags    map[string]*translator // of an object with one member, which is the value
	null    bool                   // the value is null
}

// need is a set of lists of members of which at least one list must be there, or exactly
// one.
type need struct {
	sets    [][]string
	exactly bool
}

func (t *translator) apply(v *value) (*value, error) {
	switch {
	case t == nil:
		return v, nil
	case t.null:
		if v.is("null") {
			return &value{kind: 'n', raw: literals['n']}, nil
		}
		return v, nil
	case t.tags != nil:
		if v.kind != '{' || len(v.keys) != 1 {
			return v, nil
		}
		inner, ok := t.tags[v.keys[0]]
		if !ok {
			return v, nil
		}
		return inner.apply(v.values[0])
	case v.kind == '[' && t.items != nil:
		out := &value{kind: '[', values: make([]*value, len(v.values))}
		for i, e := range v.values {
			var err error
			if out.values[i], err = t.items.apply(e); err != nil {
				return nil, err
			}
		}
		return out, nil
	case v.kind == '{':
		return t.object(v)
	}
	return v, nil
}

func (t *translator) object(v *value) (*value, error) {
	out := &value{kind: '{', keys: slices.Clone(v.keys), values: make([]*value, len(v.values), len(v.values)+len(t.nulls))}
	for i, key := range v.keys {
		inner, ok := t.members[key]
		if !ok {
			inner = t.rest
		}
		var err error
		if out.values[i], err = inner.apply(v.values[i]); err != nil {
			return nil, err
		}
	}
	for _, key := range t.nulls {
		if v.get(key) == nil {
			out.keys, out.values = append(out.keys, key), append(out.values, &value{kind: 'n', raw: literals['n']})
		}
	}
	if len(t.needs) > 0 {
		out.indexed()
	}
	for i := range t.needs {
		if err := t.needs[i].check(out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// sentence says what is needed.
func (n *need) sentence() string {
	words := make([]string, len(n.sets))
	for i, names := range n.sets {
		words[i] = strings.Join(names, " and ")
	}
	if n.exactly {
		return "Give exactly one of: " + strings.Join(words, "; ") + "."
	}
	return "Give at least one of: " + strings.Join(words, "; ") + "."
}

// check tells which members are missing.
func (n *need) check(v *value) error {
	met := 0
	for _, names := range n.sets {
		if !slices.ContainsFunc(names, func(name string) bool { return v.get(name) == nil }) {
			met++
		}
	}
	if met == 0 || met > 1 && n.exactly {
		return errors.New(n.sentence())
	}
	return nil
}
