package proxy

import (
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/guard"
)

// peek returns the refusal of a call whose backend is not called for now: of one
// that begins before anything is done for it, of one that goes on when it is known
// which it is, and that its server does not work on it already.
func (s *served) peek(x *Exchange, r *Route, again *retry) error {
	g, guarded := s.backend.(*guard.Guard)
	begins := x.Message.Param("requestState") == nil
	if !guarded || begins != (again == nil) || again != nil && again.state.way == wayParked {
		return nil
	}
	return g.Peek(r.Kind, r.Original)
}

// admit lets a call through to its backend, before it is charged: what a breaker
// refuses costs nothing. giveBack is called at the end of the call.
func (s *served) admit(call *mcp.Call, again *retry) (giveBack func(), err error) {
	g, guarded := s.backend.(*guard.Guard)
	if !guarded || again != nil && again.state.way == wayParked {
		return func() {}, nil
	}
	p, err := g.Enter(call.Kind, call.Key)
	if err != nil {
		return nil, err
	}
	call.Pass = p
	return p.GiveBack, nil
}
