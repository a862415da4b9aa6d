package http1

import (
	"context"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolgate/toolgate/internal/cancel"
)

// ends connects clients, and accepts their connections in the same order.
type ends struct {
	t *testing.T
	l net.Listener
}

func newEnds(t *testing.T) ends {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return ends{t, l}
}

func (e ends) dial() net.Conn {
	e.t.Helper()
	c, err := net.Dial("tcp", e.l.Addr().String())
	return e.closed(c, err)
}

func (e ends) accept() net.Conn {
	e.t.Helper()
	c, err := e.l.Accept()
	return e.closed(c, err)
}

func (e ends) closed(c net.Conn, err error) net.Conn {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { c.Close() })
	return c
}

// request begins a request for which the poller waits, and returns the number of that and what is
// closed when the request is cancelled.
func request(t *testing.T, w *watch) (number uint64, cancelled <-chan struct{}) {
	t.Helper()
	ctx := cancel.New(context.Background())
	t.Cleanup(func() { ctx.Cancel(nil) })
	w.begin(&body{}, ctx)
	w.look()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.number == 0 || w.reading {
		t.Fatal("the poller does not wait")
	}
	return w.number, ctx.Done()
}

func wantCancelled(t *testing.T, which string, cancelled <-chan struct{}) {
	t.Helper()
	select {
	case <-cancelled:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s is not cancelled", which)
	}
}

func wantUnderWay(t *testing.T, which string, cancelled <-chan struct{}) {
	t.Helper()
	select {
	case <-cancelled:
		t.Errorf("%s is cancelled", which)
	default:
	}
}

// TestLateEvent tells a watch what the set has seen for the request before, and of nothing.
func TestLateEvent(t *testing.T) {
	s := New(&http.Server{})
	defer s.Close()
	e := newEnds(t)
	client, w := e.dial(), &newConn(s, t.Context(), e.accept()).gone
	one, first := request(t, w)
	w.end()
	w.ready(one)
	two, second := request(t, w)
	if one == two {
		t.Error("two requests have one number")
	}
	client.Close()
	wantCancelled(t, "the second request", second)
	w.ready(two) // again
	w.end()
	w.ready(two)
	wantUnderWay(t, "the first request", first)
}

// TestEventOfNothing has the poller look at a connection on which nothing has come. The set has
// told of it, and does so once, but the poller goes on.
func TestEventOfNothing(t *testing.T) {
	s := New(&http.Server{})
	defer s.Close()
	e := newEnds(t)
	client, accepted := e.dial(), e.accept()
	w := &newConn(s, t.Context(), accepted).gone
	number, cancelled := request(t, w)
	for range 3 {
		if err := unix.EpollCtl(s.poller.fd, unix.EPOLL_CTL_MOD, int(descriptor(t, accepted)), &unix.EpollEvent{}); err != nil {
			t.Fatal(err)
		}
		w.ready(number)
	}
	wantUnderWay(t, "the request", cancelled)
	client.Close()
	wantCancelled(t, "the request", cancelled)
	w.end()
}

// TestDescriptorOfAnotherConnection closes a connection while its request is watched. The next one
// gets its descriptor, and is watched when the first stops.
func TestDescriptorOfAnotherConnection(t *testing.T) {
	s := New(&http.Server{})
	defer s.Close()
	for range 50 {
		e := newEnds(t)
		gone, accepted, client := e.dial(), e.accept(), e.dial()
		w := &newConn(s, t.Context(), accepted).gone
		_, first := request(t, w)
		before := descriptor(t, accepted)
		accepted.Close()
		next := e.accept()
		if descriptor(t, next) != before { // somebody else has it
			w.end()
			continue
		}
		w2 := &newConn(s, t.Context(), next).gone
		number, second := request(t, w2)
		gone.Close()
		w.end()
		w2.ready(number)
		wantUnderWay(t, "the second request", second)
		client.Close()
		wantCancelled(t, "the second request", second)
		wantUnderWay(t, "the first request", first)
		w2.end()
		return
	}
	t.Error("no connection has got the descriptor of another one")
}

func descriptor(t *testing.T, c net.Conn) (fd uintptr) {
	t.Helper()
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(of uintptr) { fd = of }); err != nil {
		t.Fatal(err)
	}
	return fd
}

// TestPollerWithoutASet reads where the system has no epoll set.
func TestPollerWithoutASet(t *testing.T) {
	s := New(&http.Server{})
	defer s.Close()
	s.poller.ended = true
	e := newEnds(t)
	client, w := e.dial(), &newConn(s, t.Context(), e.accept()).gone
	ctx := cancel.New(context.Background())
	defer ctx.Cancel(nil)
	w.begin(&body{}, ctx) // its timer looks
	client.Close()
	wantCancelled(t, "the request", ctx.Done())
	w.end()
}
