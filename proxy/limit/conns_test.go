package limit_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolgate/toolgate/proxy/limit"
)

// queue is a listener of connections that a test makes.
type queue chan net.Conn

func (q queue) Accept() (net.Conn, error) {
	c, ok := <-q
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (q queue) Close() error   { return nil }
func (q queue) Addr() net.Addr { return address("here") }

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// fake is a connection from an address.
type fake struct {
	net.Conn
	from   address
	closed atomic.Bool
}

func (f *fake) RemoteAddr() net.Addr { return f.from }
func (f *fake) Close() error         { f.closed.Store(true); return nil }

// front accepts connections within a limit.
type front struct {
	*limit.Conns
	t   *testing.T
	l   net.Listener
	in  queue
	log strings.Builder
}

func newFront(t *testing.T, most int) *front {
	f := &front{t: t, in: make(queue, 2)}
	f.Conns = limit.NewConns(most, slog.New(slog.NewTextHandler(&f.log, nil)))
	f.l = f.Listener(f.in)
	return f
}

// comes returns a connection and its accepted side.
func (f *front) comes(from string) (*fake, net.Conn) {
	c := &fake{from: address(from + ":4000")}
	f.in <- c
	got, err := f.l.Accept()
	if err != nil {
		f.t.Fatal(err)
	}
	return c, got
}

// refused reports whether a new connection is closed.
func (f *front) refused(from string) bool {
	c := &fake{from: address(from + ":4000")}
	f.in <- c
	close(f.in)
	_, err := f.l.Accept()
	f.in = make(queue, 2)
	f.l = f.Listener(f.in)
	return errors.Is(err, net.ErrClosed) && c.closed.Load()
}

// A new connection replaces the one that is idle for longest: of its own address if
// that has half of all, else of any.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	f := newFront(t, 6)
	var of1 []*fake
	for range 3 {
		c, _ := f.comes("192.0.2.1")
		of1 = append(of1, c)
	}
	of2, _ := f.comes("192.0.2.2")
	f.comes("192.0.2.1")
	if !of1[0].closed.Load() || of1[1].closed.Load() || of2.closed.Load() || f.Open() != 4 {
		t.Errorf("an address with half of all: closed %v %v %v, %d open", of1[0].closed.Load(), of1[1].closed.Load(), of2.closed.Load(), f.Open())
	}
	f.comes("192.0.2.3")
	f.comes("192.0.2.4")
	f.comes("192.0.2.5")
	if !of1[1].closed.Load() || of2.closed.Load() || f.Open() != 6 {
		t.Errorf("beyond all: closed %v %v, %d open", of1[1].closed.Load(), of2.closed.Load(), f.Open())
	}
}

