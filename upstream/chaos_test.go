package upstream

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// everyCallEnds wants the calls of one worker to end with an answer or a
// failure, in time.
func everyCallEnds(t *testing.T, r *running, calls []*mcp.Call) {
	for _, call := range calls {
		began := time.Now()
		_, err := r.Call(within(t), call)
		if failure, ok := errors.AsType[*mcp.Failure](err); err != nil && !ok {
			t.Errorf("%s of %s = %v (%T) after %v", call.Method, call.Principal, err, failure, time.Since(began))
		}
	}
}

// Processes of several principals die, lie and close their streams while others call them.
// Every call ends, and in the end everyone is served.
func TestChaosProcesses(t *testing.T) {
	t.Parallel()
	spec := childServer("hostile", mcp.Legacy)
	spec.Limits.Conns, spec.Limits.Line, spec.Limits.Events = 3, 1<<20, 10
	spec.Timeouts.Call = 2 * time.Second
	r := run(t, spec)
	r.state(mcp.Degraded)
	tools := []string{"echo", "echo", "crash", "exit", "garbage", "half", "over", "no JSON", "flood", "ask", "echo"}
	random := rand.New(rand.NewPCG(1, 2))
	var all sync.WaitGroup
	for n := range 8 {
		principal := fmt.Sprintf("p-%d", n%4)
		var calls []*mcp.Call
		for range 12 {
			call := tool(tools[random.IntN(len(tools))], `{}`)
			call.Principal, call.Progress, call.Notify = principal, true, func(string, []byte) {}
			if random.IntN(3) == 0 {
				call = watchBy(principal, "file:///a")
			}
			calls = append(calls, call)
		}
		all.Go(func() { everyCallEnds(t, r, calls) })
	}
	all.Wait()
	for n := range 4 {
		testwait.Until(t, patience, "an answer for everyone", func() bool {
			_, err := r.Call(within(t), by(fmt.Sprintf("p-%d", n), ""))
			return err == nil
		})
	}
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	for key, sl := range r.pool.slots {
		if sl.waiting != 0 || sl.ready() && sl.conn.calls.Load() < 0 {
			t.Errorf("the place of %v counts %d callers and %d calls", key, sl.waiting, sl.conn.calls.Load())
		}
	}
}

// The same over HTTP, where the server is killed, restarted and forgets its
// sessions meanwhile.
func TestChaosHTTP(t *testing.T) {
	t.Parallel()
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		for _, isolation := range []Isolation{IsolateAuto, IsolateSession} {
			t.Run(era.String()+" "+string(isolation), func(t *testing.T) {
				t.Parallel()
				f := newFake(t, era)
				f.handle("cut", func(x *exchange) { x.cut() })
				spec := f.spec()
				spec.Isolation = isolation
				spec.Limits.Conns = 4
				r := run(t, spec)
				r.state(mcp.Ready)
				var all sync.WaitGroup
				for n := range 8 {
					var calls []*mcp.Call
					for i := range 30 {
						call := by(fmt.Sprintf("p-%d", n%3), fmt.Sprint(n))
						switch (n + i) % 7 {
						case 1:
							call.Method = mcp.MethodSubscribe
							call.Params = []byte(`{"uri":"file:///a"}`)
						case 2:
							call.Method = mcp.MethodUnsubscribe
							call.Params = []byte(`{"uri":"file:///a"}`)
						case 3:
							call.Method = "cut"
						}
						calls = append(calls, call)
					}
					all.Go(func() { everyCallEnds(t, r, calls) })
				}
				for range 3 {
					f.forget()
					r.EndSession("p-1", "1")
					f.kill()
					f.start()
				}
				all.Wait()
				for n := range 3 {
					testwait.Until(t, patience, "an answer for everyone", func() bool {
						_, err := r.Call(within(t), by(fmt.Sprintf("p-%d", n), fmt.Sprint(n)))
						return err == nil
					})
				}
				r.end()
				if n := r.pool.inFlight(); n != 0 {
					t.Errorf("%d calls in flight after the end", n)
				}
			})
		}
	}
}
