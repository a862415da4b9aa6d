package schema

import "strconv"

// relax removes keywords that have become too strict because a part below them was
// removed. For example, a "not" without its pattern would refuse values that the
// server allows.
func (v *vetter) relax() {
	lax := v.lax()
	for pointer, n := range v.nodes {
		if n.object == nil {
			continue
		}
		under := func(keyword string) bool { return lax[v.nodes[pointer+"/"+keyword]] }
		if under("not") {
			delete(n.object, "not")
		}
		if under("if") {
			for _, keyword := range []string{"if", "then", "else"} {
				delete(n.object, keyword)
			}
		}
		if under("contains") {
			delete(n.object, "maxContains")
		}
		v.relaxOneOf(n, lax)
	}
}

// relaxOneOf weakens a oneOf in which a branch was relaxed: at least one of the
// branches must match.
func (v *vetter) relaxOneOf(n *node, lax map[*node]bool) {
	branches, _ := n.object["oneOf"].([]any)
	for i := range branches {
		if !lax[v.nodes[n.pointer+"/oneOf/"+strconv.Itoa(i)]] {
			continue
		}
		if _, taken := n.object["anyOf"]; taken {
			delete(n.object, "oneOf")
			return
		}
		n.object["anyOf"] = branches
		delete(n.object, "oneOf")
		return
	}
}

// lax finds the subschemas with removed parts, and all that lead to them.
func (v *vetter) lax() map[*node]bool {
	above := map[*node][]*node{}
	lax := map[*node]bool{}
	var open []*node
	for _, n := range v.nodes {
		for _, c := range n.inPlace {
			above[c] = append(above[c], n)
		}
		for c := range n.children {
			above[c] = append(above[c], n)
		}
		if n.relaxed {
			open = append(open, n)
		}
	}
	for len(open) > 0 {
		n := open[len(open)-1]
		open = open[:len(open)-1]
		if !lax[n] {
			lax[n] = true
			open = append(open, above[n]...)
		}
	}
	return lax
}
