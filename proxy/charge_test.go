package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/budgettest"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
)

// tariff is one budget of each unit.
func tariff(calls, cost, bytes, seconds int64) []budget.Rule {
	rule := func(u budget.Unit, limit int64) budget.Rule {
		return budget.Rule{Name: string(u), Per: budget.PerSubject, Unit: u, Limit: limit, Window: budget.Month}
	}
	return []budget.Rule{rule(budget.Calls, calls), rule(budget.Cost, cost), rule(budget.Bytes, bytes), rule(budget.Seconds, seconds)}
}

// charging is a rig with budgets. Its results have at most 1000 bytes and take at most
// a minute.
func charging(t *testing.T, b *script, store budget.Store, rules ...budget.Rule) *rig {
	t.Helper()
	return newRig(t, mounted(b), func(_ *Options, c *Config) {
		c.Limiter = limited(t, store, rules...)
		c.Mounts[0].Result, c.Mounts[0].Hard = 1000, time.Minute
		c.Mounts[0].Tools = map[string]ToolShape{"dear": {Cost: 7}}
		c.Class = func(_ gate.Request, listed []byte) string { return "class of " + string(mcp.Lookup(listed, "name")) }
	})
}

// usedOf returns the usage by budget, seconds in milliseconds.
func usedOf(t *testing.T, s budget.Store) map[string]int64 {
	t.Helper()
	list, err := s.Usage(t.Context(), time.Now().Add(time.Second), budget.Filter{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int64)
	for _, b := range list {
		got[b.Budget] += b.Used
	}
	return got
}

func wantUsed(t *testing.T, s budget.Store, want map[string]int64) {
	t.Helper()
	if diff := cmp.Diff(want, usedOf(t, s)); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
}

// The charge of a call for each way to end. Reservations are given back before the
// client has its response.
func TestWhatCallsCost(t *testing.T) {
	answer := func(text string) func(context.Context, *mcp.Call) (mcp.Answer, error) {
		return func(context.Context, *mcp.Call) (mcp.Answer, error) {
			<-time.After(1500 * time.Millisecond)
			return answered(mcp.Legacy, text), nil
		}
	}
	failing := func(delivered bool) func(context.Context, *mcp.Call) (mcp.Answer, error) {
		return func(context.Context, *mcp.Call) (mcp.Answer, error) {
			<-time.After(2 * time.Second)
			return mcp.Answer{}, &mcp.Failure{Kind: mcp.FailTimeout, Origin: mcp.OriginServer, Server: "s", Reason: "No answer.", Delivered: delivered}
		}
	}
	for _, tc := range []struct {
		name, method, params string
		reply                func(context.Context, *mcp.Call) (mcp.Answer, error)
		want                 map[string]int64
	}{
		{"call", "tools/call", `{"name":"s__cheap"}`, answer(`{"content":[]}`), map[string]int64{"calls": 1, "cost": 1, "bytes": 14, "seconds": 1500}},
		{"dear call", "tools/call", `{"name":"s__dear"}`, answer(`{"content":[]}`), map[string]int64{"calls": 1, "cost": 7, "bytes": 14, "seconds": 1500}},
		{"tool error", "tools/call", `{"name":"s__cheap"}`, answer(`{"content":[],"isError":true}`), map[string]int64{"calls": 1, "cost": 1, "bytes": 29, "seconds": 1500}},
		{"protocol error", "tools/call", `{"name":"s__cheap"}`, func(context.Context, *mcp.Call) (mcp.Answer, error) {
			return fault(mcp.Legacy, `{"code":-32000,"message":"mmm","data":{"n":1}}`), nil
		}, map[string]int64{"calls": 1, "cost": 1, "bytes": 10, "seconds": 1}},
		{"timeout", "tools/call", `{"name":"s__cheap"}`, failing(true), map[string]int64{"calls": 1, "cost": 1, "seconds": 2000}},
		{"never delivered", "tools/call", `{"name":"s__cheap"}`, failing(false), map[string]int64{}},
		{"panic", "tools/call", `{"name":"s__cheap"}`, func(context.Context, *mcp.Call) (mcp.Answer, error) { panic("backend") }, map[string]int64{"calls": 1, "cost": 1, "seconds": 1}},
		{"prompt", "prompts/get", `{"name":"s__p"}`, answer(`{"messages":[]}`), map[string]int64{"bytes": 15, "seconds": 1500}},
		{"resource", "resources/read", `{"uri":"s+file:///r"}`, answer(`{"contents":[]}`), map[string]int64{"bytes": 15, "seconds": 1500}},
		{"completion", "completion/complete", `{"ref":{"type":"ref/prompt","name":"s__p"},"argument":{"name":"a","value":"b"}}`, answer(`{"completion":{"values":[]}}`), map[string]int64{}},
		{"list", "tools/list", ``, answer(`{}`), map[string]int64{}},
		{"unknown", "tools/call", `{"name":"s__none"}`, answer(`{}`), map[string]int64{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := new(budgettest.Memory)
				b := newScript(t, "s", mcp.Legacy, tool("cheap"), tool("dear"), `prompt {"name":"p","arguments":[{"name":"a"}]}`, `resource {"uri":"file:///r","name":"r"}`)
				b.reply = tc.reply
				r := charging(t, b, store, tariff(10, 10, 10_000, 100)...)
				session := r.open()
				w := r.legacy(session, "1", tc.method, tc.params)
				if w.code() != 200 {
					t.Fatalf("%d: %s", w.code(), w.text())
				}
				wantUsed(t, store, tc.want)
			})
		})
	}
}

