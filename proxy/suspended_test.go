package proxy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
)

// askingBackend is a legacy backend that asks the given questions in sequence and then
// answers with what it was told. Lines of a question are asked at once.
func askingBackend(t *testing.T, questions ...string) *script {
	b := newScript(t, "s", mcp.Legacy, tool("ask"), tool("plain"), `prompt {"name":"ask"}`, `resource {"uri":"file:///ask","name":"r"}`)
	b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
		if call.Key == "plain" {
			return answered(mcp.Legacy, `{"content":[]}`), nil
		}
		said := []string{}
		for _, round := range questions {
			lines := strings.Split(round, "\n")
			answers := make([]string, len(lines))
			var all sync.WaitGroup
			for i, line := range lines {
				method, params, _ := strings.Cut(line, " ")
				all.Go(func() {
					answer, fault := call.AskAndWait(ctx, method, []byte(params))
					if answers[i] = string(answer); fault != nil {
						answers[i] = string(fault.Append(nil))
					}
				})
				time.Sleep(time.Millisecond) // in order
			}
			all.Wait()
			said = append(said, answers...)
			if call.Notify != nil {
				call.Notify(mcp.NotifyProgress, fmt.Appendf(nil, `{"progress":%d}`, len(said)))
			}
		}
		if ctx.Err() != nil {
			return mcp.Answer{}, context.Cause(ctx)
		}
		return answered(mcp.Legacy, `{"content":[],"said":[`+strings.Join(said, ",")+`]}`), nil
	}
	return b
}

const askForm = `elicitation/create {"message":"who?","requestedSchema":{"type":"object","properties":{}}}`

// retry is the next round of the call with response w.
func (r *rig) retry(w *recorder, members, responses string, headers ...string) *recorder {
	r.t.Helper()
	if responses != "" {
		members += `,"inputResponses":` + responses
	}
	return r.modern("2", "tools/call", members+`,"requestState":"`+stateOf(r.t, w)+`"`, headers...)
}

func inputs(w *recorder) string {
	return string(mcp.Lookup([]byte(w.text()), "result", "inputRequests"))
}

// A legacy server asks a modern client through input requests. Its call is made,
// charged and recorded once, and holds no permit while the client is asked.
func TestSuspendedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := askingBackend(t, askForm, `sampling/createMessage {"messages":[{"role":"user","content":{"type":"resource_link","uri":"file:///a"}}],"task":{}}`)
		r := noted(t, b, nil, nil).run()
		r.config.Load().Mounts[0].Concurrency = 1
		w := r.modern("1", "tools/call", `"name":"s__ask","_meta2":1`)
		if got, want := inputs(w), `{"q1":{"method":"elicitation/create","params":{"message":"[s] who?","requestedSchema":{"type":"object","properties":{}}}}}`; got != want {
			t.Fatalf("asked %s, want %s", got, want)
		}
		if got := r.modern("5", "tools/call", `"name":"s__plain"`); !strings.Contains(got.text(), `"content":[]`) {
			t.Errorf("beside a suspended call: %s", got.text())
		}
		time.Sleep(14 * time.Minute)
		w = r.retry(w, `"name":"s__ask","_meta2":1`, `{"q1":{"action":"accept","content":{"n":9007199254740993},"_meta":{"io.modelcontextprotocol/x":1}},"other":{}}`)
		if got, want := inputs(w), `{"q2":{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"resource_link","uri":"s+file:///a"}}]}}}`; got != want {
			t.Fatalf("asked %s, want %s", got, want)
		}
		time.Sleep(14 * time.Minute)
		last := w
		w = r.retry(last, `"name":"s__ask","_meta2":1`, `{"q2":{"role":"assistant","content":{"type":"text","text":"a"},"model":"m"}}`)
		if got, want := string(mcp.Lookup([]byte(w.text()), "result", "said")), `[{"action":"accept","content":{"n":9007199254740993}},{"role":"assistant","content":{"type":"text","text":"a"},"model":"m"}]`; got != want {
			t.Errorf("the server was told %s, want %s: %s", got, want, w.text())
		}
		if got := r.retry(last, `"name":"s__ask","_meta2":1`, `{}`); got.text() != badState {
			t.Errorf("a second use: %s", got.text())
		}
		if n := len(b.seen(mcp.MethodToolsCall)); n != 2 {
			t.Errorf("%d calls reached the server, want one of each tool", n)
		}
		var own []audit.Entry
		for _, e := range r.ledger.all() {
			if e.CallID == "call-1" {
				own = append(own, e)
			}
		}
		if len(own) != 1 || own[0].Rounds != 2 || own[0].Outcome != audit.OutcomeOK || own[0].DurationUS < (28*time.Minute).Microseconds() {
			t.Errorf("entries of the call %+v, want one with 2 rounds", own)
		}
		if steps := strings.Join(r.steps(), ", "); strings.Count(steps, "charge call-1 ") != 1 {
			t.Errorf("steps %s: want one charge of the call", steps)
		}
		if open, _ := r.awaited(); open != 0 {
			t.Errorf("%d calls are left behind", open)
		}
	})
}

