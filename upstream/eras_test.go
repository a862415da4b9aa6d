package upstream

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// in makes a call of a client of an era, which accepts what it is asked.
func in(era mcp.Era, principal string) *mcp.Call {
	call := tool("echo", `{}`)
	call.Principal, call.Era, call.Askable, call.Exact = principal, era, true, era == mcp.Modern
	call.Ask = func(_ context.Context, _ string, _ []byte, reply func([]byte, *mcp.Error)) {
		reply([]byte(`{"action":"accept"}`), nil)
	}
	return call
}

// whichProcess is what the script "both" answers a call with.
type whichProcess struct {
	Said  string
	PID   int
	Calls int
}

func (r *running) process(call *mcp.Call) (p whichProcess) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(r.call(call)), &p); err != nil {
		r.t.Fatal(err)
	}
	return p
}

// A server that speaks both eras asks a legacy client as it does directly: its
// calls reach it in their own era.
func TestBothErasAskLegacyClients(t *testing.T) {
	t.Parallel()
	r := run(t, childServer("both", mcp.EraUnknown))
	r.state(mcp.Ready)
	if got := r.process(in(mcp.Legacy, "me")); got.Said != "accept" {
		t.Errorf("the call of a legacy client was answered with %+v, want an accepted question", got)
	}
	if got := r.process(in(mcp.Modern, "me")); got.Said != "modern" {
		t.Errorf("the call of a modern client was answered with %+v", got)
	}
	if listing, _ := r.Listing(); listing.Eras != 2 {
		t.Errorf("the listing knows %d eras", listing.Eras)
	}
}

// Clients of one era need one process, and their state is in it.
func TestBothErasOneProcessForOneEra(t *testing.T) {
	t.Parallel()
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			t.Parallel()
			r := run(t, childServer("both", mcp.EraUnknown))
			r.state(mcp.Ready)
			first := r.process(in(era, "me"))
			testwait.Until(t, patience, "the lists of the era", func() bool {
				l, status := r.Listing()
				return l.Era == era && status.State == mcp.Ready
			})
			if again := r.process(in(era, "me")); again.PID != first.PID || again.Calls != 2 {
				t.Errorf("calls went to %+v and then to %+v, want one process", first, again)
			}
			if own := r.own(); r.beside() != 0 || own.era != era {
				t.Errorf("%d connections beside the gateway's own, which is %s", r.beside(), own.era)
			}
		})
	}
}

// Clients of each era have a process of their own, and see what it lists.
func TestBothErasTwoProcesses(t *testing.T) {
	t.Parallel()
	r := run(t, childServer("both", mcp.EraUnknown))
	r.state(mcp.Ready)
	modern := r.process(in(mcp.Modern, "me"))
	legacy := r.process(in(mcp.Legacy, "me"))
	if modern.PID == legacy.PID {
		t.Error("one process speaks both eras")
	}
	for _, era := range []mcp.Era{mcp.Modern, mcp.Legacy, mcp.Modern, mcp.Legacy} {
		want := map[mcp.Era]int{mcp.Modern: modern.PID, mcp.Legacy: legacy.PID}[era]
		if got := r.process(in(era, "me")); got.PID != want {
			t.Errorf("a %s call went to another process", era)
		}
	}
	testwait.Until(t, patience, "the lists of the other era", func() bool { l, _ := r.Listing(); return l.Other != nil })
	l, _ := r.Listing()
	for era, want := range map[mcp.Era]string{mcp.Modern: "newer", mcp.Legacy: "older"} {
		if l.In(era).Era != era || l.In(era).Find(mcp.Tool, want) == nil {
			t.Errorf("the %s list is %+v", era, l.In(era))
		}
	}
	known, err := mcp.DecodeListing(l.Encode())
	if err != nil || known.Eras != 2 || known.In(mcp.Legacy).Find(mcp.Tool, "older") == nil {
		t.Errorf("kept as %+v (%v)", known, err)
	}
}

