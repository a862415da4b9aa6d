package proxy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/budgettest"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/result"
)

// counting is a backend whose results have a number each, and a rig with it that reuses
// the results of its tool read for a minute.
func counting(t testing.TB, era mcp.Era, changes ...func(*Options, *Config)) (*script, *rig) {
	t.Helper()
	b := newScript(t, "s", era, tool("read"), tool("write"), `resource {"uri":"file:///a","name":"a"}`)
	var n atomic.Int32
	b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
		return answered(era, fmt.Sprintf(`{"content":[{"type":"text","text":"answer %d"}]}`, n.Add(1))), nil
	}
	r := newRig(t, mounted(b), append([]func(*Options, *Config){func(_ *Options, c *Config) {
		c.Mounts[0].Tools = map[string]ToolShape{"read": {Reuse: time.Minute}}
		c.Reusable = func(r *gate.Request, _ []byte) (string, bool) { return "NORMAL", r.Original == "read" }
	}}, changes...)...)
	return b, r
}

// reads makes a call and returns the number of its answer, and whether it was reused.
func (r *rig) reads(who, name, arguments string, headers ...string) (text string, reused bool) {
	r.t.Helper()
	w := r.modern("1", mcp.MethodToolsCall, `"name":"`+name+`","arguments":`+arguments, append([]string{"Authorization", "Bearer " + who}, headers...)...)
	_, after, _ := strings.Cut(w.text(), `"answer `)
	text, _, _ = strings.Cut(after, `"`)
	return text, strings.Contains(w.text(), ReuseKey)
}

func TestResultIsReused(t *testing.T) {
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		synctest.Test(t, func(t *testing.T) {
			b, r := counting(t, era)
			want := func(who, name, arguments, text string, reused bool) {
				t.Helper()
				if got, again := r.reads(who, name, arguments); got != text || again != reused {
					t.Errorf("%s, %s of %s with %s: answer %q, reused %v; want %q, %v", era, name, who, arguments, got, again, text, reused)
				}
			}
			want("alice", "s__read", `{"x":1,"y":"é"}`, "1", false)
			time.Sleep(30 * time.Second)
			want("alice", "s__read", `{ "y":"\u00e9", "x":1 }`, "1", true) // the same arguments
			want("alice", "s__read", `{"x":2}`, "2", false)
			want("bob", "s__read", `{"x":2}`, "3", false)
			time.Sleep(30 * time.Second)
			want("alice", "s__read", `{"x":1,"y":"é"}`, "4", false) // it has expired
			want("bob", "s__read", `{"x":2}`, "3", true)
			if got := len(b.seen(mcp.MethodToolsCall)); got != 4 {
				t.Errorf("%d calls reached the server", got)
			}
			entries := r.ledger.all()
			if len(entries) != 6 {
				t.Fatalf("%d audit entries", len(entries))
			}
			for i, e := range entries {
				var hit string
				for _, s := range e.Steps {
					if s.Phase == "cache" && s.Verdict == "hit" {
						hit = s.Rule
					}
				}
				wantHit := map[int]string{1: "30000 ms old", 5: "30000 ms old"}[i]
				if hit != wantHit || e.Outcome != audit.OutcomeOK || (hit != "") != (e.UpstreamUS == 0 && hit != "") {
					t.Errorf("entry %d: hit %q, want %q: %+v", i, hit, wantHit, e)
				}
			}
		})
	}
}

