package proxy

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
)

// makeTask creates a task of 2025-11-25 and returns its id.
func (r *rig) makeTask(session string, headers ...string) string {
	r.t.Helper()
	return taskID(r.t, r.legacy(session, "1", "tools/call", `{"name":"s__job","task":{"ttl":60000}}`, headers...))
}

// A task of 2025-11-25 has an id of the gateway's own in its state, its result, its
// questions and its notifications.
func TestTaskOf20251125(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWorker(t, mcp.Legacy, working, `"status":"input_required"`, `"status":"failed"`)
		var told string
		b.result = func(ctx context.Context, call *mcp.Call) error {
			answer, fault := call.AskAndWait(ctx, mcp.MethodElicit, []byte(`{"message":"who?","requestedSchema":{},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"own 1"},"c":3}}`))
			told = fmt.Sprintf("%s %v", answer, fault)
			return nil
		}
		r := noted(t, b.script, nil, nil).run()
		c := r.stdio(person("alice"))
		c.send(initBody)
		synctest.Wait()
		c.out.drain()
		c.send(request("1", "tools/call", `{"name":"s__job","task":{"ttl":60000}}`))
		synctest.Wait()
		made := c.out.drain()
		id, _ := mcp.LookupString([]byte(made), "result", "task", "taskId")
		want := `{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"` + id + `","status":"working","pollIntervalMs":200,"pollInterval":200,"ttl":60000},"_meta":{"io.modelcontextprotocol/model-immediate-response":"soon"}}}` + "\n"
		if made != want || !strings.HasPrefix(id, "k1.") {
			t.Errorf("made %s, want %s", made, want)
		}
		if got := string(b.seen("")[0].Params); got != `{"name":"job","task":{"ttl":60000}}` {
			t.Errorf("the server was sent %s", got)
		}
		// Its result blocks; meanwhile it is polled, and asks.
		c.send(request("2", "tasks/result", `{`+ofTask(id)+`}`))
		synctest.Wait()
		if got := c.out.drain(); got != "" {
			t.Errorf("before it asks: %s", got)
		}
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if got, want := c.out.drain(), `{"jsonrpc":"2.0","id":"toolgate-1","method":"elicitation/create","params":{"message":"[s] who?","requestedSchema":{},"_meta":{"c":3,"io.modelcontextprotocol/related-task":{"taskId":"`+id+`"}}}}`+"\n"; got != want {
			t.Errorf("asked %swant %s", got, want)
		}
		r.Happened(mcp.Event{Server: "s", Conn: b.line(person("alice").Key()), Principal: person("alice").Key(), Method: mcp.NotifyTaskStatus, Params: []byte(`{"taskId":"own 1","status":"failed"}`)})
		c.send(request("3", "tasks/get", `{`+ofTask(id)+`}`))
		c.send(`{"jsonrpc":"2.0","id":"toolgate-1","result":{"action":"accept","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"` + id + `"}}}}`)
		synctest.Wait()
		got := strings.Split(strings.TrimSpace(c.out.drain()), "\n")
		slices.Sort(got)
		for i, want := range []string{
			`{"jsonrpc":"2.0","id":2,"result":{"content":[],"task":"own 1","_meta":{"a":1,"io.modelcontextprotocol/related-task":{"taskId":"` + id + `"}}}}`,
			`{"jsonrpc":"2.0","id":3,"result":{"taskId":"` + id + `","status":"failed"}}`,
			`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"` + id + `","status":"failed"}}`,
		} {
			if len(got) != 3 || got[i] != want {
				t.Errorf("line %d of\n%s\nwant %s", i, strings.Join(got, "\n"), want)
			}
		}
		if want := `{"action":"accept","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"own 1"}}} <nil>`; told != want {
			t.Errorf("the server was told %s, want %s", told, want)
		}
		c.send(request("4", "tasks/cancel", `{`+ofTask(id)+`}`))
		synctest.Wait()
		if got, want := c.out.drain(), `{"jsonrpc":"2.0","id":4,"result":{"taskId":"`+id+`","status":"cancelled"}}`+"\n"; got != want {
			t.Errorf("cancelled %s", got)
		}
		for _, call := range b.seen("") {
			if askable := call.Method == mcp.MethodTaskResult; call.Method != mcp.MethodToolsCall && (call.Kind == mcp.Tool) != askable {
				t.Errorf("%s goes out as a call of a %s", call.Method, call.Kind)
			}
		}
		entries := r.ledgerOf().all()
		if len(entries) != 4 || strings.Count(strings.Join(r.steps(), ", "), "charge") != 1 {
			t.Errorf("%d entries, want 4; steps %v", len(entries), r.steps())
		}
		for _, e := range entries {
			if e.Outcome != audit.OutcomeOK || e.Method == mcp.MethodTaskResult && e.Rounds != 1 || e.Name != "s__job" {
				t.Errorf("entry %+v", e)
			}
		}
	})
}

