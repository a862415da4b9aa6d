package schemas

import "slices"

// parts are what was found out about the parts of one schema. Signatures of several lengths
// read the same parts, and references lead to a part many times.
type parts struct {
	targets targets
	orders  map[*value]order
	adding  map[*value]bool // whether alternatives only add conditions, by the first of them
}

// order is the order of an object's properties in a signature: their indices, the required
// ones first, and how many those are.
type order struct {
	properties []int
	required   int
}

func newParts(root *value) *parts {
	return &parts{targets: targets{root: root}, orders: map[*value]order{}, adding: map[*value]bool{}}
}

// members returns the order of the properties of a schema of objects.
func (p *parts) members(s *value) (properties []int, required int) {
	if o, ok := p.orders[s]; ok {
		return o.properties, o.required
	}
	needed := map[string]bool{}
	for _, name := range namesIn(s.get("required")) {
		needed[name] = true
	}
	var o order
	var optional []int
	names, _ := s.get("properties").members()
	for i, name := range names {
		if needed[name] {
			o.properties = append(o.properties, i)
		} else {
			optional = append(optional, i)
		}
	}
	o.required = len(o.properties)
	o.properties = append(o.properties, optional...)
	p.orders[s] = o
	return o.properties, o.required
}

// typed tells whether alternatives only add conditions to a type that their parent names.
// There is at least one.
func (p *parts) typed(branches []*value, parent *value) bool {
	if parent.get("type") == nil && parent.get("properties") == nil {
		return false
	}
	adding, ok := p.adding[branches[0]]
	if !ok {
		adding = !slices.ContainsFunc(branches, func(b *value) bool {
			return b.get("type") != nil || b.get("$ref") != nil || b.get("enum") != nil || b.get("const") != nil || b.get("properties") != nil
		})
		p.adding[branches[0]] = adding
	}
	return adding
}
