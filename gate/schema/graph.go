package schema

import "math"

// node is one subschema, with edges to others. The edges include all that the library
// follows.
type node struct {
	pointer string         // JSON Pointer in the schema
	object  map[string]any // nil for a boolean schema
	never   bool           // the schema is false

	inPlace []*node // they apply to the same value
	weight  int     // extra work per value, in visits

	properties map[string]*node
	patterned  []*node // patternProperties
	additional *node   // additionalProperties, nil when absent or a boolean
	uneval     *node   // unevaluatedProperties
	names      *node   // propertyNames
	tuple      []*node // prefixItems, or items as an array
	items      *node   // items, or additionalItems behind a tuple
	elements   []*node // contains and unevaluatedItems: any element
	unique     bool    // uniqueItems

	format       string
	instructions int  // of the pattern
	relaxed      bool // a part of it was removed

	cost, chain int // including all nodes in place below; see measure
	open        bool
}

// children yields the nodes for parts of the value.
func (n *node) children(yield func(*node) bool) {
	for _, c := range n.properties {
		if !yield(c) {
			return
		}
	}
	for _, list := range [][]*node{n.patterned, n.tuple, n.elements, {n.additional, n.uneval, n.names, n.items}} {
		for _, c := range list {
			if c != nil && !yield(c) {
				return
			}
		}
	}
}

// measure sets the cost and the chain of a node: the number of subschemas that a value
// is checked against in place, and the length of their longest chain. It refuses
// cycles and nodes above the limits.
func (n *node) measure() error {
	switch {
	case n.open:
		return refuse(n.pointer, "the schema applies itself to the same value again and never ends")
	case n.cost > 0:
		return nil
	}
	n.open = true
	cost, chain := 1, 0
	for _, c := range n.inPlace {
		if err := c.measure(); err != nil {
			return err
		}
		cost = min(cost+c.cost, math.MaxInt32)
		chain = max(chain, c.chain)
	}
	n.open, n.cost, n.chain = false, cost, chain+1
	if n.cost > MaxCost {
		return refuse(n.pointer, "one value would be held against more than %d subschemas", MaxCost)
	}
	if n.chain > MaxChain {
		return refuse(n.pointer, "more than %d keywords follow from one another in place", MaxChain)
	}
	return nil
}

// meter counts the work of checking a value, before the library does that work.
type meter struct {
	left int
}

// budget returns the work allowed for a value with the given number of values in it.
func budget(values int) int { return baseVisits + visitsPerValue*values }

// allows follows a value through the schema, along every edge that the library may
// take. It returns false as soon as the budget is spent.
func (m *meter) allows(n *node, value any) bool {
	if m.left -= 1 + n.weight; m.left < 0 {
		return false
	}
	if n.object == nil {
		return true
	}
	for _, c := range n.inPlace {
		if !m.allows(c, value) {
			return false
		}
	}
	switch value := value.(type) {
	case map[string]any:
		return m.object(n, value)
	case []any:
		return m.array(n, value)
	case string:
		// A small expression takes some nanoseconds per byte, larger ones up to some for
		// each instruction.
		m.left -= len(value) / 64 * (n.instructions + 31) / 32
	}
	return m.left >= 0
}

func (m *meter) object(n *node, object map[string]any) bool {
	for name, value := range object {
		if n.names != nil && !m.allows(n.names, name) {
			return false
		}
		own := n.properties[name]
		if own != nil && !m.allows(own, value) {
			return false
		}
		for _, c := range n.patterned {
			// Which of them match is not known yet.
			if m.left -= len(name) / 64; !m.allows(c, value) {
				return false
			}
		}
		if n.additional != nil && own == nil && !m.allows(n.additional, value) {
			return false
		}
		if n.uneval != nil && !m.allows(n.uneval, value) {
			return false
		}
	}
	return true
}

func (m *meter) array(n *node, array []any) bool {
	if n.unique {
		m.left -= min(len(array), 20)*count(array)/4 + comparisons(array)*visitsPerComparison
	}
	for i, value := range array {
		if m.left < 0 {
			return false
		}
		switch {
		case i < len(n.tuple):
			if !m.allows(n.tuple[i], value) {
				return false
			}
		case n.items != nil:
			if !m.allows(n.items, value) {
				return false
			}
		}
		for _, c := range n.elements {
			if !m.allows(c, value) {
				return false
			}
		}
	}
	return m.left >= 0
}

// count returns the number of values in a value, including itself.
func count(value any) int {
	sum := 1
	switch value := value.(type) {
	case map[string]any:
		for _, v := range value {
			sum += count(v)
		}
	case []any:
		for _, v := range value {
			sum += count(v)
		}
	}
	return sum
}
