package guard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// Retry-After is respected: a short one by a later retry, a longer one by refusing the
// same calls, up to a limit.
func TestGuardRetryAfter(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]struct {
		held   time.Duration // of the next call
		pauses int
	}{
		0: {0, 2}, time.Second: {0, 2}, 2 * time.Second: {0, 2},
		30 * time.Second: {30 * time.Second, 0}, time.Hour: {maxRetryAfter, 0},
	} {
		t.Run(after.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var at []time.Time
				m := newPatient(t, func(_ context.Context, call *mcp.Call) (mcp.Answer, error) {
					if call.Key != "slow" {
						return result(mcp.Modern, `{}`), nil
					}
					at = append(at, time.Now())
					return failWith(mcp.Failure{Kind: mcp.FailBusy, Origin: mcp.OriginHop, Server: "srv", Status: 429, RetryAfter: after, Reason: "later"})
				})
				runGuarded(t, m, Settings{}, func(g *Guard) {
					if got := kindOf(g.Call(t.Context(), callOf("slow"))); got != "upstream_busy" {
						t.Fatalf("%q", got)
					}
					if len(at) != 1+want.pauses {
						t.Fatalf("%d requests", len(at))
					}
					for i := 1; i < len(at); i++ {
						if pause := at[i].Sub(at[i-1]); pause < max(after, retryMinPause) || pause > retryMaxPause {
							t.Errorf("pause %v", pause)
						}
					}
					err := g.peek(capability{mcp.Tool, "slow"})
					refused, is := errors.AsType[*refusal.Error](err)
					if is != (want.held > 0) || is && (refused.RetryAfter != want.held || refused.Kind != "upstream_busy") {
						t.Fatalf("held: %#v", err)
					}
					if got := kindOf(g.Call(t.Context(), callOf("fast"))); got != "" {
						t.Errorf("what was not asked about: %q", got)
					}
					if is {
						time.Sleep(want.held)
						if err := g.peek(capability{mcp.Tool, "slow"}); err != nil {
							t.Errorf("afterwards: %v", err)
						}
					}
				})
			})
		})
	}
}

