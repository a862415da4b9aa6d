package upstream

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testport"
	"github.com/toolgate/toolgate/internal/testwait"
)

// A server that is killed and restarted is connected again within a second of its return,
// without a call.
func TestStateRestarts(t *testing.T) {
	t.Parallel()
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, era)
			r := run(t, f.spec())
			r.state(mcp.Ready)
			for round := range 4 {
				method := http.MethodGet
				if era == mcp.Modern {
					method = mcp.MethodListen
				}
				testwait.Until(t, patience, "the background stream", func() bool { return len(f.requests(method)) > round })
				f.kill()
				reason := r.state(mcp.Reconnecting)
				if len(r.tools()) != 1 {
					t.Fatalf("its listing is gone while it is %s", reason)
				}
				failure := r.fails(tool("echo", `{}`))
				if failure.Kind != mcp.FailUnavailable || !strings.Contains(failure.Reason, "srv") {
					t.Errorf("failure = %+v", failure)
				}
				f.start()
				back := time.Now()
				r.state(mcp.Ready)
				if took := time.Since(back); took > 5*time.Second { // one, and a busy machine
					t.Errorf("round %d: ready after %v", round, took)
				}
				r.call(tool("echo", `{}`))
			}
		})
	}
}

// The states of a server that cannot be used, each with its reason.
func TestStateUnusable(t *testing.T) {
	t.Parallel()
	nowhere := "http://user:pw@" + testport.Address(t) + "/mcp?key=secret"
	known := func(o *Options) {
		o.Known = &mcp.Listing{Era: mcp.Modern, FetchedAt: time.Now(), Items: map[mcp.Kind][]mcp.Item{
			mcp.Tool: {{Key: "known", Raw: []byte(`{"name":"known"}`)}},
		}}
	}
	tests := []struct {
		name   string
		spec   Spec
		option func(*Options)
		state  mcp.State
		kind   mcp.FailureKind
		says   string
		tools  []string
	}{
		{"off", Spec{URL: nowhere, Off: true}, nil, mcp.Disabled, mcp.FailDisabled, "switched off", nil},
		{"refused", Spec{URL: nowhere, Refused: "the variable TOKEN is not set"}, nil, mcp.Failed, mcp.FailDisabled, "the variable TOKEN is not set", nil},
		{"nobody there", Spec{URL: nowhere}, nil, mcp.Failed, mcp.FailUnavailable, "nothing listens at ", nil},
		{"nobody there, but known", Spec{URL: nowhere}, known, mcp.Stale, mcp.FailUnavailable, "nothing listens at ", []string{"known"}},
		{"no URL", Spec{URL: "ftp://user:pw@x.example/?key=secret"}, nil, mcp.Failed, mcp.FailUnavailable, `"ftp://x.example/" is none of http or https`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var options []func(*Options)
			if tt.option != nil {
				options = append(options, tt.option)
			}
			r := run(t, tt.spec, options...)
			reason := r.state(tt.state)
			failure := r.fails(tool("echo", `{}`))
			if !strings.Contains(reason, tt.says) || failure.Kind != tt.kind || failure.Delivered {
				t.Errorf("reason %q, failure %+v; want %s with %q", reason, failure, tt.kind, tt.says)
			}
			if text := reason + failure.Reason + failure.Err.Error(); strings.Contains(text, "secret") || strings.Contains(text, "pw") {
				t.Errorf("a secret in %q", text)
			}
			if diff := cmp.Diff(tt.tools, r.tools()); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			if err := r.Probe(t.Context()); err == nil {
				t.Error("Probe of a dead server is well")
			}
		})
	}
}

