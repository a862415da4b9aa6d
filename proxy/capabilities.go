package proxy

import (
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Capability is something that the gateway exposes.
type Capability struct {
	Kind             mcp.Capability
	Server, Original string
	Exposed, Plain   string // see [gate.Names]
	CapabilityID     string
	// Schema is the input schema of a tool as its server listed it; nil where
	// there is none. It is not to be changed.
	Schema []byte
}

// Capabilities returns all that the gateway exposes, whoever may view it and
// whichever clients are shown it: by kind, and within a kind sorted by exposed
// name.
func (g *Gateway) Capabilities() []Capability {
	snap := g.snapshot.Load()
	var all []Capability
	for _, kind := range mcp.Capabilities {
		seen := make(map[string]bool)
		begin := len(all)
		for _, catalog := range snap.everyCatalog() {
			for _, r := range catalog.lists[kind].entries {
				if seen[r.Exposed] {
					continue
				}
				seen[r.Exposed] = true
				all = append(all, Capability{
					Kind: kind, Server: r.Server, Original: r.Original, Exposed: r.Exposed, Plain: r.Plain,
					CapabilityID: r.CapabilityID, Schema: r.input,
				})
			}
		}
		slices.SortFunc(all[begin:], func(a, b Capability) int { return strings.Compare(a.Exposed, b.Exposed) })
	}
	return all
}