// While a task works, tasks/result holds no permit for its server, and the end of the
// request does not affect the task.
func TestBlockedTaskResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWorker(t, mcp.Legacy, working)
		mounts := mounted(b.script)
		mounts[0].Concurrency, mounts[0].Hard = 1, time.Minute
		r := newRig(t, mounts).run()
		session := r.open()
		id := r.makeTask(session)
		waiting, _ := r.begin(httpRequest(http.MethodPost, "/mcp", request("7", "tasks/result", `{`+ofTask(id)+`}`), "Mcp-Session-Id", session))
		gone, _ := r.begin(httpRequest(http.MethodPost, "/mcp", request("8", "tasks/result", `{`+ofTask(id)+`}`), "Mcp-Session-Id", session))
		time.Sleep(50 * time.Millisecond)
		if got := r.legacy(session, "2", "tools/call", `{"name":"s__never"}`).text(); !strings.Contains(got, `"content":[]`) {
			t.Errorf("beside it: %s", got)
		}
		r.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":8}}`, "Mcp-Session-Id", session)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if !gone.ended() || strings.Contains(gone.text(), `"id":8`) {
			t.Errorf("cancelled: %v %s", gone.ended(), gone.text())
		}
		if !waiting.ended() || !strings.Contains(waiting.text(), `"kind":"upstream_timeout"`) {
			t.Errorf("a task that does not end: %s", waiting.text())
		}
		if n := len(b.seen(mcp.MethodTaskCancel)); n != 0 {
			t.Errorf("the task was cancelled %d times", n)
		}
		s := r.snapshot.Load().catalog.byServer["s"].permits
		if !free(s, 1) {
			t.Error("a place is taken")
		}
	})
}

// The state of a task is told only to the session that created it.
func TestTaskStatusIsOfItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWorker(t, mcp.Legacy, working)
		r := newRig(t, mounted(b.script)).run()
		var streams []*recorder
		var sessions []string
		for _, who := range []string{"alice", "alice", "bob"} {
			session := r.open("Authorization", "Bearer "+who)
			w, _ := r.begin(httpRequest(http.MethodGet, "/mcp", "", "Mcp-Session-Id", session, "Authorization", "Bearer "+who))
			streams, sessions = append(streams, w), append(sessions, session)
		}
		synctest.Wait()
		id := r.makeTask(sessions[0])
		for _, ev := range []mcp.Event{
			{Principal: person("alice").Key()},
			{Principal: ""}, // of a shared connection
			{Principal: person("bob").Key()},
			{Principal: person("alice").Key(), Session: "other"},
			{Principal: person("alice").Key(), Server: "other"},
			{Principal: person("alice").Key(), Conn: "other"},
			{Principal: person("alice").Key(), Params: []byte(`{"taskId":"own 7","status":"working"}`)},
			{Principal: person("alice").Key(), Params: []byte(`{"status":"working"}`)},
		} {
			ev.Method = mcp.NotifyTaskStatus
			ev.Server = cmp.Or(ev.Server, "s")
			ev.Conn = cmp.Or(ev.Conn, b.line(person("alice").Key()))
			if ev.Params == nil {
				ev.Params = []byte(`{"taskId":"own 1","status":"working"}`)
			}
			r.Happened(ev)
		}
		synctest.Wait()
		want := "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tasks/status\",\"params\":{\"taskId\":\"" + id + "\",\"status\":\"working\"}}\n\n"
		for i, w := range streams {
			if got := strings.Count(w.text(), want); got != map[int]int{0: 2}[i] || strings.Count(w.text(), "data:") != got {
				t.Errorf("stream %d: %s", i, w.text())
			}
		}
	})
}

