package upstream

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/upstream/transport"
)

// doubted makes the time pass after which a server counts as one of a single era.
func (r *running) doubted() {
	r.catalog.mu.Lock()
	defer r.catalog.mu.Unlock()
	if r.catalog.eras.again.IsZero() {
		r.t.Fatalf("the server speaks %d eras for good", r.catalog.eras.speaks)
	}
	r.catalog.eras.again = time.Now().Add(-time.Second)
}

// calledIn returns the revisions in which tools were called so far.
func (f *fakeHTTP) calledIn() (versions []string) {
	for _, s := range f.requests(mcp.MethodToolsCall) {
		versions = append(versions, s.Header.Get(mcp.HeaderVersion))
	}
	return versions
}

// An error of one attempt that says nothing about the era does not make a server one of a
// single era for good.
func TestOneAttemptSaysNothingOfAnEra(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		speaks bool // its legacy side was in use before
		no     func(*exchange)
	}{
		{"an internal error", false, func(x *exchange) { x.fault(http.StatusOK, mcp.CodeInternal, "database down") }},
		{"an error of its own", false, func(x *exchange) { x.fault(http.StatusBadRequest, -32000, "too many sessions") }},
		{"a refusal after its legacy side was in use", true, func(x *exchange) { x.status(http.StatusBadRequest, "text/plain", "no") }},
		{"an unknown method after that", true, func(x *exchange) { x.fault(http.StatusNotFound, mcp.CodeMethodNotFound, "Method not found") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, mcp.EraUnknown)
			r := run(t, f.spec())
			r.state(mcp.Ready)
			want := "[2026-07-28 2025-11-25]"
			if tt.speaks {
				r.call(in(mcp.Legacy, "me"))
				want = "[2025-11-25 2026-07-28 2025-11-25]"
			}
			f.handle(mcp.MethodInitialize, tt.no)
			r.call(in(mcp.Legacy, "ann"))
			if l, _ := r.Listing(); l.Eras != 0 {
				t.Errorf("the listing is certain of %d eras", l.Eras)
			}
			f.handle(mcp.MethodInitialize, nil)
			r.doubted()
			r.call(in(mcp.Legacy, "ann"))
			if got := fmt.Sprint(f.calledIn()); got != want {
				t.Errorf("tools were called in %s, want %s", got, want)
			}
			if l, _ := r.Listing(); l.Eras != 2 {
				t.Errorf("the listing knows %d eras", l.Eras)
			}
		})
	}
}

// Which errors are about the era.
func TestRefusesEra(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]bool{
		mcp.CodeMethodNotFound: true, mcp.CodeInvalidRequest: true, mcp.CodeInvalidParams: true, mcp.CodeUnsupportedVersion: true,
		mcp.CodeInternal: false, -32000: false, 0: false, 42: false,
	} {
		err := transport.Undelivered(fmt.Errorf("initialize: %w", mcp.Errorf(code, "no")))
		if got := refusesEra(err); got != want {
			t.Errorf("%d: %t", code, got)
		}
	}
}

// If a list of the other era cannot be read, the last lists stay.
func TestListsOfTheOtherEraAreWhole(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.EraUnknown)
	list := func(result string) {
		f.handle(mcp.MethodResources, func(x *exchange) {
			switch {
			case x.r.Header.Get(mcp.HeaderVersion) == string(mcp.LatestModern):
				x.result(`{"resources":[]}`)
			case result == "":
				x.fault(http.StatusOK, mcp.CodeInternal, "database down")
			default:
				x.result(result)
			}
		})
	}
	list(`{"resources":[{"uri":"x:/a","name":"a"}]}`)
	r := run(t, f.spec())
	r.state(mcp.Ready)
	r.call(in(mcp.Legacy, "me"))
	other := func() *mcp.Listing { l, _ := r.Listing(); return l.Other }
	testwait.Until(t, patience, "the lists of the other era", func() bool { return other() != nil })

	list("")
	main := r.own()
	conn := r.otherConn(t.Context(), main)
	if conn == nil {
		t.Fatal("there is no connection of the other era")
	}
	defer conn.finish()
	r.readOther(t.Context(), conn)
	if l := other(); l.Find(mcp.Resource, "x:/a") == nil || len(l.Unread) > 0 {
		t.Errorf("the other era lists %v, and %v is not read", l.Items, l.Unread)
	}
}

// A process replaces the own connection only while that one is open and unused. A call
// that comes too late is told so.
func TestNothingTakesThePlaceOfWhatHasEnded(t *testing.T) {
	for _, tt := range []struct{ ended, used, taken bool }{{false, false, true}, {true, false, false}, {false, true, false}} {
		s := New(childServer("both", mcp.EraUnknown), Options{Logger: slog.New(slog.DiscardHandler)})
		main, link, done := memoryConn(t, s.spec, mcp.Modern)
		defer done()
		conn, _, done := memoryConn(t, s.spec, mcp.Legacy)
		defer done()
		key := connKey{era: mcp.Legacy}
		s.pool.own, s.pool.slots[key] = main, &slot{}
		if tt.ended {
			link.Fail(transport.ErrNoAnswer)
		}
		if tt.used {
			if _, err := s.pool.owned(t.Context(), connKey{}, main); err != nil {
				t.Fatal(err)
			}
		}
		s.pool.mu.Lock()
		if got := s.pool.promote(key, conn); got != tt.taken || (s.pool.own == conn) != tt.taken {
			t.Errorf("%+v: its place is taken: %t", tt, got)
		}
		s.pool.mu.Unlock()
		if _, err := s.pool.owned(t.Context(), connKey{}, main); errors.Is(err, errReplaced) != tt.taken {
			t.Errorf("%+v: who comes later has %v", tt, err)
		}
	}
}
