package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/upstream/transport"
)

// On a shared channel a question belongs to the only call in flight.
func TestQuestionShared(t *testing.T) {
	for _, method := range []string{mcp.MethodSampling, mcp.MethodElicit, mcp.MethodRoots} {
		synctest.Test(t, func(t *testing.T) {
			conn, l, done := memoryConn(t, Spec{}, mcp.Legacy)
			defer done()
			a := newAsker()
			call := start(t.Context(), conn, asking(a))
			id := l.nextRequest(mcp.MethodToolsCall)
			l.say(question(`"q-1"`, method))
			l.expect(`{"jsonrpc":"2.0","id":"q-1","result":{"action":"accept"}}`)
			if got, want := <-a.asked, method+` {"q":1}`; got != want {
				t.Errorf("asked %s, want %s", got, want)
			}
			l.say(jsonAnswer(id, `{"content":[]}`))
			succeeds(t, call, `{"content":[]}`)
		})
	}
}

func TestQuestionFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, done := memoryConn(t, Spec{}, mcp.Legacy)
		defer done()
		a := newAsker()
		a.answer = func(context.Context) ([]byte, *mcp.Error) {
			return nil, &mcp.Error{Code: -1, Message: "User rejected sampling request"}
		}
		call := start(t.Context(), conn, asking(a))
		id := l.nextRequest(mcp.MethodToolsCall)
		l.say(question("1", mcp.MethodSampling)) // the server numbers as we do
		l.expect(`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"User rejected sampling request"}}`)
		l.say(jsonAnswer(id, `{}`))
		succeeds(t, call, `{}`)
	})
}

// With two calls in flight nobody can tell which call a question belongs to. It is
// refused, and neither call notices. From then on calls run one at a time.
func TestQuestionUnattributable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, done := memoryConn(t, Spec{}, mcp.Legacy)
		defer done()
		a := newAsker()
		one := start(t.Context(), conn, asking(a))
		first := l.nextRequest(mcp.MethodToolsCall)
		two := start(t.Context(), conn, asking(a))
		second := l.nextRequest(mcp.MethodToolsCall)
		l.say(question("7", mcp.MethodElicit))
		if msg := l.next(); !refusal(msg, "7") {
			t.Errorf("the gateway said %s", msg.Raw)
		}
		l.say(jsonAnswer(second, `{"n":2}`))
		l.say(jsonAnswer(first, `{"n":1}`))
		succeeds(t, one, `{"n":1}`)
		succeeds(t, two, `{"n":2}`)

		var calls []<-chan outcome
		for range 3 {
			calls = append(calls, start(t.Context(), conn, asking(a)))
		}
		for range 3 {
			id := l.nextRequest(mcp.MethodToolsCall)
			synctest.Wait()
			l.quiet() // the others wait
			l.say(question("8", mcp.MethodElicit))
			l.expect(`{"jsonrpc":"2.0","id":8,"result":{"action":"accept"}}`)
			l.say(jsonAnswer(id, `{}`))
		}
		for _, call := range calls {
			succeeds(t, call, `{}`)
		}
		if len(a.asked) != 3 {
			t.Errorf("%d questions reached a client, want 3", len(a.asked))
		}
	})
}

// Questions that belong to no call: none is in flight, or only requests of the gateway
// itself.
func TestQuestionOfNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, done := memoryConn(t, Spec{}, mcp.Legacy)
		defer done()
		l.say(question("1", mcp.MethodSampling))
		if msg := l.next(); !refusal(msg, "1") {
			t.Errorf("the gateway said %s", msg.Raw)
		}
		go func() { _ = conn.probe(t.Context()) }()
		id := l.nextRequest(mcp.MethodPing)
		l.say(question("2", mcp.MethodRoots))
		if msg := l.next(); !refusal(msg, "2") {
			t.Errorf("the gateway said %s", msg.Raw)
		}
		l.say(question(`"p"`, mcp.MethodPing))
		l.expect(`{"jsonrpc":"2.0","id":"p","result":{}}`)
		l.say(jsonAnswer(id, `{}`))

		// A call of a client that cannot be asked.
		call := start(t.Context(), conn, tool("echo", `{}`))
		id = l.nextRequest(mcp.MethodToolsCall)
		l.say(question("3", mcp.MethodElicit))
		if msg := l.next(); !refusal(msg, "3") {
			t.Errorf("the gateway said %s", msg.Raw)
		}
		l.say(jsonAnswer(id, `{}`))
		succeeds(t, call, `{}`)
	})
}

// A server of 2026-07-28 must not ask by request.
func TestQuestionModern(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, done := memoryConn(t, Spec{}, mcp.Modern)
		defer done()
		a := newAsker()
		call := start(t.Context(), conn, asking(a))
		id := l.nextRequest(mcp.MethodToolsCall)
		l.say(question("9", mcp.MethodElicit))
		if msg := l.next(); !refusal(msg, "9") {
			t.Errorf("the gateway said %s", msg.Raw)
		}
		l.say(jsonAnswer(id, `{}`))
		succeeds(t, call, `{}`)
		if len(a.asked) != 0 {
			t.Errorf("asked %s", <-a.asked)
		}
	})
}

