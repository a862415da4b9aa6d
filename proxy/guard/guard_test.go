package guard

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

var errBoom = errors.New("boom")

// patient is a backend whose responses and liveness the test chooses.
type patient struct {
	reply  func(context.Context, *mcp.Call) (mcp.Answer, error)
	dead   atomic.Bool // does not answer probes
	probes atomic.Int64

	mu     sync.Mutex
	status mcp.Status
	calls  int
}

func (m *patient) Name() string { return "srv" }

func (m *patient) Probe(context.Context) error {
	m.probes.Add(1)
	if m.dead.Load() {
		return errBoom
	}
	return nil
}

func (m *patient) Listing() (*mcp.Listing, mcp.Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var tools []mcp.Item
	for _, raw := range []string{
		`{"name":"slow","inputSchema":{"type":"object"}}`, `{"name":"fast","inputSchema":{"type":"object"}}`,
		`{"name":"hinted","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`,
	} {
		item, err := mcp.ParseItem(mcp.Tool, []byte(raw))
		if err != nil {
			panic(err)
		}
		tools = append(tools, item)
	}
	return &mcp.Listing{Era: mcp.Modern, Items: map[mcp.Kind][]mcp.Item{mcp.Tool: tools}}, m.status
}

func (m *patient) Call(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
	m.mu.Lock()
	m.calls++
	m.mu.Unlock()
	if m.reply == nil {
		return result(mcp.Modern, `{}`), nil
	}
	return m.reply(ctx, call)
}

// made returns how many requests it got.
func (m *patient) made() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

func newPatient(_ testing.TB, reply func(context.Context, *mcp.Call) (mcp.Answer, error)) *patient {
	return &patient{reply: reply, status: mcp.Status{State: mcp.Ready}}
}

func result(era mcp.Era, raw string) mcp.Answer { return mcp.Answer{Result: []byte(raw), Era: era} }

func fault(era mcp.Era, raw string) mcp.Answer {
	return mcp.Answer{Fault: mcp.ParseError([]byte(raw)), Era: era}
}

// trip opens the breaker of a guard.
func trip(g *Guard) {
	for g.Breakers()[0].State != Open {
		tryAll(g.whole, 1, failed)
	}
}

// runGuarded runs a guard around a backend for as long as f. It must be in a bubble.
func runGuarded(t *testing.T, m *patient, set Settings, f func(*Guard)) {
	t.Helper()
	g := New(m, set, Options{})
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

// kindOf returns the kind of a call's refusal or failure, empty for a response.
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

// How the guard treats backends that misbehave in every way: 40 calls, one each second.
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
		dead  bool // it does not answer probes either
		// opens means that its breaker opened; made is how many requests it may have
		// got.
		opens       bool
		least, most int
		state       State // in the end
	}{
		{"all is well", fine, false, false, calls, calls, Closed},
		{"slow, and it succeeds", after(30*time.Second, fine), false, false, calls, calls, Closed},
		{"it hangs", after(5*time.Second, always(silence)), true, true, 5, 12, Open},
		{"it drips and never ends", after(5*time.Second, always(silence)), true, true, 5, 12, Open},
		{"it resets every call", always(crash), true, true, 5, 9, Open},
		{"it crashes at every call, and starts again", always(crash), false, true, 12, calls, Open},
		{"500", always(broken5), true, true, 5, 9, Open},
		{"HTML", always(mcp.Failure{Kind: mcp.FailProtocol, Origin: mcp.OriginServer, Server: "srv", Delivered: true}), true, true, 5, 9, Open},
		{"HTML with 404", always(mcp.Failure{Kind: mcp.FailProtocol, Origin: mcp.OriginHop, Server: "srv", Delivered: true, Status: 404}), false, false, calls, calls, Closed},
		{"every second call fails", half(always(broken5)), true, true, 20, 35, Closed},
		{"every second call is an internal error", half(func(int) (mcp.Answer, error) { return fault(mcp.Modern, `{"code":-32603,"message":"x"}`), nil }), true, true, 20, 35, Closed},
		{"every call is an internal error", func(int) (mcp.Answer, error) { return fault(mcp.Modern, `{"code":-32603,"message":"x"}`), nil }, true, true, 5, 9, Open},
		{"every call is an error of the tool", func(int) (mcp.Answer, error) { return result(mcp.Modern, `{"isError":true}`), nil }, true, false, calls, calls, Closed},
		{"every call has invalid arguments", func(int) (mcp.Answer, error) { return fault(mcp.Modern, `{"code":-32602,"message":"x"}`), nil }, true, false, calls, calls, Closed},
		{"the connection is lost", always(absent), true, false, calls, 2 * calls, Closed},
		{"429 with Retry-After: 1", always(busy(time.Second)), true, false, calls, 2 * calls, Closed},
		{"429 with Retry-After: 30", always(busy(30 * time.Second)), true, false, 2, 2, Closed},
		{"429 with Retry-After: 0", always(busy(0)), true, false, calls, 2 * calls, Closed},
		{"429 with a day", always(busy(24 * time.Hour)), true, false, 1, 1, Closed},
		{"no credential", always(mcp.Failure{Kind: mcp.FailLogin, Origin: mcp.OriginHop, Server: "srv", Status: 401}), true, false, calls, calls, Closed},
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
				runGuarded(t, m, Settings{}, func(g *Guard) {
					for range calls {
						_, _ = g.Call(t.Context(), callOf("fast"))
						time.Sleep(time.Second)
					}
					got := g.Breakers()[0]
					// Whether a breaker that is not closed is open or half-open at this
					// moment is chance.
					if (got.Opens > 0) != tt.opens || (got.State == Closed) != (tt.state == Closed) || n < tt.least || n > tt.most {
						t.Errorf("opened %d times, in the end %v, %d requests; want opened: %v, %v, %d to %d requests",
							got.Opens, got.State, n, tt.opens, tt.state, tt.least, tt.most)
					}
				})
			})
		})
	}
}

