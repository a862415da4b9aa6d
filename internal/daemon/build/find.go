package build

import (
	"slices"

	"github.com/toolgate/toolgate/gate/capsule"
	"github.com/toolgate/toolgate/proxy/findview"
)

// Pins returns the names that the find view of a capsule also lists, as
// [proxy.Config.Pins] does. capsules may be nil.
func Pins(s *findview.Settings, capsules *capsule.Phase) func(capsule string) []string {
	sorted := func(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }
	all := sorted(s.Pins)
	return func(name string) []string {
		if own := capsules.Pins(name); own != nil {
			return sorted(own)
		}
		return all
	}
}
