package proxy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// examining is an argument checker that returns what a test wants, and records its
// calls.
type examining struct {
	mu      sync.Mutex
	demands []gate.Demand
	err     error
	args    []string
}

func (e *examining) CheckArguments(_ context.Context, c PendingCall) ([]gate.Demand, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.args = append(e.args, string(c.Args))
	return e.demands, e.err
}

func (e *examining) say(err error, demands ...gate.Demand) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.demands, e.err = demands, err
}

// A task that the gateway follows is decided on while it runs. When the rules, the mode
// or the gate change their decision, or demand an approval, it is cancelled at its
// server and the call is refused. While the gate cannot decide, nothing is delivered,
// and the task goes on.
func TestDrivenTaskIsDecidedOnAgain(t *testing.T) {
	for _, c := range callers() {
		for name, tt := range map[string]struct {
			err     error
			demands []gate.Demand
			gate    gate.Decision
			broken  bool
			want    string
		}{
			"forbidden":     {err: refusal.Governed("the mode forbids it"), want: "the mode forbids it"},
			"to be asked":   {demands: []gate.Demand{{Reason: "it is dangerous now"}}, want: `"kind":"approval_needed"`},
			"denied":        {gate: gate.Decision{Reason: "no more"}, want: `"kind":"denied"`},
			"not decidable": {broken: true},
		} {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newWorker(t, c.era, working)
					checker := &examining{}
					var mu sync.Mutex
					var seen []string
					say := gate.Decision{Effect: gate.Allow}
					var failing error
					r := newRig(t, mounted(b.script), func(_ *Options, config *Config) {
						config.Arguments = checker
						config.Chain = gate.NewChain(rule(func(_ context.Context, q *gate.Request) (gate.Decision, error) {
							mu.Lock()
							defer mu.Unlock()
							if q.Action == gate.Call {
								seen = append(seen, string(q.Args))
								return say, failing
							}
							return gate.Decision{Effect: gate.Allow}, nil
						}))
					}).run()
					req := c.method(r)
					body := strings.Replace(readBody(t, req), `"name":"s__only"`, `"name":"s__only","arguments":{"a":1}`, 1)
					w, _ := r.begin(withBody(req, body))
					time.Sleep(5 * time.Second)
					if w.ended() {
						t.Fatalf("answered %s", w.text())
					}
					checker.say(tt.err, tt.demands...)
					mu.Lock()
					if tt.gate.Reason != "" {
						say = tt.gate
					}
					if tt.broken {
						failing = context.DeadlineExceeded
					}
					mu.Unlock()
					time.Sleep(5 * time.Second)
					synctest.Wait()
					mu.Lock()
					for _, args := range seen {
						if args != `{"a":1}` {
							t.Errorf("the gate was asked about %q", args)
						}
					}
					mu.Unlock()
					if tt.broken {
						if w.ended() || len(b.seen(mcp.MethodTaskCancel)) != 0 {
							t.Errorf("ended with %s", w.text())
						}
						mu.Lock()
						failing = nil
						mu.Unlock()
						checker.say(refusal.Governed("enough"))
						time.Sleep(5 * time.Second)
						return
					}
					if !w.ended() || !strings.Contains(w.text(), tt.want) || len(b.seen(mcp.MethodTaskCancel)) != 1 {
						t.Errorf("answered %t %s, cancelled %d times", w.ended(), w.text(), len(b.seen(mcp.MethodTaskCancel)))
					}
					if args := checker.args; args[len(args)-1] != `{"a":1}` {
						t.Errorf("the rules were asked about %q", args)
					}
				})
			})
		}
	}
}

// A task that its client follows is refused while it needs an approval that its call
// did not have. It can be cancelled.
func TestTaskNeedsAnotherApproval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWorker(t, mcp.Modern, completed)
		checker := &examining{}
		r := newRig(t, mounted(b.script), func(_ *Options, config *Config) { config.Arguments = checker }).run()
		id := taskID(t, r.tasked("1", "tools/call", `"name":"s__job"`))
		if got := r.tasked("2", "tasks/get", ofTask(id)).text(); !strings.Contains(got, `"completed"`) {
			t.Fatalf("at first: %s", got)
		}
		checker.say(nil, gate.Demand{By: []string{"security"}})
		if got := r.tasked("3", "tasks/get", ofTask(id)).text(); !strings.Contains(got, "The approval that this task needs has changed") {
			t.Errorf("then: %s", got)
		}
		if got := r.tasked("4", "tasks/cancel", ofTask(id)).text(); strings.Contains(got, "approval") || len(b.seen(mcp.MethodTaskCancel)) != 1 {
			t.Errorf("cancelled: %s", got)
		}
		checker.say(nil)
		if got := r.tasked("5", "tasks/get", ofTask(id)).text(); !strings.Contains(got, `"completed"`) {
			t.Errorf("at last: %s", got)
		}
	})
}

