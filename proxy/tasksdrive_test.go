package proxy

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
)

// caller calls s__only as a client of some kind.
type caller struct {
	name   string
	era    mcp.Era // of the server
	method func(r *rig) *http.Request
}

// callers are the clients that do not support the tasks of a server of an era.
func callers() []caller {
	legacy := func(version mcp.Version, params string) func(r *rig) *http.Request {
		return func(r *rig) *http.Request {
			return httpRequest(http.MethodPost, "/mcp", request("1", "tools/call", params), "Mcp-Session-Id", r.openAt(version))
		}
	}
	modern := func(declared bool) func(r *rig) *http.Request {
		body := modernBody("1", "tools/call", `"name":"s__only","task":{}`, "")
		if declared {
			body = strings.Replace(body, `"io.modelcontextprotocol/clientCapabilities":{`, declaredTasks, 1)
		}
		return func(*rig) *http.Request { return modernRequest(body) }
	}
	out := []caller{
		{"modern", mcp.Legacy, modern(false)},
		{"modern that declares tasks", mcp.Legacy, modern(true)},
		{"2025-11-25 without a wish", mcp.Legacy, legacy(mcp.V20251125, `{"name":"s__only"}`)},
		{"2025-11-25 with a wish", mcp.Modern, legacy(mcp.V20251125, `{"name":"s__only","task":{}}`)},
	}
	for _, version := range []mcp.Version{mcp.V20241105, mcp.V20250618} {
		for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
			out = append(out, caller{string(version) + " at " + era.String(), era, legacy(version, `{"name":"s__only","task":{}}`)})
		}
	}
	return out
}

// Clients without tasks can call a tool that needs them: the call is made, charged and
// recorded once, and its result is the task's.
func TestDrivenTask(t *testing.T) {
	for _, c := range callers() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newWorker(t, c.era, working, `"status":"working","pollIntervalMs":1,"pollInterval":1`,
					`"status":"working","pollIntervalMs":1e9,"pollInterval":1e9`, `"status":"working"`, completed)
				var at []time.Duration
				began := time.Now()
				reply := b.reply
				b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
					if call.Method == mcp.MethodTaskGet {
						at = append(at, time.Since(began))
					}
					return reply(ctx, call)
				}
				r := noted(t, b.script, nil, nil).run()
				r.config.Load().Mounts[0].Concurrency = 1
				w, _ := r.begin(c.method(r))
				time.Sleep(20 * time.Second)
				if got := r.modern("5", "tools/call", `"name":"s__never"`); !strings.Contains(got.text(), `"content":[]`) {
					t.Errorf("beside it: %s", got.text())
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				want := `"content":[{"type":"resource_link","uri":"s+file:///a"}]`
				if c.era == mcp.Legacy {
					want = `"content":[]`
				}
				if strings.HasPrefix(c.name, "2024") && c.era == mcp.Modern {
					want = `[resource_link: URI s+file:///a]`
				}
				if !w.ended() || !strings.Contains(w.text(), want) || strings.Contains(w.text(), "status") || strings.Contains(w.text(), "related") {
					t.Errorf("answered %v %s, want %s", w.ended(), w.text(), want)
				}
				if want := []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 500 * time.Millisecond, 30500 * time.Millisecond, 31500 * time.Millisecond}; !slices.Equal(at, want) {
					t.Errorf("looked at %v, want %v", at, want)
				}
				if b.made != 1 || len(b.seen(mcp.MethodTaskCancel)) != 0 {
					t.Errorf("%d tasks made, %d cancelled", b.made, len(b.seen(mcp.MethodTaskCancel)))
				}
				own := 0
				for _, e := range r.ledgerOf().all() {
					if e.Name == "s__only" {
						own++
						if e.Outcome != audit.OutcomeOK {
							t.Errorf("entry %+v", e)
						}
					}
				}
				if own != 1 || strings.Count(strings.Join(r.steps(), ", "), "charge") != 2 {
					t.Errorf("%d entries, steps %v", own, r.steps())
				}
				if s := r.snapshot.Load().catalog.byServer["s"].permits; !free(s, 32) {
					t.Error("a place is taken")
				}
			})
		})
	}
}