// Questions that a server asks at once are one round. Unanswered questions are asked
// again, extra answers are ignored, and a malformed answer is an error that uses up
// nothing. Prompts and resources may ask like tools.
func TestQuestionsOfASuspendedCall(t *testing.T) {
	for _, q := range []struct{ method, members string }{
		{"tools/call", `"name":"s__ask"`}, {"prompts/get", `"name":"s__ask"`}, {"resources/read", `"uri":"s+file:///ask"`},
	} {
		t.Run(q.method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, mounted(askingBackend(t, askForm+"\n"+askForm+"\n"+strings.Replace(askForm, "who", "why", 1)))).run()
				w := r.modern("1", q.method, q.members)
				if n := strings.Count(inputs(w), `"message":`); n != 3 || !strings.Contains(inputs(w), `"q3":{"method":"elicitation/create","params":{"message":"[s] why?"`) {
					t.Fatalf("%d questions in the round: %s", n, w.text())
				}
				state := stateOf(t, w)
				again := func(responses string) *recorder {
					return r.modern("2", q.method, q.members+`,"inputResponses":`+responses+`,"requestState":"`+state+`"`)
				}
				for _, bad := range []string{`[]`, `"x"`, `null`, `{"q1":1}`, `{"q1":null}`, `{"q1":{"action":"accept"},"q2":[]}`} {
					if got := again(bad); !strings.Contains(got.text(), `"error":{"code":-32602`) {
						t.Errorf("the answers %s: %s", bad, got.text())
					}
				}
				w = again(`{"q2":{"action":"accept","content":{"a":2}},"q9":{"action":"accept"}}`)
				if got := inputs(w); strings.Count(got, `"message":`) != 2 || strings.Contains(got, `"q2"`) {
					t.Fatalf("asked again %s, want q1 and q3", got)
				}
				state = stateOf(t, w)
				w = again(`{"q3":{"action":"cancel"},"q1":{"action":"decline"},"q2":{"action":"accept"}}`)
				if got, want := said(w.text()), `[{"action":"decline"},{"action":"accept","content":{"a":2}},{"action":"cancel"}]`; got != want {
					t.Errorf("the server was told %s, want %s", got, want)
				}
			})
		})
	}
}

// A suspended call that is gone is an error that says so, and its call is not made
// again.
func TestLostSuspendedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := askingBackend(t, askForm)
		one, two := newRig(t, mounted(b)).run(), newRig(t, mounted(b), func(o *Options, _ *Config) {
			o.UseRound = func(context.Context, string, int, time.Time) (bool, error) { return true, nil }
		})
		one.instance = "before"
		w := one.modern("1", "tools/call", `"name":"s__ask"`)
		got := two.retry(w, `"name":"s__ask"`, `{"q1":{"action":"accept"}}`)
		if !strings.Contains(got.text(), `"isError":true`) || !strings.Contains(got.text(), `"kind":"call_lost"`) {
			t.Errorf("at a gateway that does not have it: %s", got.text())
		}
		if n := len(b.seen("")); n != 1 {
			t.Errorf("the tool was called %d times", n)
		}
		time.Sleep(17 * time.Minute)
		synctest.Wait()
		got = one.retry(w, `"name":"s__ask"`, `{"q1":{"action":"accept"}}`)
		if !strings.Contains(got.text(), `"code":-32602,"message":"Invalid requestState: it has expired"`) {
			t.Errorf("too late: %s", got.text())
		}
		entries := one.ledger.all()
		if len(entries) != 2 || entries[0].Outcome != audit.OutcomeAbandoned {
			t.Errorf("entries %+v, want the call abandoned", entries)
		}
		if open, _ := one.awaited(); len(b.seen("")) != 1 || open != 0 {
			t.Errorf("calls %d, open %d", len(b.seen("")), open)
		}
	})
}

