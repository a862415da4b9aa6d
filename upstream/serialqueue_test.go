package upstream

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// askableCall is a call of a client that can be asked.
func askableCall(name string, a *asker) *mcp.Call {
	call := tool(name, `{}`)
	call.Ask, call.Askable = answering(a.ask), true
	return call
}

// The first question of a server is not lost when several calls begin at once: an unknown
// tool runs alone, and after the question every call does.
func TestSerialQueueFirstQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, done := memoryConn(t, Spec{}, mcp.Legacy)
		defer done()
		const calls = 5
		askers := make([]*asker, calls)
		ends := make([]<-chan outcome, calls)
		for i := range calls {
			askers[i] = newAsker()
			askers[i].answer = func(ctx context.Context) ([]byte, *mcp.Error) {
				time.Sleep(2 * exclusiveWait) // the user thinks
				return []byte(`{"action":"accept"}`), nil
			}
			call := askableCall("ask", askers[i])
			call.Timeout = time.Hour
			ends[i] = start(t.Context(), conn, call)
		}
		for range calls {
			id := l.nextRequest(mcp.MethodToolsCall)
			synctest.Wait()
			l.quiet()
			l.say(question(`"q"`, mcp.MethodElicit))
			l.expect(`{"jsonrpc":"2.0","id":"q","result":{"action":"accept"}}`)
			l.say(jsonAnswer(id, `{"content":[]}`))
		}
		for i := range calls {
			succeeds(t, ends[i], `{"content":[]}`)
			if len(askers[i].asked) != 1 {
				t.Errorf("client %d was asked %d times, want once", i, len(askers[i].asked))
			}
		}
	})
}

// A tool that ended once without a question runs beside others at once. An unknown one
// waits a moment at most. A client that cannot be asked does not wait.
func TestSerialQueueOfAQuietServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, done := memoryConn(t, Spec{}, mcp.Legacy)
		defer done()
		a := newAsker()
		first := start(t.Context(), conn, askableCall("known", a))
		l.say(jsonAnswer(l.nextRequest(mcp.MethodToolsCall), `{}`))
		succeeds(t, first, `{}`)

		var ids []mcp.ID
		var ends []<-chan outcome
		begin := func(call *mcp.Call, after time.Duration) {
			t.Helper()
			began := time.Now()
			ends = append(ends, start(t.Context(), conn, call))
			ids = append(ids, l.nextRequest(mcp.MethodToolsCall))
			if got := time.Since(began); got != after {
				t.Errorf("%s began after %v, want %v", call.Key, got, after)
			}
		}
		begin(askableCall("known", a), 0)
		begin(askableCall("known", a), 0)
		begin(tool("new", `{}`), 0)
		begin(askableCall("unknown", a), exclusiveWait)
		begin(askableCall("known", a), 0)
		for i, id := range ids {
			l.say(jsonAnswer(id, `{}`))
			succeeds(t, ends[i], `{}`)
		}
		alone := start(t.Context(), conn, askableCall("another", a))
		id := l.nextRequest(mcp.MethodToolsCall)
		began := time.Now()
		beside := start(t.Context(), conn, askableCall("known", a))
		other := l.nextRequest(mcp.MethodToolsCall)
		if got := time.Since(began); got != exclusiveWait {
			t.Errorf("beside a call that is alone another began after %v, want %v", got, exclusiveWait)
		}
		l.say(jsonAnswer(id, `{}`))
		l.say(jsonAnswer(other, `{}`))
		succeeds(t, alone, `{}`)
		succeeds(t, beside, `{}`)
	})
}

// A call whose connection is lost while it waits for its turn was not
// delivered.
func TestSerialQueueEndsWithItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, done := memoryConn(t, Spec{}, mcp.Legacy)
		defer done()
		conn.queue.asked()
		one := start(t.Context(), conn, tool("one", `{}`))
		l.nextRequest(mcp.MethodToolsCall)
		two := start(t.Context(), conn, tool("two", `{}`))
		synctest.Wait()
		l.Mux.Fail(transport.ErrNoAnswer)
		if o := <-two; transport.Delivered(o.err) {
			t.Errorf("the one that waited: %v", o.err)
		}
		if o := <-one; !transport.Delivered(o.err) {
			t.Errorf("the one that ran: %v", o.err)
		}
	})
}