// What says that two calls are not the same, or that a result may not be reused.
func TestResultIsNotReused(t *testing.T) {
	answer := func(text string) func(context.Context, *mcp.Call) (mcp.Answer, error) {
		return func(context.Context, *mcp.Call) (mcp.Answer, error) { return answered(mcp.Modern, text), nil }
	}
	mode := "NORMAL"
	tests := []struct {
		name    string
		change  func(*Options, *Config)
		reply   func(context.Context, *mcp.Call) (mcp.Answer, error)
		between func(b *script, r *rig)
		call    string // of the tool, if not s__read
		offer   string // of the server, if not that of counting
		headers []string
	}{
		{name: "a tool that is not read-only", change: func(_ *Options, c *Config) {
			c.Reusable = func(*gate.Request, []byte) (string, bool) { return "NORMAL", false }
		}},
		{name: "nobody knows what is read-only", change: func(_ *Options, c *Config) { c.Reusable = nil }},
		{name: "a tool without the setting", call: "s__write"},
		{name: "an error of the tool", reply: answer(`{"isError":true,"content":[]}`)},
		{name: "an error of the server", reply: func(context.Context, *mcp.Call) (mcp.Answer, error) {
			return fault(mcp.Modern, `{"code":-32603,"message":"no"}`), nil
		}},
		{name: "no answer", reply: func(context.Context, *mcp.Call) (mcp.Answer, error) {
			return mcp.Answer{}, &mcp.Failure{Kind: mcp.FailUnavailable, Origin: mcp.OriginServer, Server: "s", Reason: "Gone."}
		}},
		{name: "a question", reply: answer(`{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}}}`)},
		{name: "another mode", between: func(*script, *rig) { mode = "ALERT" }, change: func(_ *Options, c *Config) {
			c.Reusable = func(*gate.Request, []byte) (string, bool) { return mode, true }
		}},
		{name: "another definition", between: func(b *script, r *rig) {
			b.offer(t, mcp.Modern, everything, `tool {"name":"read","description":"changed","inputSchema":{"type":"object"}}`)
			r.publisher.rebuild(t.Context())
		}},
		{name: "another configuration", between: func(_ *script, r *rig) { r.Apply(*r.config.Load()) }},
		{name: "the gate decides otherwise", between: func(_ *script, r *rig) { r.Decided() }},
		{name: "a call that may change something", between: func(_ *script, r *rig) { r.reads("bob", "s__write", `{}`) }},
		{name: "another credential at the server", between: func(_ *script, r *rig) { r.CredentialChanged("s") }},
		{name: "a result that does not match its schema", change: func(_ *Options, c *Config) {
			c.Mounts[0].Results.Output = result.OutputEnforce
			c.Outputs = refusing{}
		}, offer: `tool {"name":"read","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}`},
		{name: "a header of its own", headers: []string{"Mcp-Param-Region", "eu"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var changes []func(*Options, *Config)
			if tt.change != nil {
				changes = append(changes, tt.change)
			}
			b, r := counting(t, mcp.Modern, changes...)
			if tt.reply != nil {
				b.reply = tt.reply
			}
			if tt.offer != "" {
				b.offer(t, mcp.Modern, everything, tt.offer)
				r.publisher.rebuild(t.Context())
			}
			name := tt.call
			if name == "" {
				name = "s__read"
			}
			r.reads("alice", name, `{"x":1}`, tt.headers...)
			if tt.between != nil {
				tt.between(b, r)
			}
			if _, reused := r.reads("alice", name, `{"x":1}`, tt.headers...); reused {
				t.Error("the result was reused")
			}
			calls := 0
			for _, call := range b.seen(mcp.MethodToolsCall) {
				if "s__"+call.Key == name {
					calls++
				}
			}
			if calls != 2 {
				t.Errorf("%d of 2 calls reached the server", calls)
			}
		})
	}
}

// refusing is a checker to which no result fits.
type refusing struct{}

func (refusing) CheckOutput(_, _ []byte) ([]string, error) { return []string{"it does not fit"}, nil }
func (refusing) Ready([]byte) error                        { return nil }

// Whoever waits for the result of an equal call is decided on again: access that is
// withdrawn meanwhile gives no result, and sends no call.
func TestWaitingCallIsDecidedAgain(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			b, r := counting(t, mcp.Modern, func(_ *Options, c *Config) {
				c.Chain = gate.NewChain(rule(func(context.Context, *gate.Request) (gate.Decision, error) {
					if time.Since(began) > 10*time.Second {
						return gate.Decision{Effect: gate.Deny, Reason: "withdrawn"}, nil
					}
					return gate.Decision{Effect: gate.Allow}, nil
				}))
			})
			b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
				time.Sleep(30 * time.Second)
				return answered(mcp.Modern, fmt.Sprintf(`{"isError":%v,"content":[{"type":"text","text":"answer 1"}]}`, fails)), nil
			}
			first, _ := r.begin(modernRequest(modernBody("1", mcp.MethodToolsCall, `"name":"s__read","arguments":{}`, "")))
			synctest.Wait()
			if text, _ := r.reads("alice", "s__read", `{}`); text != "" {
				t.Errorf("the call that waited is answered with %q", text)
			}
			<-first.done
			if got := len(b.seen(mcp.MethodToolsCall)); got != 1 {
				t.Errorf("%d calls reached the server", got)
			}
		})
	}
}