// The approvals are stored with the task.
func TestTaskRefKeepsItsApprovals(t *testing.T) {
	t.Parallel()
	for _, by := range []approvals{nil, {nil}, {{"security"}, {}}} {
		ref := taskRef{server: "s", tool: "t", conn: "c", id: "i", approved: by}
		got := decodeTaskRef(ref.encode())
		for _, demands := range [][]gate.Demand{{{}}, {{By: []string{"security"}}}, {{By: []string{}}}, nil} {
			if got.approved.covers(demands) != by.covers(demands) {
				t.Errorf("%v became %v", by, got.approved)
			}
		}
	}
}

// Tasks that run at a server are cancelled there.
func TestCancelTasks(t *testing.T) {
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newWorker(t, era, working)
				r := newRig(t, mounted(b.script)).run()
				if era == mcp.Modern {
					taskID(t, r.tasked("1", "tools/call", `"name":"s__job"`))
				} else {
					c := r.stdio(person("alice"))
					c.send(initBody, request("1", "tools/call", `{"name":"s__job","task":{}}`))
					synctest.Wait()
					if got := c.out.drain(); !strings.Contains(got, `"taskId"`) {
						t.Fatalf("made %s", got)
					}
				}
				if n := r.CancelTasks(t.Context(), cancelledBy("s__only")); n != 0 || len(b.seen(mcp.MethodTaskCancel)) != 0 {
					t.Errorf("%d tasks of another tool", n)
				}
				if n := r.CancelTasks(t.Context(), cancelledBy("s__job")); n != 1 {
					t.Errorf("%d tasks, want 1", n)
				}
				cancels := b.seen(mcp.MethodTaskCancel)
				if len(cancels) != 1 {
					t.Fatalf("%d reached the server", len(cancels))
				}
				if id, _ := mcp.LookupString(cancels[0].Params, "taskId"); id != "own 1" || cancels[0].Principal == "" {
					t.Errorf("the server was sent %s for %q", cancels[0].Params, cancels[0].Principal)
				}
				if era == mcp.Modern && !knowTasks(cancels[0].Capabilities) {
					t.Errorf("capabilities %s", cancels[0].Capabilities)
				}
			})
		})
	}
}

// So is a task of a tool that only clients without client features see.
func TestCancelTasksListedWithoutClientFeatures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWorker(t, mcp.Legacy, working)
		b.offerBoth(t, legacyTasks, []string{tool("job")}, []string{`tool {"name":"fallback","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`})
		r := newRig(t, mounted(b.script)).run()
		c := r.stdio(person("alice"))
		c.send(strings.Replace(initBody, `{"sampling":{},"elicitation":{},"roots":{}}`, `{}`, 1), request("1", "tools/call", `{"name":"s__fallback","task":{}}`))
		synctest.Wait()
		if got := c.out.drain(); !strings.Contains(got, `"taskId"`) {
			t.Fatalf("made %s", got)
		}
		if n := r.CancelTasks(t.Context(), cancelledBy("s__fallback")); n != 1 || len(b.seen(mcp.MethodTaskCancel)) != 1 {
			t.Errorf("%d tasks, want 1; %d reached the server", n, len(b.seen(mcp.MethodTaskCancel)))
		}
	})
}