// Of two concurrent retries one resumes the call.
func TestRacingRetriesOfASuspendedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := askingBackend(t, askForm)
		r := newRig(t, mounted(b)).run()
		for n := range 10 {
			w := r.modern("1", "tools/call", `"name":"s__ask"`)
			var all sync.WaitGroup
			var mu sync.Mutex
			won := 0
			for range 6 {
				all.Go(func() {
					got := r.retry(w, `"name":"s__ask"`, `{"q1":{"action":"accept"}}`)
					mu.Lock()
					defer mu.Unlock()
					switch {
					case said(got.text()) == `[{"action":"accept"}]`:
						won++
					case got.text() != badState:
						t.Errorf("the loser got %s", got.text())
					}
				})
			}
			all.Wait()
			if won != 1 || len(b.seen("")) != n+1 {
				t.Fatalf("%d of 6 racing retries went on, %d calls", won, len(b.seen("")))
			}
		}
	})
}

// Suspended calls are bounded, by principal and by server. One more of a principal
// displaces its oldest, which ends at its server too; its retry is told so. Calls of
// others are not affected.
func TestSuspendedCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := askingBackend(t, askForm)
		r := newRig(t, mounted(b), func(o *Options, _ *Config) {
			o.Limits.SuspendedPerPrincipal, o.Limits.SuspendedPerServer = 2, 3
		}).run()
		ask := func(who string) *recorder {
			time.Sleep(time.Second)
			return r.modern("1", "tools/call", `"name":"s__ask"`, "Authorization", "Bearer "+who)
		}
		again := func(w *recorder, who string) string {
			return r.retry(w, `"name":"s__ask"`, `{"q1":{"action":"accept"}}`, "Authorization", "Bearer "+who).text()
		}
		first, second, third := ask("alice"), ask("alice"), ask("alice")
		synctest.Wait()
		if got := r.ledger.all(); len(got) != 1 || got[0].Outcome != audit.OutcomeAbandoned || got[0].CallID != "call-1" {
			t.Errorf("after a third of one principal: %+v, want the first abandoned", got)
		}
		if got := again(first, "alice"); !strings.Contains(got, `"kind":"call_lost"`) {
			t.Errorf("the one that made room: %s", got)
		}
		fourth := ask("bob") // the third at the server
		fifth := ask("bob")  // the server has no room for a fourth
		if got := again(fourth, "bob"); !strings.Contains(got, `"kind":"call_lost"`) {
			t.Errorf("bob's first: %s", got)
		}
		for who, all := range map[string][]*recorder{"alice": {second, third}, "bob": {fifth}} {
			for _, w := range all {
				if got := again(w, who); said(got) != `[{"action":"accept"}]` {
					t.Errorf("one that stayed, of %s: %s", who, got)
				}
			}
		}
		if open, _ := r.awaited(); open != 0 {
			t.Errorf("%d calls are left behind", open)
		}
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if _, displaced := r.awaited(); displaced != 0 {
			t.Errorf("%d that made room are remembered for ever", displaced)
		}
	})
}

// A principal without a suspended call at a full server is refused, and its call ends
// there.
func TestSuspendedCallsOfOthersStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, mounted(askingBackend(t, askForm)), func(o *Options, _ *Config) { o.Limits.SuspendedPerServer = 1 }).run()
		ask := func(who string) string {
			return r.modern("1", "tools/call", `"name":"s__ask"`, "Authorization", "Bearer "+who).text()
		}
		if got := ask("alice"); !strings.Contains(got, "input_required") {
			t.Errorf("alice: %s", got)
		}
		if got := ask("bob"); !strings.Contains(got, `"kind":"too_many_open_calls"`) {
			t.Errorf("bob: %s", got)
		}
		synctest.Wait()
		if open, _ := r.awaited(); open != 1 {
			t.Errorf("%d calls are open, want alice's", open)
		}
	})
}

