package proxy

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// The caller's own answer does not count for a call that now needs the answer of
// others.
func TestRequesterAnswersWhatOthersMust(t *testing.T) {
	c := newCounter(t, mcp.Legacy, nil)
	state := stateOf(t, c.call(""))
	c.demand(gate.Demand{Reason: "it deletes", By: []string{"security"}})
	w := c.call(`,"inputResponses":{"approval":{"action":"accept"}},"requestState":"` + state + `"`)
	requireKind(t, w, "approval_denied")
	if n := c.calls(); n != 0 {
		t.Errorf("%d calls without the approval of security: %s", n, w.text())
	}
	requireKind(t, c.call(""), "approval_pending")
	if by := c.pending().By; len(by) != 1 || by[0][0] != "security" {
		t.Errorf("asked anew: %v", by)
	}
}

// An approval by some does not replace one by others in a later round.
func TestRoundNeedsAnotherApproval(t *testing.T) {
	for name, tc := range map[string]struct {
		now  []gate.Demand
		kind string
		made int
	}{
		"the same":      {[]gate.Demand{{Reason: "it deletes"}}, "", 2},
		"other words":   {[]gate.Demand{{Reason: "it writes"}}, "", 2},
		"none any more": {nil, "", 2},
		"others":        {[]gate.Demand{{By: []string{"security"}}}, "approval_needed", 1},
		"one more":      {[]gate.Demand{{}, {By: []string{"security"}}}, "approval_needed", 1},
		"nobody":        {[]gate.Demand{{By: []string{}}}, "approval_needed", 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCounter(t, mcp.Modern, nil)
			c.b.reply = asking(t, 1).reply
			state := stateOf(t, c.call(""))
			state = stateOf(t, c.call(`,"inputResponses":{"approval":{"action":"accept"}},"requestState":"`+state+`"`))
			c.demand(tc.now...)
			requireKind(t, c.call(`,"inputResponses":{"q":{"action":"accept"}},"requestState":"`+state+`"`), tc.kind)
			if n := c.calls(); n != tc.made {
				t.Errorf("%d calls, want %d", n, tc.made)
			}
		})
	}
}

// A round that the gateway makes for a legacy client must satisfy the current demands,
// like one of a modern client.
func TestRoundOfALegacyClientNeedsAnApproval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rounded(t, asks(`"a":{"method":"elicitation/create","params":{"mode":"form","message":"who?","requestedSchema":{}}}`, ""))
		d := &demanding{}
		r := newRig(t, mounted(b), func(_ *Options, c *Config) { c.Arguments = d }).run()
		c := r.stdio(person("alice"))
		c.send(initBody, request("1", "tools/call", `{"name":"s__ask"}`))
		synctest.Wait()
		next := *r.config.Load()
		next.Arguments = asker{}
		r.Apply(next)
		c.send(`{"jsonrpc":"2.0","id":"toolgate-1","result":{"action":"accept","content":{}}}`)
		synctest.Wait()
		if n := len(b.seen(mcp.MethodToolsCall)); n != 1 || !strings.Contains(c.out.String(), `"kind":"approval_needed"`) {
			t.Errorf("%d calls: %s", n, c.out.String())
		}
	})
}

// asker demands an approval for everything.
type asker struct{}

func (asker) CheckArguments(context.Context, PendingCall) ([]gate.Demand, error) {
	return []gate.Demand{{Reason: "it is dangerous"}}, nil
}

// locked refuses everything, like a mode.
type locked struct{}

func (locked) CheckArguments(context.Context, PendingCall) ([]gate.Demand, error) {
	return nil, refusal.Governed("it is locked")
}

func (r *rig) lock() {
	next := *r.config.Load()
	next.Arguments = locked{}
	r.Apply(next)
}

// A request about a task that is under way is cancelled by a mode that forbids it,
// wherever it is.
func TestCancelRequestsOfTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWorker(t, mcp.Legacy, `"status":"input_required"`)
		b.result = func(ctx context.Context, _ *mcp.Call) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		r := newRig(t, mounted(b.script)).run()
		c := r.stdio(person("alice"))
		c.send(initBody, request("1", "tools/call", `{"name":"s__job","task":{}}`))
		synctest.Wait()
		_, after, _ := strings.Cut(c.out.drain(), `"taskId":"`)
		id, _, _ := strings.Cut(after, `"`)
		c.send(request("2", "tasks/result", `{"taskId":"`+id+`"}`))
		synctest.Wait()
		if n := r.CancelCalls(cancelledBy("s__job")); n != 1 {
			t.Errorf("%d requests cancelled, want 1", n)
		}
		synctest.Wait()
		if got := c.out.drain(); !strings.Contains(got, cancelledText) {
			t.Errorf("got %s", got)
		}
	})
}

