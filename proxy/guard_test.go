package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// patient is a backend whose answers and signs of life the test chooses.
type patient struct {
	*script
	dead   atomic.Bool // gives no sign of life
	probes atomic.Int64
}

func (m *patient) Probe(context.Context) error {
	m.probes.Add(1)
	if m.dead.Load() {
		return errBoom
	}
	return nil
}

func newPatient(t testing.TB, reply func(context.Context, *mcp.Call) (mcp.Answer, error)) *patient {
	m := &patient{script: newScript(t, "srv", mcp.Modern, tool("slow"), tool("fast"),
		`tool {"name":"hinted","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`)}
	m.reply = reply
	return m
}

// guarded runs a guard before a backend for as long as f. It must be in a bubble.
func guarded(t *testing.T, m *patient, set Resilience, f func(*Guard)) {
	t.Helper()
	g := NewGuard(m, set, GuardOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	f(g)
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run = %v", err)
	}
}

func callOf(name string) *mcp.Call {
	return &mcp.Call{Method: mcp.MethodToolsCall, Kind: mcp.Tool, Key: name}
}

// kindOf is the kind of a call's refusal or failure, empty for an answer.
func kindOf(_ mcp.Answer, err error) string {
	var refused *refusal.Error
	var failure *mcp.Failure
	switch {
	case errors.As(err, &refused):
		return refused.Kind
	case errors.As(err, &failure):
		return string(failure.Kind)
	case err != nil:
		return err.Error()
	}
	return ""
}

func failWith(f mcp.Failure) (mcp.Answer, error) { return mcp.Answer{}, &f }

var (
	crash   = mcp.Failure{Kind: mcp.FailUnavailable, Origin: mcp.OriginServer, Server: "srv", Delivered: true, Reason: "gone"}
	absent  = mcp.Failure{Kind: mcp.FailUnavailable, Origin: mcp.OriginHop, Server: "srv", Reason: "not here"}
	broken5 = mcp.Failure{Kind: mcp.FailProtocol, Origin: mcp.OriginServer, Server: "srv", Delivered: true, Status: 500}
	silence = mcp.Failure{Kind: mcp.FailTimeout, Origin: mcp.OriginServer, Server: "srv", Delivered: true}
)

// after answers later, in a bubble.
func after(d time.Duration, f func(int) (mcp.Answer, error)) func(int) (mcp.Answer, error) {
	return func(n int) (mcp.Answer, error) {
		time.Sleep(d)
		return f(n)
	}
}