// readBody returns the body of a request that was not sent yet.
func readBody(t *testing.T, r *http.Request) string {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// withBody replaces the body of a request.
func withBody(r *http.Request, body string) *http.Request {
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	return r
}

// A request about a task says nothing about the arguments of the call that created it,
// whatever it says: the gate is not shown them.
func TestTaskRequestsHaveNoArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWorker(t, mcp.Modern, working)
		var mu sync.Mutex
		strict := false
		r := newRig(t, mounted(b.script), func(_ *Options, config *Config) {
			config.Chain = gate.NewChain(rule(func(_ context.Context, q *gate.Request) (gate.Decision, error) {
				mu.Lock()
				defer mu.Unlock()
				if strict && q.Action == gate.Call && string(q.Args) != `{"db":"public"}` {
					return gate.Decision{Effect: gate.Deny, Reason: "only the public database"}, nil
				}
				return gate.Decision{Effect: gate.Allow}, nil
			}))
		}).run()
		id := taskID(t, r.tasked("1", "tools/call", `"name":"s__job","arguments":{"db":"secret"}`))
		mu.Lock()
		strict = true
		mu.Unlock()
		for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/update"} {
			got := r.tasked("2", method, ofTask(id)+`,"arguments":{"db":"public"},"inputResponses":{}`).text()
			if !strings.Contains(got, "only the public database") {
				t.Errorf("%s: %s", method, got)
			}
		}
		if n := len(b.seen(mcp.MethodTaskGet)) + len(b.seen(mcp.MethodTaskCancel)) + len(b.seen(mcp.MethodTaskUpdate)); n != 0 {
			t.Errorf("%d requests reached the server", n)
		}
		if got := r.tasked("3", "tools/call", `"name":"s__job","arguments":{"db":"public"}`); taskID(t, got) == "" {
			t.Errorf("a call with these arguments: %s", got.text())
		}
	})
}

// A state that a server takes long to tell is not passed on if the mode has changed
// meanwhile: it may be the last one, with the result.
func TestPolledStateIsDecidedOnAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWorker(t, mcp.Modern, working)
		checker := &examining{}
		r := newRig(t, mounted(b.script), func(_ *Options, config *Config) { config.Arguments = checker }).run()
		id := taskID(t, r.tasked("1", "tools/call", `"name":"s__job"`))
		var restricts atomic.Bool
		restricts.Store(true)
		b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
			if call.Method == mcp.MethodTaskGet {
				if restricts.Load() { // while the server works on it
					checker.say(refusal.Governed("the mode forbids it"))
				}
				return answered(mcp.Modern, `{"taskId":"own 1",`+completed+`}`), nil
			}
			return b.serve(ctx, call)
		}
		w, leave := r.listenFor(id)
		defer leave()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := w.text(); strings.Contains(got, "completed") || !strings.Contains(got, "acknowledged") {
			t.Errorf("told %s", got)
		}
		restricts.Store(false)
		checker.say(nil)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := w.text(); !strings.Contains(got, "completed") {
			t.Errorf("told %s, want the result once the mode is over", got)
		}
	})
}

// A task is listed as the gate decides when its server has answered, not as it did when
// the request came.
func TestTaskListAsksTheNewestGate(t *testing.T) {
	b := newWorker(t, mcp.Legacy, working)
	var r *rig
	reload := func() {}
	b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
		if call.Method == mcp.MethodTaskList {
			reload()
		}
		return b.serve(ctx, call)
	}
	var config Config
	r = newRig(t, mounted(b.script), func(_ *Options, c *Config) { config = *c })
	session := r.open()
	id := r.makeTask(session)
	if got := r.legacy(session, "1", "tasks/list", "").text(); !strings.Contains(got, id) {
		t.Fatalf("listed %s", got)
	}
	reload = func() {
		config.Chain = gate.NewChain(rule(func(context.Context, *gate.Request) (gate.Decision, error) {
			return gate.Decision{Effect: gate.Deny, Reason: "hidden"}, nil
		}))
		r.Apply(config)
	}
	if got := r.legacy(session, "2", "tasks/list", "").text(); strings.Contains(got, id) || !strings.Contains(got, `"tasks":[]`) {
		t.Errorf("listed %s after the tool was hidden", got)
	}
}

// A request for a list of tasks counts as one of a list.
func TestTaskListIsCounted(t *testing.T) {
	r := newRig(t, mounted(newWorker(t, mcp.Legacy, working).script), bounded(limit.Rates{Lists: 1}))
	session := r.open()
	if got := r.legacy(session, "1", "tasks/list", "").text(); !strings.Contains(got, `"tasks":[]`) {
		t.Errorf("the first: %s", got)
	}
	if got := r.legacy(session, "2", "tasks/list", "").text(); !strings.Contains(got, "limits.lists_per_minute") {
		t.Errorf("one too many: %s", got)
	}
}
