package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// by makes a call of a principal in a session.
func by(principal, session string) *mcp.Call {
	call := tool("echo", `{}`)
	call.Principal, call.Session = principal, session
	return call
}

// Who shares a connection, by isolation and era.
func TestPoolIsolation(t *testing.T) {
	t.Parallel()
	callers := [][2]string{{"me", "1"}, {"me", "2"}, {"ann", "3"}, {"ann", "4"}, {"bob", "5"}, {"ann", "3"}}
	tests := []struct {
		isolation Isolation
		era       mcp.Era
		sessions  []int // of the upstream, by caller, in order of first use
	}{
		{IsolateAuto, mcp.Legacy, []int{0, 0, 1, 1, 2, 1}},
		{IsolateShared, mcp.Legacy, []int{0, 0, 0, 0, 0, 0}},
		{IsolatePrincipal, mcp.Legacy, []int{0, 0, 1, 1, 2, 1}},
		{IsolateSession, mcp.Legacy, []int{1, 2, 3, 4, 5, 3}},
	}
	for _, tt := range tests {
		t.Run(string(tt.isolation), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, tt.era)
			spec := f.spec()
			spec.Isolation = tt.isolation
			r := run(t, spec)
			r.state(mcp.Ready)
			for _, c := range callers {
				r.call(by(c[0], c[1]))
			}
			var got []int
			for _, s := range f.requests(mcp.MethodToolsCall) {
				var n int
				if _, err := fmt.Sscanf(s.Header.Get(mcp.HeaderSession), "s-%d", &n); err != nil {
					t.Fatal(err)
				}
				got = append(got, n-1)
			}
			if diff := cmp.Diff(tt.sessions, got); diff != "" {
				t.Errorf("sessions (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("modern servers are shared", func(t *testing.T) {
		t.Parallel()
		f := newFake(t, mcp.Modern)
		r := run(t, f.spec())
		r.state(mcp.Ready)
		for _, c := range callers {
			r.call(by(c[0], c[1]))
		}
		if n := len(f.requests(mcp.MethodDiscover)); n != 1 {
			t.Errorf("%d handshakes", n)
		}
	})
	t.Run("nobody is the gateway's own where everyone is told apart", func(t *testing.T) {
		t.Parallel()
		f := newFake(t, mcp.Legacy)
		spec := f.spec()
		spec.Local = ""
		r := run(t, spec)
		r.state(mcp.Ready)
		r.call(by("me", "1"))
		if s := f.requests(mcp.MethodToolsCall)[0]; s.Header.Get(mcp.HeaderSession) != "s-2" {
			t.Errorf("session %s", s.Header.Get(mcp.HeaderSession))
		}
	})
}

// Callers of one principal that come together open one connection.
func TestPoolOpensOnce(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	r := run(t, f.spec())
	r.state(mcp.Ready)
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if _, err := r.Call(within(t), by("ann", "1")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := len(f.requests(mcp.MethodInitialize)); n != 2 {
		t.Errorf("%d sessions, want the gateway's and ann's", n)
	}
}

// deleted returns the sessions that the gateway said farewell to.
func deleted(f *fakeHTTP) []string {
	var all []string
	for _, s := range f.requests(http.MethodDelete) {
		all = append(all, s.Header.Get(mcp.HeaderSession))
	}
	slices.Sort(all)
	return all
}

// The pool is bounded. The least recently used idle connection makes room. If none becomes
// idle, the caller is told.
func TestPoolEviction(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	began, release := make(chan struct{}, 10), make(chan struct{})
	f.handle(mcp.MethodToolsCall, func(x *exchange) {
		if name, _ := mcp.LookupString(x.msg.Params(), "name"); name == "slow" {
			began <- struct{}{}
			x.holdUntil(release)
		}
		x.echo()
	})
	spec := f.spec()
	spec.Limits.Conns = 3 // the gateway's own and two
	r := run(t, spec)
	r.state(mcp.Ready)
	r.call(by("ann", "")) // s-2
	r.call(by("bob", "")) // s-3
	r.call(by("ann", ""))
	r.call(by("cid", "")) // s-4 instead of bob's
	testwait.Until(t, patience, "the end of bob's session", func() bool { return len(deleted(f)) == 1 })
	if diff := cmp.Diff([]string{"s-3"}, deleted(f)); diff != "" {
		t.Errorf("ended (-want +got):\n%s", diff)
	}

	ended := make(chan error, 2)
	for _, principal := range []string{"ann", "cid"} {
		go func() {
			call := tool("slow", `{}`)
			call.Principal = principal
			_, err := r.Call(within(t), call)
			ended <- err
		}()
		receives(t, "a slow call", began)
	}
	hasty := by("bob", "")
	hasty.Timeout = 50 * time.Millisecond
	failure := r.fails(hasty)
	if failure.Kind != mcp.FailBusy || failure.Delivered {
		t.Errorf("failure = %+v", failure)
	}
	r.call(by("me", "")) // the gateway's own is always there
	close(release)
	for range 2 {
		if err := receives(t, "a slow call", ended); err != nil {
			t.Errorf("slow call = %v", err)
		}
	}
	r.call(by("bob", ""))
	r.end()
	if diff := cmp.Diff([]string{"s-1", "s-2", "s-3", "s-4", "s-5"}, deleted(f)); diff != "" {
		t.Errorf("ended with the server (-want +got):\n%s", diff)
	}
}

// Many principals through a small pool: a connection is never taken from a
// call that is about to use it.
func TestPoolPressure(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	spec := f.spec()
	spec.Limits.Conns = 4
	r := run(t, spec)
	r.state(mcp.Ready)
	var all sync.WaitGroup
	for n := range 12 {
		all.Go(func() {
			for range 5 {
				_, err := r.Call(within(t), by(fmt.Sprintf("p-%d", n), ""))
				if failure, ok := errors.AsType[*mcp.Failure](err); err != nil && (!ok || failure.Kind != mcp.FailBusy) {
					t.Errorf("call = %v", err)
				}
			}
		})
	}
	all.Wait()
}

func TestPoolEndSession(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	spec := f.spec()
	spec.Isolation = IsolateSession
	r := run(t, spec)
	r.state(mcp.Ready)
	r.call(by("ann", "1")) // s-2
	r.call(by("ann", "2")) // s-3
	r.EndSession("ann", "none")
	r.EndSession("bob", "1")
	r.EndSession("ann", "1")
	testwait.Until(t, patience, "the farewell", func() bool { return len(deleted(f)) > 0 })
	if diff := cmp.Diff([]string{"s-2"}, deleted(f)); diff != "" {
		t.Errorf("ended (-want +got):\n%s", diff)
	}
	r.call(by("ann", "2"))
	if n := len(f.requests(mcp.MethodInitialize)); n != 3 {
		t.Errorf("%d sessions", n)
	}

	t.Run("while it opens", func(t *testing.T) {
		release, asked := make(chan struct{}), make(chan struct{}, 1)
		f.handle(mcp.MethodInitialize, func(x *exchange) {
			asked <- struct{}{}
			x.holdUntil(release)
			x.legacy(mcp.MethodInitialize)
		})
		ended := make(chan error, 1)
		go func() {
			_, err := r.Call(within(t), by("ann", "9"))
			ended <- err
		}()
		receives(t, "the handshake", asked)
		f.handle(mcp.MethodInitialize, nil)
		r.EndSession("ann", "9")
		close(release)
		testwait.Until(t, patience, "the farewell", func() bool { return slices.Contains(deleted(f), "s-4") })
		if err := receives(t, "the call", ended); err == nil {
			t.Error("a call of an ended session went through")
		}
	})
}

// If the connection of a principal cannot be opened, only that principal is affected, and
// it is tried again.
func TestPoolOpenFails(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	r := run(t, f.spec())
	r.state(mcp.Ready)
	f.handle(mcp.MethodInitialize, func(x *exchange) { x.status(500, "", "") })
	failure := r.fails(by("ann", ""))
	if failure.Delivered || !strings.Contains(cause(failure), "Internal Server Error") {
		t.Errorf("failure = %+v", failure)
	}
	r.call(by("me", ""))
	f.handle(mcp.MethodInitialize, nil)
	r.call(by("ann", ""))
	if _, status := r.Listing(); status.State != mcp.Ready {
		t.Errorf("state = %v", status.State)
	}
}

// principals is a credential that depends on who calls.
type principals struct{}

func (principals) Headers(_ context.Context, principal string) (http.Header, error) {
	if principal == "locked" {
		return nil, fmt.Errorf("no token for %s", principal)
	}
	return http.Header{"Authorization": {"Bearer " + principal}}, nil
}

func (principals) Key(principal string) string { return principal }

func TestPoolCredential(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	r := run(t, f.spec(), func(o *Options) { o.Credential = principals{} })
	r.state(mcp.Ready)
	r.call(by("ann", ""))
	r.call(by("bob", ""))
	failure := r.fails(by("locked", ""))
	if failure.Delivered || !strings.Contains(cause(failure), "no token for locked") {
		t.Errorf("failure = %+v", failure)
	}
	r.end()
	owner := map[string]string{"s-1": "Bearer", "s-2": "Bearer ann", "s-3": "Bearer bob"}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.log {
		if session := s.Header.Get(mcp.HeaderSession); session != "" && s.Header.Get("Authorization") != owner[session] {
			t.Errorf("%s in session %s with %q", s.Method, session, s.Header.Get("Authorization"))
		}
	}
}

// Subscriptions survive the connection that they were made on.
func TestResubscription(t *testing.T) {
	t.Parallel()
	subscribe := func(method, uri, principal string) *mcp.Call {
		return &mcp.Call{Method: method, Params: []byte(`{"uri":"` + uri + `"}`), Principal: principal}
	}
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, era)
			r := run(t, f.spec())
			r.state(mcp.Ready)
			r.call(subscribe(mcp.MethodSubscribe, "file:///a", "me"))
			r.call(subscribe(mcp.MethodSubscribe, "file:///b", "me"))
			r.call(subscribe(mcp.MethodSubscribe, "file:///gone", "me"))
			r.call(subscribe(mcp.MethodUnsubscribe, "file:///gone", "me"))
			f.mu.Lock()
			before := len(f.log)
			f.mu.Unlock()
			f.kill()
			r.state(mcp.Reconnecting)
			f.start()
			r.state(mcp.Ready)
			testwait.Until(t, patience, "the events", func() bool { return len(r.sink.said()) == 2 })
			who := map[mcp.Era]string{mcp.Legacy: "me/", mcp.Modern: "/"}[era]
			want := []string{
				who + ` notifications/resources/updated {"uri":"file:///a"}`,
				who + ` notifications/resources/updated {"uri":"file:///b"}`,
			}
			if diff := cmp.Diff(want, r.sink.said()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			var again []string
			for _, s := range f.log[before:] {
				switch s.Method {
				case mcp.MethodSubscribe:
					again = append(again, string(mcp.Lookup([]byte(s.Body), "params", "uri")))
				case mcp.MethodListen:
					again = []string{string(mcp.Lookup([]byte(s.Body), "params", "notifications", "resourceSubscriptions"))}
				}
			}
			if got := strings.Trim(strings.Join(again, ","), "[]"); got != `"file:///a","file:///b"` {
				t.Errorf("subscribed again to %s", got)
			}
		})
	}
}