// A call that waits for the result of another one spends no time at the server.
func TestWaitingCallSpendsNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := counting(t, mcp.Modern)
		answer := b.reply
		b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
			time.Sleep(500 * time.Millisecond)
			return answer(ctx, call)
		}
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { r.reads("alice", "s__read", `{}`) })
		}
		all.Wait()
		var spent []int64
		for _, e := range r.ledger.all() {
			spent = append(spent, e.UpstreamUS)
		}
		if slices.Sort(spent); !slices.Equal(spent, []int64{0, 500_000}) {
			t.Errorf("microseconds at the server: %v", spent)
		}
	})
}

// A call with a trace is the same as one without.
func TestTracedCallIsTheSame(t *testing.T) {
	_, r := counting(t, mcp.Modern)
	r.reads("alice", "s__read", `{}`)
	body := modernBody("1", mcp.MethodToolsCall, `"name":"s__read","arguments":{}`, `"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"`)
	if text := r.do(modernRequest(body)).text(); !strings.Contains(text, ReuseKey) {
		t.Errorf("not reused: %s", text)
	}
}

// A decision under other rules is another decision: a hit needs the same revision.
func TestReuseNeedsTheSameDecision(t *testing.T) {
	revision, allow := "1", gate.Allow
	b, r := counting(t, mcp.Modern, func(_ *Options, c *Config) {
		c.Chain = gate.NewChain(rule(func(context.Context, *gate.Request) (gate.Decision, error) {
			return gate.Decision{Effect: allow, Reason: "no", Revision: revision}, nil
		}))
	})
	r.reads("alice", "s__read", `{}`)
	if _, reused := r.reads("alice", "s__read", `{}`); !reused {
		t.Error("not reused under the same rules")
	}
	revision = "2"
	if _, reused := r.reads("alice", "s__read", `{}`); reused {
		t.Error("reused under other rules")
	}
	allow = gate.Deny
	if text, reused := r.reads("alice", "s__read", `{}`); reused || text != "" {
		t.Error("a denied call was answered")
	}
	if got := len(b.seen(mcp.MethodToolsCall)); got != 2 {
		t.Errorf("%d calls reached the server", got)
	}
}

// A reused result is charged as the call that it answers.
func TestReusedResultIsCharged(t *testing.T) {
	store := &budgettest.Memory{}
	b, r := counting(t, mcp.Modern, func(_ *Options, c *Config) {
		c.Limiter = limited(t, store, budget.Rule{Name: "calls", Per: budget.PerSubject, Unit: budget.Calls, Limit: 2, Window: budget.Month})
	})
	for range 3 {
		r.reads("alice", "s__read", `{}`)
	}
	wantUsed(t, store, map[string]int64{"calls": 2})
	if e := r.ledger.all()[2]; e.Outcome != audit.OutcomeDenied {
		t.Errorf("the third call: %+v", e)
	}
	if got := len(b.seen(mcp.MethodToolsCall)); got != 1 {
		t.Errorf("%d calls reached the server", got)
	}
}

// Equal calls at the same time reach the server once; a failed one leaves each of the
// others to itself.
func TestEqualCallsAtOnce(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b, r := counting(t, mcp.Modern)
			answer := b.reply
			var first atomic.Bool
			b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
				time.Sleep(time.Second)
				if fails && first.CompareAndSwap(false, true) {
					return fault(mcp.Modern, `{"code":-32603,"message":"no"}`), nil
				}
				return answer(ctx, call)
			}
			var all sync.WaitGroup
			var reused atomic.Int32
			for range 10 {
				all.Go(func() {
					if _, again := r.reads("alice", "s__read", `{}`); again {
						reused.Add(1)
					}
				})
			}
			all.Wait()
			wantCalls, wantReused := 1, int32(9)
			if fails {
				wantCalls, wantReused = 10, 0
			}
			if got := len(b.seen(mcp.MethodToolsCall)); got != wantCalls || reused.Load() != wantReused {
				t.Errorf("first one fails: %v: %d calls reached the server, %d were reused; want %d and %d", fails, got, reused.Load(), wantCalls, wantReused)
			}
		})
	}
}

