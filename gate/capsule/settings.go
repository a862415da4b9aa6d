package capsule

import (
	"fmt"
	"slices"

	"github.com/toolgate/toolgate/gate"
)

// Settings are a named set of capabilities in the configuration.
type Settings struct {
	// Globs of the names that lists show. Default: none.
	Visible []string `config:"visible"`
	// Globs of the names that may be called. Default: none.
	Callable []string `config:"callable"`
	// Personas that have the capsule. Default: none.
	Personas []string `config:"personas"`
	// Groups that have the capsule. Default: none.
	Groups []string `config:"groups"`
	// What tools/list of the capsule's endpoint holds: full for all tools that the caller may view, find for the tools of
	// the find view. Default: full.
	View string `config:"view" enum:"full|find" default:"full"`
	// Names of tools that the capsule's find view also lists. Default: those of find.pins.
	Pins []string `config:"pins"`
}

// Calls tells whether the capsule has a tool to call, by its exposed name.
func (s *Settings) Calls(name string) bool {
	names := gate.Names{Exposed: name}
	among := func(globs []string) bool {
		return slices.ContainsFunc(globs, func(glob string) bool { return names.Granted(gate.Glob(glob)) })
	}
	return among(s.Visible) && among(s.Callable)
}

// Configured returns the phase of the capsules of a section. at returns where the
// value of a path below the section is written. narrows tells which capsules narrow what
// agents may do; nil are none. One of these that no persona and no group has grants nobody
// anything.
func Configured(section map[string]Settings, narrows func(name string) bool, at func(path string) (file string, line int)) (*Phase, error) {
	patterns := func(path string, globs []string) []Pattern {
		out := make([]Pattern, len(globs))
		for i, glob := range globs {
			file, line := at(fmt.Sprintf("%s[%d]", path, i))
			out[i] = Pattern{Glob: gate.Glob(glob), At: gate.Rule{File: file, Line: line, Text: glob}}
		}
		return out
	}
	var all []Capsule
	for name, set := range section {
		all = append(all, Capsule{
			Name: name, Visible: patterns(name+".visible", set.Visible), Callable: patterns(name+".callable", set.Callable),
			Personas: set.Personas, Groups: set.Groups, Finds: set.View == "find", Pins: set.Pins,
			NarrowsOnly: narrows != nil && len(set.Personas)+len(set.Groups) == 0 && narrows(name),
		})
	}
	return New(all)
}