// A request that waited for a permit is checked against the new mode.
func TestTaskWaitsWhileLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWorker(t, mcp.Modern, working)
		r := newRig(t, mounted(b.script), func(_ *Options, c *Config) { c.Mounts[0].Concurrency = 1 }).run()
		id := taskID(t, r.tasked("1", "tools/call", `"name":"s__job"`))
		slots := r.snapshot.Load().catalog.byServer["s"].permits
		if err := slots.Acquire(t.Context(), "s", "other"); err != nil {
			t.Fatal(err)
		}
		body := strings.Replace(modernBody("2", "tasks/update", ofTask(id)+`,"inputResponses":{}`, ""), `"io.modelcontextprotocol/clientCapabilities":{`, declaredTasks, 1)
		w, _ := r.begin(modernRequest(body))
		synctest.Wait()
		r.lock()
		time.Sleep(2 * maxDecisionAge)
		slots.Release("")
		<-w.done
		if n := len(b.seen(mcp.MethodTaskUpdate)); n != 0 {
			t.Errorf("%d answers reached the server: %s", n, w.text())
		}
	})
}

// A subscription tells nothing of a task in a mode in which the task cannot be asked
// about.
func TestListenForTasksWhileLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWorker(t, mcp.Modern, working, completed)
		r := newRig(t, mounted(b.script)).run()
		id := taskID(t, r.tasked("1", "tools/call", `"name":"s__job"`))
		w, _ := r.listenFor(id)
		synctest.Wait()
		w.next()
		r.lock()
		time.Sleep(10 * maxDecisionAge)
		if got := w.next(); got != "" || len(b.seen(mcp.MethodTaskGet)) != 1 {
			t.Errorf("told %s", got)
		}
		next := *r.config.Load()
		next.Arguments = nil
		r.Apply(next)
		time.Sleep(2 * maxPoll)
		if got := w.next(); !strings.Contains(got, `"completed"`) {
			t.Errorf("afterwards: %q", got)
		}
	})
}

// Updates of a resource end with the right to it, also those of something within a
// subscribed resource.
func TestUpdatesEndWithTheRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Legacy, `resource {"uri":"file:///d","name":"d"}`, `resource {"uri":"file:///d/x","name":"x"}`)
		var hidden atomic.Pointer[string]
		r := newRig(t, mounted(b), func(_ *Options, c *Config) {
			c.Chain = gate.NewChain(rule(func(_ context.Context, r *gate.Request) (gate.Decision, error) {
				if is := hidden.Load(); is != nil && *is == r.Original && r.Identity.Subject == "alice" {
					return gate.Decision{Reason: "hidden"}, nil
				}
				return gate.Decision{Effect: gate.Allow}, nil
			}))
		}).run()
		streams := map[string]*recorder{}
		for _, who := range []string{"alice", "bob"} {
			auth := []string{"Authorization", "Bearer " + who}
			session := r.open(auth...)
			streams[who+" legacy"], _ = r.begin(httpRequest("GET", "/mcp", "", append(auth, "Mcp-Session-Id", session)...))
			r.legacy(session, "1", "resources/subscribe", `{"uri":"s+file:///d"}`, auth...)
			streams[who+" modern"], _ = r.begin(modernRequest(modernBody("1", "subscriptions/listen", `"notifications":{"resourceSubscriptions":["s+file:///d"]}`, ""), auth...))
		}
		synctest.Wait()
		for _, tc := range []struct {
			hidden, uri string
			alice       int
		}{{"", "file:///d", 1}, {"", "file:///d/x", 1}, {"file:///d", "file:///d", 0}, {"file:///d/x", "file:///d/x", 0}, {"file:///d", "file:///d/x", 0}, {"", "file:///d", 1}} {
			hidden.Store(&tc.hidden)
			r.Happened(mcp.Event{Server: "s", Method: mcp.NotifyResourceUpdated, Params: []byte(`{"uri":"` + tc.uri + `"}`)})
			synctest.Wait()
			for who, w := range streams {
				want := 1
				if strings.HasPrefix(who, "alice") {
					want = tc.alice
				}
				if got := strings.Count(w.next(), "resources/updated"); got != want {
					t.Errorf("%q is hidden, %s is updated: %s was told %d times, want %d", tc.hidden, tc.uri, who, got, want)
				}
			}
		}
	})
}

// The endpoint of a server of which the caller may view nothing looks like a missing
// one. It exists while the gate cannot decide.
func TestServerThatMayNotBeViewed(t *testing.T) {
	phase := &moody{}
	r := newRig(t, mounted(newScript(t, "s", mcp.Modern, tool("a")), newScript(t, "u", mcp.Modern, tool("b"))), func(_ *Options, c *Config) {
		c.Chain = gate.NewChain(phase)
	})
	ask := func(server, who string) *recorder {
		req := modernRequest(modernBody("1", "tools/list", "", ""), "Authorization", "Bearer "+who)
		req.URL.Path = "/mcp/s/" + server
		return r.do(req)
	}
	phase.hidden.Store(true)
	hidden, none := ask("s", "alice"), ask("x", "alice")
	if hidden.code() != http.StatusNotFound || hidden.code() != none.code() || hidden.text() != none.text() {
		t.Errorf("hidden: %d %s, none: %d %s", hidden.code(), hidden.text(), none.code(), none.text())
	}
	for server, who := range map[string]string{"s": "bob", "u": "alice"} {
		if w := ask(server, who); w.code() != http.StatusOK {
			t.Errorf("%s of %s: %d %s", server, who, w.code(), w.text())
		}
	}
	phase.broken.Store(true)
	if w := ask("s", "alice"); !strings.Contains(w.text(), "authz_unavailable") {
		t.Errorf("while nobody can tell: %d %s", w.code(), w.text())
	}
}

