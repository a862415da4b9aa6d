package proxy

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
)

// called makes a call and reports whether it was allowed.
func (r *rig) called(who, name, arguments string) bool {
	r.t.Helper()
	w := r.modern("1", mcp.MethodToolsCall, `"name":"`+name+`","arguments":`+arguments, "Authorization", "Bearer "+who)
	return !strings.Contains(w.text(), "repeated_call")
}

const (
	repeatPause = 10 * time.Second // longest pause between calls of a streak
	repeatHold  = time.Minute      // how long a streak that was too long is refused
)

// inARow bounds how often the same call may be made in a row.
func inARow(most int) func(*Options, *Config) {
	return func(_ *Options, c *Config) { c.IdenticalCalls = most }
}

// The same call in a row is refused, until another one is made or some time has passed.
func TestIdenticalCallsInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Modern, tool("a"), tool("b"))
		r := newRig(t, mounted(b), inARow(3))
		row := func(n int) {
			t.Helper()
			for i := range n {
				// Other spellings of the same arguments, as a model writes them.
				arguments := []string{`{"x":1,"y":"é"}`, `{ "y":"\u00e9", "x":1 }`, `{"y":"é","x":1}`}[i%3]
				if !r.called("alice", "s__a", arguments) {
					t.Fatalf("call %d of %d was refused", i+1, n)
				}
			}
		}
		row(3)
		w := r.modern("1", mcp.MethodToolsCall, `"name":"s__a","arguments":{"x":1,"y":"é"}`)
		for _, want := range []string{`"isError":true`, "3 times in a row", "limits.identical_calls", "wait 1m", `"retry_after_ms":60000`, `"limit":3`} {
			if !strings.Contains(w.text(), want) {
				t.Errorf("%s\nis not in %s", want, w.text())
			}
		}
		if e := r.ledger.all()[3]; e.Outcome != audit.OutcomeDenied || e.Code != "repeated_call" || e.ArgsHash == "" || e.ArgsHash != r.ledger.all()[0].ArgsHash {
			t.Errorf("%+v", e)
		}
		if !r.called("bob", "s__a", `{"x":1,"y":"é"}`) {
			t.Error("bob is refused for alice's calls")
		}
		if r.called("alice", "s__a", `{"x":1,"y":"é"}`) {
			t.Error("bob's call ended alice's row")
		}
		if !r.called("alice", "s__a", `{"x":2}`) { // other arguments end the streak
			t.Error("other arguments are refused")
		}
		row(3)
		if !r.called("alice", "s__b", `{"x":1,"y":"é"}`) { // and so does another tool
			t.Error("another tool is refused")
		}
		row(3)
		time.Sleep(repeatHold - time.Second)
		if r.called("alice", "s__a", `{"x":1,"y":"é"}`) {
			t.Error("a row was forgotten too early")
		}
		time.Sleep(time.Second)
		row(2)
		time.Sleep(repeatPause + time.Millisecond) // polling now and then is no loop
		row(3)
		if n := len(b.seen("")); n != 3+1+1+3+1+3+2+3 {
			t.Errorf("%d calls came to the server", n)
		}
	})
}

// Many identical calls at once are no streak: in a streak each call knows the result of
// the one before.
func TestIdenticalCallsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Modern, tool("a"))
		b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
			time.Sleep(time.Second)
			return answered(mcp.Modern, `{"content":[]}`), nil
		}
		r := newRig(t, mounted(b), inARow(2))
		refused := make(chan bool, 20)
		for range 20 {
			go func() { refused <- !r.called("alice", "s__a", `{}`) }()
		}
		for range 20 {
			if <-refused {
				t.Error("one of many at once was refused")
			}
		}
		if !r.called("alice", "s__a", `{}`) || r.called("alice", "s__a", `{}`) {
			t.Error("after them, want one more and no other")
		}
	})
}

// The rounds of a call count as one call of a streak, which ends with the last of them.
func TestIdenticalCallsInRounds(t *testing.T) {
	for _, legacy := range []bool{false, true} { // whose calls are suspended
		synctest.Test(t, func(t *testing.T) {
			b := asking(t, 1)
			if legacy {
				b = askingBackend(t, askForm)
			}
			r := newRig(t, mounted(b), inARow(2)).run()
			for i := range 3 {
				w := r.modern("1", mcp.MethodToolsCall, `"name":"s__ask"`)
				if refused := strings.Contains(w.text(), "repeated_call"); refused != (i == 2) {
					t.Fatalf("call %d: %s", i+1, w.text())
				}
				if i < 2 {
					r.retry(w, `"name":"s__ask"`, `{"q":{"action":"accept"},"q1":{"action":"accept","content":{}}}`)
				}
			}
			synctest.Wait()
			time.Sleep(2 * repeatHold)
			for i := range 3 { // a call that has not ended would keep the streak open
				w := r.modern("1", mcp.MethodToolsCall, `"name":"s__ask"`)
				if refused := strings.Contains(w.text(), "repeated_call"); refused != (i == 2) {
					t.Fatalf("call %d of the next row: %s", i+1, w.text())
				}
				if i < 2 {
					r.retry(w, `"name":"s__ask"`, `{"q":{"action":"accept"},"q1":{"action":"accept","content":{}}}`)
				}
			}
		})
	}
}
