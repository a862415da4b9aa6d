package daemon

import (
	"context"
	"slices"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/daemon/references"
	"github.com/toolgate/toolgate/native/enable"
)

// offered is the inventory of this gateway; nil while a server is not heard of.
func (in *Daemon) offered(ctx context.Context) *references.Inventory {
	if !in.Settled() {
		return nil
	}
	in.Gateway.Settle(ctx)
	inv := references.NewInventory(in.withDeclared())
	inv.Seen("") // the documents at addresses
	in.mu.Lock()
	namespaces := in.namespaces
	in.mu.Unlock()
	for _, s := range in.List() {
		if l, _ := s.Listing(); l != nil {
			inv.Seen(namespaces[s.Name()])
		}
		if !slices.Contains(inv.Servers, s.Name()) {
			inv.Servers = append(inv.Servers, s.Name())
		}
	}
	inv.Seen(enable.Name)
	for _, c := range in.Gateway.Capabilities() {
		inv.Add(gate.Request{Kind: c.Kind, Server: c.Server, Original: c.Original, Exposed: c.Exposed, Plain: c.Plain, CapabilityID: c.CapabilityID}, c.Schema)
	}
	return inv
}