// An open breaker refuses at once, with a reason and a time, and the server is probed.
// The first success allows a call at once, and when that succeeds all calls pass.
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
		runGuarded(t, m, Settings{}, func(g *Guard) {
			for range 5 {
				if got := kindOf(g.Call(t.Context(), callOf("fast"))); got != "upstream_unavailable" {
					t.Fatalf("a call: %q", got)
				}
			}
			began, sent := time.Now(), m.made()
			_, err := g.Call(t.Context(), callOf("fast"))
			refused, ok := errors.AsType[*refusal.Error](err)
			if !ok || refused.Kind != "breaker_open" || refused.RetryAfter != 10*time.Second || refused.Code != refusal.CodeBreaker ||
				refused.Text != "The server srv keeps failing and is not called for now; try again in 10 seconds, or go on without it." {
				t.Fatalf("%#v", err)
			}
			if failure, ok := errors.AsType[*mcp.Failure](err); !ok || failure.Delivered {
				t.Error("whether it was delivered is not told")
			}
			if time.Since(began) != 0 || m.made() != sent {
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
			if got := g.Breakers()[0].State; got != HalfOpen {
				t.Fatalf("with a sign of life: %v", got)
			}
			probes := m.probes.Load()
			if got := kindOf(g.Call(t.Context(), callOf("fast"))); got != "" {
				t.Fatalf("the trial: %q", got)
			}
			if got := g.Breakers()[0]; got.State != Closed || got.Opens != 1 || got.Why != "gone" {
				t.Errorf("after it: %+v", got)
			}
			time.Sleep(time.Minute)
			if m.probes.Load() != probes {
				t.Error("a closed breaker asks for signs of life")
			}
		})
	})
}

