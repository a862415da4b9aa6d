package upstream

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// What a server lists, what is kept of it, and the reason that is shown.
func TestFetchGuards(t *testing.T) {
	t.Parallel()
	page := func(next string, names ...string) string {
		list := toolList(names...)
		return strings.TrimSuffix(list, "}") + `,"nextCursor":` + next + `}`
	}
	cursor := func(x *exchange) string { return string(x.msg.Param("cursor")) }
	tests := []struct {
		name   string
		limits Limits
		list   func(*exchange)
		state  mcp.State
		says   string
		tools  []string
		asked  int // requests, 0 is any
	}{
		{"pages", Limits{}, func(x *exchange) {
			switch cursor(x) {
			case "":
				x.result(page(`""`, "a")) // an empty cursor is one
			case `""`:
				x.result(page(`"caf\u00e9 \""`, "b"))
			case `"caf\u00e9 \""`:
				x.result(page(`null`, "c"))
			}
		}, mcp.Ready, "", []string{"a", "b", "c"}, 3},
		{
			"the same cursor twice",
			Limits{},
			func(x *exchange) { x.result(page(`"again"`, "t"+cursor(x))) },
			mcp.Degraded, "tools/list: the same next cursor twice; the rest is left out",
			[]string{"t", `t"again"`},
			2,
		},
		{"cursors in a circle", Limits{}, func(x *exchange) {
			next := map[string]string{"": `"1"`, `"1"`: `"2"`, `"2"`: `"1"`}[cursor(x)]
			x.result(page(next, "t"+cursor(x)))
		}, mcp.Degraded, "the same next cursor twice", []string{"t", `t"1"`, `t"2"`}, 3},
		{"endless pages", Limits{ServerLimits: ServerLimits{Pages: 5}}, func(x *exchange) {
			x.result(page(fmt.Sprintf(`"%d"`, len(cursor(x))+len(x.requests(mcp.MethodToolsList))), "t"+cursor(x)))
		}, mcp.Degraded, "more than 5 pages (limits.pages); the rest is left out", nil, 5},
		{
			"endless items",
			Limits{ServerLimits: ServerLimits{Items: 3}},
			func(x *exchange) { x.result(toolList("a", "b", "c", "d", "e")) },
			mcp.Degraded, "more than 3 items (limits.tools); the rest is left out",
			[]string{"a", "b", "c"},
			1,
		},
		{
			"exactly as many items",
			Limits{ServerLimits: ServerLimits{Items: 3}},
			func(x *exchange) { x.result(toolList("a", "b", "c")) },
			mcp.Ready, "",
			[]string{"a", "b", "c"},
			1,
		},
		{"endless bytes", Limits{ServerLimits: ServerLimits{Catalog: 1000}}, func(x *exchange) {
			x.result(page(fmt.Sprintf(`"%d"`, len(x.requests(mcp.MethodToolsList))), "t"+cursor(x)+strings.Repeat("x", 300)))
		}, mcp.Degraded, "more than 1000 bytes (limits.catalog); the rest is left out", nil, 0},
		{
			"a cursor that is not a string",
			Limits{},
			func(x *exchange) { x.result(page(`{"a":1}`, "a")) },
			mcp.Degraded, "a next cursor that is not a string",
			[]string{"a"},
			1,
		},
		{"no list", Limits{}, func(x *exchange) { x.result(`{}`) }, mcp.Ready, "", nil, 1},
		{"a list that is none", Limits{}, func(x *exchange) { x.result(`{"tools":{"a":1}}`) }, mcp.Ready, "", nil, 1},
		{"declared and not offered", Limits{}, func(x *exchange) { x.fault(200, -32601, "Method not found") }, mcp.Ready, "", nil, 1},
		{
			"an error",
			Limits{},
			func(x *exchange) { x.fault(200, -32603, "database down") },
			mcp.Degraded, "connected, but its lists cannot be read: tools/list: database down (-32603)", nil, 0,
		},
		{"a header annotation that breaks the rules", Limits{}, func(x *exchange) {
			x.result(`{"tools":[{"name":"bad","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"a b"}}}},{"name":"good"}]}`)
		}, mcp.Degraded, "1 items are invalid and left out", []string{"good"}, 1},
		{"silence", Limits{}, func(x *exchange) { x.hold() }, mcp.Degraded, "no answer within the deadline", nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, mcp.Modern)
			f.handle(mcp.MethodToolsList, tt.list)
			spec := f.spec()
			spec.Limits = tt.limits
			spec.Timeouts.List = 3 * time.Second
			if tt.name == "silence" {
				spec.Timeouts.List = 200 * time.Millisecond
			}
			r := run(t, spec)
			if reason := r.state(tt.state); !strings.Contains(reason, tt.says) || tt.says == "" && reason != "" {
				t.Errorf("reason = %q, want %q", reason, tt.says)
			}
			if tt.tools != nil {
				if diff := cmp.Diff(tt.tools, r.tools()); diff != "" {
					t.Errorf("tools (-want +got):\n%s", diff)
				}
			}
			if n := len(f.requests(mcp.MethodToolsList)); tt.asked != 0 && n != tt.asked {
				t.Errorf("%d requests, want %d", n, tt.asked)
			}
			r.call(tool("echo", `{}`)) // calls work whatever the list
		})
	}
}

