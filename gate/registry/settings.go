package registry

import "cmp"

// Settings are what an operator says of the catalog of capabilities.
type Settings struct {
	// State of a capability about which nobody has decided. Default: enabled.
	Default string `config:"default" enum:"enabled|disabled"`
	// What happens to a new definition: enable serves it, hold holds it until a person accepts it, and adopt serves the
	// first list of a server that was never seen and holds later additions. Default: adopt with authentication, else
	// enable.
	OnNew Policy `config:"on_new" enum:"enable|hold|adopt"`
	// What happens to a changed definition. Default: hold with authentication, else enable.
	OnChange Policy `config:"on_change" enum:"enable|hold"`
	// Whether clients see the category, the class, the risk, the cost and the need for an approval of each tool, in its
	// _meta under dev.toolgate/tool. Default: false.
	ToolMetadata bool `config:"tool_metadata"`
	// Whether toolgate describes the tools that it knows, of well-known servers and its own: their category, class, risk
	// and cost, where nobody has said or decided anything. It enables, accepts and allows nothing. Default: false.
	ShippedSeed bool `config:"shipped_seed"`
	// File with initial settings for capabilities, applied when they are first seen. Default: none.
	Seed string `config:"seed" format:"path"`
}

// Rules returns the rules of the settings, with the seed read. With authentication,
// unreviewed definitions are held unless the settings say otherwise.
func (s Settings) Rules(authenticated bool) (Rules, error) {
	r := Rules{DefaultEnabled: s.Default != "disabled", OnNew: cmp.Or(s.OnNew, Enable), OnChange: cmp.Or(s.OnChange, Enable)}
	if authenticated {
		r.OnNew, r.OnChange = cmp.Or(s.OnNew, Adopt), cmp.Or(s.OnChange, Hold)
	}
	if s.Seed == "" {
		return r, nil
	}
	var err error
	r.Seed, err = LoadSeed(s.Seed)
	return r, err
}
