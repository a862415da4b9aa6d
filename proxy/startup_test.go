package proxy

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// starting is a server whose callers wait for its lists until it has started.
type starting struct {
	*script
	*rig
	began   chan struct{} // has one for each waiting call
	started chan struct{}
}

func newStarting(t *testing.T, changes ...func(*Options, *Config)) *starting {
	t.Helper()
	s := &starting{script: newScript(t, "s", mcp.Modern, tool("join"), tool("here")), began: make(chan struct{}), started: make(chan struct{})}
	m := mounted(s.script)
	m[0].SignInTool = []byte(`{"name":"join","inputSchema":{"type":"object"}}`)
	m[0].Concurrency, m[0].Queue = 2, 6
	m[0].Listed = func(_ *gate.Identity, _ mcp.Kind, original string) bool { return original == "here" }
	m[0].Await = func(ctx context.Context, _ *gate.Identity, _ mcp.Kind, _ string) error {
		s.began <- struct{}{}
		select {
		case <-s.started:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	s.rig = newRig(t, m, changes...)
	return s
}

// waits makes a caller begin a call that waits.
func (s *starting) waits(who string) (w *recorder, leave context.CancelFunc) {
	s.t.Helper()
	w, leave = s.begin(modernRequest(modernBody("1", "tools/call", `"name":"s__later"`, ""), "Authorization", "Bearer "+who))
	select {
	case <-s.began:
	case <-w.done:
		s.t.Fatalf("a call of %s does not wait: %s", who, w.text())
	}
	return w, leave
}

// asks returns the response to a call that does not wait.
func (s *starting) asks(who, name string) string {
	s.t.Helper()
	w, _ := s.begin(modernRequest(modernBody("1", "tools/call", `"name":"`+name+`"`, ""), "Authorization", "Bearer "+who))
	select {
	case <-s.began:
		s.t.Fatalf("one call more of %s waits", who)
	case <-w.done:
	}
	return w.text()
}

// refusedAs reports whether a response is a refusal to be retried later.
func refusedAs(answer, kind string) bool {
	got, _ := mcp.LookupString([]byte(answer), "result", "_meta", "dev.toolgate/refusal", "kind")
	after := mcp.Lookup([]byte(answer), "result", "_meta", "dev.toolgate/refusal", "retry_after_ms")
	return got == kind && string(after) == "1000"
}

// As many calls may wait for the start of a server as may run and queue there. One
// caller has at most half of the places, so that others find one. Listed tools can be
// called meanwhile, and cancelled calls free their places.
func TestCallsThatWaitForAStartAreBounded(t *testing.T) {
	s := newStarting(t)
	var all []*recorder
	var leave context.CancelFunc
	for range 4 {
		var w *recorder
		w, leave = s.waits("alice")
		all = append(all, w)
	}
	if got := s.asks("alice", "s__later"); !refusedAs(got, "upstream_busy") {
		t.Errorf("the fifth is answered %s", got)
	}
	for range 2 {
		w, _ := s.waits("bob")
		all = append(all, w)
	}
	if got := s.asks("bob", "s__later"); !refusedAs(got, "upstream_busy") {
		t.Errorf("the third of another is answered %s", got)
	}
	if got := s.asks("alice", "s__here"); !strings.Contains(got, `"resultType":"complete"`) || strings.Contains(got, "isError") {
		t.Errorf("what is listed is answered %s", got)
	}
	leave()
	<-all[3].done
	w, _ := s.waits("bob")
	all = append(all, w)
	close(s.started)
	for i, w := range all {
		<-w.done
		if i != 3 && !strings.Contains(w.text(), "Unknown tool: s__later") {
			t.Errorf("call %d is answered %s", i, w.text())
		}
	}
	at := s.snapshot.Load().catalog.byServer["s"].permits
	for i := range 2 + 6 {
		if _, err := at.Await(fmt.Sprint("other", i)); err != nil {
			t.Errorf("a place was not given back: %v", err)
		}
	}
	if got := len(s.seen("tools/call")); got != 1 {
		t.Errorf("%d calls reached the server", got)
	}
}

// A caller may wait with no more calls than it may have running.
func TestWaitsOfOneCallerAreBounded(t *testing.T) {
	s := newStarting(t, func(_ *Options, c *Config) { c.CallsPerPrincipal = 2 })
	for range 2 {
		s.waits("alice")
	}
	if got := s.asks("alice", "s__later"); !refusedAs(got, "too_many_calls") || !strings.Contains(got, "limits.calls_per_principal") {
		t.Errorf("the third is answered %s", got)
	}
	s.waits("bob")
}

// A caller who may not view the sign-in tool does not learn from a refusal that the
// server exists.
func TestOverloadIsHiddenFromOtherCallers(t *testing.T) {
	s := newStarting(t, hide("join"))
	for range 4 {
		s.waits("alice")
	}
	if got, none := s.asks("alice", "s__later"), s.asks("alice", "t__later"); strings.ReplaceAll(got, "s__", "t__") != none {
		t.Errorf("answered %s, and for what is nowhere %s", got, none)
	}
}