// A flood on one call: some wait for the client, the rest is refused, and the
// call itself goes on.
func TestQuestionFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, done := memoryConn(t, Spec{}, mcp.Legacy)
		defer done()
		a := newAsker()
		a.answer = func(ctx context.Context) ([]byte, *mcp.Error) {
			<-ctx.Done()
			return []byte(`{}`), nil
		}
		call := start(t.Context(), conn, asking(a))
		id := l.nextRequest(mcp.MethodToolsCall)
		for n := range 50 {
			l.say(question(fmt.Sprint(n), mcp.MethodElicit))
			synctest.Wait()
		}
		if len(a.asked) != asksPerCall {
			t.Errorf("%d questions reached the client, want %d", len(a.asked), asksPerCall)
		}
		refused := 0
		for len(l.wrote) > 0 {
			if msg := l.next(); !strings.Contains(string(msg.Fault()), "open questions") {
				t.Errorf("the gateway said %s", msg.Raw)
			}
			refused++
		}
		if refused != 50-asksPerCall {
			t.Errorf("%d refused, want %d", refused, 50-asksPerCall)
		}
		l.say(jsonAnswer(id, `{}`))
		succeeds(t, call, `{}`)
		synctest.Wait()
		l.quiet() // no answer to a question after the end of its call
	})
}

// The server cancels a question: the client stops waiting, and the server gets no answer.
func TestQuestionTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, done := memoryConn(t, Spec{}, mcp.Legacy)
		defer done()
		a := newAsker()
		ended := make(chan struct{})
		a.answer = func(ctx context.Context) ([]byte, *mcp.Error) {
			<-ctx.Done()
			close(ended)
			return []byte(`{}`), nil
		}
		call := start(t.Context(), conn, asking(a))
		id := l.nextRequest(mcp.MethodToolsCall)
		l.say(question(`"q"`, mcp.MethodElicit))
		<-a.asked
		l.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"other"}}`)
		l.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":["q"]}}`)
		synctest.Wait()
		select {
		case <-ended:
			t.Error("another question was taken back")
		default:
		}
		l.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q","reason":"x"}}`)
		<-ended
		synctest.Wait()
		l.quiet()
		l.say(jsonAnswer(id, `{}`))
		succeeds(t, call, `{}`)
	})
}

// A caller that goes away while the client is asked.
func TestQuestionEndsWithCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, done := memoryConn(t, Spec{}, mcp.Legacy)
		defer done()
		a := newAsker()
		a.answer = func(ctx context.Context) ([]byte, *mcp.Error) {
			<-ctx.Done()
			return nil, mcp.Errorf(-1, "gone")
		}
		ctx, cancel := context.WithCancel(t.Context())
		call := start(ctx, conn, asking(a))
		id := l.nextRequest(mcp.MethodToolsCall)
		l.say(question("4", mcp.MethodElicit))
		<-a.asked
		cancel()
		if o := <-call; !errors.Is(o.err, context.Canceled) {
			t.Errorf("call = %v", o.err)
		}
		l.expect(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + string(id) + `}}`)
		synctest.Wait()
		l.quiet()
	})
}

// The wait for a turn counts against the deadline of the call. A call that never got its
// turn was not delivered.
func TestQuestionSerialWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, done := memoryConn(t, Spec{Timeouts: Timeouts{Call: time.Minute}}, mcp.Legacy)
		defer done()
		conn.queue.asked()
		one := start(t.Context(), conn, tool("one", `{}`))
		id := l.nextRequest(mcp.MethodToolsCall)
		began := time.Now()
		call := tool("two", `{}`)
		call.Timeout = 10 * time.Second
		_, err := conn.Call(t.Context(), call, nil)
		if !errors.Is(err, errCallTimeout) || transport.Delivered(err) || time.Since(began) != 10*time.Second {
			t.Errorf("call = %v after %v", err, time.Since(began))
		}
		synctest.Wait()
		l.quiet()
		l.say(jsonAnswer(id, `{}`))
		succeeds(t, one, `{}`)
	})
}

