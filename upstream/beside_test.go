package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// from makes a call of a client that can be asked.
func from(session, name string, a *asker) *mcp.Call {
	call := askableCall(name, a)
	call.Session = session
	return call
}

// thinker answers a question when the test says so.
func thinker() (a *asker, answered chan struct{}) {
	a, answered = newAsker(), make(chan struct{})
	a.answer = func(ctx context.Context) ([]byte, *mcp.Error) {
		select {
		case <-answered:
			return []byte(`{"action":"accept"}`), nil
		case <-ctx.Done():
			return []byte(`{"action":"cancel"}`), nil
		}
	}
	return a, answered
}

// While a client thinks, its other calls run on the same channel.
func TestCallsBesideAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, done := memoryConn(t, Spec{}, mcp.Legacy)
		defer done()
		a, answered := thinker()
		first := start(t.Context(), conn, from("1", "ask", a))
		waits := l.nextRequest(mcp.MethodToolsCall)
		l.say(question(`"q1"`, mcp.MethodElicit))
		began := time.Now()
		b := newAsker()
		second := start(t.Context(), conn, from("1", "new", b))
		runs := l.nextRequest(mcp.MethodToolsCall)
		if got := time.Since(began); got != besideTime {
			t.Errorf("the other call began after %v, want %v", got, besideTime)
		}
		// What is asked now may be about either call.
		l.say(question(`"q2"`, mcp.MethodElicit))
		if msg := l.next(); !refusal(msg, mcp.ID(`"q2"`)) || len(a.asked) != 1 || len(b.asked) != 0 {
			t.Errorf("the question was answered with %s, and %d and %d were asked", msg.Raw, len(a.asked), len(b.asked))
		}
		// The answer of the first waits for its turn.
		close(answered)
		synctest.Wait()
		l.quiet()
		l.say(jsonAnswer(runs, `{}`))
		succeeds(t, second, `{}`)
		l.expect(`{"jsonrpc":"2.0","id":"q1","result":{"action":"accept"}}`)
		l.say(jsonAnswer(waits, `{}`))
		succeeds(t, first, `{}`)
	})
}

// The answer of a client does not wait for ever: a call that began meanwhile may wait for
// the very call that the answer belongs to.
func TestAnAnswerWaitsForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, done := memoryConn(t, Spec{}, mcp.Legacy)
		defer done()
		a, answered := thinker()
		first := start(t.Context(), conn, from("1", "ask", a))
		waits := l.nextRequest(mcp.MethodToolsCall)
		l.say(question(`"q1"`, mcp.MethodElicit))
		second := start(t.Context(), conn, from("1", "locked", newAsker()))
		locked := l.nextRequest(mcp.MethodToolsCall)
		began := time.Now()
		close(answered)
		l.expect(`{"jsonrpc":"2.0","id":"q1","result":{"action":"accept"}}`)
		if got := time.Since(began); got != returnTime || !conn.queue.of.serial {
			t.Errorf("the answer came after %v, want %v", got, returnTime)
		}
		l.say(jsonAnswer(waits, `{}`))
		succeeds(t, first, `{}`)
		l.say(jsonAnswer(locked, `{}`))
		succeeds(t, second, `{}`)
	})
}

// Both answers of one call are sent as soon as the call that ran meanwhile has ended.
// Neither waits for the other.
func TestTwoAnswersOfOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, done := memoryConn(t, Spec{}, mcp.Legacy)
		defer done()
		a, answered := thinker()
		first := start(t.Context(), conn, from("1", "ask", a))
		waits := l.nextRequest(mcp.MethodToolsCall)
		l.say(question("1", mcp.MethodElicit))
		l.say(question("2", mcp.MethodElicit))
		second := start(t.Context(), conn, from("1", "new", newAsker()))
		runs := l.nextRequest(mcp.MethodToolsCall)
		close(answered)
		synctest.Wait()
		l.quiet()
		l.say(jsonAnswer(runs, `{}`))
		succeeds(t, second, `{}`)
		began := time.Now()
		for range 2 {
			if msg := l.next(); msg.Kind != mcp.KindResponse || msg.Fault() != nil {
				t.Errorf("the gateway sent %s", msg.Raw)
			}
		}
		if took := time.Since(began); took != 0 || conn.queue.of.serial {
			t.Errorf("the last answer came after %v; the server works on nothing beside: %t", took, conn.queue.of.serial)
		}
		l.say(jsonAnswer(waits, `{}`))
		succeeds(t, first, `{}`)
	})
}