// A server that has not listed anything yet, such as one that is starting or switched
// off, is hidden by the same rule as one that lists nothing.
func TestUnlistedServerThatMayNotBeViewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a list waits for a server that has not said what it has
		phase := rule(func(_ context.Context, r *gate.Request) (gate.Decision, error) {
			if r.Identity.Subject == "alice" && r.Server == "payroll" {
				return gate.Decision{}, nil
			}
			return gate.Decision{Effect: gate.Allow}, nil
		})
		r := newRig(t, mounted(&script{name: "payroll"}), func(_ *Options, c *Config) { c.Chain = gate.NewChain(phase) })
		ask := func(server, who string) *recorder {
			req := modernRequest(modernBody("1", "tools/list", "", ""), "Authorization", "Bearer "+who)
			req.URL.Path = "/mcp/s/" + server
			return r.do(req)
		}
		hidden, none := ask("payroll", "alice"), ask("x", "alice")
		if hidden.code() != http.StatusNotFound || hidden.code() != none.code() || hidden.text() != none.text() {
			t.Errorf("hidden: %d %s, none: %d %s", hidden.code(), hidden.text(), none.code(), none.text())
		}
		if w := ask("payroll", "bob"); w.code() != http.StatusOK {
			t.Errorf("to somebody who may view it: %d %s", w.code(), w.text())
		}
	})
}

// The lifetime of a list reveals nothing of a server of which the caller may view
// nothing.
func TestHiddenServerLeavesNoTrace(t *testing.T) {
	seen, secret := newScript(t, "s", mcp.Legacy, tool("b")), newScript(t, "z", mcp.Legacy, tool("a"))
	secret.listing.Stale = true
	phase := &moody{}
	phase.hidden.Store(true)
	list := func(who string, backends ...*script) string {
		r := newRig(t, mounted(backends...), func(_ *Options, c *Config) { c.Chain = gate.NewChain(phase) })
		return r.modern("1", "tools/list", "", "Authorization", "Bearer "+who).text()
	}
	if with, without := list("alice", seen, secret), list("alice", seen); with != without {
		t.Errorf("with the hidden server:\n%s\nwithout:\n%s", with, without)
	}
	if with := list("bob", seen, secret); !strings.Contains(with, `"ttlMs":5000`) {
		t.Errorf("who may view it: %s", with)
	}
}

// A subscription is ended if its session ends while the server processes it.
func TestSessionEndsWhileItSubscribes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Legacy, `resource {"uri":"file:///r","name":"r"}`)
		took := make(chan struct{})
		b.reply = func(_ context.Context, call *mcp.Call) (mcp.Answer, error) {
			if call.Method == mcp.MethodSubscribe {
				<-took
			}
			return answered(mcp.Legacy, `{}`), nil
		}
		r := newRig(t, mounted(b)).run()
		session := r.open()
		w, _ := r.begin(httpRequest("POST", "/mcp", request("1", "resources/subscribe", `{"uri":"s+file:///r"}`), "Mcp-Session-Id", session))
		synctest.Wait()
		r.do(httpRequest("DELETE", "/mcp", "", "Mcp-Session-Id", session))
		synctest.Wait()
		close(took)
		<-w.done
		synctest.Wait()
		if len(r.watches.of) != 0 || len(b.seen(mcp.MethodUnsubscribe)) != 1 {
			t.Errorf("left behind: %v; %d unsubscribed", r.watches.of, len(b.seen(mcp.MethodUnsubscribe)))
		}
	})
}

// A call that is cancelled between the end of its round and the wait for the next one
// ends too.
func TestCancelCallThatIsAboutToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, mounted(newScript(t, "s", mcp.Legacy, tool("a")))).run()
		x := &Exchange{Identity: person("alice")}
		route := r.snapshot.Load().resolve(x.Identity, mcp.Tool, "s__a", Scope{})
		c := &call{g: r.Gateway, x: x, ctx: t.Context(), route: route}
		_, done, _ := beginCall(c)
		c.suspended = r.suspend(x, func(ctx context.Context, _ *suspended) (mcp.Answer, error) {
			<-ctx.Done()
			return mcp.Answer{}, context.Cause(ctx)
		})
		if n := r.CancelCalls(cancelledBy("s__a")); n != 1 {
			t.Errorf("%d calls cancelled, want 1", n)
		}
		c.waits = true
		done()
		synctest.Wait()
		select {
		case <-c.suspended.done:
		default:
			t.Error("the server still works on it")
		}
	})
}
