package proxy

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/guard"
)

// unreached is a failure of a backend before anything reached it.
var unreached = mcp.Failure{Kind: mcp.FailUnavailable, Origin: mcp.OriginHop, Server: "srv", Reason: "not here"}

// guarded is a guard around a backend that the test can make fail.
type guarded struct {
	*guard.Guard
	b *failing
}

// failing is a backend that fails while it is told to.
type failing struct {
	Backend
	fails atomic.Bool
}

func (f *failing) Call(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
	if f.fails.Load() {
		return mcp.Answer{}, &mcp.Failure{Kind: mcp.FailUnavailable, Origin: mcp.OriginServer, Delivered: true, Reason: "gone"}
	}
	return f.Backend.Call(ctx, call)
}

// newGuarded returns a guard around a backend.
func newGuarded(b Backend, set guard.Settings) guarded {
	f := &failing{Backend: b}
	return guarded{guard.New(f, set, guard.Options{}), f}
}

// behindGuard puts a guard around the first backend of a rig.
func behindGuard(g *guarded) func(*Options, *Config) {
	return func(_ *Options, c *Config) {
		*g = newGuarded(c.Mounts[0].Backend, guard.Settings{})
		c.Mounts[0].Backend = g.Guard
	}
}

// fail makes one call fail.
func (g guarded) fail() {
	g.b.fails.Store(true)
	_, _ = g.Call(context.Background(), &mcp.Call{Method: mcp.MethodToolsCall, Kind: mcp.Tool, Key: "echo"})
	g.b.fails.Store(false)
}

// trip opens the breaker.
func (g guarded) trip() {
	for g.Breakers()[0].State != guard.Open {
		g.fail()
	}
}

// tripLongAgo opens the breaker and waits until it allows a trial. It must be in a
// bubble.
func (g guarded) tripLongAgo() {
	g.trip()
	time.Sleep(time.Until(g.Breakers()[0].Until))
}

// An open breaker refuses after the gate and the arguments, and before anything is
// charged. Lists stay.
func TestBreakerIsBeforeTheCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g guarded
		r := noted(t, newScript(t, "s", mcp.Legacy, tool("echo"), `prompt {"name":"p"}`), nil, nil, behindGuard(&g))
		session := r.open()
		list := r.legacy(session, "1", "tools/list", "").text()
		g.trip()
		r.opts.Auditor.(*ledger).journal.clear()
		began := time.Now()
		w := r.legacy(session, "1", "tools/call", `{"name":"s__echo"}`)
		want := `"result":{"content":[{"type":"text","text":"The server s keeps failing and is not called for now; try again in 10 seconds, or go on without it."}],` +
			`"isError":true,"_meta":{"dev.toolgate/refusal":{"kind":"breaker_open","code":1007,"phase":"breaker","retry_after_ms":10000,"decision_id":"call-1"}}}`
		if !strings.Contains(w.text(), want) || time.Since(began) != 0 {
			t.Errorf("answer after %v: %s\nwant %s", time.Since(began), w.text(), want)
		}
		if got := strings.Join(r.steps(), ", "); got != "gate view, gate request, audit denied" {
			t.Errorf("steps %s", got)
		}
		if e := r.ledger.all()[0]; e.Outcome != audit.OutcomeDenied || e.Code != "breaker_open" || e.Server != "s" {
			t.Errorf("entry %+v", e)
		}
		w = r.legacy(session, "1", "prompts/get", `{"name":"s__p"}`)
		if want := `"error":{"code":1007,"message":"The server s keeps failing`; !strings.Contains(w.text(), want) || w.code() != http.StatusOK {
			t.Errorf("a prompt: %s", w.text())
		}
		if diff := cmp.Diff(list, r.legacy(session, "1", "tools/list", "").text()); diff != "" {
			t.Errorf("the list has changed (-before +now):\n%s", diff)
		}
	})
}

// A trial that is not charged after all is given back: the next call is the trial.
func TestTrialIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g guarded
		money := &purse{err: &budget.Refusal{Counter: budget.Counter{Budget: "flat"}, ResetAt: time.Unix(0, 0)}}
		b := newScript(t, "s", mcp.Legacy, tool("echo"))
		r := noted(t, b, nil, nil, behindGuard(&g), func(o *Options, c *Config) {
			money.journal = o.Auditor.(*ledger).journal
			c.Limiter = limited(t, money, flat)
		})
		session := r.open()
		g.tripLongAgo()
		for range 3 {
			requireKind(t, r.legacy(session, "1", "tools/call", `{"name":"s__echo"}`), "budget")
		}
		if got := g.Breakers()[0].State; got != guard.HalfOpen || len(b.seen("")) != 0 {
			t.Fatalf("%v after %d calls", got, len(b.seen("")))
		}
		money.err = nil
		if w := r.legacy(session, "1", "tools/call", `{"name":"s__echo"}`); !strings.Contains(w.text(), `"result":{"content":[]}`) {
			t.Errorf("the trial: %s", w.text())
		}
		if got := g.Breakers()[0].State; got != guard.Closed {
			t.Errorf("after it: %v", got)
		}
	})
}