// A question that the server has cancelled is no longer open, whatever else runs.
func TestAQuestionIsTakenBackBesideACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, done := memoryConn(t, Spec{}, mcp.Legacy)
		defer done()
		a, _ := thinker()
		first := start(t.Context(), conn, from("1", "ask", a))
		waits := l.nextRequest(mcp.MethodToolsCall)
		l.say(question(`"q1"`, mcp.MethodElicit))
		second := start(t.Context(), conn, from("1", "new", newAsker()))
		runs := l.nextRequest(mcp.MethodToolsCall)
		l.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q1"}}`)
		synctest.Wait()
		if conn.queue.askingClient() {
			t.Error("the client is asked")
		}
		l.say(jsonAnswer(runs, `{}`))
		succeeds(t, second, `{}`)
		l.say(jsonAnswer(waits, `{}`))
		succeeds(t, first, `{}`)
	})
}

// While a client is being asked, another channel serves calls of other clients, of unknown
// clients, and of tools that ask.
func TestCallsOfOthersBesideAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, done := memoryConn(t, Spec{}, mcp.Legacy)
		defer done()
		a, answered := thinker()
		first := start(t.Context(), conn, from("1", "ask", a))
		waits := l.nextRequest(mcp.MethodToolsCall)
		l.say(question(`"q1"`, mcp.MethodElicit))
		synctest.Wait()
		for session, name := range map[string]string{"2": "new", "": "new", "1": "ask"} {
			if _, err := conn.call(t.Context(), from(session, name, newAsker()), nil, false); !errors.Is(err, errClientAsked) {
				t.Errorf("%q of session %q: %v, want another channel", name, session, err)
			}
		}
		close(answered)
		l.expect(`{"jsonrpc":"2.0","id":"q1","result":{"action":"accept"}}`)
		l.say(jsonAnswer(waits, `{}`))
		succeeds(t, first, `{}`)
	})
}

// It is noticed that a server does nothing else while it waits for an answer.
func TestAServerThatWorksOnNothingBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, done := memoryConn(t, Spec{}, mcp.Legacy)
		defer done()
		a, answered := thinker()
		first := start(t.Context(), conn, from("1", "ask", a))
		waits := l.nextRequest(mcp.MethodToolsCall)
		l.say(question(`"q1"`, mcp.MethodElicit))
		second := start(t.Context(), conn, from("1", "new", newAsker()))
		l.nextRequest(mcp.MethodToolsCall)
		if o := <-second; !errors.Is(o.err, errCallTimeout) {
			t.Errorf("the call beside ended with %v", o.err)
		}
		if msg := l.next(); msg.Method != mcp.NotifyCancelled {
			t.Errorf("the gateway sent %s", msg.Raw)
		}
		if _, err := conn.call(t.Context(), from("1", "new", newAsker()), nil, false); !errors.Is(err, errClientAsked) {
			t.Errorf("the next call: %v, want another channel", err)
		}
		close(answered)
		l.expect(`{"jsonrpc":"2.0","id":"q1","result":{"action":"accept"}}`)
		l.say(jsonAnswer(waits, `{}`))
		succeeds(t, first, `{}`)
	})
}

// All calls of a client find the state that its process keeps, also while the client is
// being asked.
func TestStateIsOfOneProcess(t *testing.T) {
	t.Parallel()
	r := run(t, childServer("keeps", mcp.Legacy))
	r.state(mcp.Ready)
	put := from("1", "put", newAsker())
	r.call(put)
	a, answered := thinker()
	end := make(chan string, 1)
	go func() {
		got, err := r.Call(within(t), from("1", "ask", a))
		if err != nil {
			t.Errorf("the call that asks: %v", err)
		}
		end <- string(got.Result)
	}()
	receives(t, "a question", a.asked)
	var kept struct{ Calls int }
	if err := json.Unmarshal([]byte(r.call(from("1", "get", newAsker()))), &kept); err != nil || kept.Calls != 3 {
		t.Errorf("the process has had %d calls (%v), want 3: it is another one", kept.Calls, err)
	}
	close(answered)
	receives(t, "the end of the call that asks", end)
}