func TestStateNeedsLogin(t *testing.T) {
	t.Parallel()
	for status, says := range map[int]string{
		401: "wants a credential that it was not given (HTTP 401)",
		403: "refuses the configured credential (HTTP 403)",
	} {
		refuse := func(x *exchange) {
			x.w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="https://evil.example/x"`)
			x.status(status, "application/json", jsonFault("", -32001, "challenge of evil.example"))
		}
		for _, at := range []string{mcp.MethodDiscover, mcp.MethodToolsList} {
			t.Run(at+" "+says, func(t *testing.T) {
				t.Parallel()
				f := newFake(t, mcp.Modern)
				f.handle(at, refuse)
				r := run(t, f.spec())
				if reason := r.state(mcp.NeedsLogin); !strings.Contains(reason, says) || strings.Contains(reason, "evil") {
					t.Errorf("reason = %s", reason)
				}
				failure := r.fails(tool("echo", `{}`))
				if failure.Kind != mcp.FailLogin || failure.Delivered || strings.Contains(failure.Reason, "evil") {
					t.Errorf("failure = %+v", failure)
				}
			})
		}
		t.Run("later "+says, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, mcp.Modern)
			r := run(t, f.spec())
			r.state(mcp.Ready)
			f.handle(mcp.MethodToolsCall, refuse)
			if failure := r.fails(tool("echo", `{}`)); failure.Kind != mcp.FailLogin || strings.Contains(failure.Reason, "evil") {
				t.Errorf("failure = %+v", failure)
			}
			// The lists are read again and are allowed: it was this call only.
			testwait.Until(t, patience, "another look at the lists", func() bool { return len(f.requests(mcp.MethodToolsList)) > 1 })
			if _, status := r.Listing(); status.State != mcp.Ready {
				t.Errorf("state = %v", status.State)
			}
			f.handle(mcp.MethodToolsList, refuse)
			_ = r.fails(tool("echo", `{}`))
			if reason := r.state(mcp.NeedsLogin); !strings.Contains(reason, says) || len(r.tools()) != 1 {
				t.Errorf("reason = %s, tools %v", reason, r.tools())
			}
		})
	}
}

// A forgotten session is renewed once for all calls together, and each call runs its tool
// exactly once.
func TestStateSessionLost(t *testing.T) {
	t.Parallel()
	lost := map[string]func(*exchange){
		"404":           func(x *exchange) { x.status(404, "text/plain", "no such session") },
		"404 with JSON": func(x *exchange) { x.fault(404, -32001, "Session not found") },
		"400": func(x *exchange) {
			x.status(400, "application/json", `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`)
		},
		"400 with text": func(x *exchange) { x.status(400, "text/plain", "Invalid or missing session ID") },
	}
	for name, forget := range lost {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, mcp.Legacy)
			ran := make(map[string]int)
			f.handle(mcp.MethodToolsCall, func(x *exchange) {
				x.mu.Lock()
				known := x.sessions[x.r.Header.Get(mcp.HeaderSession)]
				if known {
					ran[string(mcp.Lookup(x.msg.Params(), "arguments"))]++
				}
				x.mu.Unlock()
				if !known {
					forget(x)
					return
				}
				x.echo()
			})
			r := run(t, f.spec())
			r.state(mcp.Ready)
			f.forget()
			var all sync.WaitGroup
			for _, arguments := range []string{`{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`} {
				all.Go(func() {
					answer, err := r.Call(within(t), tool("echo", arguments))
					if err != nil || !strings.Contains(string(answer.Result), arguments) {
						t.Errorf("call %s = %s, %v", arguments, answer.Result, err)
					}
				})
			}
			all.Wait()
			f.mu.Lock()
			defer f.mu.Unlock()
			if diff := cmp.Diff(map[string]int{`{"n":1}`: 1, `{"n":2}`: 1, `{"n":3}`: 1, `{"n":4}`: 1}, ran); diff != "" {
				t.Errorf("runs (-want +got):\n%s", diff)
			}
			if f.made != 2 {
				t.Errorf("%d sessions were made, want 2", f.made)
			}
		})
	}
	t.Run("again at once", func(t *testing.T) {
		t.Parallel()
		f := newFake(t, mcp.Legacy)
		f.handle(mcp.MethodToolsCall, func(x *exchange) { x.status(404, "", "") })
		r := run(t, f.spec())
		r.state(mcp.Ready)
		failure := r.fails(tool("echo", `{}`))
		if failure.Delivered || !strings.Contains(cause(failure), "does not know the session") {
			t.Errorf("failure = %+v", failure)
		}
		if n := len(f.requests(mcp.MethodToolsCall)); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
	})
	t.Run("a 400 of the one request", func(t *testing.T) {
		t.Parallel()
		for body, kind := range map[string]string{"no": "text/plain", `{"jsonrpc":"2.0","error":{"code":-32000,"message":"no"},"id":null}`: "application/json"} {
			f := newFake(t, mcp.Legacy)
			f.handle(mcp.MethodToolsCall, func(x *exchange) { x.status(400, kind, body) })
			r := run(t, f.spec())
			r.state(mcp.Ready)
			answer, err := r.Call(t.Context(), tool("echo", `{}`))
			failure, failed := errors.AsType[*mcp.Failure](err)
			if failed != (kind == "text/plain") || failed && (!failure.Delivered || failure.Renewed || failure.Status != 400) || !failed && answer.Fault.Message != "no" {
				t.Errorf("call = %+v, %+v", answer, failure)
			}
			if n := len(f.requests(mcp.MethodToolsCall)); n != 1 || f.made != 1 {
				t.Errorf("%d requests with %d sessions, want 1 of each", n, f.made)
			}
		}
	})
	t.Run("a 400 about the request is an answer", func(t *testing.T) {
		t.Parallel()
		f := newFake(t, mcp.Legacy)
		f.handle(mcp.MethodToolsCall, func(x *exchange) { x.fault(400, -32602, "bad arguments") })
		r := run(t, f.spec())
		r.state(mcp.Ready)
		answer, err := r.Call(t.Context(), tool("echo", `{}`))
		if err != nil || answer.Fault == nil || answer.Fault.Message != "bad arguments" || f.made != 1 {
			t.Errorf("call = %+v, %v, with %d sessions", answer, err, f.made)
		}
	})
	t.Run("HTTP+SSE", func(t *testing.T) {
		t.Parallel()
		f := newFake(t, mcp.Legacy)
		f.oldSSE(nil)
		sound := f.on[mcp.MethodToolsCall]
		var calls atomic.Int64
		f.handle(mcp.MethodToolsCall, func(x *exchange) {
			if calls.Add(1) == 1 {
				x.status(404, "text/plain", "Could not find session")
				return
			}
			sound(x)
		})
		spec := f.spec()
		spec.Transport = SSE
		r := run(t, spec)
		r.state(mcp.Ready)
		r.call(tool("old", `{}`))
		if n := len(f.requests(http.MethodGet)); n != 2 || calls.Load() != 2 {
			t.Errorf("%d streams, %d requests", n, calls.Load())
		}
	})
}

// A server that loses every session at once is not asked in a tight loop.
func TestStateSessionLostForEver(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	f.handle(mcp.MethodToolsList, func(x *exchange) { x.status(404, "", "") })
	r := run(t, f.spec())
	testwait.Until(t, patience, "a few sessions", func() bool { return len(f.requests(mcp.MethodInitialize)) >= 3 })
	<-time.After(500 * time.Millisecond)
	if n := len(f.requests(mcp.MethodInitialize)); n > 20 {
		t.Errorf("%d sessions within half a second", n)
	}
	if _, status := r.Listing(); !strings.Contains(status.Reason, "does not know the session") {
		t.Errorf("status = %+v", status)
	}
}

// A missing standalone stream is no error, whatever the refusal looks like.
func TestStateWithoutStandaloneStream(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 401, 403, 404, 405, 406, 501} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, mcp.Legacy)
			f.handle(http.MethodGet, func(x *exchange) { x.status(status, "", "") })
			r := run(t, f.spec())
			r.state(mcp.Ready)
			r.call(tool("echo", `{}`))
			<-time.After(150 * time.Millisecond)
			if _, got := r.Listing(); got.State != mcp.Ready || len(f.requests(mcp.MethodInitialize)) != 1 {
				t.Errorf("state = %v (%s), %d sessions", got.State, got.Reason, len(f.requests(mcp.MethodInitialize)))
			}
		})
	}
}

// A call to a server that is still starting waits for it.
func TestStateStartingWaits(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Modern)
	release, asked := make(chan struct{}), make(chan struct{}, 10)
	f.handle(mcp.MethodDiscover, func(x *exchange) {
		asked <- struct{}{}
		x.holdUntil(release)
		x.result(discoverResult)
	})
	r := run(t, f.spec())
	receives(t, "the probe", asked)
	ended := make(chan error, 1)
	go func() {
		_, err := r.Call(within(t), tool("echo", `{}`))
		ended <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := r.Call(ctx, tool("echo", `{}`)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("call = %v", err)
	}
	select {
	case err := <-ended:
		t.Fatalf("the call did not wait: %v", err)
	default:
	}
	close(release)
	if err := receives(t, "the call", ended); err != nil {
		t.Errorf("call = %v", err)
	}
}

// The end of Run ends everything at once: calls that wait for the start, calls
// in flight, streams.
func TestStateEnd(t *testing.T) {
	t.Parallel()
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		t.Run("in flight, "+era.String(), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, era)
			began := make(chan struct{}, 2)
			f.handle(mcp.MethodToolsCall, func(x *exchange) {
				began <- struct{}{}
				x.progress(1)
				x.hold()
			})
			r := run(t, f.spec())
			r.state(mcp.Ready)
			ended := make(chan error, 2)
			for _, principal := range []string{"me", "bob"} {
				go func() {
					call := tool("echo", `{}`)
					call.Principal = principal
					_, err := r.Call(context.WithoutCancel(t.Context()), call)
					ended <- err
				}()
			}
			receives(t, "a call", began)
			receives(t, "a call", began)
			r.end()
			for range 2 {
				err := receives(t, "the end of a call", ended)
				var failure *mcp.Failure
				if !errors.As(err, &failure) || failure.Kind != mcp.FailUnavailable || !failure.Delivered {
					t.Errorf("call = %v", err)
				}
			}
			if failure := r.fails(tool("echo", `{}`)); failure.Delivered {
				t.Errorf("failure after the end = %+v", failure)
			}
		})
	}
	t.Run("starting", func(t *testing.T) {
		t.Parallel()
		f := newFake(t, mcp.Modern)
		asked := make(chan struct{}, 10)
		f.handle(mcp.MethodDiscover, func(x *exchange) { asked <- struct{}{}; x.hold() })
		r := run(t, f.spec())
		receives(t, "the probe", asked)
		ended := make(chan error, 1)
		go func() {
			_, err := r.Call(context.WithoutCancel(t.Context()), tool("echo", `{}`))
			ended <- err
		}()
		began := time.Now()
		r.end()
		if err := receives(t, "the call", ended); err == nil || time.Since(began) > 10*time.Second {
			t.Errorf("call = %v after %v", err, time.Since(began))
		}
	})
	t.Run("acknowledging", func(t *testing.T) {
		t.Parallel()
		f := newFake(t, mcp.Modern)
		asked := make(chan struct{}, 10)
		f.handle(mcp.MethodListen, func(x *exchange) { asked <- struct{}{}; x.open(); x.hold() })
		r := run(t, f.spec())
		receives(t, "the subscription", asked)
		began := time.Now()
		r.end()
		if took := time.Since(began); took > ackTime/2 {
			t.Errorf("the end took %v", took)
		}
	})
}

// A status that stays the same is not reported again and again.
func TestStateReportsChanges(t *testing.T) {
	t.Parallel()
	r := run(t, Spec{URL: "http://" + testport.Address(t)})
	r.state(mcp.Failed)
	testwait.Until(t, patience, "a report", func() bool { return r.sink.changes() > 0 })
	<-time.After(500 * time.Millisecond)
	if n := r.sink.changes(); n != 1 {
		t.Errorf("%d reports of one state", n)
	}
	if n := r.log.count("not connected"); n != 1 {
		t.Errorf("%d log lines of one state", n)
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Modern)
	began, release := make(chan struct{}), make(chan struct{})
	f.handle(mcp.MethodToolsCall, func(x *exchange) {
		close(began)
		x.holdUntil(release)
		x.echo()
	})
	r := run(t, f.spec())
	r.state(mcp.Ready)
	r.Drain(within(t)) // nothing in flight
	ended := make(chan error, 1)
	go func() {
		_, err := r.Call(within(t), tool("echo", `{}`))
		ended <- err
	}()
	receives(t, "the call", began)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	r.Drain(ctx)
	if ctx.Err() == nil {
		t.Error("Drain does not wait for a call in flight")
	}
	drained := make(chan struct{})
	go func() { defer close(drained); r.Drain(within(t)) }()
	close(release)
	receives(t, "the end of Drain", drained)
	if err := receives(t, "the call", ended); err != nil {
		t.Errorf("call = %v", err)
	}
}