// A backend that answers probes but fails calls is probed and called less and less
// often.
func TestGuardFlaps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		began := time.Now()
		m := newPatient(t, func(context.Context, *mcp.Call) (mcp.Answer, error) {
			at = append(at, time.Since(began))
			return failWith(crash)
		})
		runGuarded(t, m, Settings{}, func(g *Guard) {
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

// A slow tool does not open the breaker of a server that answers otherwise; its own
// breaker opens if it has one.
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
				set := Settings{}
				if own {
					set.Tools = map[string]Tool{"slow": {Breaker: &Breaker{Failures: 3, Open: time.Minute}}}
				}
				runGuarded(t, m, set, func(g *Guard) {
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
					if all2[0].State != Closed || all2[0].Opens != 0 {
						t.Errorf("the server's: %+v", all2[0])
					}
					if own && (len(all2) != 2 || all2[1].Tool != "slow" || all2[1].State != Open) {
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
		runGuarded(t, m, Settings{}, func(g *Guard) {
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
		g := New(m, Settings{Tools: map[string]Tool{"slow": {Breaker: &Breaker{}}}}, Options{
			Changed: func(backend, tool string, s State) {
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
		if !g.Reset("slow") || g.Breakers()[1].State != Closed || g.Breakers()[0].State != Open {
			t.Errorf("after the reset of the tool: %+v", g.Breakers())
		}
		if !g.Reset("") || g.Breakers()[0].State != Closed {
			t.Errorf("after the reset of all: %+v", g.Breakers())
		}
		for range 5 {
			_, _ = g.Call(t.Context(), callOf("slow"))
		}
		g.Configure(Settings{}) // the tool has none any more
		if got := g.Breakers(); len(got) != 1 || got[0].State != Open {
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

// A backend that is back is probed at once.
func TestGuardHearsOfReturn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newPatient(t, nil)
		m.dead.Store(true)
		runGuarded(t, m, Settings{}, func(g *Guard) {
			trip(g)
			time.Sleep(9*time.Second + 100*time.Millisecond)
			m.dead.Store(false)
			m.mu.Lock()
			m.status.State = mcp.Reconnecting
			m.mu.Unlock()
			g.Changed()
			synctest.Wait()
			if got := g.Breakers()[0].State; got != Open {
				t.Fatalf("while it is away: %v", got)
			}
			m.mu.Lock()
			m.status.State = mcp.Ready
			m.mu.Unlock()
			g.Changed()
			synctest.Wait()
			if got := g.Breakers()[0].State; got != HalfOpen {
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

// A refusal by the breaker of a tool is no trial of the server's breaker.
func TestGuardTrialBehindToolBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newPatient(t, nil)
		m.dead.Store(true)
		g := New(m, Settings{Tools: map[string]Tool{"slow": {Breaker: &Breaker{}}}}, Options{})
		trip(g)
		g.whole.endOpenTime()
		tryAll(g.tools["slow"], 5, failed)
		if got := kindOf(g.Call(t.Context(), callOf("slow"))); got != "breaker_open" {
			t.Fatalf("%q", got)
		}
		if got := kindOf(g.Call(t.Context(), callOf("fast"))); got != "" {
			t.Errorf("the trial: %q", got)
		}
	})
}

// A guard that replaces another continues with its state.
func TestGuardInherits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newPatient(t, func(context.Context, *mcp.Call) (mcp.Answer, error) { return failWith(crash) })
		m.dead.Store(true)
		set := Settings{Tools: map[string]Tool{"slow": {Breaker: &Breaker{Failures: 3, Open: time.Minute}}}}
		before := New(m, set, Options{})
		for range 3 {
			_, _ = before.Call(t.Context(), callOf("slow"))
		}
		before.postpone(capability{mcp.Tool, "fast"}, time.Minute)
		trip(before)
		time.Sleep(time.Second)
		runGuarded(t, m, set, func(g *Guard) {
			g.Inherit(before)
			if got, want := fmt.Sprint(g.Breakers()), fmt.Sprint(before.Breakers()); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if got := g.postponedFor(capability{mcp.Tool, "fast"}, time.Now()); got != 59*time.Second {
				t.Errorf("left alone for %v", got)
			}
			m.dead.Store(false)
			time.Sleep(livenessMost)
			if got := g.Breakers()[0].State; got != HalfOpen {
				t.Errorf("a sign of life: %v", got)
			}
		})
	})
}

// A backend that panics has failed, and its trial is not lost.
func TestGuardPanic(t *testing.T) {
	t.Parallel()
	m := newPatient(t, func(context.Context, *mcp.Call) (mcp.Answer, error) { panic("boom") })
	g := New(m, Settings{}, Options{})
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
	if got := g.Breakers()[0].State; got != Open {
		t.Errorf("%v", got)
	}
}

// A hint of another gateway is followed where a probe of this one fails, too.
func TestGuardHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newPatient(t, nil)
		g := New(m, Settings{}, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = g.Run(ctx) }()
		state := func() State {
			synctest.Wait()
			return g.Breakers()[0].State
		}
		g.Hint()
		if s := state(); s != Closed || m.probes.Load() != 1 {
			t.Errorf("%s after %d probes of a server that answers", s, m.probes.Load())
		}
		m.dead.Store(true)
		g.Hint()
		if s := state(); s != Open || !strings.Contains(g.Breakers()[0].Why, "another gateway") {
			t.Errorf("%s, %+v, of a server that does not answer", s, g.Breakers())
		}
		m.dead.Store(false)
		time.Sleep(livenessMost)
		if s := state(); s != HalfOpen {
			t.Errorf("%s once the server answers again", s)
		}
		off := New(m, Settings{Breaker: Breaker{Off: true}}, Options{})
		go func() { _ = off.Run(ctx) }()
		m.dead.Store(true)
		off.Hint()
		synctest.Wait()
		if s := off.Breakers()[0].State; s != Closed {
			t.Errorf("a breaker that is off: %s", s)
		}
		cancel()
	})
}
