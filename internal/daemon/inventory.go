package daemon

import (
	"context"
	"slices"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/daemon/references"
	"github.com/toolgate/toolgate/native/enable"
)

// inventory is everything of this gateway that a name in the configuration may refer to;
// nil while a server has not been heard of.
func (d *Daemon) inventory(ctx context.Context) *references.Inventory {
	if !d.Settled() {
		return nil
	}
	d.gateway.Settle(ctx)
	inv := references.NewInventory(d.settings.inForce())
	inv.Seen("") // the documents at addresses
	for _, s := range d.servers.Known() {
		if s.Listed {
			inv.Seen(s.Namespace)
		}
		if !slices.Contains(inv.Servers, s.Name) {
			inv.Servers = append(inv.Servers, s.Name)
		}
	}
	inv.Seen(enable.Name)
	for _, c := range d.gateway.Capabilities() {
		inv.Add(gate.Request{Kind: c.Kind, Server: c.Server, Original: c.Original, Exposed: c.Exposed, Plain: c.Plain, CapabilityID: c.CapabilityID}, c.Schema)
	}
	return inv
}