// How backends that misbehave in every way are treated: 40 calls, one each second.
func TestGuardBehaviour(t *testing.T) {
	t.Parallel()
	const calls = 40
	always := func(f mcp.Failure) func(int) (mcp.Answer, error) {
		return func(int) (mcp.Answer, error) { return failWith(f) }
	}
	fine := func(int) (mcp.Answer, error) { return result(mcp.Modern, `{}`), nil }
	half := func(f func(int) (mcp.Answer, error)) func(int) (mcp.Answer, error) {
		return func(n int) (mcp.Answer, error) {
			if n%2 == 0 {
				return f(n)
			}
			return fine(n)
		}
	}
	busy := func(after time.Duration) mcp.Failure {
		return mcp.Failure{Kind: mcp.FailBusy, Origin: mcp.OriginHop, Server: "srv", Status: 429, RetryAfter: after}
	}
	tests := []struct {
		name  string
		reply func(n int) (mcp.Answer, error)
		dead  bool // it gives no sign of life either
		// opens tells whether its breaker opened; made is how many requests it may
		// have got.
		opens       bool
		least, most int
		state       BreakerState // in the end
	}{
		{"all is well", fine, false, false, calls, calls, BreakerClosed},
		{"slow, and it succeeds", after(30*time.Second, fine), false, false, calls, calls, BreakerClosed},
		{"it hangs", after(5*time.Second, always(silence)), true, true, 5, 12, BreakerOpen},
		{"it drips and never ends", after(5*time.Second, always(silence)), true, true, 5, 12, BreakerOpen},
		{"it resets every call", always(crash), true, true, 5, 9, BreakerOpen},
		{"it crashes at every call, and starts again", always(crash), false, true, 12, calls, BreakerOpen},
		{"500", always(broken5), true, true, 5, 9, BreakerOpen},
		{"HTML", always(mcp.Failure{Kind: mcp.FailProtocol, Origin: mcp.OriginServer, Server: "srv", Delivered: true}), true, true, 5, 9, BreakerOpen},
		{"HTML with 404", always(mcp.Failure{Kind: mcp.FailProtocol, Origin: mcp.OriginHop, Server: "srv", Delivered: true, Status: 404}), false, false, calls, calls, BreakerClosed},
		{"every second call fails", half(always(broken5)), true, true, 20, 35, BreakerClosed},
		{"every second call is an internal error", half(func(int) (mcp.Answer, error) { return fault(mcp.Modern, `{"code":-32603,"message":"x"}`), nil }), true, true, 20, 35, BreakerClosed},
		{"every call is an internal error", func(int) (mcp.Answer, error) { return fault(mcp.Modern, `{"code":-32603,"message":"x"}`), nil }, true, true, 5, 9, BreakerOpen},
		{"every call is an error of the tool", func(int) (mcp.Answer, error) { return result(mcp.Modern, `{"isError":true}`), nil }, true, false, calls, calls, BreakerClosed},
		{"every call has invalid arguments", func(int) (mcp.Answer, error) { return fault(mcp.Modern, `{"code":-32602,"message":"x"}`), nil }, true, false, calls, calls, BreakerClosed},
		{"the connection is lost", always(absent), true, false, calls, 2 * calls, BreakerClosed},
		{"429 with Retry-After: 1", always(busy(time.Second)), true, false, calls, 2 * calls, BreakerClosed},
		{"429 with Retry-After: 30", always(busy(30 * time.Second)), true, false, 2, 2, BreakerClosed},
		{"429 with Retry-After: 0", always(busy(0)), true, false, calls, 2 * calls, BreakerClosed},
		{"429 with a day", always(busy(24 * time.Hour)), true, false, 1, 1, BreakerClosed},
		{"no credential", always(mcp.Failure{Kind: mcp.FailLogin, Origin: mcp.OriginHop, Server: "srv", Status: 401}), true, false, calls, calls, BreakerClosed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := 0
				m := newPatient(t, func(context.Context, *mcp.Call) (mcp.Answer, error) {
					n++
					return tt.reply(n)
				})
				m.dead.Store(tt.dead)
				guarded(t, m, Resilience{}, func(g *Guard) {
					for range calls {
						_, _ = g.Call(t.Context(), callOf("fast"))
						time.Sleep(time.Second)
					}
					got := g.Breakers()[0]
					// Whether a breaker that is not closed is open or half-open at this very moment is chance.
					if (got.Opens > 0) != tt.opens || (got.State == BreakerClosed) != (tt.state == BreakerClosed) || n < tt.least || n > tt.most {
						t.Errorf("opened %d times, in the end %v, %d requests; want opened: %v, %v, %d to %d requests",
							got.Opens, got.State, n, tt.opens, tt.state, tt.least, tt.most)
					}
				})
			})
		})
	}
}

// An open breaker answers at once, in words and with a time, and asks the server
// for a sign of life. The first one lets a call through at once, and when that
// goes well all calls pass.
func TestGuardRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ill atomic.Bool
		m := newPatient(t, func(context.Context, *mcp.Call) (mcp.Answer, error) {
			if ill.Load() {
				return failWith(crash)
			}
			return result(mcp.Modern, `{}`), nil
		})
		ill.Store(true)
		m.dead.Store(true)
		guarded(t, m, Resilience{}, func(g *Guard) {
			for range 5 {
				if got := kindOf(g.Call(t.Context(), callOf("fast"))); got != "upstream_unavailable" {
					t.Fatalf("a call: %q", got)
				}
			}
			began, sent := time.Now(), len(m.seen(""))
			_, err := g.Call(t.Context(), callOf("fast"))
			refused, ok := errors.AsType[*refusal.Error](err)
			if !ok || refused.Kind != "breaker_open" || refused.RetryAfter != 10*time.Second || refused.Code != refusal.CodeBreaker ||
				refused.Text != "The server srv keeps failing and is not called for now; try again in 10 seconds, or go on without it." {
				t.Fatalf("%#v", err)
			}
			if failure, ok := errors.AsType[*mcp.Failure](err); !ok || failure.Delivered {
				t.Error("whether it was delivered is not told")
			}
			if time.Since(began) != 0 || len(m.seen("")) != sent {
				t.Error("the call was made, or took its time")
			}
			if l, _ := g.Listing(); len(l.Items[mcp.Tool]) != 3 {
				t.Error("its tools are listed no more")
			}
			time.Sleep(9 * time.Second)
			if n := m.probes.Load(); n < 5 || n > 12 {
				t.Errorf("%d signs of life asked for in 9 s", n)
			}
			ill.Store(false)
			m.dead.Store(false)
			time.Sleep(livenessMost)
			if got := g.Breakers()[0].State; got != BreakerHalfOpen {
				t.Fatalf("with a sign of life: %v", got)
			}
			probes := m.probes.Load()
			if got := kindOf(g.Call(t.Context(), callOf("fast"))); got != "" {
				t.Fatalf("the trial: %q", got)
			}
			if got := g.Breakers()[0]; got.State != BreakerClosed || got.Opens != 1 || got.Why != "gone" {
				t.Errorf("after it: %+v", got)
			}
			time.Sleep(time.Minute)
			if m.probes.Load() != probes {
				t.Error("a closed breaker asks for signs of life")
			}
		})
	})
}

