package daemon

import (
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/composite"
	"github.com/toolgate/toolgate/proxy"
)

// composing is a registry that tells the phase of tools with steps what there is.
type composing struct {
	proxy.Registry
	steps *composite.Phase
}

// Offered implements [proxy.OfferWatcher].
func (l composing) Offered(offers []*gate.Offer) { l.steps.Learn(offers) }

var _ proxy.OfferWatcher = composing{}
