package upstream

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

func TestEraProbeHTTP(t *testing.T) {
	t.Parallel()
	supported := func(versions string) string {
		return `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":` + versions + `}}}`
	}
	tests := []struct {
		name     string
		discover func(*exchange) // what a legacy server says to the probe
		want     mcp.Era
		failed   string // instead of an era
	}{
		{"400 with its own error", nil, mcp.Legacy, ""},
		{"400 without a body", func(x *exchange) { x.status(400, "", "") }, mcp.Legacy, ""},
		{"400 with text", func(x *exchange) { x.status(400, "text/plain", "Bad Request: no session") }, mcp.Legacy, ""},
		{"404", func(x *exchange) { x.status(404, "text/html", "<html>") }, mcp.Legacy, ""},
		{"405", func(x *exchange) { x.status(405, "", "") }, mcp.Legacy, ""},
		{"406", func(x *exchange) { x.status(406, "", "") }, mcp.Legacy, ""},
		{"unknown method", func(x *exchange) { x.fault(200, -32601, "Method not found") }, mcp.Legacy, ""},
		{"invalid params", func(x *exchange) { x.fault(200, -32602, "Invalid params") }, mcp.Legacy, ""},
		{"an error on a stream", func(x *exchange) { x.event(jsonFault(x.msg.ID, -32601, "Method not found")) }, mcp.Legacy, ""},
		{"accepted and forgotten", func(x *exchange) { x.status(202, "", "") }, mcp.Legacy, ""},
		{"an empty stream", func(x *exchange) { x.open() }, mcp.Legacy, ""},
		{"a result of something else", func(x *exchange) { x.result(`{"ok":true}`) }, mcp.Legacy, ""},
		{"dual era that supports only legacy versions", func(x *exchange) {
			x.status(400, "application/json", supported(`["2025-11-25","2025-06-18"]`))
		}, mcp.Legacy, ""},
		{"-32022 without a list", func(x *exchange) { x.fault(400, mcp.CodeUnsupportedVersion, "no") }, mcp.Legacy, ""},
		{"only revisions of the future", func(x *exchange) {
			x.status(400, "application/json", supported(`["2031-01-01"]`))
		}, 0, `["2031-01-01"], of which toolgate knows none`},
		{"a modern server that wants other headers", func(x *exchange) {
			x.fault(400, mcp.CodeHeaderMismatch, "Header mismatch")
		}, 0, "the server is modern and turns server/discover down: Header mismatch"},
		{"server error", func(x *exchange) { x.status(500, "", "") }, 0, "Internal Server Error"},
		{"too many requests", func(x *exchange) { x.status(429, "", "") }, 0, "Too Many Requests"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, mcp.Legacy)
			if tt.discover != nil {
				f.handle(mcp.MethodDiscover, tt.discover)
			}
			r := run(t, f.spec())
			if tt.failed != "" {
				if reason := r.state(mcp.Failed); !strings.Contains(reason, tt.failed) {
					t.Errorf("reason = %q, want %q in it", reason, tt.failed)
				}
				if n := len(f.requests(mcp.MethodInitialize)); n != 0 {
					t.Errorf("%d initialize requests to a server that is not legacy", n)
				}
				return
			}
			r.state(mcp.Ready)
			listing, _ := r.Listing()
			if listing.Era != tt.want || listing.Version != mcp.V20251125 || listing.Instructions != "be kind" {
				t.Errorf("listing = %+v", listing)
			}
			if got := r.call(tool("echo", `{}`)); !strings.Contains(got, `"name":"echo"`) {
				t.Errorf("call = %s", got)
			}
		})
	}
}