// The call of a modern client to a legacy server runs apart from its request, and still
// is the trial like any other.
func TestTrialIsSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g guarded
		r := noted(t, newScript(t, "s", mcp.Legacy, tool("echo")), nil, nil, behindGuard(&g)).run()
		g.tripLongAgo()
		w := r.modern("1", "tools/call", `"name":"s__echo"`)
		if got := g.Breakers()[0].State; got != guard.Closed {
			t.Errorf("%v after %s", got, w.text())
		}
	})
}

// Retries are part of one charge and one entry.
func TestRetriesAreOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g guarded
		b, made := newScript(t, "s", mcp.Legacy, tool("echo")), 0
		b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
			if made++; made < 3 {
				return mcp.Answer{}, &unreached
			}
			return answered(mcp.Legacy, `{"content":[]}`), nil
		}
		r := noted(t, b, nil, nil, behindGuard(&g))
		session := r.open()
		r.opts.Auditor.(*ledger).journal.clear()
		w := r.legacy(session, "1", "tools/call", `{"name":"s__echo"}`)
		if !strings.Contains(w.text(), `"result":{"content":[]}`) {
			t.Errorf("answer %s", w.text())
		}
		if got := strings.Join(r.steps(), ", "); got != "gate view, gate request, charge call-1 1, backend echo, backend echo, backend echo, audit ok" {
			t.Errorf("steps %s", got)
		}
	})
}

// A call whose client has heard of it, or was asked, is not made again.
func TestHeardIsNotRetried(t *testing.T) {
	for name, says := range map[string]func(context.Context, *mcp.Call){
		"a notification": func(_ context.Context, call *mcp.Call) {
			call.Notify(mcp.NotifyProgress, []byte(`{"progressToken":1,"progress":1}`))
		},
		"a question": func(ctx context.Context, call *mcp.Call) {
			ctx, cancel := context.WithCancel(ctx)
			cancel() // nobody waits for the answer
			_, _ = call.AskAndWait(ctx, mcp.MethodElicit, []byte(`{}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var g guarded
				b, made := newScript(t, "s", mcp.Legacy, tool("echo")), 0
				b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
					if made++; made == 2 {
						says(ctx, call)
					}
					return mcp.Answer{}, &unreached
				}
				r := noted(t, b, nil, nil, behindGuard(&g))
				session := r.open()
				w := r.legacy(session, "1", "tools/call", `{"name":"s__echo","_meta":{"progressToken":"p"}}`)
				if made != 2 {
					t.Errorf("%d requests, answered with %s", made, w.text())
				}
			})
		})
	}
}

// A breaker that opens between the charge and the request costs nothing either.
func TestBreakerOpensAfterTheCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g guarded
		b := newScript(t, "s", mcp.Legacy, tool("echo"))
		b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
			g.trip() // by other calls, meanwhile
			return mcp.Answer{}, &unreached
		}
		r := noted(t, b, nil, nil, behindGuard(&g))
		session := r.open()
		r.opts.Auditor.(*ledger).journal.clear()
		requireKind(t, r.legacy(session, "1", "tools/call", `{"name":"s__echo"}`), "upstream_unavailable")
		if got := strings.Join(r.steps(), ", "); got != "gate view, gate request, charge call-1 1, backend echo, refund call-1, audit error" {
			t.Errorf("steps %s", got)
		}
	})
}

// Nobody is asked about a call that the breaker refuses, and it does not use up an
// approval.
func TestBreakerKeepsApprovals(t *testing.T) {
	c := newCounter(t, mcp.Modern, nil)
	g := newGuarded(c.b, guard.Settings{})
	config := *c.config.Load()
	config.Mounts = mounted(c.b)
	config.Mounts[0].Backend = g.Guard
	c.Apply(config)

	g.trip()
	requireKind(t, c.call(""), "breaker_open")
	g.Reset("")
	state := stateOf(t, c.call(""))
	yes := `,"inputResponses":{"approval":{"action":"accept","content":{}}},"requestState":"` + state + `"`
	g.trip()
	requireKind(t, c.call(yes), "breaker_open")
	g.Reset("")
	if w := c.call(yes); !strings.Contains(w.text(), `"resultType":"complete"`) || c.calls() != 1 {
		t.Errorf("after the reset: %s, %d calls", w.text(), c.calls())
	}
}