// Over streamable HTTP the stream of a POST tells which call a question belongs to,
// however many calls run.
func TestQuestionOnPostStream(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	var mu sync.Mutex
	waiting := make(map[string]chan string) // by the id of the question
	f.handle(mcp.MethodToolsCall, func(x *exchange) {
		name, _ := mcp.LookupString(x.msg.Params(), "name")
		answered := make(chan string, 1)
		mu.Lock()
		waiting[`"`+name+`"`] = answered
		mu.Unlock()
		x.event(question(`"`+name+`"`, mcp.MethodElicit))
		x.result(`{"got":` + <-answered + `}`)
	})
	f.handle("answer", func(x *exchange) {
		x.w.WriteHeader(http.StatusAccepted)
		mu.Lock()
		defer mu.Unlock()
		waiting[string(x.msg.ID)] <- string(x.msg.Result())
	})
	r := run(t, f.spec())
	r.state(mcp.Ready)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			call := tool(fmt.Sprintf("t%d", n), `{}`)
			call.Ask = func(_ context.Context, _ string, _ []byte, reply func([]byte, *mcp.Error)) { // at once
				reply(fmt.Appendf(nil, `{"of":%d,"n":9007199254740993}`, n), nil)
			}
			answer, err := r.Call(within(t), call)
			if want := fmt.Sprintf(`{"got":{"of":%d,"n":9007199254740993}}`, n); err != nil || string(answer.Result) != want {
				t.Errorf("call %d = %s, %v", n, answer.Result, err)
			}
		})
	}
	all.Wait()
	for _, s := range f.requests("answer") {
		if s.Header.Get(mcp.HeaderSession) != "s-1" || s.Header.Get(mcp.HeaderVersion) != "2025-11-25" {
			t.Errorf("answer with the headers %v", s.Header)
		}
	}
}

// Messages on the standalone stream belong to no call: questions are refused,
// notifications are events.
func TestQuestionOnStandaloneStream(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	f.handle(http.MethodGet, func(x *exchange) {
		x.event(question(`"s"`, mcp.MethodSampling))
		x.event(question(`"p"`, mcp.MethodPing))
		x.notify(mcp.NotifyMessage, `{"level":"info","data":"hello"}`)
		x.notify(mcp.NotifyResourceUpdated, `{"uri":"file:///a"}`)
		x.notify("notifications/made/up", `{}`)
		x.hold()
	})
	r := run(t, f.spec())
	r.state(mcp.Ready)
	testwait.Until(t, patience, "the answers", func() bool { return len(f.requests("answer")) == 2 })
	var got []string
	for _, s := range f.requests("answer") {
		got = append(got, s.Body)
	}
	slices.Sort(got)
	if got[0] != `{"jsonrpc":"2.0","id":"p","result":{}}` || !strings.Contains(got[1], `"id":"s","error":{"code":-32601,`) {
		t.Errorf("answers = %s", got)
	}
	testwait.Until(t, patience, "the events", func() bool { return len(r.sink.said()) == 2 })
	if said := r.sink.said(); said[0] != `me/ notifications/message {"level":"info","data":"hello"}` ||
		said[1] != `me/ notifications/resources/updated {"uri":"file:///a"}` {
		t.Errorf("events = %q", said)
	}
}

// A question on the standalone stream belongs to the only call in flight, and a
// server that asks there is called one at a time. Without a call it is refused.
func TestQuestionOfTheOnlyCall(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	ask := make(chan string)
	f.handle(http.MethodGet, func(x *exchange) {
		x.open()
		for {
			select {
			case raw := <-ask:
				x.event(raw)
			case <-x.r.Context().Done():
				return
			case <-x.down:
				return
			}
		}
	})
	begun, finish := make(chan struct{}, 2), make(chan struct{})
	f.handle(mcp.MethodToolsCall, func(x *exchange) {
		begun <- struct{}{}
		<-finish
		x.result(`{}`)
	})
	spec := f.spec()
	spec.Limits.Conns = 1 // while the client thinks, the next call has no session of its own
	r := run(t, spec)
	r.state(mcp.Ready)
	a := newAsker()
	ended := make(chan error, 2)
	call := func() {
		_, err := r.Call(within(t), asking(a))
		ended <- err
	}
	answer := func(n int) string {
		t.Helper()
		testwait.Until(t, patience, "an answer", func() bool { return len(f.requests("answer")) == n })
		return f.requests("answer")[n-1].Body
	}
	accepted := func(n int, id string) {
		t.Helper()
		ask <- question(id, mcp.MethodElicit)
		if got, want := answer(n), `{"jsonrpc":"2.0","id":`+id+`,"result":{"action":"accept"}}`; got != want {
			t.Errorf("the server was told %s, want %s", got, want)
		}
	}
	go call()
	receives(t, "the first call", begun)
	accepted(1, `"one"`)
	go call() // of a server that is known to ask beside its calls
	accepted(2, `"two"`)
	finish <- struct{}{}
	receives(t, "the second call", begun)
	accepted(3, `"three"`)
	finish <- struct{}{}
	for range 2 {
		if err := receives(t, "the end of a call", ended); err != nil {
			t.Error(err)
		}
	}
	ask <- question(`"none"`, mcp.MethodElicit)
	if got := answer(4); !strings.Contains(got, `"id":"none","error":{"code":-32601`) {
		t.Errorf("with no call in flight the server was told %s", got)
	}
	if len(a.asked) != 3 {
		t.Errorf("the client was asked %d times, want 3", len(a.asked))
	}
}
