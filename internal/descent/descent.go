// Package descent tells which connections come from processes that this one, or one of
// its descendants, has started. A gateway starts programs that others wrote, and they run as its
// user. They may not administer it: approve what they ask for, change its mode, or read
// what it knows (docs/adr/0034).
//
// The package asks the kernel who is at the other end of a connection, and /proc for the
// ancestors of that process. On Linux a process whose parent has ended is handed to this
// one (see [Adopt]), so no number of forks leads out of its descent.
package descent

import (
	"context"
	"net"
	"net/netip"
	"sync"
)

// Reason is what a descendant is told.
const Reason = "a process that this gateway has started may not administer it"

// maxAncestors bounds the number of ancestors up to the first process.
const maxAncestors = 4096

// peer is the other end of a TCP connection. What is found out about it stays valid for
// the whole connection: a process that gives its connection to a descendant could as well
// do what the descendant asks for.
type peer struct {
	from, to netip.AddrPort

	once       sync.Once
	descendant bool
}

type peerKey struct{}

// ConnContext is the ConnContext of an [net/http.Server] whose handlers use
// [OfRequest].
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	theirs, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return ctx
	}
	ours, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, &peer{from: unmapped(theirs), to: unmapped(ours)})
}

func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// OfRequest tells whether a descendant of this process holds the other end of the TCP
// connection of a request. ctx is the request's context. The first answer for a
// connection may take milliseconds, and other connections wait for it; it is remembered.
//
// Requests from other machines do not come from descendants; their credential decides. On
// systems other than Linux, which do not reveal the other end, the answer is false: a
// refusal would concern everybody on this machine (docs/adr/0034). For a request without a
// known connection it is true, so a server without [ConnContext] serves nobody.
func OfRequest(ctx context.Context) bool {
	p, ok := ctx.Value(peerKey{}).(*peer)
	if !ok {
		return true
	}
	p.once.Do(func() { p.descendant = heldByDescendant(p.from, p.to) })
	return p.descendant
}