// A trusted proxy may have all connections.
func TestConnectionsOfAProxy(t *testing.T) {
	f := newFront(t, 6)
	proxies, err := limit.ParseProxies([]string{"10.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	f.Trust(proxies)
	for range 6 {
		f.comes("10.0.0.1")
	}
	if f.Open() != 6 {
		t.Errorf("%d open", f.Open())
	}
	f.comes("192.0.2.1")
	if f.Open() != 6 {
		t.Errorf("with another client: %d open", f.Open())
	}
}

// A busy connection stays. If all are busy the new one is closed, and the log says so
// once.
func TestConnectionsInUseStay(t *testing.T) {
	f := newFront(t, 4)
	busy1, c1 := f.comes("192.0.2.1")
	busy2, c2 := f.comes("192.0.2.1")
	f.State(c1, http.StateActive)
	f.State(c1, http.StateActive)
	f.State(c2, http.StateActive)
	for range 3 {
		if !f.refused("192.0.2.1") {
			t.Error("a third connection of the address was accepted")
		}
	}
	if busy1.closed.Load() || busy2.closed.Load() || strings.Count(f.log.String(), "limits.connections") != 1 {
		t.Errorf("closed %v %v, log %s", busy1.closed.Load(), busy2.closed.Load(), f.log.String())
	}
	_, c3 := f.comes("192.0.2.2")
	_, c4 := f.comes("192.0.2.3")
	f.State(c3, http.StateActive)
	f.State(c4, http.StateActive)
	if !f.refused("192.0.2.4") {
		t.Error("a fifth connection was accepted")
	}
	f.State(c1, http.StateIdle)
	f.comes("192.0.2.4")
	if !busy1.closed.Load() || busy2.closed.Load() {
		t.Error("another than the one that came to rest had to go")
	}
	for _, c := range []net.Conn{c1, c2, c3, c4} {
		c.Close()
		c.Close()
		f.State(c, http.StateIdle)
	}
	if f.Open() != 1 {
		t.Errorf("%d are open, want 1", f.Open())
	}
}

// Idle and silent connections do not keep a request out, with and without TLS.
func TestIdleConnectionsKeepNobodyOut(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls %v", secure), func(t *testing.T) {
			conns := limit.NewConns(20, slog.New(slog.DiscardHandler))
			hold := make(chan struct{})
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/held" {
					w.WriteHeader(http.StatusOK)
					_ = http.NewResponseController(w).Flush()
					<-hold
				}
				_, _ = io.WriteString(w, "served")
			}))
			s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
			s.Listener, s.Config.ConnState, s.EnableHTTP2 = conns.Listener(s.Listener), conns.State, secure
			if secure {
				s.StartTLS()
			} else {
				s.Start()
			}
			defer s.Close()
			defer close(hold)
			get := func(path string) *http.Response {
				t.Helper()
				got, err := s.Client().Get(s.URL + path)
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
			held := get("/held")
			var silent []net.Conn
			for range 60 {
				c, err := net.Dial("tcp", s.Listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				silent = append(silent, c)
			}
			for range 5 {
				got := get("/")
				body, err := io.ReadAll(got.Body)
				got.Body.Close()
				if err != nil || string(body) != "served" {
					t.Errorf("%q, %v", body, err)
				}
			}
			if n := conns.Open(); n > 20 {
				t.Errorf("%d connections are open", n)
			}
			_ = silent[0].SetReadDeadline(time.Now().Add(10 * time.Second))
			if _, err := bufio.NewReader(silent[0]).ReadByte(); !errors.Is(err, io.EOF) {
				t.Errorf("the oldest silent connection: %v", err)
			}
			if held.StatusCode != http.StatusOK {
				t.Error(held.Status)
			}
			held.Body.Close()
		})
	}
}

func TestConnsAtOnce(t *testing.T) {
	conns := limit.NewConns(8, slog.New(slog.DiscardHandler))
	in := make(queue)
	l := conns.Listener(in)
	accepted := make(chan net.Conn, 1000)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	})
	for range 4 {
		all.Go(func() {
			for c := range accepted {
				conns.State(c, http.StateActive)
				conns.State(c, http.StateIdle)
				c.Close()
				conns.State(c, http.StateClosed)
			}
		})
	}
	for i := range 1000 {
		in <- &fake{from: address(fmt.Sprintf("192.0.2.%d:1", i%5))}
	}
	close(in)
	all.Wait()
	if conns.Open() != 0 {
		t.Errorf("%d are open", conns.Open())
	}
}

func TestNetwork(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "[::ffff:192.0.2.1]:80": "192.0.2.1",
		"[2001:db8:1:2:3:4:5:6]:80": "2001:db8:1:2::/64", "[2001:db8:1:2::1%eth0]:80": "2001:db8:1:2::/64",
		"@": "@", "pipe:80": "pipe", "": "",
	} {
		if got := limit.Network(remote); got != want {
			t.Errorf("%q is counted by %q, want %q", remote, got, want)
		}
	}
}

// A connection whose request waits for its body makes room while its sender is not
// authenticated.
func TestRequestsOfUnknownSendersMakeRoom(t *testing.T) {
	f := newFront(t, 4)
	first, c1 := f.comes("192.0.2.1")
	second, c2 := f.comes("192.0.2.1")
	for _, c := range []net.Conn{c1, c2} {
		f.State(c, http.StateActive)
		limit.Unknown(limit.ConnContext(t.Context(), c))
	}
	limit.Known(limit.ConnContext(t.Context(), c1))
	f.comes("192.0.2.1")
	if first.closed.Load() || !second.closed.Load() {
		t.Errorf("closed: known %v, unknown %v", first.closed.Load(), second.closed.Load())
	}
}