// A subscription of a modern server is one stream: the new one is acknowledged
// before the old one is closed.
func TestSubscriptionOverlaps(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Modern)
	var mu sync.Mutex
	open, fewest := 0, 0
	f.handle(mcp.MethodListen, func(x *exchange) {
		mu.Lock()
		open++ // before the gateway can know
		mu.Unlock()
		x.acknowledge()
		x.hold()
		mu.Lock()
		if open--; open < 1 && x.r.Context().Err() != nil {
			fewest = -1
		}
		mu.Unlock()
	})
	r := run(t, f.spec())
	r.state(mcp.Ready)
	testwait.Until(t, patience, "the first stream", func() bool { mu.Lock(); defer mu.Unlock(); return open == 1 })
	subscribe := func(method, principal string, streams int) {
		t.Helper()
		r.call(&mcp.Call{Method: method, Params: []byte(`{"uri":"file:///a"}`), Principal: principal})
		if n := len(f.requests(mcp.MethodListen)); n != streams {
			t.Errorf("%s of %s: %d streams were opened, want %d", method, principal, n, streams)
		}
	}
	// Two principals share the connection: only the first and the last one
	// concern the server.
	subscribe(mcp.MethodSubscribe, "me", 2)
	subscribe(mcp.MethodSubscribe, "you", 2)
	subscribe(mcp.MethodUnsubscribe, "me", 2)
	subscribe(mcp.MethodUnsubscribe, "you", 3)
	subscribe(mcp.MethodUnsubscribe, "nobody", 3)
	testwait.Until(t, patience, "one stream", func() bool { mu.Lock(); defer mu.Unlock(); return open == 1 })
	mu.Lock()
	if fewest < 0 {
		t.Error("there was a moment without a stream")
	}
	mu.Unlock()
	var filters []string
	for _, s := range f.requests(mcp.MethodListen) {
		filters = append(filters, string(mcp.Lookup([]byte(s.Body), "params", "notifications")))
	}
	want := []string{
		`{"toolsListChanged":true}`,
		`{"toolsListChanged":true,"resourceSubscriptions":["file:///a"]}`,
		`{"toolsListChanged":true}`,
	}
	if diff := cmp.Diff(want, filters); diff != "" {
		t.Errorf("filters (-want +got):\n%s", diff)
	}
}

// A message that a server sends on a stream whose successor it has just acknowledged is
// not lost.
func TestSubscriptionLingers(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Modern)
	var streams atomic.Int32
	next := make(chan struct{})
	f.handle(mcp.MethodListen, func(x *exchange) {
		n := streams.Add(1)
		x.acknowledge()
		if n == 2 { // the one with the first resource
			<-next
			x.event(onStream(x.msg.ID, mcp.NotifyResourceUpdated, `,"uri":"file:///a"`))
		}
		if n == 3 {
			close(next)
		}
		x.hold()
	})
	r := run(t, f.spec())
	r.state(mcp.Ready)
	testwait.Until(t, patience, "the first stream", func() bool { return streams.Load() == 1 })
	for _, uri := range []string{"file:///a", "file:///b"} {
		r.call(&mcp.Call{Method: mcp.MethodSubscribe, Params: []byte(`{"uri":"` + uri + `"}`), Principal: "me"})
	}
	testwait.Until(t, patience, "the update", func() bool { return strings.Contains(strings.Join(r.sink.said(), ""), "resources/updated") })
}
