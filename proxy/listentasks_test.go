package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/limit"
)

// listenFor opens a subscription to tasks.
func (r *rig) listenFor(ids ...string) (*recorder, context.CancelFunc) {
	var list []string
	for _, id := range ids {
		list = append(list, `"`+id+`"`)
	}
	body := modernBody("9", "subscriptions/listen", `"notifications":{"taskIds":[`+strings.Join(list, ",")+`]}`, "")
	body = strings.Replace(body, `"io.modelcontextprotocol/clientCapabilities":{`, declaredTasks, 1)
	return r.begin(modernRequest(body))
}

// A subscription acknowledges the caller's own tasks, tells their current state and
// then each change, until they end.
func TestListenForTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWorker(t, mcp.Modern, working, working, `"status":"input_required","pollIntervalMs":200,"inputRequests":{"k":{"method":"elicitation/create","params":{"message":"who?"}}}`, completed)
		r := newRig(t, mounted(b.script)).run()
		id := taskID(t, r.tasked("1", "tools/call", `"name":"s__job"`))
		of := taskID(t, r.tasked("1", "tools/call", `"name":"s__job"`, "Authorization", "Bearer bob"))
		w, _ := r.listenFor(id, id, of, "own 1", "k1.x")
		meta := `"_meta":{"io.modelcontextprotocol/subscriptionId":9}`
		synctest.Wait()
		ack := `data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{` + meta + `,"notifications":{"taskIds":["` + id + `"]}}}`
		told := func(state string) string {
			return `data: {"jsonrpc":"2.0","method":"notifications/tasks","params":{` + meta + `,` + ofTask(id) + `,` + state + `}}`
		}
		check := func(want ...string) {
			t.Helper()
			var got []string
			for line := range strings.SplitSeq(w.next(), "\n") {
				if strings.HasPrefix(line, "data:") {
					got = append(got, line)
				}
			}
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		check(ack, told(working))
		time.Sleep(250 * time.Millisecond)
		synctest.Wait()
		check() // the same state again
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		check(told(`"status":"input_required","pollIntervalMs":200,"inputRequests":{"k":{"method":"elicitation/create","params":{"message":"[s] who?"}}}`))
		time.Sleep(time.Hour)
		synctest.Wait()
		check(told(`"status":"completed","result":{"content":[{"type":"resource_link","uri":"s+file:///a"}],"_meta":{"b":2}}`))
		if n := len(b.seen(mcp.MethodTaskGet)); n != 4 {
			t.Errorf("looked %d times at a task with four states", n)
		}
		if n := len(r.ledger.all()); n != 2 {
			t.Errorf("%d entries, want those of the two calls", n)
		}
	})
}

// A client that does not declare tasks cannot listen for them; anything that is not a
// list of ids is not honoured.
func TestListenForNoTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, mounted(newWorker(t, mcp.Modern, working).script), func(o *Options, _ *Config) { o.Limits.ListenTasks = 2 }).run()
		w := r.modern("9", "subscriptions/listen", `"notifications":{"taskIds":[]}`)
		if w.code() != http.StatusBadRequest || !strings.Contains(w.text(), string(errNoTasks.Append(nil))) {
			t.Errorf("not declared: %d %s", w.code(), w.text())
		}
		ids := make([]string, 4)
		for i := range ids {
			ids[i] = taskID(t, r.tasked("1", "tools/call", `"name":"s__job"`))
		}
		some, _ := r.listenFor(ids...)
		none, _ := r.listenFor()
		synctest.Wait()
		if got := some.text(); !strings.Contains(got, `"taskIds":["`+ids[0]+`","`+ids[1]+`"]}`) || strings.Contains(got, ids[2]) {
			t.Errorf("more than a subscription may have: %s", got)
		}
		if got := none.text(); !strings.Contains(got, `"notifications":{"taskIds":[]}`) {
			t.Errorf("none: %s", got)
		}
	})
}

// Trouble with one task does not end the subscription to the others. A server that is
// down is polled less and less often. A task that is gone or hidden is dropped
// silently. The client's disconnect ends everything.
func TestListenForTasksInTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWorker(t, mcp.Modern, working)
		away, gone, hidden := newWorker(t, mcp.Modern, working), newWorker(t, mcp.Modern, working), newWorker(t, mcp.Modern, working)
		away.name, gone.name, hidden.name = "away", "gone", "hidden"
		away.lose, gone.looks["own 1"] = 1000, -1
		var hide atomic.Bool
		r := newRig(t, mounted(b.script, away.script, gone.script, hidden.script), func(_ *Options, c *Config) {
			c.Chain = gate.NewChain(rule(func(_ context.Context, r *gate.Request) (gate.Decision, error) {
				if hide.Load() && r.Server == "hidden" {
					return gate.Decision{Effect: gate.Deny, Reason: "hidden"}, nil
				}
				return gate.Decision{Effect: gate.Allow}, nil
			}))
		}).run()
		var ids []string
		for _, name := range []string{"s", "away", "gone", "hidden"} {
			ids = append(ids, taskID(t, r.tasked("1", "tools/call", `"name":"`+name+`__job"`)))
		}
		w, leave := r.listenFor(ids...)
		time.Sleep(9900 * time.Millisecond) // between two polls
		hide.Store(true)
		time.Sleep(290*time.Second + 150*time.Millisecond)
		synctest.Wait()
		counts := fmt.Sprint(len(b.seen(mcp.MethodTaskGet)), len(away.seen(mcp.MethodTaskGet)), len(gone.seen(mcp.MethodTaskGet)), len(hidden.seen(mcp.MethodTaskGet)))
		if want := fmt.Sprint(1501, 14, 1, 50); counts != want {
			t.Errorf("looked %s times, want %s", counts, want)
		}
		if strings.Count(w.text(), "notifications/tasks") != 2 {
			t.Errorf("told %s", w.text())
		}
		leave()
		synctest.Wait()
		if !w.ended() || len(r.listens.all) != 0 {
			t.Errorf("after the end: %v, %d left", w.ended(), len(r.listens.all))
		}
		before := len(b.seen(""))
		time.Sleep(time.Minute)
		if n := len(b.seen("")); n != before {
			t.Errorf("asked %d times after the end", n-before)
		}
	})
}

// A request to listen counts as one of a list.
func TestListenIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, mounted(newWorker(t, mcp.Modern, working).script), bounded(limit.Rates{Lists: 1})).run()
		first, leave := r.listenFor()
		defer leave()
		synctest.Wait()
		second, leaveSecond := r.listenFor()
		defer leaveSecond()
		synctest.Wait()
		if got := first.text(); !strings.Contains(got, "acknowledged") {
			t.Errorf("the first: %s", got)
		}
		if got := second.text(); !strings.Contains(got, "limits.lists_per_minute") {
			t.Errorf("one too many: %s", got)
		}
	})
}

// While the audit log cannot be written, the states of tasks are not passed on.
func TestListenWithoutAnAuditLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWorker(t, mcp.Modern, completed)
		r := newRig(t, mounted(b.script)).run()
		id := taskID(t, r.tasked("1", "tools/call", `"name":"s__job"`))
		down := func(err error) {
			r.ledger.mu.Lock()
			defer r.ledger.mu.Unlock()
			r.ledger.down = err
		}
		down(errBoom)
		w, leave := r.listenFor(id)
		defer leave()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := w.text(); strings.Contains(got, "completed") || len(b.seen(mcp.MethodTaskGet)) != 0 {
			t.Errorf("told %s", got)
		}
		down(nil)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := w.text(); !strings.Contains(got, "completed") {
			t.Errorf("told %s, want the state once the log is back", got)
		}
	})
}
