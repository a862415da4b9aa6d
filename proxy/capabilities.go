package proxy

import "github.com/toolgate/toolgate/internal/mcp"

// Capability is something that the gateway exposes.
type Capability struct {
	Kind             mcp.Capability
	Server, Original string
	Exposed          string
	CapabilityID     string
	// Schema is the input schema of a tool as its server listed it; nil where
	// there is none. It is not to be changed.
	Schema []byte
}

// Capabilities returns all that the gateway exposes, whoever may view it: by
// kind, and within a kind sorted by exposed name.
func (g *Gateway) Capabilities() []Capability {
	catalog := g.snapshot.Load().catalog
	var all []Capability
	for _, kind := range mcp.Capabilities {
		for _, r := range catalog.lists[kind].entries {
			all = append(all, Capability{
				Kind: kind, Server: r.Server, Original: r.Original, Exposed: r.Exposed, CapabilityID: r.CapabilityID, Schema: r.input,
			})
		}
	}
	return all
}
