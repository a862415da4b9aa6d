package upstream

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// Changes that a server does not announce are found when its lists are no longer fresh, as
// long as somebody uses them.
func TestSilentChangesAreFound(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Modern)
	f.handle(mcp.MethodToolsList, func(x *exchange) {
		x.mu.Lock()
		list := toolList(x.list...)
		x.mu.Unlock()
		x.result(strings.Replace(list, "{", `{"resultType":"complete","ttlMs":1,"cacheScope":"private",`, 1))
	})
	r := run(t, f.spec())
	r.state(mcp.Ready)
	before, _ := r.Listing()
	for _, use := range []struct {
		name string
		do   func()
	}{
		{"listed", r.Asked},
		{"called", func() { r.call(tool("echo", `{}`)) }},
	} {
		f.offer("echo", use.name)
		testwait.Until(t, patience, "the tool that was added while another is "+use.name, func() bool {
			use.do()
			return strings.Join(r.tools(), " ") == "echo "+use.name
		})
	}
	if before.Find(mcp.Tool, "called") != nil {
		t.Error("a published listing was changed")
	}
}

// Equal lists are not reported.
func TestConfirmedListsAreNoNews(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	r := run(t, f.spec())
	r.state(mcp.Ready)
	before, _ := r.Listing()
	testwait.Until(t, patience, "the first lists", func() bool { return len(f.requests(mcp.MethodToolsList)) == 1 })
	changes := r.sink.changes()
	r.LookAgain()
	testwait.Until(t, patience, "the second look", func() bool { return len(f.requests(mcp.MethodToolsList)) == 2 })
	f.offer("echo", "more")
	r.LookAgain()
	testwait.Until(t, patience, "the third look", func() bool { return len(r.tools()) == 2 })
	if after, _ := r.Listing(); after == before || r.sink.changes() != changes+1 {
		t.Errorf("%d changes were told, want one", r.sink.changes()-changes)
	}
}

func TestFreshFor(t *testing.T) {
	t.Parallel()
	modern := func(tools, prompts time.Duration) *mcp.Listing {
		return &mcp.Listing{
			Era: mcp.Modern, Capabilities: []byte(`{"tools":{},"prompts":{}}`),
			TTL: map[mcp.Kind]time.Duration{mcp.Tool: tools, mcp.Prompt: prompts},
		}
	}
	for _, tt := range []struct {
		name    string
		listing *mcp.Listing
		took    time.Duration
		want    time.Duration
	}{
		{"the shortest", modern(time.Minute, time.Second*7), 0, 7 * time.Second},
		{"not all the time", modern(0, time.Minute), 0, time.Second},
		{"a small share of the time", modern(0, time.Minute), 3 * time.Second, 30 * time.Second},
		{"legacy that announces", &mcp.Listing{Era: mcp.Legacy, Capabilities: []byte(`{"tools":{"listChanged":true}}`)}, 0, time.Minute},
		{"legacy that does not", &mcp.Listing{Era: mcp.Legacy, Capabilities: []byte(`{"tools":{}}`)}, 0, 10 * time.Second},
		{"no lists", &mcp.Listing{Era: mcp.Legacy, Capabilities: []byte(`{}`)}, 0, time.Hour},
	} {
		if got := freshFor(tt.listing, tt.took); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// If somebody has asked for the lists, they are read again when they are no longer fresh;
// otherwise when somebody asks.
func TestDemand(t *testing.T) {
	t.Parallel()
	s := New(Spec{Key: "s", URL: "http://h/"}, Options{Logger: quietLog})
	s.demand.begin()
	s.Asked()
	if s.demand.lapse() {
		t.Error("somebody has asked")
	}
	s.demand.begin()
	if !s.demand.lapse() {
		t.Error("nobody has asked")
	}
	drain(s.refetch)
	s.Asked()
	if len(s.refetch) != 1 {
		t.Error("the lists are not read when somebody asks for them after their time")
	}
}

// A server that does not answer list requests while it works does not count as broken.
func TestScheduleTolerates(t *testing.T) {
	t.Parallel()
	plan := schedule{}
	if plan.tolerates(errCallTimeout) {
		t.Error("nothing is known of it")
	}
	plan.succeeded(&mcp.Listing{Capabilities: []byte(`{"tools":{}}`)}, pollOften, time.Now())
	if !plan.fresh || !plan.tolerates(errCallTimeout) || plan.tolerates(errors.New("no")) {
		t.Errorf("after a look: %+v", plan)
	}
	plan.good = plan.good.Add(-pollOften)
	if plan.tolerates(errCallTimeout) {
		t.Error("it has been silent for long")
	}
}
