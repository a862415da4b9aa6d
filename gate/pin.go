package gate

// Pin returns a chain that goes on deciding View as this one does now, so that
// two moments can be compared. The two share a cache. Where no part has a [Part.Pin] it
// is the chain itself.
func (c *Chain) Pin() *Chain {
	if c == nil {
		return nil
	}
	pinned := &Chain{parts: make([]Part, len(c.parts)), cache: c.cache, of: c, rules: make([]any, len(c.parts))}
	some := false
	for i, p := range c.parts {
		pinned.parts[i] = p
		if p.Pin != nil {
			pinned.parts[i], pinned.rules[i] = p.Pin()
			some = true
		}
	}
	if !some {
		return c
	}
	return pinned
}

// Same tells whether two pinned chains are of one chain and of the same rules.
func (c *Chain) Same(other *Chain) bool {
	if c == other {
		return true
	}
	if c == nil || other == nil || c.of == nil || c.of != other.of {
		return false
	}
	for i := range c.rules {
		if c.rules[i] != other.rules[i] {
			return false
		}
	}
	return true
}
