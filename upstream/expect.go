package upstream

import (
	"context"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// Await waits until it is known what the server lists with the credential that it
// has: after a login until the lists were read, at most as long as a start may take.
// It does not wait for what is listed already, nor for a server that nothing was
// heard of yet: one that is silent is not to hold up those who call it. The error is
// a [mcp.Failure] where somebody has to sign in before anything is known of the
// server, or the cause of a context that ended.
func (s *Server) Await(ctx context.Context, kind mcp.Kind, key string) error {
	return s.awaitListed(ctx, kind, key, false)
}

// Listed tells whether the server lists something, for which [Server.Await] does not
// wait.
func (s *Server) Listed(kind mcp.Kind, key string) bool {
	l, _ := s.Listing()
	return key != "" && lists(l, kind, key)
}

// awaitListed is Await, also while the server starts where that is asked for.
func (s *Server) awaitListed(ctx context.Context, kind mcp.Kind, key string, start bool) error {
	var deadline *time.Timer
	for {
		l, state, expecting, moved := s.catalog.waiting()
		_, _, stopped := s.pool.current()
		over := stopped || s.spec.Off || s.spec.Refused != "" || (state != mcp.Starting || !start) && !expecting
		switch {
		case key != "" && lists(l, kind, key):
			return nil
		case over && l == nil && state == mcp.NeedsLogin && s.opts.SignIn:
			return s.failure(ctx, transport.Undelivered(transport.ErrClosed))
		case over:
			return nil
		}
		if deadline == nil {
			deadline = time.NewTimer(s.spec.Timeouts.Start)
			defer deadline.Stop()
		}
		select {
		case <-moved:
		case <-deadline.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