// When the call of such a task ends early, the task is cancelled at its server: when
// the client cancels, the time is over, the gate finally refuses, or polls fail. An
// ended task is not.
func TestDrivenTaskThatEndsEarly(t *testing.T) {
	for _, c := range callers() {
		for _, tt := range []struct {
			name, state string
			lose        int
			cancel      bool
			deny        bool
			want        string
			cancels     int
		}{
			{name: "cancelled by the client", state: working, cancel: true, cancels: 1},
			{name: "does not end", state: working, want: `"kind":"upstream_timeout"`, cancels: 1},
			{name: "denied", state: completed, deny: true, want: `"kind":"denied"`, cancels: 1},
			{name: "lost", state: completed, lose: 9, want: `"kind":"upstream_unavailable"`, cancels: 1},
			{name: "lost for a while", state: completed, lose: maxPollFailures, want: `"content":[`},
			{name: "gone", state: "gone", want: `"message":"no such task"`},
			{name: "cancelled by the server", state: `"status":"cancelled"`, want: `"kind":"task_cancelled"`, cancels: 1},
			{name: "failed", state: `"status":"failed","error":{"code":-32603,"message":"broke","data":9007199254740993}`, want: `"error":{"code":-32603,"message":"broke","data":9007199254740993}`},
			{name: "completed with nothing", state: `"status":"completed"`, want: `"kind":"upstream_error"`, cancels: 1},
			{name: "failed with nothing", state: `"status":"failed"`, want: `"kind":"upstream_error"`, cancels: 1},
		} {
			legacyEnd := strings.Contains(tt.name, "nothing") || tt.name == "failed" || tt.name == "cancelled by the server"
			if c.era == mcp.Legacy && legacyEnd {
				continue // there the result says it
			}
			t.Run(c.name+"/"+tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newWorker(t, c.era, tt.state)
					b.lose = tt.lose
					if tt.state == "gone" {
						b.looks["own 1"] = -1
					}
					mounts := mounted(b.script)
					mounts[0].Hard = 10 * time.Second
					decided := 0
					r := newRig(t, mounts, func(_ *Options, config *Config) {
						config.Chain = gate.NewChain(rule(func(_ context.Context, r *gate.Request) (gate.Decision, error) {
							if r.Action == gate.Call {
								decided++
							}
							if tt.deny && r.Action == gate.Call && decided > 1 {
								return gate.Decision{Effect: gate.Deny, Reason: "no more"}, nil
							}
							return gate.Decision{Effect: gate.Allow}, nil
						}))
					}).run()
					req := c.method(r)
					w, leave := r.begin(req)
					time.Sleep(100 * time.Millisecond)
					if session := req.Header.Get("Mcp-Session-Id"); tt.cancel && session != "" {
						r.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "Mcp-Session-Id", session)
					} else if tt.cancel {
						leave()
					}
					time.Sleep(time.Minute)
					synctest.Wait()
					if !w.ended() || !strings.Contains(w.text(), tt.want) {
						t.Errorf("answered %v %s, want %s", w.ended(), w.text(), tt.want)
					}
					if n := len(b.seen(mcp.MethodTaskCancel)); n != tt.cancels {
						t.Errorf("cancelled %d times, want %d", n, tt.cancels)
					}
					if s := r.snapshot.Load().catalog.byServer["s"].permits; !free(s, 32) {
						t.Error("a place is taken")
					}
				})
			})
		}
	}
}

