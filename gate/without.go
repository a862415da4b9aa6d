package gate

import "slices"

// RegistryPhase is the name of the phase that knows which definitions are accepted.
const RegistryPhase = "registry"

// Without returns a chain of all phases but the one of a name. It tells what a caller
// might view if that phase had no objection. Use it for that alone, never to decide a
// request. A chain without phases denies everything.
func (c *Chain) Without(name string) *Chain {
	if c == nil {
		return nil
	}
	others := slices.DeleteFunc(slices.Clone(c.parts), func(p Part) bool { return p.Name == name })
	return &Chain{parts: others, cache: &cache{}}
}