// A server cannot ask for ever: beyond the limit of a call its questions are refused.
func TestQuestionsAreCapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := make([]string, 64+100)
		for i := range lines {
			lines[i] = askForm
		}
		r := newRig(t, mounted(askingBackend(t, strings.Join(lines, "\n")))).run()
		w := r.modern("1", "tools/call", `"name":"s__ask"`)
		asked := 0
		for inputs(w) != "" {
			var answers []string
			for m := range mcp.Members([]byte(inputs(w))) {
				answers = append(answers, `"`+string(m.KeyText.Of([]byte(inputs(w))))+`":{"action":"accept"}`)
			}
			asked += len(answers)
			w = r.retry(w, `"name":"s__ask"`, `{`+strings.Join(answers, ",")+`}`)
		}
		if got := said(w.text()); asked != 64 || strings.Count(got, "accept") != 64 || strings.Count(got, "is not put to the client") != 100 {
			t.Errorf("the client was asked %d times, want %d", asked, 64)
		}
	})
}

// A client that disconnects in a round, or cancels it, ends the call at the server too.
func TestRoundOfASuspendedCallIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Legacy, tool("ask"))
		why := make(chan error, 2)
		b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
			_, _ = call.AskAndWait(ctx, mcp.MethodElicit, []byte(`{"message":"m"}`))
			<-ctx.Done()
			why <- context.Cause(ctx)
			return mcp.Answer{}, context.Cause(ctx)
		}
		r := newRig(t, mounted(b)).run()
		w := r.modern("1", "tools/call", `"name":"s__ask"`)
		running, leave := r.begin(modernRequest(modernBody("2", "tools/call", `"name":"s__ask","inputResponses":{"q1":{"action":"accept"}},"requestState":"`+stateOf(t, w)+`"`, "")))
		synctest.Wait()
		leave()
		<-running.done
		if got := <-why; !errors.Is(got, context.Canceled) {
			t.Errorf("the call at the server ended with %v", got)
		}
		c := r.stdio(person("alice"))
		c.send(modernBody("7", "tools/call", `"name":"s__ask"`, ""))
		time.Sleep(time.Second)
		state, _ := mcp.LookupString([]byte(c.out.drain()), "result", "requestState")
		c.send(modernBody("8", "tools/call", `"name":"s__ask","inputResponses":{"q1":{"action":"accept"}},"requestState":"`+state+`"`, ""))
		synctest.Wait()
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":8}}`)
		if got := <-why; !errors.Is(got, errCancelled) {
			t.Errorf("the call at the server ended with %v", got)
		}
		synctest.Wait()
		if got := c.out.drain(); got != "" {
			t.Errorf("a cancelled request was answered: %s", got)
		}
		if got := r.ledger.outcomes(); len(got) != 2 || got[0] != audit.OutcomeCancelled || got[1] != audit.OutcomeCancelled {
			t.Errorf("audit %v", got)
		}
	})
}

// Progress is sent under the token of the current round, and nowhere between rounds. A
// result that came meanwhile waits for the retry.
func TestProgressOfASuspendedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Legacy, tool("ask"))
		b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
			call.Notify(mcp.NotifyProgress, []byte(`{"progressToken":7,"progress":1}`))
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			_, _ = call.AskAndWait(ctx, mcp.MethodElicit, []byte(`{"message":"m"}`))
			call.Notify(mcp.NotifyProgress, []byte(`{"progressToken":7,"progress":2}`))
			return answered(mcp.Legacy, `{"content":[],"waited":`+fmt.Sprint(ctx.Err() != nil)+`}`), nil
		}
		r := newRig(t, mounted(b)).run()
		call := func(token, state string) *recorder {
			members := `"name":"s__ask"`
			if state != "" {
				members += `,"inputResponses":{"q1":{"action":"accept"}},"requestState":"` + state + `"`
			}
			return r.do(modernRequest(modernBody(token, "tools/call", members, `"progressToken":`+token)))
		}
		stateIn := func(kept string) string {
			_, data, _ := strings.Cut(kept[strings.LastIndex(kept, "data: "):], " ")
			state, _ := mcp.LookupString([]byte(data), "result", "requestState")
			return state
		}
		w := call("11", "")
		if !strings.Contains(w.text(), `"params":{"progressToken":11,"progress":1}`) {
			t.Errorf("the first round: %s", w.text())
		}
		w = call("12", stateIn(w.text()))
		if !strings.Contains(w.text(), `"params":{"progressToken":12,"progress":2}`) || strings.Contains(w.text(), `"progress":1`) {
			t.Errorf("the second round: %s", w.text())
		}
		w = call("13", "")
		time.Sleep(2 * time.Minute) // the server does not wait that long
		w = call("14", stateIn(w.text()))
		if strings.Contains(w.text(), `"progress"`) || !strings.Contains(w.text(), `"waited":true`) {
			t.Errorf("after the server has gone on: %s", w.text())
		}
	})
}