// A cancelled call ends, though it waits for the result of another one.
func TestWaitForEqualCallIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := counting(t, mcp.Modern)
		answer := b.reply
		b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
			time.Sleep(time.Minute)
			return answer(ctx, call)
		}
		body := modernBody("1", mcp.MethodToolsCall, `"name":"s__read","arguments":{}`, "")
		first, _ := r.begin(modernRequest(body))
		synctest.Wait()
		second, cancel := r.begin(modernRequest(body))
		synctest.Wait()
		began := time.Now()
		cancel()
		<-second.done
		if took := time.Since(began); took > time.Second {
			t.Errorf("the cancelled call took %v", took)
		}
		<-first.done
		if !strings.Contains(first.text(), "answer 1") {
			t.Errorf("the first call: %s", first.text())
		}
	})
}

// forgetful is an auditor that keeps nothing.
type forgetful struct{}

func (forgetful) Begin(*audit.Entry) error  { return nil }
func (forgetful) End(*audit.Entry) error    { return nil }
func (forgetful) Append(*audit.Entry) error { return nil }
func (forgetful) Healthy() error            { return nil }

// What an answer costs that asks no server: a refusal, and a reused result.
func BenchmarkReuse(b *testing.B) {
	for _, what := range []string{"refusal", "hit"} {
		b.Run(what, func(b *testing.B) {
			allow := gate.Allow
			_, r := counting(b, mcp.Modern, func(o *Options, c *Config) {
				o.Auditor = forgetful{} // that of the other tests keeps and searches every entry
				c.Chain = gate.NewChain(rule(func(_ context.Context, q *gate.Request) (gate.Decision, error) {
					if q.Action == gate.Call {
						return gate.Decision{Effect: allow, Reason: "no"}, nil
					}
					return gate.Decision{Effect: gate.Allow}, nil
				}))
			})
			body := modernBody("1", mcp.MethodToolsCall, `"name":"s__read","arguments":{"query":"`+strings.Repeat("x", 100)+`"}`, "")
			r.do(modernRequest(body)) // whose result is reused
			want := ReuseKey
			if what == "refusal" {
				allow, want = gate.Deny, `"kind":"denied"`
			}
			for b.Loop() {
				if text := r.do(modernRequest(body)).text(); !strings.Contains(text, want) {
					b.Fatal(text)
				}
			}
		})
	}
}

// The audit entry says what became of the cache, however many decisions there are; a call
// whose decisions are more than are recorded is not reused.
func TestReuseOfManyDecisions(t *testing.T) {
	for phases, hit := range map[int]string{1: "hit", 8: "hit", 14: "skip", 30: "skip"} {
		synctest.Test(t, func(t *testing.T) {
			_, r := counting(t, mcp.Modern, func(_ *Options, c *Config) {
				chain := make([]gate.Phase, phases)
				for i := range chain {
					chain[i] = rule(func(context.Context, *gate.Request) (gate.Decision, error) {
						return gate.Decision{Effect: gate.Abstain}, nil
					})
				}
				c.Chain = gate.NewChain(append(chain, rule(func(context.Context, *gate.Request) (gate.Decision, error) {
					return gate.Decision{Effect: gate.Allow}, nil
				}))...)
			})
			for range 2 {
				r.reads("alice", "s__read", `{}`)
			}
			e := r.ledger.all()[1]
			last := e.Steps[len(e.Steps)-1]
			if last.Phase != "cache" || last.Verdict != hit || len(e.Steps) > maxSteps+1 {
				t.Errorf("%d phases: %d steps, the last one %+v", phases, len(e.Steps), last)
			}
		})
	}
}