// The eras of a server are remembered at the next start, so that the first process is the
// one that is needed.
func TestBothErasKept(t *testing.T) {
	t.Parallel()
	first := run(t, childServer("both", mcp.EraUnknown))
	first.state(mcp.Ready)
	first.process(in(mcp.Legacy, "me"))
	testwait.Until(t, patience, "the legacy lists", func() bool { l, _ := first.Listing(); return l.Era == mcp.Legacy })
	known, _ := first.Listing()
	first.end()

	r := run(t, childServer("both", mcp.EraUnknown), func(o *Options) { o.Known = known })
	r.state(mcp.Ready)
	era := r.own().era
	if era != mcp.Legacy {
		t.Errorf("the first process is %s", era)
	}
	if got := r.process(in(mcp.Modern, "me")); got.Said != "modern" {
		t.Errorf("the call of a modern client was answered with %+v", got)
	}
}

// Over HTTP each client is called in its own era, and a legacy principal has a
// session of its own.
func TestBothErasHTTP(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.EraUnknown)
	r := run(t, f.spec())
	r.state(mcp.Ready)
	for _, c := range []struct {
		era       mcp.Era
		principal string
	}{{mcp.Modern, "me"}, {mcp.Legacy, "me"}, {mcp.Legacy, "ann"}, {mcp.Modern, "ann"}, {mcp.Legacy, "me"}} {
		r.call(in(c.era, c.principal))
	}
	type row struct{ Version, Session string }
	var got []row
	for _, s := range f.requests(mcp.MethodToolsCall) {
		got = append(got, row{s.Header.Get(mcp.HeaderVersion), s.Header.Get(mcp.HeaderSession)})
	}
	want := []row{{"2026-07-28", ""}, {"2025-11-25", "s-1"}, {"2025-11-25", "s-2"}, {"2026-07-28", ""}, {"2025-11-25", "s-1"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// A server that refuses the other era is asked once, and then called in its own.
func TestOneEra(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		initialize func(*exchange)
	}{
		{"an unsupported version", func(x *exchange) { x.fault(http.StatusBadRequest, mcp.CodeUnsupportedVersion, "modern only") }},
		{"an unknown method", func(x *exchange) { x.fault(http.StatusNotFound, mcp.CodeMethodNotFound, "Method not found") }},
		{"a status", func(x *exchange) { x.status(http.StatusBadRequest, "text/plain", "no") }},
		{"no session, in which it could ask", func(x *exchange) {
			x.result(`{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"fake","version":"1"}}`)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, mcp.EraUnknown)
			f.handle(mcp.MethodInitialize, tt.initialize)
			r := run(t, f.spec())
			r.state(mcp.Ready)
			for range 3 {
				r.call(in(mcp.Legacy, "me"))
			}
			if n := len(f.requests(mcp.MethodInitialize)); n != 1 {
				t.Errorf("%d handshakes of the legacy era", n)
			}
			for _, s := range f.requests(mcp.MethodToolsCall) {
				if s.Header.Get(mcp.HeaderVersion) != "2026-07-28" {
					t.Errorf("called in %s", s.Header.Get(mcp.HeaderVersion))
				}
			}
			if l, _ := r.Listing(); l.Eras != 1 || l.In(mcp.Legacy) != l {
				t.Errorf("the listing knows %d eras", l.Eras)
			}
		})
	}
	t.Run("as configured", func(t *testing.T) {
		t.Parallel()
		f := newFake(t, mcp.EraUnknown)
		spec := f.spec()
		spec.Era = mcp.Modern
		r := run(t, spec)
		r.state(mcp.Ready)
		r.call(in(mcp.Legacy, "me"))
		if n := len(f.requests(mcp.MethodInitialize)); n != 0 {
			t.Errorf("%d handshakes of the legacy era", n)
		}
	})
}