// The questions of such a task reach a legacy client as requests on the stream of its
// call, each once, after the gate.
func TestDrivenQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := func(keys ...string) string {
			var out []string
			for _, key := range keys {
				out = append(out, `"`+key+`":{"method":"elicitation/create","params":{"message":"`+key+`?","requestedSchema":{}}}`)
			}
			return `"status":"input_required","inputRequests":{` + strings.Join(out, ",") + `}`
		}
		b := newWorker(t, mcp.Modern, ask("a"), ask("a"), ask("b", "a"), working, completed)
		r := noted(t, b.script, nil, nil).run()
		c := r.stdio(person("alice"))
		c.send(initBody)
		synctest.Wait()
		c.out.drain()
		c.send(request("1", "tools/call", `{"name":"s__only"}`))
		for i, key := range []string{"a", "b"} {
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if got, want := c.out.drain(), fmt.Sprintf(`{"jsonrpc":"2.0","id":"toolgate-%d","method":"elicitation/create","params":{"message":"[s] %s?","requestedSchema":{}}}`, i+1, key)+"\n"; got != want {
				t.Errorf("asked %s, want %s", got, want)
			}
			c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"toolgate-%d","result":{"action":"accept","content":{"n":%d}}}`, i+1, i))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := c.out.drain(); !strings.Contains(got, `{"jsonrpc":"2.0","id":1,"result":{"content":[`) {
			t.Errorf("answered %s", got)
		}
		if want := []string{`{"a":{"action":"accept","content":{"n":0}}}`, `{"b":{"action":"accept","content":{"n":1}}}`}; !slices.Equal(b.answers, want) {
			t.Errorf("the server was told %s, want %s", b.answers, want)
		}
		if e := r.ledgerOf().all(); len(e) != 1 || e[0].Rounds != 2 {
			t.Errorf("entries %+v, want one with 2 rounds", e)
		}
	})
}

// A task of the extension that never stops asking is given up.
func TestDrivenTaskThatAsksWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var states []string
		for i := range 100 {
			states = append(states, fmt.Sprintf(`"status":"input_required","inputRequests":{"%d":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{}}}}`, i))
		}
		b := newWorker(t, mcp.Modern, states...)
		r := newRig(t, mounted(b.script)).run()
		c := r.stdio(person("alice"))
		c.send(initBody, request("1", "tools/call", `{"name":"s__only"}`))
		for i := range 2 * maxRounds {
			time.Sleep(15 * time.Second)
			synctest.Wait()
			c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"toolgate-%d","result":{"action":"decline"}}`, i+1))
		}
		synctest.Wait()
		if got := c.out.drain(); !strings.Contains(got, `"kind":"question_refused"`) || len(b.answers) != maxRounds || len(b.seen(mcp.MethodTaskCancel)) != 1 {
			t.Errorf("after %d answers: %s", len(b.answers), got)
		}
	})
}

// The questions of such a task of 2025-11-25 reach a modern client as input requests:
// the call is suspended with its task, and the retry brings the answer.
func TestTaskOfASuspendedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWorker(t, mcp.Legacy, working, `"status":"input_required"`)
		var told []string
		b.result = func(ctx context.Context, call *mcp.Call) error {
			answer, _ := call.AskAndWait(ctx, mcp.MethodElicit, []byte(`{"message":"who?","requestedSchema":{}}`))
			told = append(told, string(answer))
			return context.Cause(ctx)
		}
		r := noted(t, b.script, nil, nil).run()
		w := r.modern("1", "tools/call", `"name":"s__only"`)
		if got, want := inputs(w), `{"q1":{"method":"elicitation/create","params":{"message":"[s] who?","requestedSchema":{}}}}`; got != want {
			t.Fatalf("asked %s, want %s", w.text(), want)
		}
		time.Sleep(10 * time.Minute)
		got := r.retry(w, `"name":"s__only"`, `{"q1":{"action":"accept"}}`)
		if !strings.Contains(got.text(), `"resultType":"complete"`) || !strings.Contains(got.text(), `"content":[]`) || strings.Contains(got.text(), "related") {
			t.Errorf("answered %s", got.text())
		}
		if want := []string{`{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"own 1"}},"action":"accept"}`}; !slices.Equal(told, want) {
			t.Errorf("the server was told %s, want %s", told, want)
		}
		if b.made != 1 || len(r.ledgerOf().all()) != 1 {
			t.Errorf("%d tasks, %d entries", b.made, len(r.ledgerOf().all()))
		}
		// Without an answer the task is cancelled.
		r.modern("1", "tools/call", `"name":"s__only"`)
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := len(b.seen(mcp.MethodTaskCancel)); n != 1 {
			t.Errorf("an abandoned task was cancelled %d times", n)
		}
		open, _ := r.awaited()
		s := r.snapshot.Load().catalog.byServer["s"].permits
		if !free(s, 32) || open != 0 {
			t.Errorf("a place is taken, or some of %d calls are open", open)
		}
	})
}

// A tasks/result request that is lost is repeated while the task exists.
func TestLostTaskResult(t *testing.T) {
	for kind, want := range map[mcp.FailureKind]int{mcp.FailUnavailable: 1 + maxPollFailures, mcp.FailTimeout: 1 + maxPollFailures, mcp.FailTooLarge: 1} {
		synctest.Test(t, func(t *testing.T) {
			b := newWorker(t, mcp.Legacy, `"status":"completed"`)
			b.result = func(context.Context, *mcp.Call) error { return &mcp.Failure{Kind: kind, Server: "s", Delivered: true} }
			r := newRig(t, mounted(b.script)).run()
			w, _ := r.begin(httpRequest(http.MethodPost, "/mcp", request("1", "tools/call", `{"name":"s__only"}`), "Mcp-Session-Id", r.open()))
			time.Sleep(time.Minute)
			synctest.Wait()
			if n := len(b.seen(mcp.MethodTaskResult)); n != want || !strings.Contains(w.text(), `"kind":"`+string(kind)+`"`) {
				t.Errorf("%s: opened %d times, want %d: %s", kind, n, want, w.text())
			}
		})
	}
}

