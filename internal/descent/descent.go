// Package descent tells which connections come from the processes that this one has
// started, and theirs. A gateway starts programs that others wrote, and they run as its
// user. They may not administer it: approve what they ask for, change its mode, or read
// what it knows (docs/adr/0034).
//
// The kernel is asked who is at the other end of one connection, and /proc for the
// ancestors of that process. On Linux a process whose parent has ended is handed to this
// one (see [Adopt]), so that no number of forks leads out of its descent.
package descent

import (
	"context"
	"net"
	"net/netip"
	"sync"
)

// Reason is what a descendant is told.
const Reason = "a process that this gateway has started may not administer it"

// maxAncestors bounds the way from a process to the first.
const maxAncestors = 4096

// peer is the other end of a TCP connection. What is found out about it holds for as
// long as the connection: one who gives it to a descendant could as well do what the
// descendant asks for.
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
	return context.WithValue(ctx, peerKey{}, &peer{from: plain(theirs), to: plain(ours)})
}

func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// OfRequest tells whether the other end of the TCP connection of a request, whose
// context is handed in, is held by a descendant of this process. It is found out once
// for a connection; that may take milliseconds, and other connections wait for it.
//
// Requests from other machines are from no descendant: their credential decides. On
// systems other than Linux, which do not tell who is at the other end, no request is: a
// refusal would be one of everybody on this machine (docs/adr/0034). A request whose
// connection is not known is, so that a server without [ConnContext] serves nobody.
func OfRequest(ctx context.Context) bool {
	p, ok := ctx.Value(peerKey{}).(*peer)
	if !ok {
		return true
	}
	p.once.Do(func() { p.descendant = heldByDescendant(p.from, p.to) })
	return p.descendant
}