// A list that cannot be read does not affect the others. Its last items stay, the state
// says what is wrong, and it is tried again.
func TestFetchOneListFails(t *testing.T) {
	t.Parallel()
	templates := func(x *exchange) { x.result(`{"resourceTemplates":[{"name":"t","uriTemplate":"x:/{a}"}]}`) }
	for name, tt := range map[string]struct {
		list   func(*exchange)
		reason string
	}{
		"an error":   {func(x *exchange) { x.fault(200, -32603, "database down") }, "resources/list: database down (-32603)"},
		"HTTP 500":   {func(x *exchange) { x.status(500, "text/plain", "oops") }, "resources/list: HTTP Internal Server Error"},
		"no answer":  {func(x *exchange) { x.hold() }, "resources/list: no answer within the deadline"},
		"no MCP":     {func(x *exchange) { x.answer("oops") }, "resources/list: an invalid answer"},
		"not at all": {func(x *exchange) { x.status(404, "text/plain", "") }, "resources/list: HTTP Not Found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, mcp.Modern)
			f.handle(mcp.MethodResources, tt.list)
			f.handle(mcp.MethodTemplates, templates)
			spec := f.spec()
			if name == "no answer" {
				spec.Timeouts.List = time.Second
			}
			r := run(t, spec)
			if reason := r.state(mcp.Degraded); !strings.Contains(reason, tt.reason) {
				t.Errorf("reason = %q, want %q", reason, tt.reason)
			}
			if diff := cmp.Diff([]string{"echo"}, r.tools()); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			testwait.Until(t, patience, "the list behind it", func() bool {
				listing, _ := r.Listing()
				return len(listing.Items[mcp.Template]) == 1
			})
			f.handle(mcp.MethodResources, func(x *exchange) { x.result(`{"resources":[{"name":"a","uri":"x:/a"}]}`) })
			signal(r.refetch)
			r.state(mcp.Ready)
			f.handle(mcp.MethodResources, tt.list)
			signal(r.refetch)
			r.state(mcp.Degraded)
			if listing, _ := r.Listing(); len(listing.Items[mcp.Resource]) != 1 || len(listing.Items[mcp.Tool]) != 1 {
				t.Errorf("kept %d resources, %d tools", len(listing.Items[mcp.Resource]), len(listing.Items[mcp.Tool]))
			}
		})
	}
}

// A list that fails later does not remove the last good one, and is tried again.
func TestFetchFailsLater(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Modern)
	r := run(t, f.spec())
	r.state(mcp.Ready)
	f.handle(mcp.MethodToolsList, func(x *exchange) { x.fault(200, -32603, "database down") })
	signal(r.refetch)
	if reason := r.state(mcp.Degraded); !strings.Contains(reason, "database down") {
		t.Errorf("reason = %s", reason)
	}
	if diff := cmp.Diff([]string{"echo"}, r.tools()); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	f.offer("echo", "new")
	f.handle(mcp.MethodToolsList, nil)
	r.state(mcp.Ready)
	if diff := cmp.Diff([]string{"echo", "new"}, r.tools()); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
}

func TestFetchTTL(t *testing.T) {
	t.Parallel()
	tests := map[string]time.Duration{
		"0": 0, "1500": 1500 * time.Millisecond, "9223372036854775807": maxTTL,
		"-5": 0, "1e3": 0, `"60"`: 0, "null": 0, "99999999999999999999": 0,
	}
	for ttl, want := range tests {
		t.Run(ttl, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, mcp.Modern)
			f.handle(mcp.MethodToolsList, func(x *exchange) { x.result(`{"tools":[],"ttlMs":` + ttl + `}`) })
			r := run(t, f.spec())
			r.state(mcp.Ready)
			if listing, _ := r.Listing(); listing.TTL[mcp.Tool] != want {
				t.Errorf("TTL = %v, want %v", listing.TTL[mcp.Tool], want)
			}
		})
	}
}

