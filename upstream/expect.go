package upstream

import (
	"context"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// Await waits until it is known what the server lists with its current credential. After a
// login that is when the lists were read, at most the start timeout. It does not wait for
// something that is listed already, nor for a server that has never answered: a silent
// server must not hold up its callers. The error is a [mcp.Failure] if somebody has to
// sign in before anything is known of the server, or the cause of a context that ended.
func (s *Server) Await(ctx context.Context, kind mcp.Kind, key string) error {
	return s.awaitListed(ctx, kind, key, false)
}

// Listed tells whether the server lists something. [Server.Await] does not wait for it
// then.
func (s *Server) Listed(kind mcp.Kind, key string) bool {
	l, _ := s.Listing()
	return key != "" && lists(l, kind, key)
}

// awaitListed is Await. With start it also waits while the server starts.
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
