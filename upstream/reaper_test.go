package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/upstream/transport"
)

// reaped is a server in a bubble whose pool the test fills; its own connection
// is in memory and offers nothing.
type reaped struct {
	*Server
	t   *testing.T
	log *logBook
}

// reapedServer runs serve until the function that it returns is called.
func reapedServer(t *testing.T, spec Spec) (*reaped, func()) {
	t.Helper()
	spec.Key, spec.Isolation, spec.Local = "srv", IsolatePrincipal, "me"
	book := &logBook{}
	s := New(spec, Options{
		Sink: &sink{}, Credential: NewStatic(nil), Identity: identity,
		Logger: slog.New(slog.NewTextHandler(book, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	ctx, stop := context.WithCancel(t.Context())
	s.pool.life = ctx
	main, _, done := memoryConn(t, spec, mcp.Legacy)
	ended := make(chan error, 1)
	go func() { ended <- s.serve(ctx, main) }()
	synctest.Wait()
	return &reaped{s, t, book}, func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("serve = %v", err)
		}
		s.shutdown()
		done()
	}
}

// add puts the open connection of a principal into the pool.
func (s *reaped) add(principal string) (*Conn, *memoryLink) {
	s.t.Helper()
	conn, link, _ := memoryConn(s.t, s.spec, mcp.Legacy)
	conn.key = connKey{principal: principal}
	conn.gone = func() { signal(s.pool.tidy) }
	sl := &slot{opened: make(chan struct{}), conn: conn, since: time.Now()}
	close(sl.opened)
	s.pool.mu.Lock()
	s.pool.slots[conn.key] = sl
	s.pool.mu.Unlock()
	signal(s.pool.tidy)
	synctest.Wait()
	return conn, link
}

// held returns whether principals have a connection.
func (s *reaped) held(principals ...string) []bool {
	synctest.Wait()
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	var all []bool
	for _, p := range principals {
		all = append(all, s.pool.slots[connKey{principal: p}] != nil)
	}
	return all
}

// Connections end idleTime after their last use, to the second, unless they are
// in use or hold subscriptions.
func TestReapIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, done := reapedServer(t, Spec{URL: "none"})
		defer done()
		began := time.Now()
		until := func(at time.Duration) { time.Sleep(at - time.Since(began)) }
		expect := func(at time.Duration, want ...bool) {
			t.Helper()
			until(at)
			if diff := cmp.Diff(want, s.held("used", "busy", "watching", "unused")); diff != "" {
				t.Errorf("after %v (-want +got):\n%s", at, diff)
			}
		}
		used, _ := s.add("used")
		busy, _ := s.add("busy")
		watching, _ := s.add("watching")
		unused, _ := s.add("unused")
		busy.begin()
		s.subs.add(subscription{watching.key, "file:///a"}, +1)
		until(4 * time.Minute)
		used.begin()
		used.finish()
		expect(idleTime-time.Second, true, true, true, true)
		expect(idleTime+time.Second, true, true, true, false)
		if unused.link.Cause() == nil || unused.life.Err() == nil {
			t.Error("the connection is not in the pool and lives")
		}
		expect(4*time.Minute+idleTime-time.Second, true, true, true, false)
		expect(4*time.Minute+idleTime+time.Second, false, true, true, false)
		until(25 * time.Minute)
		busy.finish()
		expect(25*time.Minute+idleTime-time.Second, false, true, true, false)
		expect(25*time.Minute+idleTime+time.Second, false, false, true, false)
		expect(3*time.Hour, false, false, true, false)
		s.subs.add(subscription{watching.key, "file:///a"}, -1)
		expect(3*time.Hour+idleTime+time.Second, false, false, false, false)
	})
}

// A lost connection leaves the pool at once. One with subscriptions is tried again with
// the backoff of the server until nobody wants it.
func TestReaperReopens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, done := reapedServer(t, Spec{URL: "none"}) // no attempt succeeds
		defer done()
		plain, plainLink := s.add("plain")
		watching, link := s.add("watching")
		s.subs.add(subscription{watching.key, "file:///a"}, +1)
		link.Fail(transport.ErrClosed)
		plainLink.Fail(transport.ErrClosed)
		if diff := cmp.Diff([]bool{false, false}, s.held("plain", "watching")); diff != "" {
			t.Errorf("after the loss (-want +got):\n%s", diff)
		}
		if plain.life.Err() == nil {
			t.Error("a lost connection lives")
		}
		attempts := func() int { synctest.Wait(); return s.log.count("not opened again") }
		time.Sleep(50 * time.Millisecond)
		if n := attempts(); n != 1 {
			t.Errorf("%d attempts after 50 ms, want 1", n)
		}
		time.Sleep(time.Minute)
		before := attempts()
		time.Sleep(8 * time.Second)
		if n := attempts() - before; n < 9 || n > 21 {
			t.Errorf("%d attempts in 8 s, want one each 400 to 800 ms", n)
		}
		s.subs.add(subscription{watching.key, "file:///a"}, -1)
		before = attempts()
		time.Sleep(time.Hour)
		if n := attempts() - before; n != 0 {
			t.Errorf("%d attempts for nobody", n)
		}
		if len(s.pool.again) != 0 {
			t.Errorf("%d accounts are kept", len(s.pool.again))
		}
	})
}