// A result that is larger than the rest of the budget is not delivered, and uses up the
// rest.
func TestResultLargerThanWhatIsLeft(t *testing.T) {
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		store := new(budgettest.Memory)
		b := newScript(t, "s", era, tool("echo"))
		b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
			return answered(era, `{"content":[{"type":"text","text":"`+strings.Repeat("x", 200)+`"}]}`), nil
		}
		r := charging(t, b, store, tariff(10, 10, 400, 1000)...)
		call := func() string { return r.modern("1", "tools/call", `"name":"s__echo"`).text() }
		if got := call(); !strings.Contains(got, "xxx") {
			t.Fatalf("the first: %s", got)
		}
		got := call()
		if !strings.Contains(got, `"isError":true`) || !strings.Contains(got, "The call was made, but its result is not delivered") ||
			!strings.Contains(got, `"kind":"budget","code":1006,"phase":"budget","budget":"bytes","limit":400,"used":400`) || strings.Contains(got, "xxx") {
			t.Errorf("the second: %s", got)
		}
		if got := call(); !strings.Contains(got, "The budget bytes is used up until") || len(b.seen("")) != 2 {
			t.Errorf("the third, after %d calls: %s", len(b.seen("")), got)
		}
	}
}

// A call ends when it has used the remaining time.
func TestTimeOfACallIsWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(budgettest.Memory)
		b := newScript(t, "s", mcp.Modern, tool("slow"))
		b.reply = func(ctx context.Context, _ *mcp.Call) (mcp.Answer, error) {
			select {
			case <-time.After(40 * time.Second):
				return answered(mcp.Modern, `{"resultType":"complete","content":[]}`), nil
			case <-ctx.Done():
				return mcp.Answer{}, context.Cause(ctx)
			}
		}
		r := charging(t, b, store, tariff(10, 10, 4000, 70)...)
		began := time.Now()
		if w := r.modern("1", "tools/call", `"name":"s__slow"`); !strings.Contains(w.text(), `"content":[]`) || time.Since(began) != 40*time.Second {
			t.Fatalf("after %s: %s", time.Since(began), w.text())
		}
		began = time.Now()
		w := r.modern("1", "tools/call", `"name":"s__slow"`)
		if took := time.Since(began); took != 30*time.Second || !strings.Contains(w.text(), "The call was ended: it took longer than what was left of the budget seconds") {
			t.Errorf("after %s: %s", took, w.text())
		}
		if got := usedOf(t, store)["seconds"]; got != 70_000 {
			t.Errorf("%d ms are used", got)
		}
	})
}