// A backend that gives signs of life and fails all the same is asked for them the
// less often the more often it opens, and is called that much less often.
func TestGuardFlaps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		began := time.Now()
		m := newPatient(t, func(context.Context, *mcp.Call) (mcp.Answer, error) {
			at = append(at, time.Since(began))
			return failWith(crash)
		})
		guarded(t, m, Resilience{}, func(g *Guard) {
			for range 300 {
				_, _ = g.Call(t.Context(), callOf("fast"))
				time.Sleep(10 * time.Millisecond)
			}
		})
		// five at once, then one after 250 ms, 500 ms, 1 s and 2 s
		if len(at) < 7 || len(at) > 8 {
			t.Errorf("called %d times: %v", len(at), at)
		}
	})
}

// A slow tool does not open the breaker of a server that answers otherwise; its
// own breaker opens where it has one.
func TestGuardSlowTool(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprint("a breaker of its own: ", own), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newPatient(t, func(_ context.Context, call *mcp.Call) (mcp.Answer, error) {
					if call.Key == "slow" {
						time.Sleep(10 * time.Second)
						return failWith(silence)
					}
					return result(mcp.Modern, `{}`), nil
				})
				set := Resilience{}
				if own {
					set.Tools = map[string]ToolResilience{"slow": {Breaker: &Breaker{Failures: 3, Open: time.Minute}}}
				}
				guarded(t, m, set, func(g *Guard) {
					var all sync.WaitGroup
					all.Go(func() {
						for range 60 {
							if got := kindOf(g.Call(t.Context(), callOf("fast"))); got != "" {
								t.Errorf("another tool: %q", got)
							}
							time.Sleep(time.Second)
						}
					})
					var kinds []string
					for range 6 {
						kinds = append(kinds, kindOf(g.Call(t.Context(), callOf("slow"))))
					}
					all.Wait()
					want := slices.Repeat([]string{"upstream_timeout"}, 6)
					if own {
						want = []string{"upstream_timeout", "upstream_timeout", "upstream_timeout", "breaker_open", "breaker_open", "breaker_open"}
					}
					if !slices.Equal(kinds, want) {
						t.Errorf("the slow tool: %v, want %v", kinds, want)
					}
					all2 := g.Breakers()
					if all2[0].State != BreakerClosed || all2[0].Opens != 0 {
						t.Errorf("the server's: %+v", all2[0])
					}
					if own && (len(all2) != 2 || all2[1].Tool != "slow" || all2[1].State != BreakerOpen) {
						t.Errorf("the tool's: %+v", all2)
					}
				})
			})
		})
	}
}

// Silence of everything opens the breaker, whatever was answered before.
func TestGuardHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hung := false
		m := newPatient(t, func(context.Context, *mcp.Call) (mcp.Answer, error) {
			if hung {
				time.Sleep(2 * time.Second)
				return failWith(silence)
			}
			return result(mcp.Modern, `{}`), nil
		})
		m.dead.Store(true)
		guarded(t, m, Resilience{}, func(g *Guard) {
			for range 100 {
				_, _ = g.Call(t.Context(), callOf("fast"))
				_, _ = g.Call(t.Context(), callOf("slow"))
			}
			hung = true
			for i := range 5 {
				if got := kindOf(g.Call(t.Context(), callOf([]string{"fast", "slow"}[i%2]))); got != "upstream_timeout" {
					t.Fatalf("call %d: %q", i, got)
				}
			}
			if got := kindOf(g.Call(t.Context(), callOf("fast"))); got != "breaker_open" {
				t.Errorf("after five: %q", got)
			}
		})
	})
}

func TestGuardReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newPatient(t, func(context.Context, *mcp.Call) (mcp.Answer, error) { return failWith(crash) })
		m.dead.Store(true)
		var mu sync.Mutex
		var told []string
		g := NewGuard(m, Resilience{Tools: map[string]ToolResilience{"slow": {Breaker: &Breaker{}}}}, GuardOptions{
			Changed: func(backend, tool string, s BreakerState) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, strings.TrimSpace(backend+" "+tool)+" "+s.String())
			},
		})
		for range 5 {
			_, _ = g.Call(t.Context(), callOf("slow"))
		}
		if g.Reset("fast") {
			t.Error("a tool without a breaker was reset")
		}
		if !g.Reset("slow") || g.Breakers()[1].State != BreakerClosed || g.Breakers()[0].State != BreakerOpen {
			t.Errorf("after the reset of the tool: %+v", g.Breakers())
		}
		if !g.Reset("") || g.Breakers()[0].State != BreakerClosed {
			t.Errorf("after the reset of all: %+v", g.Breakers())
		}
		for range 5 {
			_, _ = g.Call(t.Context(), callOf("slow"))
		}
		g.Configure(Resilience{}) // the tool has none any more
		if got := g.Breakers(); len(got) != 1 || got[0].State != BreakerOpen {
			t.Errorf("after a reload: %+v", got)
		}
		want := []string{
			"srv open", "srv slow open", "srv slow closed", "srv closed", "srv open", "srv slow open", "srv slow closed",
		}
		if !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

// A backend that is back is asked for a sign of life at once.
func TestGuardHearsOfReturn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newPatient(t, nil)
		m.dead.Store(true)
		guarded(t, m, Resilience{}, func(g *Guard) {
			trip(g)
			time.Sleep(9*time.Second + 100*time.Millisecond)
			m.dead.Store(false)
			m.mu.Lock()
			m.status.State = mcp.Reconnecting
			m.mu.Unlock()
			g.Changed()
			synctest.Wait()
			if got := g.Breakers()[0].State; got != BreakerOpen {
				t.Fatalf("while it is away: %v", got)
			}
			m.mu.Lock()
			m.status.State = mcp.Ready
			m.mu.Unlock()
			g.Changed()
			synctest.Wait()
			if got := g.Breakers()[0].State; got != BreakerHalfOpen {
				t.Errorf("when it is back: %v", got)
			}
			probes := m.probes.Load()
			g.Changed() // of what is not open
			synctest.Wait()
			if m.probes.Load() != probes {
				t.Error("it is asked without need")
			}
		})
	})
}

// What the breaker of a tool refuses is no trial of that of its server.
func TestGuardTrialBehindToolBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newPatient(t, nil)
		m.dead.Store(true)
		g := NewGuard(m, Resilience{Tools: map[string]ToolResilience{"slow": {Breaker: &Breaker{}}}}, GuardOptions{})
		trip(g)
		g.whole.alive()
		tryAll(g.tools["slow"], 5, failed)
		if got := kindOf(g.Call(t.Context(), callOf("slow"))); got != "breaker_open" {
			t.Fatalf("%q", got)
		}
		if got := kindOf(g.Call(t.Context(), callOf("fast"))); got != "" {
			t.Errorf("the trial: %q", got)
		}
	})
}

// A guard that takes another's place goes on with what that knew.
func TestGuardInherits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newPatient(t, func(context.Context, *mcp.Call) (mcp.Answer, error) { return failWith(crash) })
		m.dead.Store(true)
		set := Resilience{Tools: map[string]ToolResilience{"slow": {Breaker: &Breaker{Failures: 3, Open: time.Minute}}}}
		before := NewGuard(m, set, GuardOptions{})
		for range 3 {
			_, _ = before.Call(t.Context(), callOf("slow"))
		}
		before.hold(capability{mcp.Tool, "fast"}, time.Minute)
		trip(before)
		time.Sleep(time.Second)
		guarded(t, m, set, func(g *Guard) {
			g.Inherit(before)
			if got, want := fmt.Sprint(g.Breakers()), fmt.Sprint(before.Breakers()); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if got := g.heldFor(capability{mcp.Tool, "fast"}, time.Now()); got != 59*time.Second {
				t.Errorf("left alone for %v", got)
			}
			m.dead.Store(false)
			time.Sleep(livenessMost)
			if got := g.Breakers()[0].State; got != BreakerHalfOpen {
				t.Errorf("a sign of life: %v", got)
			}
		})
	})
}

// A backend that panics has failed, and its trial is not lost.
func TestGuardPanic(t *testing.T) {
	t.Parallel()
	m := newPatient(t, func(context.Context, *mcp.Call) (mcp.Answer, error) { panic("boom") })
	g := NewGuard(m, Resilience{}, GuardOptions{})
	for range 5 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is gone")
				}
			}()
			_, _ = g.Call(t.Context(), callOf("fast"))
		}()
	}
	if got := g.Breakers()[0].State; got != BreakerOpen {
		t.Errorf("%v", got)
	}
}
