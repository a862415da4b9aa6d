package admin

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// peer is the other end of a TCP connection. What is found out about it holds for as
// long as the connection: one who gives it to a descendant could as well do what the
// descendant asks for.
type peer struct {
	from, to netip.AddrPort

	once       sync.Once
	descendant bool
}

type peerKey struct{}

// ConnContext is that of [http.Server] for servers whose handlers use [Strangers] or
// [FromDescendant].
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	theirs, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return ctx
	}
	ours, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, &peer{from: plain(theirs), to: plain(ours)})
}

func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// FromDescendant tells whether the other end of a request's connection is held by a
// descendant of this process. It is found out once for a connection. Requests from
// other machines are not: what decides about them is their credential. Where the
// system does not tell who is at the other end (all but Linux), none are: what decides
// there is the credential alone, because a refusal would be one of everybody on this
// machine (docs/adr/0034). A request whose connection
// is not known is one, so that a server without [ConnContext] serves nobody.
func FromDescendant(ctx context.Context) bool {
	p, ok := ctx.Value(peerKey{}).(*peer)
	if !ok {
		return true
	}
	p.once.Do(func() { p.descendant = heldByDescendant(p.from, p.to) })
	return p.descendant
}

// ReasonDescent is what a descendant is told.
const ReasonDescent = "a process that this gateway has started may not administer it"

// Strangers is a [Handler] behind a TCP listener that no descendant of this process
// is served by.
func Strangers(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if FromDescendant(r.Context()) {
			writeJSON(w, http.StatusForbidden, map[string]any{"error": ReasonDescent})
			return
		}
		h.ServeHTTP(w, r)
	})
}