// Each round reserves and gives back its own bytes and seconds; the call counts once.
// The time of the client's answer does not count.
func TestRoundsAreChargedForWhatTheyUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(budgettest.Memory)
		r := charging(t, askingBackend(t, askForm, askForm), store, tariff(10, 10, 100_000, 10_000)...).run()
		w := r.modern("1", "tools/call", `"name":"s__ask"`)
		first := usedOf(t, store)
		if first["calls"] != 1 || first["cost"] != 1 || first["bytes"] == 0 || first["bytes"] > 500 || first["seconds"] > 1000 {
			t.Errorf("after the first round: %v", first)
		}
		time.Sleep(10 * time.Minute)
		w = r.retry(w, `"name":"s__ask"`, `{"q1":{"action":"accept","content":{}}}`)
		second := usedOf(t, store)
		time.Sleep(10 * time.Minute)
		w = r.retry(w, `"name":"s__ask"`, `{"q2":{"action":"accept","content":{}}}`)
		third := usedOf(t, store)
		if !strings.Contains(w.text(), `"said"`) || third["calls"] != 1 || third["cost"] != 1 || third["bytes"] <= second["bytes"] || second["bytes"] <= first["bytes"] || third["seconds"] > 1000 {
			t.Errorf("after the rounds: %v, %v; %s", second, third, w.text())
		}
		var own []audit.Budget
		for _, e := range r.ledger.all() {
			if e.CallID == "call-1" {
				own = append(own, e.Budgets...)
			}
		}
		names := ""
		for _, f := range own {
			names += f.Name + " "
		}
		if names != "calls cost bytes seconds bytes seconds bytes seconds " {
			t.Errorf("the entry has %s", names)
		}
	})
}

// A round without remaining budget ends its call, also at the server.
func TestCallEndsWithItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(budgettest.Memory)
		b := askingBackend(t, askForm)
		asked := b.reply
		var ended atomic.Bool
		b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
			got, err := asked(ctx, call)
			ended.Store(ctx.Err() != nil)
			return got, err
		}
		r := charging(t, b, store, tariff(10, 10, 300, 10_000)...).run()
		w := r.modern("1", "tools/call", `"name":"s__ask"`)
		if got := usedOf(t, store)["bytes"]; got == 300 {
			t.Fatalf("%d bytes are used: %s", got, w.text())
		}
		// Another call uses the rest.
		bill := budget.Charge{Counter: budget.Counter{Budget: "bytes", Measure: "bytes/month", Key: "subject:test/default/alice"}, Amount: 300, Least: 1, Limit: 300}
		bill.Start, bill.End = budget.Month.At(time.Now(), time.UTC)
		if _, err := store.Charge(t.Context(), budget.Bill{Key: budget.Key{Call: "other"}, At: time.Now(), Until: time.Now().Add(time.Hour), Charges: []budget.Charge{bill}}); err != nil {
			t.Fatal(err)
		}
		w = r.retry(w, `"name":"s__ask"`, `{"q1":{"action":"accept","content":{}}}`)
		if !strings.Contains(w.text(), "The budget bytes is used up until") {
			t.Errorf("the next round: %s", w.text())
		}
		synctest.Wait()
		if !ended.Load() {
			t.Error("the call goes on at the server")
		}
	})
}

// The same sealed round, sent many times at once, is delivered once.
func TestReplayedRoundIsDeliveredOnce(t *testing.T) {
	store := new(budgettest.Memory)
	b := asking(t, 1)
	r := charging(t, b, store, tariff(10, 10, 1_000_000, 10_000)...)
	state := stateOf(t, r.modern("1", "tools/call", `"name":"s__ask"`))
	var all sync.WaitGroup
	var done atomic.Int64
	for range 10 {
		all.Go(func() {
			for range 100 {
				if w := r.again(state, ""); strings.Contains(w.text(), `"resultType":"complete"`) {
					done.Add(1)
				} else if w.text() != badState {
					t.Errorf("another: %s", w.text())
				}
			}
		})
	}
	all.Wait()
	if calls := len(b.seen("")); done.Load() != 1 || calls != 2 {
		t.Errorf("%d of 1000 were answered, and %d calls made; want 1 and 2", done.Load(), calls)
	}
	if got := usedOf(t, store); got["calls"] != 1 {
		t.Errorf("used %v", got)
	}
}

// Fetching the result of a task counts its bytes, but no call.
func TestResultsOfTasksCount(t *testing.T) {
	for _, era := range []mcp.Era{mcp.Modern, mcp.Legacy} {
		store := new(budgettest.Memory)
		b := newWorker(t, era, working, completed)
		r := charging(t, b.script, store, tariff(10, 10, 100_000, 10_000)...)
		var fetch func() *recorder
		if era == mcp.Modern {
			id := taskID(t, r.tasked("1", "tools/call", `"name":"s__job"`))
			fetch = func() *recorder { return r.tasked("2", "tasks/get", ofTask(id)) }
		} else {
			session := r.open()
			id := r.makeTask(session)
			fetch = func() *recorder { return r.legacy(session, "2", "tasks/get", `{`+ofTask(id)+`}`) }
		}
		before := usedOf(t, store)
		if w := fetch(); !strings.Contains(w.text(), `"status":"working"`) {
			t.Fatal(w.text())
		}
		after := usedOf(t, store)
		if after["calls"] != 1 || after["bytes"] <= before["bytes"] {
			t.Errorf("%v: used %v, then %v", era, before, after)
		}
	}
}