// Connections that are opened again close no other connection.
func TestReaperReopensWhereThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, done := reapedServer(t, Spec{URL: "none", Limits: Limits{Conns: 2}})
		defer done()
		watching, link := s.add("watching")
		s.subs.add(subscription{watching.key, "file:///a"}, +1)
		link.Fail(transport.ErrClosed)
		synctest.Wait()
		other, _ := s.add("other")
		time.Sleep(time.Minute)
		if n := s.log.count("not opened again"); n != 0 {
			t.Errorf("%d attempts without a place", n)
		}
		s.EndSession("other", "")
		time.Sleep(time.Second)
		if n := s.log.count("not opened again"); n == 0 || other.life.Err() == nil {
			t.Errorf("%d attempts with a place", n)
		}
	})
}

// watchBy subscribes a principal to a resource.
func watchBy(principal, uri string) *mcp.Call {
	return &mcp.Call{Method: mcp.MethodSubscribe, Params: []byte(`{"uri":"` + uri + `"}`), Principal: principal}
}

// When the process of a principal dies, or its session is forgotten, it comes back with
// its subscriptions without a call.
func TestPooledSubscriptionReturns(t *testing.T) {
	t.Parallel()
	updated := `ann/ notifications/resources/updated {"uri":"file:///a"}`
	t.Run("process", func(t *testing.T) {
		t.Parallel()
		r := run(t, childServer("hostile", mcp.Legacy))
		r.state(mcp.Degraded)
		r.call(watchBy("ann", "file:///a"))
		for n := range 3 {
			crash := tool("crash", `{}`)
			crash.Principal = "ann"
			if failure := r.fails(crash); failure.Kind != mcp.FailUnavailable {
				t.Errorf("failure = %+v", failure)
			}
			testwait.Until(t, patience, "the renewed subscription", func() bool { return len(r.sink.said()) == n+1 })
			if said := r.sink.said()[n]; said != updated {
				t.Errorf("said %s", said)
			}
		}
	})
	t.Run("session", func(t *testing.T) {
		t.Parallel()
		f := newFake(t, mcp.Legacy)
		cut := make(chan struct{})
		f.handle(http.MethodGet, func(x *exchange) {
			session := x.r.Header.Get(mcp.HeaderSession)
			x.mu.Lock()
			known := x.sessions[session]
			x.mu.Unlock()
			switch {
			case !known:
				x.status(http.StatusNotFound, "", "")
			case session == "s-2":
				x.open()
				x.holdUntil(cut)
			default:
				x.open()
				x.hold()
			}
		})
		r := run(t, f.spec())
		r.state(mcp.Ready)
		r.call(watchBy("ann", "file:///a"))
		testwait.Until(t, patience, "ann's stream", func() bool { return len(f.requests(http.MethodGet)) == 2 })
		f.mu.Lock()
		delete(f.sessions, "s-2")
		f.mu.Unlock()
		close(cut)
		testwait.Until(t, patience, "the renewed subscription", func() bool { return len(r.sink.said()) == 1 })
		if said := r.sink.said()[0]; said != updated {
			t.Errorf("said %s", said)
		}
		if n := len(f.requests(mcp.MethodInitialize)); n != 3 {
			t.Errorf("%d handshakes, want the gateway's and two of ann", n)
		}
	})
}

// When the server ends the subscription stream of a connection of a principal, it is
// opened again, as that of the own connection is.
func TestPooledListenReturns(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Modern)
	cut := make(chan struct{}, 10)
	f.handle(mcp.MethodListen, func(x *exchange) {
		x.acknowledge()
		if strings.Contains(string(x.msg.Raw), "file:///a") {
			x.holdUntil(cut)
		} else {
			x.hold()
		}
	})
	spec := f.spec()
	spec.Isolation = IsolatePrincipal
	r := run(t, spec)
	r.state(mcp.Ready)
	r.call(watchBy("ann", "file:///a"))
	watched := func() int {
		n := 0
		for _, s := range f.requests(mcp.MethodListen) {
			if strings.Contains(s.Body, "file:///a") {
				n++
			}
		}
		return n
	}
	for n := range 3 {
		cut <- struct{}{}
		testwait.Until(t, patience, "the next stream", func() bool { return watched() == n+2 })
	}
	testwait.Until(t, patience, "the updates", func() bool { return len(r.sink.said()) == 3 })
	if n := len(f.requests(mcp.MethodDiscover)); n != 2 {
		t.Errorf("%d handshakes, want 2", n)
	}
}
