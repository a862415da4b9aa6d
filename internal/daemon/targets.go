package daemon

import (
	"context"
	"slices"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/daemon/references"
	"github.com/toolgate/toolgate/native/enable"
)

// targets is everything of this gateway that a name in the configuration may refer to;
// nil while a server has not been heard of.
func (d *Daemon) targets(ctx context.Context) *references.Targets {
	if !d.Settled() {
		return nil
	}
	d.gateway.Settle(ctx)
	targets := references.NewTargets(d.settings.inForce())
	targets.Seen("") // the documents at addresses
	for _, s := range d.servers.Known() {
		if s.Listed {
			targets.Seen(s.Namespace)
		}
		if !slices.Contains(targets.Servers, s.Name) {
			targets.Servers = append(targets.Servers, s.Name)
		}
	}
	targets.Seen(enable.Name)
	for _, c := range d.gateway.Capabilities() {
		targets.Add(gate.Request{Kind: c.Kind, Server: c.Server, Original: c.Original, Exposed: c.Exposed, Unsuffixed: c.Unsuffixed, CapabilityID: c.CapabilityID}, c.Schema)
	}
	return targets
}
