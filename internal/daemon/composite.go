package daemon

import (
	"context"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/composite"
	"github.com/toolgate/toolgate/proxy"
)

// composing is a registry that tells the phase of tools with steps what there is.
type composing struct {
	proxy.Registry
	steps *composite.Phase
}

// Record implements [proxy.Registry].
func (l composing) Record(ctx context.Context, offers []*gate.Offer) {
	l.steps.Learn(offers)
	l.Registry.Record(ctx, offers)
}