// tasks/list has the caller's own tasks at all servers, but only those whose tools it
// may view.
func TestTaskList(t *testing.T) {
	one, two := newWorker(t, mcp.Legacy, working), newWorker(t, mcp.Legacy, working)
	two.name = "two"
	var cursors []string
	two.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
		got, err := two.serve(ctx, call)
		if cursor, paged := mcp.LookupString(call.Params, "cursor"); call.Method == mcp.MethodTaskList && err == nil {
			cursors = append(cursors, cursor)
			if !paged || cursor == "b\x00" {
				next := map[bool]string{false: `"b\u0000"`, true: `"c"`}[paged]
				got.Result = mcp.SetMember([]byte(`{"tasks":[]}`), "nextCursor", []byte(next))
			}
		}
		return got, err
	}
	down := newWorker(t, mcp.Legacy, working)
	down.name = "down"
	down.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
		return mcp.Answer{}, &mcp.Failure{Kind: mcp.FailUnavailable, Server: "down"}
	}
	hidden := ""
	r := newRig(t, mounted(one.script, two.script, down.script, newWorker(t, mcp.Modern, working).renamed("modern"), newScript(t, "plain", mcp.Legacy)),
		func(o *Options, c *Config) {
			c.Chain = gate.NewChain(rule(func(_ context.Context, r *gate.Request) (gate.Decision, error) {
				switch hidden {
				case "boom":
					return gate.Decision{Effect: gate.Allow}, errBoom
				case r.Server:
					if r.Action == gate.View {
						return gate.Decision{Effect: gate.Deny, Reason: "hidden"}, nil
					}
				}
				return gate.Decision{Effect: gate.Allow}, nil
			}))
		})
	session, bob := r.open(), r.open("Authorization", "Bearer bob")
	first := r.makeTask(session)
	of := taskID(t, r.legacy(bob, "1", "tools/call", `{"name":"s__job","task":{}}`, "Authorization", "Bearer bob"))
	second := taskID(t, r.legacy(session, "1", "tools/call", `{"name":"two__job","task":{}}`))
	list := func(session string, headers ...string) string {
		return r.legacy(session, "1", "tasks/list", "", headers...).text()
	}
	task := func(id string) string { return `{"taskId":"` + id + `","status":"working"}` }
	want := func(tasks ...string) string {
		return `{"jsonrpc":"2.0","id":1,"result":{"tasks":[` + strings.Join(tasks, ",") + `]}}`
	}
	if got := list(session); got != want(task(first), task(second)) {
		t.Errorf("listed %s", got)
	}
	if want := []string{"", "b\x00", "c"}; !slices.Equal(cursors, want) {
		t.Errorf("asked for the pages %q, want %q", cursors, want)
	}
	if got := list(bob, "Authorization", "Bearer bob"); got != want(task(of)) {
		t.Errorf("bob is listed %s", got)
	}
	hidden = "s"
	if got := list(session); got != want(task(second)) {
		t.Errorf("with a hidden tool %s", got)
	}
	hidden = "boom"
	if got := list(session); !strings.Contains(got, `"kind":"policy_error"`) {
		t.Errorf("without a gate %s", got)
	}
	hidden = ""
	for _, path := range []struct{ params, want string }{
		{`{"cursor":"x"}`, `"code":-32602,"message":"Invalid cursor"`},
		{`{"cursor":7}`, `"code":-32602,"message":"Invalid cursor"`},
		{`{"cursor":null}`, first},
	} {
		if got := r.legacy(session, "1", "tasks/list", path.params).text(); !strings.Contains(got, path.want) {
			t.Errorf("%s: %s", path.params, got)
		}
	}
	old := r.openAt(mcp.V20250618)
	for _, method := range []string{"tasks/list", "tasks/get", "tasks/cancel", "tasks/result"} {
		if got := r.legacy(old, "1", method, `{`+ofTask(first)+`}`).text(); !strings.Contains(got, `"code":-32601`) {
			t.Errorf("%s before 2025-11-25: %s", method, got)
		}
	}
	if got := r.legacy(session, "1", "tasks/update", `{`+ofTask(first)+`}`).text(); !strings.Contains(got, `"code":-32601`) {
		t.Errorf("tasks/update in 2025-11-25: %s", got)
	}
}

func (w *worker) renamed(name string) *script {
	w.name = name
	return w.script
}

