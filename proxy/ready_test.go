package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/inflight"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// cancelledBy is a refusal of the calls of one tool.
func cancelledBy(name string) func(*inflight.Call) *refusal.Error {
	return func(c *inflight.Call) *refusal.Error {
		if c.Exposed != name || c.Listed == nil || c.Identity == nil {
			return nil
		}
		return refusal.Governed("it was cancelled")
	}
}

const cancelledText = `This call is not allowed: it was cancelled.`

// A call that is cancelled ends with the reason, whether its server works, it waits for
// a permit, or its client is asked. Others go on.
func TestCancelCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Modern, tool("a"), tool("b"))
		b.reply = func(ctx context.Context, _ *mcp.Call) (mcp.Answer, error) {
			<-ctx.Done()
			return mcp.Answer{}, context.Cause(ctx)
		}
		r := newRig(t, mounted(b), func(_ *Options, c *Config) { c.Mounts[0].Concurrency = 2 }).run()
		begin := func(id, name string) *recorder {
			w, _ := r.begin(modernRequest(modernBody(id, "tools/call", `"name":"s__`+name+`"`, "")))
			synctest.Wait()
			return w
		}
		first, other := begin("1", "a"), begin("2", "b")
		waiting := begin("3", "a")
		if n := r.CancelCalls(cancelledBy("s__a")); n != 2 {
			t.Errorf("%d calls cancelled, want 2", n)
		}
		for what, w := range map[string]*recorder{"at the server": first, "waiting for a place": waiting} {
			<-w.done
			if !strings.Contains(w.text(), cancelledText) || !strings.Contains(w.text(), `"kind":"governance"`) {
				t.Errorf("%s: %s", what, w.text())
			}
		}
		synctest.Wait()
		select {
		case <-other.done:
			t.Errorf("the other one: %s", other.text())
		default:
		}
		if r.CancelCalls(cancelledBy("s__b")) != 1 {
			t.Error("the other one is not known")
		}
		<-other.done
		if left := r.inFlight.List(); len(left) != 0 {
			t.Errorf("%d calls are left behind", len(left))
		}
	})
}

func TestCancelSuspendedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := askingBackend(t, askForm)
		r := newRig(t, mounted(b)).run()
		w := r.modern("1", "tools/call", `"name":"s__ask"`)
		if inputs(w) == "" {
			t.Fatal(w.text())
		}
		if n := r.CancelCalls(cancelledBy("s__ask")); n != 1 {
			t.Errorf("%d calls cancelled, want 1", n)
		}
		synctest.Wait()
		if w = r.retry(w, `"name":"s__ask"`, `{"q1":{"action":"decline"}}`); !strings.Contains(w.text(), cancelledText) {
			t.Errorf("the next round: %s", w.text())
		}
	})
}

// A server that is added during a throttle is throttled too.
func TestThrottleOfALaterServer(t *testing.T) {
	r := newRig(t, nil)
	r.Throttle(limit.Throttle{NoQueue: true})
	next := *r.config.Load()
	next.Mounts = mounted(newScript(t, "late", mcp.Modern, tool("a")))
	r.Apply(next)
	s := r.snapshot.Load().catalog.byServer["late"].permits
	if !free(s, 32) {
		t.Error("it has fewer places than it is configured to have")
	}
	for i := range 32 {
		if err := s.Acquire(t.Context(), "late", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		defer s.Release(fmt.Sprint(i))
	}
	if err := s.Acquire(t.Context(), "late", "next"); err == nil {
		t.Error("a call waited for a place")
	}
}

// moody makes alice's tools visible on request, or cannot decide.
type moody struct{ hidden, broken atomic.Bool }

func (m *moody) Part() gate.Part { return gate.Part{Name: "moody", Check: m.Check} }

func (m *moody) Check(_ context.Context, r *gate.Request) (gate.Decision, error) {
	switch {
	case m.broken.Load():
		return gate.Decision{Reason: "authz_unavailable"}, errors.New("no answer")
	case r.Original == "a" && r.Identity.Subject == "alice" && m.hidden.Load():
		return gate.Decision{Reason: "hidden"}, nil
	}
	return gate.Decision{Effect: gate.Allow}, nil
}

// After new decisions, a client is told once if its own view has changed, and not while
// the gate cannot decide.
func TestDecidedTellsWhoseViewIsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		phase := &moody{}
		r := newRig(t, mounted(newScript(t, "s", mcp.Modern, tool("a"), tool("b"))), func(_ *Options, c *Config) {
			c.Chain = gate.NewChain(phase)
		}).run()
		streams := map[string]*recorder{}
		for _, who := range []string{"alice", "bob"} {
			auth := []string{"Authorization", "Bearer " + who}
			streams[who+" legacy"], _ = r.begin(httpRequest("GET", "/mcp", "", append(auth, "Mcp-Session-Id", r.open(auth...))...))
			streams[who+" modern"], _ = r.begin(modernRequest(modernBody("1", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, ""), auth...))
		}
		decided := func(when string, want map[string]int) {
			t.Helper()
			r.Decided()
			time.Sleep(time.Second)
			for name, w := range streams {
				who, _, _ := strings.Cut(name, " ")
				if told := strings.Count(w.next(), `"method":"notifications/tools/list_changed"`); told != want[who] {
					t.Errorf("%s: %s was told %d times, want %d", when, name, told, want[who])
				}
			}
		}
		time.Sleep(time.Second)
		for _, w := range streams {
			w.next()
		}
		decided("the first time, when nothing is known of what they saw", map[string]int{"alice": 1, "bob": 1})
		decided("nothing is another", nil)
		phase.hidden.Store(true)
		decided("alice sees less", map[string]int{"alice": 1})
		phase.broken.Store(true)
		decided("nobody can tell", nil)
		phase.broken.Store(false)
		decided("all is as before", nil)
		phase.hidden.Store(false)
		decided("alice sees more", map[string]int{"alice": 1})
	})
}