// From 80 percent on a result has a warning, beside the members of the server.
func TestWarningsInResults(t *testing.T) {
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		store := new(budgettest.Memory)
		b := newScript(t, "s", era, tool("echo"))
		b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
			return answered(era, `{"content":[],"n":9007199254740993,"_meta":{"own":1}}`), nil
		}
		r := charging(t, b, store, tariff(5, 1000, 100_000, 10_000)...)
		for i := 1; i <= 5; i++ {
			var text string
			if era == mcp.Modern {
				text = r.modern("1", "tools/call", `"name":"s__echo"`).text()
			} else {
				text = r.legacy(r.open(), "1", "tools/call", `{"name":"s__echo"}`).text()
			}
			want := ""
			if i >= 4 {
				_, end := budget.Month.At(time.Now(), time.UTC)
				want = fmt.Sprintf(`[{"budget":"calls","unit":"calls","limit":5,"used":%d,"reset_at":"%s"}]`, i, end.Format(time.RFC3339))
			}
			if got := string(mcp.Lookup([]byte(text), "result", "_meta", BudgetKey)); got != want {
				t.Errorf("%v, call %d: warned of %s, want %s", era, i, got, want)
			}
			if string(mcp.Lookup([]byte(text), "result", "_meta", "own")) != "1" || string(mcp.Lookup([]byte(text), "result", "n")) != "9007199254740993" {
				t.Errorf("%v, call %d: %s", era, i, text)
			}
		}
	}
}

// An unknown plan is refused with a reason. The class is only asked for where a budget
// counts it.
func TestPlanAndClass(t *testing.T) {
	store := new(budgettest.Memory)
	b := newScript(t, "s", mcp.Modern, tool("echo"))
	classed := budget.Rule{Name: "classed", Per: budget.PerClass, Unit: budget.Calls, Limit: 5, Window: budget.Month}
	r := charging(t, b, store, classed)
	if w := r.modern("1", "tools/call", `"name":"s__echo"`); !strings.Contains(w.text(), `"result"`) {
		t.Fatal(w.text())
	}
	list, err := store.Usage(t.Context(), time.Now(), budget.Filter{}, 10)
	if err != nil || len(list) != 1 || list[0].Key != `class:class%20of%20%22echo%22` {
		t.Errorf("used %+v, %v", list, err)
	}
	config := *r.config.Load()
	config.Limiter, err = budget.New(budget.Settings{Store: store, Plans: map[string]budget.Plan{"free": {Name: "free"}}})
	if err != nil {
		t.Fatal(err)
	}
	r.Apply(config)
	alice := person("alice")
	alice.Plan = "gold"
	r.opts.Authenticator.(bearers)["alice"] = alice
	w := r.modern("1", "tools/call", `"name":"s__echo"`)
	if !strings.Contains(w.text(), `"isError":true`) || !strings.Contains(w.text(), `"kind":"plan_unknown","code":1006,"phase":"budget"`) {
		t.Errorf("a plan that nobody configured: %s", w.text())
	}
}