// What was never delivered is retried, a bounded number of times. What was delivered is
// retried only if that is safe, and nothing of which the client has seen anything.
func TestGuardRetries(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	trusted := func(idempotent *bool) Settings {
		return Settings{Tools: map[string]Tool{"fast": {Idempotent: idempotent}}}
	}
	tests := []struct {
		name  string
		set   Settings
		call  func(*mcp.Call)
		fails []mcp.Failure // one after the other; then it answers
		want  string        // kind of the end
		made  int
	}{
		{"not delivered", Settings{}, nil, []mcp.Failure{absent, absent}, "", 3},
		{"not delivered, once too often", Settings{}, nil, []mcp.Failure{absent, absent, absent}, "upstream_unavailable", 3},
		{"as often as is said", Settings{Retry: Retry{Max: new(4)}}, nil, []mcp.Failure{absent, absent, absent, absent}, "", 5},
		{"never", Settings{Retry: Retry{Max: new(0)}}, nil, []mcp.Failure{absent}, "upstream_unavailable", 1},
		{"delivered", Settings{}, nil, []mcp.Failure{crash}, "upstream_unavailable", 1},
		{"delivered, of a tool that may run twice", trusted(&yes), nil, []mcp.Failure{crash, broken5}, "", 3},
		{"delivered, of a tool that may not", trusted(&no), nil, []mcp.Failure{crash}, "upstream_unavailable", 1},
		{"delivered, of a tool with hints that nobody trusts", Settings{}, func(c *mcp.Call) { c.Key = "hinted" }, []mcp.Failure{crash}, "upstream_unavailable", 1},
		{"delivered, of a tool with trusted hints", Settings{Retry: Retry{TrustHints: true}}, func(c *mcp.Call) { c.Key = "hinted" }, []mcp.Failure{crash}, "", 2},
		{"delivered, of a tool without hints", Settings{Retry: Retry{TrustHints: true}}, nil, []mcp.Failure{crash}, "upstream_unavailable", 1},
		{
			"delivered, of a prompt",
			Settings{Retry: Retry{TrustHints: true}},
			func(c *mcp.Call) { c.Method, c.Kind = mcp.MethodPromptsGet, mcp.Prompt },
			[]mcp.Failure{crash},
			"upstream_unavailable", 1,
		},
		{"silence", trusted(&yes), nil, []mcp.Failure{silence}, "upstream_timeout", 1},
		{"no credential", Settings{}, nil, []mcp.Failure{{Kind: mcp.FailLogin, Origin: mcp.OriginHop, Server: "srv"}}, "needs_login", 1},
		{"its own connection gone", Settings{}, nil, []mcp.Failure{{Kind: mcp.FailGone, Origin: mcp.OriginHop, Server: "srv"}}, "upstream_gone", 1},
		{"an answer too large", trusted(&yes), nil, []mcp.Failure{{Kind: mcp.FailTooLarge, Origin: mcp.OriginServer, Server: "srv", Delivered: true}}, "upstream_too_large", 1},
		{"HTML, of a tool that may run twice", trusted(&yes), nil, []mcp.Failure{{Kind: mcp.FailProtocol, Origin: mcp.OriginServer, Server: "srv", Delivered: true}}, "upstream_error", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				made := 0
				m := newPatient(t, func(context.Context, *mcp.Call) (mcp.Answer, error) {
					if made++; made <= len(tt.fails) {
						return failWith(tt.fails[made-1])
					}
					return result(mcp.Modern, `{}`), nil
				})
				call := callOf("fast")
				if tt.call != nil {
					tt.call(call)
				}
				runGuarded(t, m, tt.set, func(g *Guard) {
					began := time.Now()
					if got := kindOf(g.Call(t.Context(), call)); got != tt.want || made != tt.made {
						t.Errorf("%q after %d requests, want %q after %d", got, made, tt.want, tt.made)
					}
					if took, least := time.Since(began), time.Duration(made-1)*retryMinPause; took < least || took > time.Duration(made-1)*retryMaxPause {
						t.Errorf("took %v", took)
					}
				})
			})
		})
	}
}