// While the client thinks, the time of the server does not run. The hard limit still ends
// the call.
func TestCallClock(t *testing.T) {
	for _, tt := range []struct {
		name    string
		thinks  time.Duration
		silence time.Duration // of the server after the answer
		ended   time.Duration // 0: in time
	}{
		{"a quick answer", time.Second, 0, 0},
		{"a slow answer", 20 * time.Minute, 0, 0},
		{"a slow answer and a slow server", 20 * time.Minute, 59 * time.Second, 0},
		{"a server that is too slow after it", 20 * time.Minute, 2 * time.Minute, 21 * time.Minute},
		{"no answer", 40 * time.Minute, 0, 30 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, l, done := memoryConn(t, Spec{Timeouts: Timeouts{Call: time.Minute, Hard: 30 * time.Minute}}, mcp.Legacy)
				defer done()
				a := newAsker()
				a.answer = func(ctx context.Context) ([]byte, *mcp.Error) {
					select {
					case <-time.After(tt.thinks):
					case <-ctx.Done():
					}
					return []byte(`{}`), nil
				}
				began := time.Now()
				end := start(t.Context(), conn, askableCall("ask", a))
				id := l.nextRequest(mcp.MethodToolsCall)
				l.say(question(`"q"`, mcp.MethodElicit))
				go func() {
					time.Sleep(tt.thinks + tt.silence)
					l.say(jsonAnswer(id, `{}`))
				}()
				o := <-end
				if got := time.Since(began); (o.err == nil) != (tt.ended == 0) || tt.ended > 0 && got != tt.ended {
					t.Errorf("ended after %v with %v", got, o.err)
				}
				time.Sleep(time.Hour)
			})
		})
	}
}

// A client that thinks, or never answers, keeps nobody from a server that runs one call at
// a time: the next call gets another process if there is room, and waits otherwise.
func TestSpareConnections(t *testing.T) {
	t.Parallel()
	spec := childServer("asks", mcp.Legacy)
	spec.Limits.Conns = 3
	r := run(t, spec)
	r.state(mcp.Ready)
	type told struct{ said, pid string }
	ask := func(name string, answer <-chan string) (asked chan struct{}, end chan told) {
		asked, end = make(chan struct{}, 1), make(chan told, 1)
		call := tool(name, `{}`)
		call.Principal, call.Askable = "me", true
		call.Ask = answering(func(context.Context, string, []byte) ([]byte, *mcp.Error) {
			asked <- struct{}{}
			return []byte(`{"text":"` + <-answer + `"}`), nil
		})
		go func() {
			got, err := r.Call(within(t), call)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			said, _ := mcp.LookupString(got.Result, "said", "text")
			end <- told{said, string(mcp.Lookup(got.Result, "pid"))}
		}()
		return asked, end
	}
	answers := make([]chan string, 4)
	ends := make([]chan told, 4)
	pids := make(map[string]bool)
	for i := range 3 { // the gateway's own connection and two spare ones
		answers[i] = make(chan string, 1)
		asked, end := ask(fmt.Sprint("t", i), answers[i])
		receives(t, "a question", asked)
		ends[i] = end
	}
	answers[3] = make(chan string, 1)
	asked, end := ask("t3", answers[3])
	ends[3] = end
	for i := range 4 {
		if i == 1 { // one has ended: the fourth begins
			receives(t, "the question of the one that waited", asked)
		}
		answers[i] <- fmt.Sprint("answer ", i)
		got := receives(t, "the end of a call", ends[i])
		if got.said != fmt.Sprint("answer ", i) {
			t.Errorf("call %d was told %q", i, got.said)
		}
		pids[got.pid] = true
	}
	if len(pids) != 3 {
		t.Errorf("%d processes served the calls, want 3", len(pids))
	}
}
