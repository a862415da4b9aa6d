//go:build !linux && !darwin

package descent

import (
	"context"
	"net"
	"net/netip"
)

// Adopt does nothing on systems that do not reveal descent.
func Adopt() error { return nil }

// SweepAdopted has nothing to do here.
func SweepAdopted(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// EndAdopted has nothing to do here.
func EndAdopted() {}

// OfConn cannot be determined here: the user and the token decide.
func OfConn(net.Conn) bool { return false }

// heldByDescendant cannot be determined here: the token or the signature of a request
// decides (docs/authentication.md says so for each system).
func heldByDescendant(_, _ netip.AddrPort) bool { return false }