// A tool's own timeout bounds its task.
func TestDrivenTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mounts := mounted(newWorker(t, mcp.Legacy, working).script)
		mounts[0].Tools = map[string]ToolShape{"only": {Timeout: 3 * time.Second}}
		r := newRig(t, mounts).run()
		began := time.Now()
		got := r.legacy(r.open(), "1", "tools/call", `{"name":"s__only"}`)
		if took := time.Since(began); took != 3*time.Second || !strings.Contains(got.text(), "did not end within 3s") {
			t.Errorf("after %v: %s", took, got.text())
		}
	})
}

// A call may ask in rounds before it becomes a task, across eras too. A modern server
// that creates a task for a client without support is refused.
func TestDrivenAfterRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWorker(t, mcp.Modern, working, completed)
		b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
			got, err := b.serve(ctx, call)
			if taskOf(&got) != nil && mcp.Lookup(call.Params, "inputResponses") == nil {
				return answered(mcp.Modern, asks(`"q":{"method":"elicitation/create","params":{"message":"who?","requestedSchema":{}}}`, `"s"`)), nil
			}
			return got, err
		}
		r := newRig(t, mounted(b.script)).run()
		c := r.stdio(person("alice"))
		c.send(initBody)
		synctest.Wait()
		c.out.drain()
		c.send(request("1", "tools/call", `{"name":"s__only"}`))
		c.answered(`"result":{"action":"accept"}`)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := c.out.drain(); !strings.Contains(got, `{"jsonrpc":"2.0","id":1,"result":{"content":[`) {
			t.Errorf("answered %s", got)
		}
		if n := len(b.seen(mcp.MethodToolsCall)); n != 3 {
			t.Errorf("called %d times, want without tasks, with them, and with the answer", n)
		}
		b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
			return answered(mcp.Modern, `{"resultType":"task","taskId":"own 1","status":"working"}`), nil
		}
		c.send(request("2", "tools/call", `{"name":"s__job"}`))
		synctest.Wait()
		if got := c.out.drain(); !strings.Contains(got, `"kind":"upstream_error"`) || strings.Contains(got, "own 1") {
			t.Errorf("an unwanted task: %s", got)
		}
	})
}

// A legacy client that can be asked is served by the legacy side of a server of both eras,
// which may list in the modern one alone. A tool that runs only as a task is called as one
// then, whether or not the other era is known.
func TestDrivenTaskOfBothEras(t *testing.T) {
	for _, eras := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			modern, legacy := newWorker(t, mcp.Modern, working, completed), newWorker(t, mcp.Legacy, working, completed)
			modern.listing.Eras = eras
			modern.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
				if call.Era == mcp.Legacy {
					return legacy.serve(ctx, call)
				}
				return modern.serve(ctx, call)
			}
			r := newRig(t, mounted(modern.script)).run()
			for range 2 { // so that one session has called before
				w, _ := r.begin(httpRequest(http.MethodPost, "/mcp", request("1", "tools/call", `{"name":"s__only"}`), "Mcp-Session-Id", r.openAs(mcp.V20251125, `{"elicitation":{}}`)))
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := w.text(); !w.ended() || !strings.Contains(got, `"content":[]`) || strings.Contains(got, "not so") {
					t.Errorf("a server of %d known eras: %v %s", eras, w.ended(), got)
				}
			}
		})
	}
}

// A call that the legacy side of a server refuses is sent once, where its lists say that the
// tool does not run as a task.
func TestRefusedCallIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		modern, legacy := newWorker(t, mcp.Modern, working, completed), newWorker(t, mcp.Legacy, working, completed)
		modern.listing.Eras, modern.listing.Other = 2, legacy.listing
		modern.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
			return fault(mcp.Legacy, `{"code":-32601,"message":"not found, after it was done"}`), nil
		}
		r := newRig(t, mounted(modern.script)).run()
		w, _ := r.begin(httpRequest(http.MethodPost, "/mcp", request("1", "tools/call", `{"name":"s__never"}`), "Mcp-Session-Id", r.openAs(mcp.V20251125, `{"elicitation":{}}`)))
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(modern.seen(mcp.MethodToolsCall)); n != 1 || !strings.Contains(w.text(), "after it was done") {
			t.Errorf("sent %d times: %s", n, w.text())
		}
	})
}
