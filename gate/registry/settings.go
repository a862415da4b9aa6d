package registry

import "cmp"

// Settings are what an operator says of the catalog of capabilities.
type Settings struct {
	// Default is the state of a capability nobody decided about. Absent: enabled.
	Default string `config:"default" enum:"enabled|disabled"`
	// OnNew is what happens to a new definition: it is served, held until it is accepted, or, with adopt, served where it comes with the first list of a server that was never seen and held afterwards. Absent: adopt with authentication, else enable.
	OnNew Policy `config:"on_new" enum:"enable|hold|adopt"`
	// OnChange is what happens to a changed definition. Absent: hold with authentication, else enable.
	OnChange Policy `config:"on_change" enum:"enable|hold"`
	// Seed is a file that says what is written about a capability when it is first seen. Absent: none.
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
