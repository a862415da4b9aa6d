// Package testport finds loopback addresses for programs that tests start.
//
// A program that has to be told its port cannot ask the kernel for a free one. To ask
// the kernel on its behalf, and to close that port again, leaves a moment in which any
// other process may be given the same port. The ports of this package are not among
// those that the kernel gives away, and each is reserved until its test ends.
package testport

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// The ports to choose from: below the ephemeral ports of Linux (32768 and up), macOS
// and Windows (49152 and up), and above what is commonly in use.
const (
	lowest  = 20000
	highest = 32000
	tries   = 200
)

// ErrNone says that no free port was found.
var ErrNone = errors.New("no free loopback port found")

// Address returns an address on which nobody listens: 127.0.0.1 and a port that no
// other caller of this package gets, in this process or in another, until t ends.
func Address(t testing.TB) string {
	t.Helper()
	address, release, err := Reserve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return address
}

// Reserve is [Address] outside of a test. The port is reserved until release is called.
// The error is [ErrNone], or says that ctx is done.
func Reserve(ctx context.Context) (address string, release func(), err error) {
	var lc net.ListenConfig
	for range tries {
		if ctx.Err() != nil {
			return "", nil, ctx.Err()
		}
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(lowest+rand.IntN(highest-lowest)))
		// The UDP port of the same number is the reservation. It does not prevent a
		// program from listening on TCP.
		reserved, err := lc.ListenPacket(ctx, "udp", address)
		if err == nil {
			probe, busy := lc.Listen(ctx, "tcp", address)
			if busy == nil {
				probe.Close()
				return address, func() { reserved.Close() }, nil
			}
			reserved.Close()
		}
	}
	return "", nil, ErrNone
}
