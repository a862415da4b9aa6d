package gate

// Pinner is a [Phase] whose rules change while it is in use.
type Pinner interface {
	// Pin returns a phase that goes on deciding View as this one does now. It is
	// a pointer, and the same one as long as the rules are the same.
	Pin() Phase
}

// Pin returns a chain that goes on deciding View as this one does now, so that
// two moments can be compared. Where no phase is a [Pinner] it is the chain
// itself.
func (c *Chain) Pin() *Chain {
	if c == nil {
		return nil
	}
	pinned := &Chain{phases: make([]Phase, len(c.phases)), of: c}
	some := false
	for i, p := range c.phases {
		pinned.phases[i] = p
		if own, ok := p.(Pinner); ok {
			pinned.phases[i], some = own.Pin(), true
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
	for i, p := range c.of.phases {
		if _, ok := p.(Pinner); ok && c.phases[i] != other.phases[i] {
			return false
		}
	}
	return true
}