// A gate that cannot decide is an error of its own kind. The result of initialize then
// declares what any gateway may offer, and nothing of this one.
func TestGateThatCannotDecide(t *testing.T) {
	phase := &moody{}
	b := newScript(t, "s", mcp.Legacy, tool("a"))
	r := newRig(t, mounted(b), func(_ *Options, c *Config) { c.Chain = gate.NewChain(phase) })
	phase.broken.Store(true)
	for method, members := range map[string]string{"tools/list": "", "tools/call": `"name":"s__a"`} {
		w := r.modern("1", method, members)
		if code := mcp.Lookup(raw(w.text()), "error", "code"); string(code) != "1001" || !strings.Contains(w.text(), `"kind":"authz_unavailable"`) ||
			!strings.Contains(w.text(), `"retry_after_ms":1000`) {
			t.Errorf("%s: %s", method, w.text())
		}
	}
	discovery := raw(r.modern("1", "server/discover", "").text())
	if mcp.Lookup(discovery, "result", "capabilities", "tools") == nil || mcp.Lookup(discovery, "result", "instructions") != nil {
		t.Errorf("server/discover: %s", discovery)
	}
}

// A missing dependency makes /readyz fail with one word, and with verbose with a line
// for each dependency.
func TestReadyAsksTheGate(t *testing.T) {
	var missing []string
	r := newRig(t, nil, func(_ *Options, c *Config) {
		c.Dependencies = func() []Dependency {
			return []Dependency{{"store", !slices.Contains(missing, "store")}, {"spicedb", !slices.Contains(missing, "spicedb")}}
		}
	})
	for _, want := range []struct {
		missing []string
		code    int
		text    string
		lines   string
	}{
		{nil, http.StatusOK, "ok\n", "audit ok\nstore ok\nspicedb ok\n"},
		{[]string{"spicedb"}, http.StatusServiceUnavailable, "spicedb\n", "audit ok\nstore ok\nspicedb not ready\n"},
		{[]string{"spicedb", "store"}, http.StatusServiceUnavailable, "store\n", "audit ok\nstore not ready\nspicedb not ready\n"},
		{nil, http.StatusOK, "ok\n", "audit ok\nstore ok\nspicedb ok\n"},
	} {
		missing = want.missing
		for query, text := range map[string]string{"": want.text, "?x": want.text, "?verbose": want.text + want.lines, "?x&verbose=1": want.text + want.lines} {
			if w := r.do(httpRequest("GET", "/readyz"+query, "", "Authorization", "")); w.code() != want.code || w.text() != text {
				t.Errorf("%q%s: %d %q, want %d %q", want.missing, query, w.code(), w.text(), want.code, text)
			}
		}
	}
	r.ledger.mu.Lock()
	r.ledger.down = errBoom
	r.ledger.mu.Unlock()
	if w := r.do(httpRequest("GET", "/readyz?verbose", "", "Authorization", "")); w.code() != http.StatusServiceUnavailable || w.text() != "audit\naudit not ready\nstore ok\nspicedb ok\n" {
		t.Errorf("without audit: %d %q", w.code(), w.text())
	}
	r.stop(errSessionEnded)
	if w := r.do(httpRequest("GET", "/readyz?verbose", "", "Authorization", "")); w.code() != http.StatusServiceUnavailable || !strings.HasPrefix(w.text(), "stopping\naudit ") {
		t.Errorf("at the end: %d %q", w.code(), w.text())
	}
}