// A list with too many pages for one response continues after a cursor, which is only
// for its caller.
func TestTaskPages(t *testing.T) {
	b := newWorker(t, mcp.Legacy, working)
	b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
		if call.Method != mcp.MethodTaskList {
			return b.serve(ctx, call)
		}
		page := 0
		if cursor, ok := mcp.LookupString(call.Params, "cursor"); ok {
			_, _ = fmt.Sscan(cursor, &page)
		}
		if page == 40 {
			return answered(mcp.Legacy, `{"tasks":[{"taskId":"own 1"}]}`), nil
		}
		return answered(mcp.Legacy, fmt.Sprintf(`{"tasks":[{"taskId":"own 1","page":%d}],"nextCursor":"%d"}`, page, page+1)), nil
	}
	r := newRig(t, mounted(b.script))
	session, bob := r.open(), r.open("Authorization", "Bearer bob")
	r.makeTask(session)
	params, tasks, answers := "", 0, 0
	for {
		got := []byte(r.legacy(session, "1", "tasks/list", params).text())
		tasks += strings.Count(string(got), "taskId")
		answers++
		next, more := mcp.LookupString(got, "result", "nextCursor")
		if !more {
			break
		}
		params = `{"cursor":"` + next + `"}`
		if got := r.legacy(bob, "1", "tasks/list", params, "Authorization", "Bearer bob").text(); !strings.Contains(got, "Invalid cursor") {
			t.Errorf("the cursor of another: %s", got)
		}
	}
	if tasks != 41 || answers != 3 {
		t.Errorf("%d tasks in %d answers, want 41 in 3", tasks, answers)
	}
	b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
		return answered(mcp.Legacy, `{"tasks":[],"nextCursor":"same"}`), nil
	}
	if got := r.legacy(session, "1", "tasks/list", "").text(); got != `{"jsonrpc":"2.0","id":1,"result":{"tasks":[]}}` {
		t.Errorf("a server that repeats its cursor: %s", got)
	}
}

// The index stays within its limits, keeps the newest tasks of everybody, and drops
// expired ones.
func TestTaskIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTaskIndex(20, 8)
		random := rand.New(rand.NewPCG(1, 2))
		for i := range 3000 {
			x := &Exchange{Identity: person(fmt.Sprint("p", random.IntN(6)))}
			key := taskKey{taskPlace{"s", fmt.Sprint(random.IntN(4))}, fmt.Sprint(random.IntN(20))}
			state := [...]string{`{}`, `{"ttl":null}`, `{"ttl":1000}`, `{"ttl":-1}`, `{"ttl":1e300}`}[random.IntN(5)]
			b.add(x, key, "job", fmt.Sprint(i), []byte(state))
			if got, ok := b.find(key); !ok || got.sealed != fmt.Sprint(i) || got.principal != x.Identity.Key() {
				t.Fatalf("the newest is %+v, %v", got, ok)
			}
			switch random.IntN(100) {
			case 0:
				time.Sleep(2 * time.Second)
				b.sweep(time.Now())
			case 1:
				b.forgetPlace(x.Identity.Key(), key.taskPlace)
				if left := b.places(x.Identity.Key(), func(key taskKey, _ *indexedTask) bool { return true }); slices.Contains(left, key.taskPlace) {
					t.Fatalf("%v is not lost: %v", key, left)
				}
			}
			sum := 0
			for principal, keys := range b.of {
				sum += len(keys)
				if len(keys) > 8 || len(keys) == 0 {
					t.Fatalf("%s has %d", principal, len(keys))
				}
				for _, key := range keys {
					if b.tasks[key] == nil || b.tasks[key].principal != principal {
						t.Fatalf("%v is not kept for %s", key, principal)
					}
				}
			}
			if sum != len(b.tasks) || sum > 20 {
				t.Fatalf("%d kept, %d counted", len(b.tasks), sum)
			}
		}
		time.Sleep(maxTaskMemory + time.Second)
		b.sweep(time.Now())
		if len(b.tasks)+len(b.of) != 0 {
			t.Errorf("left behind: %v", b.tasks)
		}
	})
}

// A task of a legacy server is requested on the connection that created it, and ends
// with that.
func TestTaskOfAConnection(t *testing.T) {
	b := newWorker(t, mcp.Legacy, working)
	r := newRig(t, mounted(b.script))
	session := r.open()
	id := r.makeTask(session)
	b.lines = "new "
	again := r.makeTask(session)
	for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/result"} {
		if got := r.legacy(session, "2", method, `{`+ofTask(id)+`}`).text(); got != noSuchTask {
			t.Errorf("%s: %s", method, got)
		}
	}
	if got := r.legacy(session, "1", "tasks/list", "").text(); strings.Contains(got, id) || !strings.Contains(got, again) {
		t.Errorf("listed %s", got)
	}
	if n := len(r.tasks.legacy.tasks); n != 1 {
		t.Errorf("%d tasks are remembered, want the one that there is", n)
	}
}
