package transport

import (
	"context"
	"errors"

	"github.com/toolgate/toolgate/internal/mcp"
)

// ErrMoved ends a link whose process runs elsewhere by now. The next link leads there.
var ErrMoved = errors.New("the server runs at another gateway now")

// Moving is implemented by links to a process that may move.
type Moving interface {
	// Moved gets a value when the process belongs elsewhere. A link that is opened then leads
	// there.
	Moved() <-chan struct{}
	// Alone tells that this link has to end before the process runs elsewhere.
	Alone() bool
	// Takes tells whether the gateway where the process belongs would run it now.
	Takes(ctx context.Context) bool
	// At names the gateway where the process runs.
	At() string
	// Leaving tells that the process belongs elsewhere, and that it is not known whether it can
	// run there.
	Leaving() bool
	// Stays is called when it cannot: the link stays where it is for the time being.
	Stays()
}

// Placed is how the process of a server is reached that runs at one of several gateways.
type Placed interface {
	// Offer says how the process of a server is started here, until withdrawn.
	Offer(server string, o *Options) (withdraw func())
	// Dial opens a link to the process, wherever it runs. The link implements [Moving].
	Dial(ctx context.Context, server string, o *Options, inbound func(mcp.Message)) (Link, error)
}

// KindPlaced is the transport to a process that may run at another gateway. No configuration
// names it.
var KindPlaced = Kind{Dial: dialPlaced}

// dialPlaced opens a link to a process that may run at another gateway.
func dialPlaced(ctx context.Context, o *Options, inbound func(mcp.Message)) (Link, error) {
	if o.Placed == nil {
		return nil, errors.New("there are no other gateways")
	}
	return o.Placed.Dial(ctx, o.Server, o, inbound)
}
