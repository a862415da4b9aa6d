package build

import (
	"log/slog"
	"slices"

	"github.com/toolgate/toolgate/gate/capsule"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/proxy/find/vectors"
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

// Vectors returns what ranks tools by vectors, which are kept in a store. It has no model
// until it is given one.
func Vectors(s *store.Store, log *slog.Logger) *vectors.Vectors {
	return vectors.New(store.NewVectors(s), log)
}
