package daemon

import (
	"context"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/daemon/tries"
	"github.com/toolgate/toolgate/internal/lineclient"
	"github.com/toolgate/toolgate/proxy"
)

// newTries returns what makes calls by hand.
func (d *Daemon) newTries() *tries.Service {
	return tries.New(tries.Options{
		Serve: func(ctx context.Context, id *gate.Identity, scope proxy.Scope, stream *lineclient.Pipe) error {
			return d.gateway.ServeStdio(ctx, id, scope, stream, stream)
		},
		Grant: func(ctx context.Context, key string) (*gate.Identity, time.Time, error) {
			g, err := d.identities.Grant(ctx, key)
			return g.Identity, g.Until, err
		},
		Authenticated: d.identities.Authenticated,
		Known: func(id *gate.Identity) bool {
			if !d.identities.Authenticated() {
				return true
			}
			now := visitors{d}.Now(id)
			return now != nil && now.Rights() == id.Rights()
		},
		Go: func(f func(context.Context)) { d.tasks.Go(func() { f(d.ctx) }) },
	})
}
