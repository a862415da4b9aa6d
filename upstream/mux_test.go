package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// Notifications go to the request whose token they carry, before its answer
// and in order, and to no other one.
func TestMuxOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, done := memoryConn(t, Spec{}, mcp.Legacy)
		defer done()
		var hs [2]heard
		var calls [2]<-chan outcome
		var ids [2]mcp.ID
		for i := range hs {
			call := tool("echo", `{}`)
			call.Progress, call.Notify = true, hs[i].notify
			calls[i] = start(t.Context(), conn, call)
			ids[i] = l.nextRequest(mcp.MethodToolsCall)
		}
		var want [2][]string
		for n := range 40 {
			i := n % 2
			params := fmt.Sprintf(`{"progressToken":%s,"progress":%d}`, ids[i], n)
			l.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":` + params + `}`)
			want[i] = append(want[i], "progress "+params)
		}
		l.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":999,"progress":1}}`)
		l.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"` + string(ids[0]) + `","progress":1}}`)
		l.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`)
		l.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"whose?"}}`)
		for i := range ids {
			l.say(jsonAnswer(ids[i], fmt.Sprintf(`{"i":%d}`, i)))
		}
		for i := range calls {
			succeeds(t, calls[i], fmt.Sprintf(`{"i":%d}`, i))
			if diff := cmp.Diff(want[i], hs[i].list()); diff != "" {
				t.Errorf("call %d (-want +got):\n%s", i, diff)
			}
		}
	})
}

// Answers that nobody waits for: of unknown ids, a second time, after the
// caller has left, of another type.
func TestMuxStrayAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, done := memoryConn(t, Spec{}, mcp.Legacy)
		defer done()
		ctx, cancel := context.WithCancel(t.Context())
		left := start(ctx, conn, tool("left", `{}`))
		leftID := l.nextRequest(mcp.MethodToolsCall)
		cancel()
		if o := <-left; !errors.Is(o.err, context.Canceled) {
			t.Errorf("call = %v", o.err)
		}
		l.expect(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + string(leftID) + `}}`)

		call := start(t.Context(), conn, tool("echo", `{}`))
		id := l.nextRequest(mcp.MethodToolsCall)
		for _, stray := range []string{
			jsonAnswer(leftID, `{"late":true}`),
			jsonAnswer("12345", `{}`),
			jsonAnswer("-1", `{}`),
			jsonAnswer(mcp.StringID(string(id)), `{"string":true}`),
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`,
			`{"jsonrpc":"2.0","id":` + string(id) + `.0,"result":{}}`,
			`{"jsonrpc":"2.0","id":[1],"result":{}}`,
			`[]`, `{}`, `{"jsonrpc":"2.0"}`, `[` + jsonAnswer(id, `{"batch":true}`) + `]`,
		} {
			l.say(stray)
		}
		synctest.Wait()
		select {
		case o := <-call:
			t.Fatalf("a stray answer ended the call: %s, %v", o.answer.Result, o.err)
		default:
		}
		l.say(jsonAnswer(id, `{"first":true}`))
		l.say(jsonAnswer(id, `{"second":true}`))
		succeeds(t, call, `{"first":true}`)
		l.say(jsonAnswer(id, `{"third":true}`))
		if l.Cause() != nil {
			t.Errorf("the channel is lost: %v", l.Cause())
		}
	})
}