// The audit entry of a refusal names the budget that refused, which charged nothing.
func TestAuditNamesTheBudget(t *testing.T) {
	store := new(budgettest.Memory)
	r := charging(t, newScript(t, "s", mcp.Modern, tool("echo")), store, tariff(1, 10, 10_000, 10_000)[:1]...)
	r.modern("1", "tools/call", `"name":"s__echo"`)
	r.modern("1", "tools/call", `"name":"s__echo"`)
	var got [][]audit.Budget
	for _, e := range r.ledger.all() {
		got = append(got, e.Budgets)
	}
	key := "subject:test/default/alice"
	want := [][]audit.Budget{
		{{Name: "calls", Key: key, Unit: "calls", Amount: 1, Used: 1, Limit: 1}},
		{{Name: "calls", Key: key, Unit: "calls", Amount: 0, Used: 1, Limit: 1}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("budgets (-want +got):\n%s", diff)
	}
}

// If a request of the round reached the server, the call counts, however a later
// request ends.
func TestDeliveredCallIsNotGivenBack(t *testing.T) {
	lost := &mcp.Failure{Kind: mcp.FailUnavailable, Server: "s", Reason: "The server is gone."}
	call := func(r *rig, session, method, params string) {
		w, _ := r.begin(httpRequest(http.MethodPost, "/mcp", request("1", method, params), "Mcp-Session-Id", session))
		<-time.After(time.Minute)
		synctest.Wait()
		if !strings.Contains(w.text(), `"kind":"upstream_unavailable"`) {
			t.Errorf("%s: %s", method, w.text())
		}
	}
	want := func(r *rig, store budget.Store, what string) {
		got := usedOf(t, store)
		if got["calls"] != 1 || got["cost"] != 1 || got["seconds"] == 0 {
			t.Errorf("%s: used %v", what, got)
		}
	}
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		synctest.Test(t, func(t *testing.T) { // a task that the gateway follows
			store := new(budgettest.Memory)
			b := newWorker(t, era, completed)
			b.lose = 100
			r := charging(t, b.script, store, tariff(10, 10, 100_000, 10_000)...).run()
			call(r, r.open(), "tools/call", `{"name":"s__only"}`)
			want(r, store, "task "+era.String())
		})
	}
	synctest.Test(t, func(t *testing.T) { // rounds that a legacy client does not know
		store := new(budgettest.Memory)
		b := asking(t, 1)
		first := b.reply
		b.reply = func(ctx context.Context, c *mcp.Call) (mcp.Answer, error) {
			if mcp.Lookup(c.Params, "requestState") != nil {
				return mcp.Answer{}, lost
			}
			time.Sleep(time.Second)
			return first(ctx, c)
		}
		r := charging(t, b, store, tariff(10, 10, 100_000, 10_000)...).run()
		c := r.stdio(person("alice"))
		c.send(initBody, request("1", "tools/call", `{"name":"s__ask"}`))
		time.Sleep(2 * time.Second)
		c.send(`{"jsonrpc":"2.0","id":"toolgate-1","result":{"action":"accept","content":{}}}`)
		time.Sleep(time.Second)
		if got := c.out.drain(); !strings.Contains(got, `"kind":"upstream_unavailable"`) {
			t.Errorf("rounds: %s", got)
		}
		want(r, store, "rounds")
	})
	synctest.Test(t, func(t *testing.T) { // the result of a task that was waited for
		store := new(budgettest.Memory)
		b := newWorker(t, mcp.Legacy, working, working, working, completed)
		b.result = func(context.Context, *mcp.Call) error { return lost }
		r := charging(t, b.script, store, tariff(10, 10, 100_000, 10_000)...).run()
		session := r.open()
		id := r.makeTask(session)
		before := usedOf(t, store)["seconds"]
		call(r, session, "tasks/result", `{`+ofTask(id)+`}`)
		want(r, store, "result")
		if got := usedOf(t, store)["seconds"] - before; got < 500 {
			t.Errorf("result: %d ms are used", got)
		}
	})
}

// A call that reaches its server's time limit, while its budgets have enough left, is a
// timeout of the server and not a refusal of a budget.
func TestHardDeadlineIsNoBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(budgettest.Memory)
		b := newScript(t, "s", mcp.Modern, tool("slow"))
		b.reply = func(ctx context.Context, _ *mcp.Call) (mcp.Answer, error) {
			<-ctx.Done()
			return mcp.Answer{}, context.Cause(ctx)
		}
		var g guarded
		r := newRig(t, mounted(b), behindGuard(&g), func(_ *Options, c *Config) {
			c.Limiter, c.Mounts[0].Hard = limited(t, store, tariff(10, 10, 100<<20, 1000)...), 30*time.Second
		})
		w := r.modern("1", "tools/call", `"name":"s__slow"`)
		if !strings.Contains(w.text(), `"kind":"upstream_timeout"`) || strings.Contains(w.text(), "budget") {
			t.Errorf("after its whole time: %s", w.text())
		}
		if got := usedOf(t, store); got["seconds"] != 30_000 || got["calls"] != 1 {
			t.Errorf("used %v", got)
		}
		if n := g.Breakers()[0].Failures; n != 1 {
			t.Errorf("the breaker has counted %d failures, want 1", n)
		}
	})
}