// demanding demands approvals and records the questions.
type demanding struct{ seen []PendingCall }

func (d *demanding) CheckArguments(_ context.Context, c PendingCall) ([]gate.Demand, error) {
	d.seen = append(d.seen, c)
	if c.Original == "a" {
		return []gate.Demand{{Reason: "it is dangerous"}}, nil
	}
	return nil, nil
}

// A call that needs an approval is refused. Calls of every kind are checked against the
// rules.
func TestCallsThatNeedAnApproval(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, tool("a"), tool("b"), `prompt {"name":"p"}`, `resource {"uri":"file:///r","name":"r"}`)
	d := &demanding{}
	r := newRig(t, mounted(b), func(_ *Options, c *Config) { c.Arguments = d })
	w := r.modern("1", "tools/call", `"name":"s__a"`)
	if !strings.Contains(w.text(), `"kind":"approval_needed","code":1004,"phase":"approval"`) {
		t.Errorf("a call: %s", w.text())
	}
	r.modern("2", "tools/call", `"name":"s__b","arguments":{"x":1}`)
	r.modern("3", "prompts/get", `"name":"s__p","arguments":{"y":"2"}`)
	r.modern("4", "resources/read", `"uri":"s+file:///r"`)
	if len(b.seen("")) != 3 || len(d.seen) != 4 {
		t.Fatalf("%d calls reached the server, %d were held against the rules", len(b.seen("")), len(d.seen))
	}
	for i, want := range []struct {
		kind mcp.Kind
		tool bool
		args string
	}{{mcp.Tool, true, ""}, {mcp.Tool, true, `{"x":1}`}, {mcp.Prompt, false, `{"y":"2"}`}, {mcp.Resource, false, ""}} {
		if got := d.seen[i]; got.Kind != want.kind || got.Tool != want.tool || string(got.Args) != want.args || got.Listed == nil || got.Queued {
			t.Errorf("call %d: %+v", i, got)
		}
	}
}

// The gate and the rules see the arguments that the server gets, for every method.
func TestWhatIsJudgedIsDelivered(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, tool("b"), `prompt {"name":"p"}`, `template {"uriTemplate":"file:///{path}","name":"t"}`)
	d := &demanding{}
	var shown []string
	r := newRig(t, mounted(b), func(_ *Options, c *Config) {
		c.Arguments = d
		c.Chain = gate.NewChain(rule(func(_ context.Context, q *gate.Request) (gate.Decision, error) {
			if q.Action == gate.Call {
				shown = append(shown, string(q.Args))
			}
			return gate.Decision{Effect: gate.Allow}, nil
		}))
	})
	for _, tt := range []struct{ method, members, args, delivered string }{
		{"tools/call", `"name":"s__b","arguments":{"x":1}`, `{"x":1}`, `"arguments":{"x":1}`},
		{"prompts/get", `"name":"s__p","arguments":{"y":"2"}`, `{"y":"2"}`, `"arguments":{"y":"2"}`},
		{"completion/complete", `"ref":{"type":"ref/prompt","name":"s__p"},"argument":{"name":"y","value":"2"}`, `{"y":"2"}`, `"argument":{"name":"y","value":"2"}`},
		{
			"completion/complete", `"ref":{"type":"ref/resource","uri":"s+file:///{path}"},"argument":{"name":"path","value":"a"},"context":{"arguments":{"path":"b","z":"3"}}`,
			`{"path":"a","z":"3"}`, `"argument":{"name":"path","value":"a"},"context":{"arguments":{"z":"3"}}`,
		},
	} {
		shown, d.seen = nil, nil
		w := r.modern("1", tt.method, tt.members)
		got := b.seen(tt.method)
		if len(got) == 0 || len(shown) != 1 || len(d.seen) != 1 {
			t.Fatalf("%s: %d calls reached the server, the gate was shown %q, the rules %d: %s", tt.method, len(got), shown, len(d.seen), w.text())
		}
		if last := string(got[len(got)-1].Params); !strings.Contains(last, tt.delivered) {
			t.Errorf("%s: delivered %s, want %s", tt.method, last, tt.delivered)
		}
		for who, args := range map[string]string{"the gate": shown[0], "the rules": string(d.seen[0].Args)} {
			if mcp.Hash([]byte(args)) != mcp.Hash([]byte(tt.args)) {
				t.Errorf("%s: %s are shown %s, want %s", tt.method, who, args, tt.args)
			}
		}
	}
}