// A server that requires its user to visit URLs gets its call again when that is done
// (2025-11-25 client/elicitation).
func TestURLsFirst(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, tool("ask"))
	b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
		if len(b.seen("")) > 1 {
			return answered(mcp.Legacy, `{"content":[]}`), nil
		}
		return fault(mcp.Legacy, `{"code":-32042,"message":"first","data":{"elicitations":[{"mode":"url","message":"log in","url":"https://x.example/","elicitationId":"e"}]}}`), nil
	}
	r := noted(t, b, nil, nil)
	urls := func(body string) string {
		return strings.Replace(body, `{"sampling":{},"elicitation":{"form":{}}}`, `{"elicitation":{"url":{}}}`, 1)
	}
	w := r.do(modernRequest(urls(modernBody("1", "tools/call", `"name":"s__ask"`, ""))))
	if got, want := inputs(w), `{"q1":{"method":"elicitation/create","params":{"mode":"url","message":"[s] log in","url":"https://x.example/"}}}`; got != want {
		t.Fatalf("asked %s, want %s", got, want)
	}
	w = r.do(modernRequest(urls(modernBody("2", "tools/call", `"name":"s__ask","inputResponses":{"q1":{"action":"accept"}},"requestState":"`+stateOf(t, w)+`"`, ""))))
	if !strings.Contains(w.text(), `"resultType":"complete"`) {
		t.Errorf("after the visit: %s", w.text())
	}
	for i, c := range b.seen("") {
		if string(c.Params) != `{"name":"ask"}` {
			t.Errorf("call %d had the params %s", i, c.Params)
		}
	}
	if steps := strings.Join(r.steps(), ", "); strings.Count(steps, "charge") != 1 {
		t.Errorf("steps %s: want one charge", steps)
	}
}

// A panic in a call that runs apart from its request ends only this call.
func TestPanicInASuspendedCall(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, tool("ask"))
	b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) { panic("on purpose") }
	r := newRig(t, mounted(b))
	w := r.modern("1", "tools/call", `"name":"s__ask"`)
	if !strings.Contains(w.text(), `"error":{"code":-32603,"message":"Internal error"}`) || strings.Contains(w.text(), "on purpose") {
		t.Errorf("%s", w.text())
	}
	if got := r.ledger.all(); len(got) != 1 || !strings.Contains(r.log.String(), "on purpose") {
		t.Errorf("audit %+v, log %s", got, r.log.String())
	}
}

// When the backend gives up a call while its client is asked, the retry is told so, and
// the call is not made again.
func TestSuspendedCallThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Legacy, tool("ask"))
		b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			_, _ = call.AskAndWait(ctx, mcp.MethodElicit, []byte(`{"message":"m"}`))
			return mcp.Answer{}, &mcp.Failure{Kind: mcp.FailGivenUp, Server: "s", Reason: "given up", Delivered: true}
		}
		r := newRig(t, mounted(b)).run()
		w := r.modern("1", "tools/call", `"name":"s__ask"`)
		time.Sleep(2 * time.Minute)
		got := r.retry(w, `"name":"s__ask"`, `{"q1":{"action":"accept"}}`).text()
		if !strings.Contains(got, `"isError":true`) || !strings.Contains(got, `"kind":"call_lost"`) || !strings.Contains(got, "given up") {
			t.Errorf("the retry: %s", got)
		}
		if n := len(b.seen("")); n != 1 {
			t.Errorf("the tool was called %d times", n)
		}
	})
}

// With the default limits, as many calls of one principal may wait for answers as a few
// dozen clients make at once.
func TestSuspendedCallsOfManyClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, mounted(askingBackend(t, askForm))).run()
		var open []*recorder
		for range 50 {
			open = append(open, r.modern("1", "tools/call", `"name":"s__ask"`))
		}
		for i, w := range open {
			if got := r.retry(w, `"name":"s__ask"`, `{"q1":{"action":"accept"}}`); said(got.text()) != `[{"action":"accept"}]` {
				t.Fatalf("call %d: %s", i, got.text())
			}
		}
	})
}