// States of a task in a subscription count their bytes, as if they were fetched.
func TestStatesOfTasksCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(budgettest.Memory)
		b := newWorker(t, mcp.Modern, `"status":"completed","result":{"content":[{"type":"text","text":"`+strings.Repeat("x", 300)+`"}]}`)
		r := charging(t, b.script, store, tariff(10, 10, 600, 10_000)...).run()
		first := taskID(t, r.tasked("1", "tools/call", `"name":"s__job"`))
		second := taskID(t, r.tasked("1", "tools/call", `"name":"s__job"`))
		if got := usedOf(t, store)["bytes"]; got > 400 {
			t.Fatalf("two tasks use %d bytes", got)
		}
		w, leave := r.listenFor(first, second)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := strings.Count(w.text(), "xxx\""); n > 1 {
			t.Errorf("%d results were delivered", n)
		}
		if got := usedOf(t, store); got["bytes"] != 600 || got["calls"] != 2 {
			t.Errorf("used %v", got)
		}
		leave()
	})
}

// slowStore is a store whose charges take some time.
type slowStore struct {
	budget.Store
	charge time.Duration
}

func (s slowStore) Charge(ctx context.Context, b budget.Bill) ([]budget.Balance, error) {
	<-time.After(s.charge)
	return s.Store.Charge(ctx, b)
}

// A call that is forbidden while it is charged is not made, and costs nothing.
func TestForbiddenWhileItIsCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(budgettest.Memory)
		b := newScript(t, "s", mcp.Modern, tool("a"))
		until := time.Now().Add(time.Second)
		r := newRig(t, mounted(b), func(_ *Options, c *Config) {
			c.Limiter = limited(t, slowStore{store, 3 * time.Second}, tariff(10, 10, 100<<20, 10_000)...)
			c.Chain = gate.NewChain(rule(func(context.Context, *gate.Request) (gate.Decision, error) {
				if time.Now().After(until) {
					return gate.Decision{Effect: gate.Deny, Reason: "no more"}, nil
				}
				return gate.Decision{Effect: gate.Allow}, nil
			}))
		})
		w := r.modern("1", "tools/call", `"name":"s__a"`)
		if n := len(b.seen("")); n != 0 || !strings.Contains(w.text(), "Unknown tool: s__a") {
			t.Errorf("%d calls came to the server: %s", n, w.text())
		}
		wantUsed(t, store, map[string]int64{})
	})
	synctest.Test(t, func(t *testing.T) { // requests about a task
		store := new(budgettest.Memory)
		b := newWorker(t, mcp.Modern, completed)
		until := time.Now().Add(5 * time.Second)
		r := newRig(t, mounted(b.script), func(_ *Options, c *Config) {
			c.Limiter = limited(t, slowStore{store, 3 * time.Second}, tariff(10, 10, 100<<20, 10_000)...)
			c.Chain = gate.NewChain(rule(func(context.Context, *gate.Request) (gate.Decision, error) {
				if time.Now().After(until) {
					return gate.Decision{Effect: gate.Deny, Reason: "no more"}, nil
				}
				return gate.Decision{Effect: gate.Allow}, nil
			}))
		})
		id := taskID(t, r.tasked("1", "tools/call", `"name":"s__job"`))
		before := usedOf(t, store)
		w := r.tasked("2", "tasks/get", ofTask(id))
		if n := len(b.seen(mcp.MethodTaskGet)); n != 0 || !strings.Contains(w.text(), "Unknown task") {
			t.Errorf("looked %d times: %s", n, w.text())
		}
		wantUsed(t, store, before)
	})
}

// The time of the charge does not count as time of the server.
func TestChargingTakesNoTimeOfTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(budgettest.Memory)
		b := newScript(t, "s", mcp.Modern, tool("a"))
		r := charging(t, b, slowStore{store, 3 * time.Second}, tariff(10, 10, 10_000, 100)...)
		r.modern("1", "tools/call", `"name":"s__a"`)
		if e := r.ledger.all()[0]; usedOf(t, store)["seconds"] != 1 || e.UpstreamUS != 0 {
			t.Errorf("used %v; the server took %d µs", usedOf(t, store), e.UpstreamUS)
		}
	})
}
