package descent

import (
	"errors"
	"net"
	"net/netip"
	"testing"
)

// connected returns both ends of a connection over loopback.
func connected(t testing.TB, network, address string) (dialled, accepted net.Conn) {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if dialled, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialled.Close() })
	if accepted, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accepted.Close() })
	return dialled, accepted
}

func end(a net.Addr) netip.AddrPort { return unmapped(netip.MustParseAddrPort(a.String())) }

// The kernel says of a socket what the tables of /proc do.
func TestTheKernelKnowsSockets(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "127.1.2.3:0"} {
		dialled, accepted := connected(t, "tcp", address)
		from, to := end(dialled.LocalAddr()), end(accepted.LocalAddr())
		told, err := askKernel(from, to)
		read, found := readSocket(from, to)
		if err != nil || !found || told != read || told.inode == "0" {
			t.Errorf("%s: the kernel says %+v, %v, /proc %+v, %v", address, told, err, read, found)
		}
		other := netip.AddrPortFrom(from.Addr(), from.Port()^1)
		if _, err := diagnoseOne(t, other, to); !errors.Is(err, errNoSocket) {
			t.Errorf("%s: a socket that is not there: %v", address, err)
		}
		// Whoever listens where nobody is connected from is not taken for the socket.
		if _, err := diagnoseOne(t, to, netip.AddrPortFrom(to.Addr(), 1)); !errors.Is(err, errNoSocket) {
			t.Errorf("%s: a socket that listens: %v", address, err)
		}
		accepted.Close()
		dialled.Close()
	}
	// A question about a connection that is nobody's cannot be told from a kernel that
	// does not answer such questions.
	far := netip.MustParseAddrPort("203.0.113.7:9")
	if _, err := askKernel(far, far); !errors.Is(err, errNoDiag) {
		t.Errorf("neither end is here: %v", err)
	}
	dialled, accepted := connected(t, "tcp", "127.0.0.1:0")
	from, to := end(dialled.LocalAddr()), end(accepted.LocalAddr())
	if s, found := socketOf(from, to); !found || s.inode == "0" {
		t.Errorf("%+v, %v", s, found)
	}
	if _, found := socketOf(netip.AddrPortFrom(from.Addr(), from.Port()^1), to); found {
		t.Error("a socket that is not there was found")
	}
}

func diagnoseOne(t *testing.T, from, to netip.AddrPort) (socket, error) {
	t.Helper()
	s, err := askKernel(from, to)
	if errors.Is(err, errNoDiag) { // our own end of such a connection is not there either
		return s, errNoSocket
	}
	return s, err
}

// What is no answer about the socket is none.
func TestOddDiagnoses(t *testing.T) {
	from, to := netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("127.0.0.1:2")
	for _, size := range []int{0, 10, 16, 20, 30, diagAnswer - 1} {
		if _, err := readDiagnosis(make([]byte, size), from, to); !errors.Is(err, errNoDiag) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if _, err := diagnose(-1, from, netip.MustParseAddrPort("[::1]:2")); !errors.Is(err, errNoSocket) {
		t.Errorf("ends of two families: %v", err)
	}
}

func BenchmarkSocketOf(b *testing.B) {
	dialled, accepted := connected(b, "tcp", "127.0.0.1:0")
	from, to := end(dialled.LocalAddr()), end(accepted.LocalAddr())
	for range 1000 {
		connected(b, "tcp", "127.0.0.1:0")
	}
	b.Run("kernel", func(b *testing.B) {
		for b.Loop() {
			if _, found := socketOf(from, to); !found {
				b.Fatal("not found")
			}
		}
	})
	b.Run("tables", func(b *testing.B) {
		for b.Loop() {
			if _, found := readSocket(from, to); !found {
				b.Fatal("not found")
			}
		}
	})
}