// Changes that come together cause one reading and one report. A flood of changes causes a
// few.
func TestListChanged(t *testing.T) {
	t.Parallel()
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, era)
			bursts := make(chan int)
			stream := func(x *exchange) {
				for {
					select {
					case n := <-bursts: // written at once, so that they come together
						one := "data: " + string(mcp.AppendNotification(nil, mcp.NotifyToolsChanged, []byte(`{}`))) + "\n"
						x.block(slices.Repeat([]string{one}, n)...)
					case <-x.r.Context().Done():
						return
					case <-x.down:
						return
					}
				}
			}
			f.handle(http.MethodGet, func(x *exchange) { x.open(); stream(x) })
			f.handle(mcp.MethodListen, func(x *exchange) { x.acknowledge(); stream(x) })
			if era == mcp.Modern {
				f.handle(http.MethodGet, nil)
			}
			r := run(t, f.spec())
			r.state(mcp.Ready)
			lists := func() int { return len(f.requests(mcp.MethodToolsList)) }
			if lists() != 1 {
				t.Fatalf("%d fetches at the start", lists())
			}
			reports := r.sink.changes()
			f.offer("echo", "second")
			bursts <- 20
			testwait.Until(t, patience, "the new tool", func() bool { return len(r.tools()) == 2 })
			testwait.Until(t, patience, "the report", func() bool { return r.sink.changes() == reports+1 })
			<-time.After(200 * time.Millisecond)
			if lists() != 2 || r.sink.changes() != reports+1 {
				t.Errorf("%d fetches and %d reports of one burst", lists()-1, r.sink.changes()-reports)
			}
			before := lists()
			for range 100 {
				bursts <- 10
				<-time.After(5 * time.Millisecond)
			}
			if n := lists() - before; n > 8 {
				t.Errorf("%d fetches during a flood of half a second", n)
			}
			f.offer("echo", "second", "third")
			bursts <- 1
			testwait.Until(t, patience, "what came last", func() bool { return len(r.tools()) == 3 })
			if n := len(f.requests(mcp.MethodListen)); n > 1 {
				t.Errorf("%d streams were opened for one filter", n)
			}
		})
	}
}

// A server that ends each stream of subscriptions at once is not asked for one
// in a tight loop.
func TestListenEndsAtOnce(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*exchange){
		"gracefully":        func(x *exchange) { x.acknowledge(); x.result(`{"resultType":"complete"}`) },
		"by a cut":          func(x *exchange) { x.acknowledge(); x.cut() },
		"before agreeing":   func(x *exchange) { x.open() },
		"by a server error": func(x *exchange) { x.status(500, "", "") },
		"by a fault":        func(x *exchange) { x.fault(200, -32603, "no") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, mcp.Modern)
			var n atomic.Int64
			f.handle(mcp.MethodListen, func(x *exchange) { n.Add(1); end(x) })
			r := run(t, f.spec())
			r.state(mcp.Ready)
			testwait.Until(t, patience, "another attempt", func() bool { return n.Load() >= 2 })
			<-time.After(300 * time.Millisecond)
			if n.Load() > 8 || len(f.requests(mcp.MethodToolsList)) > 8 {
				t.Errorf("%d streams, %d fetches", n.Load(), len(f.requests(mcp.MethodToolsList)))
			}
			r.call(tool("echo", `{}`))
			if _, status := r.Listing(); status.State != mcp.Ready {
				t.Errorf("state = %v (%s)", status.State, status.Reason)
			}
		})
	}
	t.Run("a server without subscriptions is not asked again", func(t *testing.T) {
		t.Parallel()
		f := newFake(t, mcp.Modern)
		f.handle(mcp.MethodListen, func(x *exchange) { x.fault(404, -32601, "Method not found") })
		r := run(t, f.spec())
		r.state(mcp.Ready)
		<-time.After(300 * time.Millisecond)
		if n, lists := len(f.requests(mcp.MethodListen)), len(f.requests(mcp.MethodToolsList)); n != 1 || lists != 1 {
			t.Errorf("%d attempts, %d fetches", n, lists)
		}
	})
}