// An invalid answer to a known request ends that request at once, and no other.
func TestMuxSpoiled(t *testing.T) {
	for name, line := range map[string]string{
		"duplicate key":        `{"jsonrpc":"2.0","id":%s,"result":{"a":1,"\u0061":2}}`,
		"result and error":     `{"jsonrpc":"2.0","id":%s,"result":{},"error":{"code":1,"message":""}}`,
		"result that is a 1":   `{"jsonrpc":"2.0","id":%s,"result":1}`,
		"another jsonrpc":      `{"jsonrpc":"1.0","id":%s,"result":{}}`,
		"case variant":         `{"jsonrpc":"2.0","id":%s,"Result":{},"result":{}}`,
		"too deep":             `{"jsonrpc":"2.0","id":%s,"result":{"a":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}}`,
		"no JSON":              `{"jsonrpc":"2.0","id":%s,"result":{"a":}}`,
		"half of it":           `{"jsonrpc":"2.0","id":%s,"result":{"a":"b`,
		"not UTF-8":            "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"a\":\"\xff\"}}",
		"trailing data":        `{"jsonrpc":"2.0","id":%s,"result":{}}{}`,
		"error without a code": `{"jsonrpc":"2.0","id":%s,"error":7}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, l, done := memoryConn(t, Spec{}, mcp.Legacy)
				defer done()
				bad := start(t.Context(), conn, tool("bad", `{}`))
				id := l.nextRequest(mcp.MethodToolsCall)
				good := start(t.Context(), conn, tool("good", `{}`))
				other := l.nextRequest(mcp.MethodToolsCall)
				began := time.Now()
				l.say(fmt.Sprintf(line, id))
				o := <-bad
				if o.err == nil || !transport.Delivered(o.err) || time.Since(began) != 0 {
					t.Errorf("call = %s, %v after %v", o.answer.Result, o.err, time.Since(began))
				}
				l.say(jsonAnswer(other, `{}`))
				succeeds(t, good, `{}`)
			})
		})
	}
}

// A flood of notifications costs a call no more than its queue, and its answer
// arrives all the same.
func TestMuxFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, done := memoryConn(t, Spec{Limits: Limits{Events: 10}}, mcp.Legacy)
		defer done()
		book := &logBook{}
		l.Log = slog.New(slog.NewTextHandler(book, &slog.HandlerOptions{Level: slog.LevelDebug}))
		block, entered := make(chan struct{}), make(chan struct{}, 1)
		n := 0
		call := tool("echo", `{}`)
		call.Progress = true
		call.Notify = func(string, []byte) {
			if n++; n == 1 {
				entered <- struct{}{}
				<-block
			}
		}
		c := start(t.Context(), conn, call)
		id := l.nextRequest(mcp.MethodToolsCall)
		say := func() {
			l.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(id) + `,"progress":1}}`)
		}
		say()
		<-entered
		for range 1000 {
			say() // never blocks
		}
		l.say(jsonAnswer(id, `{}`))
		close(block)
		succeeds(t, c, `{}`)
		if n != 11 {
			t.Errorf("%d notifications, want the one in work and a queue of 10", n)
		}
		if n := book.count("notifies faster"); n != 1000+1-11 {
			t.Errorf("%d lines of dropped notifications, want %d", n, 1000+1-11)
		}
	})
}

// Deadlines over a shared channel, to the second.
func TestMuxDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, done := memoryConn(t, Spec{Timeouts: Timeouts{Call: 10 * time.Second, Hard: time.Minute}}, mcp.Legacy)
		defer done()
		began := time.Now()
		call := tool("echo", `{}`)
		call.Progress = true
		c := start(t.Context(), conn, call)
		id := l.nextRequest(mcp.MethodToolsCall)
		stop := make(chan struct{})
		go func() {
			tick := time.NewTicker(9 * time.Second)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					l.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(id) + `,"progress":1}}`)
				case <-stop:
					return
				}
			}
		}()
		o := <-c
		close(stop)
		if !errors.Is(o.err, errCallTimeout) || time.Since(began) != time.Minute {
			t.Errorf("call = %v after %v, want the hard cap", o.err, time.Since(began))
		}
		l.expect(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + string(id) + `,"reason":"timeout"}}`)

		began = time.Now()
		call = tool("echo", `{}`)
		call.Timeout = 3 * time.Second
		if _, err := conn.Call(t.Context(), call, nil); !errors.Is(err, errCallTimeout) || time.Since(began) != 3*time.Second {
			t.Errorf("call = %v after %v, want its own timeout", err, time.Since(began))
		}
	})
}

// The end of the channel ends every request, and marks what was not sent.
func TestMuxLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, done := memoryConn(t, Spec{}, mcp.Legacy)
		defer done()
		c := start(t.Context(), conn, tool("echo", `{}`))
		l.nextRequest(mcp.MethodToolsCall)
		cause := errors.New("the process ended")
		l.Fail(cause)
		l.Fail(errors.New("another reason"))
		if o := <-c; !errors.Is(o.err, cause) || !transport.Delivered(o.err) {
			t.Errorf("call = %v", o.err)
		}
		_, err := conn.Call(t.Context(), tool("echo", `{}`), nil)
		if !errors.Is(err, cause) || transport.Delivered(err) {
			t.Errorf("call on a lost channel = %v", err)
		}
		l.quiet()
	})
}
