package schema

import (
	"slices"
	"strconv"
	"strings"
)

// Text is a string in the arguments of a call.
type Text struct {
	// Pointer is its JSON Pointer (RFC 6901) in the arguments.
	Pointer string
	// Name is the property that contains it, directly or in an array; empty when there
	// is none.
	Name string
	// Formats are the schema's values of "format" for it, sorted.
	Formats []string
	// Value is the text without its escapes.
	Value string
}

// Texts returns the strings in the arguments with a wanted Name or one of the wanted
// Formats, ordered by pointer. The arguments need not be valid. The error says why
// they cannot be walked: they are no JSON, are too large, or would take too long.
func (s *Schema) Texts(arguments *Arguments, wanted func(word string) bool) ([]Text, error) {
	if s == nil || s.vetted == nil {
		return nil, refuse("", "there is no schema")
	}
	value, values, problem := arguments.read()
	if problem != nil {
		return nil, &refusal{problem.Pointer, problem.Problem}
	}
	w := textWalk{meter: meter{left: budget(values)}, wanted: wanted}
	if !w.walk([]*node{s.vetted.root}, value, nil, "") {
		return nil, &refusal{"", "the arguments would take too long to read by the tool's schema"}
	}
	slices.SortFunc(w.texts, func(a, b Text) int { return strings.Compare(a.Pointer, b.Pointer) })
	return w.texts, nil
}

type textWalk struct {
	meter
	wanted func(word string) bool
	texts  []Text
}

// walk collects the strings in a value to which the nodes apply, in any order. It
// returns false when the budget is spent.
func (w *textWalk) walk(nodes []*node, value any, path []string, name string) bool {
	nodes, ok := w.closure(nodes)
	if !ok {
		return false
	}
	switch value := value.(type) {
	case string:
		if w.wanted(name) || slices.ContainsFunc(nodes, func(n *node) bool { return n.format != "" && w.wanted(n.format) }) {
			w.texts = append(w.texts, Text{pointerOf(path), name, formats(nodes), value})
		}
	case map[string]any:
		for key, member := range value {
			if !w.walk(members(nodes, key), member, append(path, key), key) {
				return false
			}
		}
	case []any:
		for i, element := range value {
			if !w.walk(elements(nodes, i), element, append(path, strconv.Itoa(i)), name) {
				return false
			}
		}
	}
	return true
}

// closure adds all nodes that apply in place.
func (w *textWalk) closure(nodes []*node) ([]*node, bool) {
	if len(nodes) == 0 || len(nodes) == 1 && len(nodes[0].inPlace) == 0 {
		w.left -= 1 + len(nodes)
		return nodes, w.left >= 0
	}
	seen := make(map[*node]bool, len(nodes))
	var all []*node
	for open := nodes; len(open) > 0; {
		n := open[len(open)-1]
		open = open[: len(open)-1 : len(open)-1]
		if seen[n] {
			continue
		}
		seen[n] = true
		all = append(all, n)
		open = append(open, n.inPlace...)
	}
	w.left -= 1 + len(all)
	return all, w.left >= 0
}

func formats(nodes []*node) []string {
	var names []string
	for _, n := range nodes {
		if n.format != "" {
			names = append(names, n.format)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// members returns at least the nodes for a member of an object.
func members(nodes []*node, name string) (below []*node) {
	for _, n := range nodes {
		own := n.properties[name]
		if own != nil {
			below = append(below, own)
		}
		below = append(below, n.patterned...)
		if n.additional != nil && own == nil {
			below = append(below, n.additional)
		}
		if n.uneval != nil {
			below = append(below, n.uneval)
		}
	}
	return below
}

// elements returns at least the nodes for an element of an array.
func elements(nodes []*node, i int) (below []*node) {
	for _, n := range nodes {
		switch {
		case i < len(n.tuple):
			below = append(below, n.tuple[i])
		case n.items != nil:
			below = append(below, n.items)
		}
		below = append(below, n.elements...)
	}
	return below
}

// Declares tells whether the schema has a subschema for the value at a pointer into
// the arguments. A token "*" stands for any element or member.
func (s *Schema) Declares(pointer string) bool {
	if s == nil || s.vetted == nil {
		return false
	}
	tokens, ok := tokensOf(pointer)
	if !ok {
		return false
	}
	w := textWalk{meter: meter{left: budget(0)}}
	nodes := []*node{s.vetted.root}
	for _, token := range tokens {
		if nodes, ok = w.closure(nodes); !ok {
			return false
		}
		nodes = declared(nodes, token)
	}
	return len(nodes) > 0
}

// declared returns the nodes below a token of a pointer.
func declared(nodes []*node, token string) (below []*node) {
	seen := map[*node]bool{}
	add := func(list ...*node) {
		for _, n := range list {
			if n != nil && !seen[n] && !n.never {
				seen[n] = true
				below = append(below, n)
			}
		}
	}
	index, err := strconv.Atoi(token)
	for _, n := range nodes {
		switch {
		case token == "*":
			for c := range n.children {
				if c != n.names {
					add(c)
				}
			}
		case err == nil && index >= 0 && index < len(n.tuple):
			add(n.tuple[index])
		case err == nil && index >= 0:
			add(n.items)
			add(n.elements...)
		}
		own := n.properties[token]
		add(own)
		add(n.patterned...)
		if rest := n.additional; own == nil && rest != nil && (len(rest.object) > 0 || rest.format != "") {
			add(rest) // an empty one declares nothing
		}
	}
	return below
}
