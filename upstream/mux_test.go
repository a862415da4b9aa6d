package upstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
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
		if l.cause() != nil {
			t.Errorf("the channel is lost: %v", l.cause())
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
				if o.err == nil || !wasDelivered(o.err) || time.Since(began) != 0 {
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
		if !l.lossy {
			t.Error("nothing was dropped")
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
		l.fail(cause)
		l.fail(errors.New("another reason"))
		if o := <-c; !errors.Is(o.err, cause) || !wasDelivered(o.err) {
			t.Errorf("call = %v", o.err)
		}
		_, err := conn.Call(t.Context(), tool("echo", `{}`), nil)
		if !errors.Is(err, cause) || wasDelivered(err) {
			t.Errorf("call on a lost channel = %v", err)
		}
		l.quiet()
	})
}

// FuzzMux plays a server that answers random requests in a random order, twice,
// wrongly or not at all, with notifications, questions and garbage between:
// every request gets exactly its own answer, or its own error, or nothing.
func FuzzMux(f *testing.F) {
	f.Add(uint64(1), []byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b"))
	f.Add(uint64(2), []byte("\x03\x03\x03\x00\x00\x00\x01\x01\x01"))
	f.Add(uint64(3), []byte("\x05\x04\x03\x02\x01\x00\xff\xfe\x80\x40\x20\x10"))
	f.Add(uint64(4), []byte{})
	f.Fuzz(func(t *testing.T, seed uint64, script []byte) {
		const requests = 6
		limits := (&Spec{Limits: Limits{Events: 4}}).withDefaults().Limits
		m := newMux(quietLog, limits, func(mcp.Message) {})
		random := rand.New(rand.NewPCG(seed, 0))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		sent := make(chan mcp.ID, requests)
		var all sync.WaitGroup
		answered, ended := make([]bool, requests), make([]chan struct{}, requests)
		for i := range requests {
			id := mcp.NumberID(int64(i))
			ended[i] = make(chan struct{})
			all.Go(func() {
				defer close(ended[i])
				req := &outgoing{id: id, askable: i%2 == 0, arrived: func(msg mcp.Message) {
					if token := msg.Param("progressToken"); token != nil && string(token) != string(id) {
						t.Errorf("request %s got %s", id, msg.Raw)
					}
				}}
				msg, err := m.roundTrip(ctx, req, func([]byte) error { sent <- id; return nil })
				if err == nil {
					answered[i] = true
					if want := `{"for":` + string(id) + `}`; msg.ID != id || string(msg.Result()) != want {
						t.Errorf("request %s got %s", id, msg.Raw)
					}
				}
			})
		}
		for range requests {
			<-sent
		}
		sound := make([]bool, requests) // an answer came, and nothing that spoils it before
		over := make([]bool, requests)
		for _, b := range script {
			i := random.IntN(requests)
			id := string(mcp.NumberID(int64(i)))
			var line string
			switch b % 8 {
			case 0:
				line = jsonAnswer(mcp.ID(id), `{"for":`+id+`}`)
				sound[i] = sound[i] || !over[i]
				over[i] = true
			case 1:
				line = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + id + `}}`
			case 2:
				line = question(id, mcp.MethodElicit)
			case 3:
				line = jsonAnswer(mcp.ID(`"`+id+`"`), `{"wrong":"type"}`)
			case 4:
				line = `{"jsonrpc":"2.0","id":` + id + `,"result":{"a":1,"a":2}}`
				over[i] = true
			case 5:
				line = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
			case 6:
				line = jsonAnswer(mcp.NumberID(int64(requests+i)), `{}`)
			case 7:
				line = string(script)
			}
			msg, err := mcp.Parse([]byte(line), mcp.Limits{})
			if err != nil {
				if b%8 == 7 && !invalidAnswer(&msg).Absent() {
					continue // the script happens to name an id
				}
				m.spoil(msg, err)
				continue
			}
			m.deliver(msg)
		}
		for i := range requests {
			if sound[i] {
				<-ended[i] // it needs no help
			}
		}
		cancel()
		all.Wait()
		for i := range requests {
			if answered[i] != sound[i] {
				t.Errorf("request %d answered: %v, want %v", i, answered[i], sound[i])
			}
		}
		if len(m.pending) != 0 {
			t.Errorf("%d requests are still pending", len(m.pending))
		}
	})
}