// The probe is the modern one, and nothing of it is left in the legacy
// handshake behind it.
func TestEraProbeHeaders(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	spec := f.spec()
	spec.Headers = map[string]string{"Authorization": "Bearer k", "x-team": "a"}
	r := run(t, spec)
	r.state(mcp.Ready)
	testwait.Until(t, patience, "the standalone stream", func() bool { return len(f.requests(http.MethodGet)) == 1 })
	r.end()
	type row struct{ Method, Version, McpMethod, Session, Accept string }
	var got []row
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.log {
		if s.Method == mcp.MethodResources || s.Method == mcp.MethodTemplates {
			continue
		}
		if s.Header.Get("Authorization") != "Bearer k" || s.Header.Get("X-Team") != "a" {
			t.Errorf("%s without the credential: %v", s.Method, s.Header)
		}
		got = append(got, row{
			s.Method, s.Header.Get(mcp.HeaderVersion), s.Header.Get(mcp.HeaderMethod),
			s.Header.Get(mcp.HeaderSession), s.Header.Get("Accept"),
		})
	}
	both := "application/json, text/event-stream"
	want := map[row]bool{
		{mcp.MethodDiscover, "2026-07-28", mcp.MethodDiscover, "", both}: true,
		{mcp.MethodInitialize, "", "", "", both}:                         true,
		{mcp.NotifyInitialized, "2025-11-25", "", "s-1", both}:           true,
		{http.MethodGet, "2025-11-25", "", "s-1", "text/event-stream"}:   true,
		{mcp.MethodToolsList, "2025-11-25", "", "s-1", both}:             true,
		{http.MethodDelete, "2025-11-25", "", "s-1", ""}:                 true,
	}
	have := make(map[row]bool)
	for _, g := range got {
		have[g] = true
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestEraModernAndKnown(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		server mcp.Era
		known  mcp.Era
		want   mcp.Era // unknown is failed
		asked  []string
	}{
		{"probed modern", mcp.Modern, mcp.EraUnknown, mcp.Modern, []string{mcp.MethodDiscover}},
		{"known modern", mcp.Modern, mcp.Modern, mcp.Modern, []string{mcp.MethodDiscover}},
		{"known legacy", mcp.Legacy, mcp.Legacy, mcp.Legacy, []string{mcp.MethodInitialize}},
		{"configured modern and is legacy", mcp.Legacy, mcp.Modern, mcp.EraUnknown, []string{mcp.MethodDiscover}},
		{"configured legacy and is modern", mcp.Modern, mcp.Legacy, mcp.EraUnknown, []string{mcp.MethodInitialize}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, tt.server)
			spec := f.spec()
			spec.Transport, spec.Era = Streamable, tt.known
			r := run(t, spec)
			if tt.want == mcp.EraUnknown {
				r.state(mcp.Failed)
			} else {
				r.state(mcp.Ready)
				if listing, _ := r.Listing(); listing.Era != tt.want {
					t.Errorf("era = %v", listing.Era)
				}
			}
			var asked []string
			f.mu.Lock()
			for _, s := range f.log {
				if s.Method == mcp.MethodDiscover || s.Method == mcp.MethodInitialize {
					asked = append(asked, s.Method)
				}
			}
			f.mu.Unlock()
			if diff := cmp.Diff(tt.asked, asked[:1]); diff != "" {
				t.Errorf("handshake (-want +got):\n%s", diff)
			}
		})
	}
}

// The era in the listing of the last run is trusted for a day, unless it proves wrong.
func TestEraRemembered(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		server mcp.Era
		known  mcp.Era
		age    time.Duration
		first  string
	}{
		{"fresh legacy", mcp.Legacy, mcp.Legacy, time.Hour, mcp.MethodInitialize},
		{"old legacy", mcp.Legacy, mcp.Legacy, eraMemory + time.Minute, mcp.MethodDiscover},
		{"legacy that was upgraded", mcp.Modern, mcp.Legacy, time.Hour, mcp.MethodInitialize},
		{"modern that was downgraded", mcp.Legacy, mcp.Modern, time.Hour, mcp.MethodDiscover},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, tt.server)
			r := run(t, f.spec(), func(o *Options) {
				o.Known = &mcp.Listing{Era: tt.known, FetchedAt: time.Now().Add(-tt.age)}
			})
			testwait.Until(t, patience, "the server's own era", func() bool {
				listing, status := r.Listing()
				return status.State == mcp.Ready && listing.Era == tt.server && !listing.Stale
			})
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.log[0].Method != tt.first {
				t.Errorf("first request is %s, want %s", f.log[0].Method, tt.first)
			}
		})
	}
}

// The memory ends while the server runs, too.
func TestEraMemoryEnds(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	r := run(t, f.spec())
	r.state(mcp.Ready)
	probes := func() int { return len(f.requests(mcp.MethodDiscover)) }
	if probes() != 1 {
		t.Fatalf("%d probes", probes())
	}
	f.forget()
	r.call(tool("echo", `{}`))
	if probes() != 1 {
		t.Errorf("a renewed session probes again: %d probes", probes())
	}
	r.catalog.mu.Lock()
	r.catalog.eraSince = r.catalog.eraSince.Add(-eraMemory)
	r.catalog.mu.Unlock()
	f.forget()
	r.call(tool("echo", `{}`))
	if probes() != 2 {
		t.Errorf("%d probes after the memory's end, want 2", probes())
	}
}

// If a server comes back in another era, any request notices.
func TestEraChangesWithRestart(t *testing.T) {
	t.Parallel()
	for _, first := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		t.Run("from "+first.String(), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, first)
			r := run(t, f.spec())
			r.state(mcp.Ready)
			testwait.Until(t, patience, "a stream", func() bool {
				return len(f.requests(http.MethodGet))+len(f.requests(mcp.MethodListen)) > 0
			})
			f.kill()
			then := mcp.Legacy + mcp.Modern - first
			f.mu.Lock()
			f.era = then
			f.mu.Unlock()
			f.start()
			testwait.Until(t, patience, "the other era", func() bool {
				listing, status := r.Listing()
				return listing.Era == then && status.State == mcp.Ready
			})
			r.call(tool("echo", `{}`))
		})
	}
}