// Nothing is retried once the client has seen something of it, after its own deadline,
// when it is cancelled, or when the server has been down for long.
func TestGuardNoRetry(t *testing.T) {
	t.Parallel()
	yes := true
	set := Settings{Tools: map[string]Tool{"fast": {Idempotent: &yes}}}
	run := func(t *testing.T, call *mcp.Call, reply func(context.Context, *mcp.Call) (mcp.Answer, error), change func(*patient), ctx func() context.Context) (string, int) {
		t.Helper()
		made, kind := 0, ""
		m := newPatient(t, func(ctx context.Context, c *mcp.Call) (mcp.Answer, error) {
			made++
			return reply(ctx, c)
		})
		if change != nil {
			change(m)
		}
		runGuarded(t, m, set, func(g *Guard) { kind = kindOf(g.Call(ctx(), call)) })
		return kind, made
	}
	t.Run("progress", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			heard := 0
			call := callOf("fast")
			call.Notify = func(string, []byte) { heard++ }
			kind, made := run(t, call, func(_ context.Context, c *mcp.Call) (mcp.Answer, error) {
				c.Notify(mcp.NotifyProgress, nil)
				return failWith(crash)
			}, nil, t.Context)
			if kind != "upstream_unavailable" || made != 1 || heard != 1 {
				t.Errorf("%q, %d requests, heard %d times", kind, made, heard)
			}
		})
	})
	for _, before := range []int64{0, 3} { // of an earlier round
		t.Run(fmt.Sprintf("progress that its caller counts, after %d", before), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				call := callOf("fast")
				call.Heard = new(atomic.Int64)
				call.Heard.Store(before)
				call.Notify = func(string, []byte) { call.Heard.Add(1) }
				var got []*mcp.Call
				kind, made := run(t, call, func(_ context.Context, c *mcp.Call) (mcp.Answer, error) {
					if got = append(got, c); len(got) == 2 {
						c.Notify(mcp.NotifyProgress, nil)
					}
					return failWith(crash)
				}, nil, t.Context)
				if kind != "upstream_unavailable" || made != 2 || got[0] != call {
					t.Errorf("%q, %d requests; the first is a copy: %v", kind, made, got[0] != call)
				}
			})
		})
	}
	t.Run("a question", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call := callOf("fast")
			call.Ask = func(_ context.Context, _ string, _ []byte, reply func([]byte, *mcp.Error)) { reply([]byte(`{}`), nil) }
			kind, made := run(t, call, func(ctx context.Context, c *mcp.Call) (mcp.Answer, error) {
				_, _ = c.AskAndWait(ctx, mcp.MethodElicit, nil)
				return failWith(crash)
			}, nil, t.Context)
			if kind != "upstream_unavailable" || made != 1 {
				t.Errorf("%q, %d requests", kind, made)
			}
		})
	})
	t.Run("its deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call := callOf("fast")
			call.Timeout = time.Second
			var left []time.Duration
			kind, made := run(t, call, func(_ context.Context, c *mcp.Call) (mcp.Answer, error) {
				left = append(left, c.Timeout)
				time.Sleep(400 * time.Millisecond)
				return failWith(crash)
			}, nil, t.Context)
			if kind != "upstream_unavailable" || made > 2 || left[0] != time.Second || made == 2 && left[1] > 500*time.Millisecond {
				t.Errorf("%q, %d requests with %v left", kind, made, left)
			}
		})
	})
	t.Run("cancelled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			kind, made := run(t, callOf("fast"), func(context.Context, *mcp.Call) (mcp.Answer, error) {
				time.AfterFunc(50*time.Millisecond, func() { cancel(context.Canceled) })
				return failWith(absent)
			}, nil, func() context.Context { return ctx })
			if kind != context.Canceled.Error() || made != 1 {
				t.Errorf("%q, %d requests", kind, made)
			}
		})
	})
	for state, want := range map[mcp.State]int{mcp.Ready: 3, mcp.Degraded: 3, mcp.Reconnecting: 1, mcp.Stale: 1, mcp.Failed: 1} {
		t.Run("away for long: "+state.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, made := run(t, callOf("fast"), func(context.Context, *mcp.Call) (mcp.Answer, error) { return failWith(absent) }, func(m *patient) {
					m.status = mcp.Status{State: state, Since: time.Now().Add(-reconnectWait)}
				}, t.Context)
				if made != want {
					t.Errorf("%d requests, want %d", made, want)
				}
			})
		})
	}
}

// Retries are a tenth of the calls, besides a few that were saved up.
func TestGuardRetryBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		made := 0
		m := newPatient(t, func(context.Context, *mcp.Call) (mcp.Answer, error) {
			made++
			return failWith(absent)
		})
		const calls = 1000
		runGuarded(t, m, Settings{}, func(g *Guard) {
			for range calls {
				_, _ = g.Call(t.Context(), callOf("fast"))
			}
		})
		if again := made - calls; again < calls/10 || again > calls/10+retryBurst {
			t.Errorf("%d repetitions of %d calls", again, calls)
		}
	})
}

// A call counts as delivered if its first attempt was, even if the last was not.
func TestGuardDelivered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		yes, made := true, 0
		m := newPatient(t, func(context.Context, *mcp.Call) (mcp.Answer, error) {
			if made++; made == 1 {
				return failWith(crash)
			}
			return failWith(absent)
		})
		runGuarded(t, m, Settings{Tools: map[string]Tool{"fast": {Idempotent: &yes}}}, func(g *Guard) {
			_, err := g.Call(t.Context(), callOf("fast"))
			failure, ok := errors.AsType[*mcp.Failure](err)
			if !ok || !failure.Delivered || made != 3 {
				t.Errorf("%#v after %d requests", err, made)
			}
		})
	})
}