// oldSSE makes the fake serve HTTP+SSE of 2024-11-05 on its URL; post is the
// answer to a POST there. Answers go to the newest stream.
func (f *fakeHTTP) oldSSE(post func(*exchange)) { f.oldSSEAt("/messages?session=7", post) }

// oldSSEAt is oldSSE with an endpoint of its own.
func (f *fakeHTTP) oldSSEAt(endpoint string, post func(*exchange)) {
	var mu sync.Mutex
	var stream *exchange
	f.handle(http.MethodGet, func(x *exchange) {
		mu.Lock()
		stream = x
		x.block(": hello", `data: {"jsonrpc":"2.0","method":"too/early"}`)
		x.block("event: endpoint", "data: "+endpoint)
		mu.Unlock()
		x.hold()
		mu.Lock()
		defer mu.Unlock()
		if stream == x {
			stream = nil
		}
	})
	answer := func(x *exchange) {
		if x.r.URL.Path == "/mcp" {
			post(x)
			return
		}
		x.w.WriteHeader(http.StatusAccepted)
		x.flush()
		if x.msg.Kind != mcp.KindRequest {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if stream == nil {
			return
		}
		switch x.msg.Method {
		case mcp.MethodInitialize:
			stream.event(jsonAnswer(x.msg.ID, `{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"0"}}`))
		case mcp.MethodToolsList:
			stream.event(jsonAnswer(x.msg.ID, toolList("old")))
		case mcp.MethodToolsCall:
			stream.event(jsonAnswer(x.msg.ID, `{"content":[],"params":`+string(x.msg.Params())+`}`))
		default:
			stream.event(jsonFault(x.msg.ID, mcp.CodeMethodNotFound, "Method not found"))
		}
	}
	for _, method := range []string{
		mcp.MethodDiscover, mcp.MethodInitialize, mcp.NotifyInitialized,
		mcp.MethodToolsList, mcp.MethodToolsCall, mcp.NotifyCancelled, mcp.MethodPing,
	} {
		f.handle(method, answer)
	}
}

func TestEraFallsBackToSSE(t *testing.T) {
	t.Parallel()
	for name, post := range map[string]func(*exchange){
		"400":                 func(x *exchange) { x.status(400, "", "") },
		"404":                 func(x *exchange) { x.status(404, "text/html", "<h1>not here</h1>") },
		"405":                 func(x *exchange) { x.status(405, "text/plain", "Method Not Allowed") },
		"405 with a fault":    func(x *exchange) { x.status(405, "application/json", jsonFault("", -32000, "Method not allowed.")) },
		"404 with the own id": func(x *exchange) { x.fault(404, -32601, "Not found") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, mcp.Legacy)
			f.oldSSE(post)
			r := run(t, f.spec())
			r.state(mcp.Ready)
			if listing, _ := r.Listing(); listing.Version != mcp.V20241105 {
				t.Errorf("version = %s", listing.Version)
			}
			if got := r.call(tool("old", `{"n":9007199254740993}`)); !strings.Contains(got, `{"n":9007199254740993}`) {
				t.Errorf("call = %s", got)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			for _, s := range f.log {
				if s.Method == mcp.MethodToolsList && s.Header.Get(mcp.HeaderVersion) != "" {
					t.Errorf("a version header in 2024-11-05: %v", s.Header)
				}
			}
		})
	}
	t.Run("not where the server is only busy", func(t *testing.T) {
		t.Parallel()
		f := newFake(t, mcp.Legacy)
		f.oldSSE(func(x *exchange) { x.status(503, "", "") })
		r := run(t, f.spec())
		r.state(mcp.Failed)
		if n := len(f.requests(http.MethodGet)); n != 0 {
			t.Errorf("%d GETs after a 503", n)
		}
	})
}

// A server that rejects the version although it supports it is asked once more, and no
// more.
func TestDiscoverIsTriedAgain(t *testing.T) {
	for _, tt := range []struct {
		name  string
		downs int
		state mcp.State
	}{{"once", 1, mcp.Ready}, {"twice", 2, mcp.Failed}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, mcp.Modern)
			var asked atomic.Int32
			f.handle(mcp.MethodDiscover, func(x *exchange) {
				if int(asked.Add(1)) <= tt.downs {
					x.status(http.StatusBadRequest, "application/json", `{"jsonrpc":"2.0","id":`+string(x.msg.ID)+
						`,"error":{"code":-32022,"message":"Unsupported","data":{"supported":["2026-07-28"],"requested":"2026-07-28"}}}`)
					return
				}
				x.result(discoverResult)
			})
			r := run(t, f.spec())
			r.state(tt.state)
			if n := len(f.requests(mcp.MethodInitialize)); n != 0 {
				t.Errorf("initialize was sent %d times to a modern server", n)
			}
		})
	}
}
