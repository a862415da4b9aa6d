package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
)

// legacyTasks are the capabilities of a server with tasks of 2025-11-25, modernTasks
// those of one with the extension.
const (
	legacyTasks = `{"tools":{"listChanged":true},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}`
	modernTasks = `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
)

const declaredTasks = `"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}},`

// worker is a backend whose tools create tasks: job where the client supports them,
// only always. Each poll of a task finds the next of its states, which are given
// without the id; the last one stays.
type worker struct {
	*script
	states []string
	lines  string // prefix of the names of its connections

	mu      sync.Mutex
	made    int
	looks   map[string]int
	answers []string                               // of tasks/update, and to questions on tasks/result
	result  func(context.Context, *mcp.Call) error // called before tasks/result answers
	lose    int                                    // polls that fail
}

func newWorker(t testing.TB, era mcp.Era, states ...string) *worker {
	w := &worker{script: &script{name: "s"}, states: states, looks: map[string]int{}}
	if era == mcp.Legacy {
		w.offer(t, era, legacyTasks,
			`tool {"name":"job","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`,
			`tool {"name":"only","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`, tool("never"))
	} else {
		w.offer(t, era, modernTasks, tool("job"), tool("only"), tool("never"))
	}
	w.reply = w.serve
	return w
}

// line is the connection of a principal.
func (w *worker) line(principal string) string { return w.lines + principal }

func (w *worker) serve(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
	own := w.line(call.Principal)
	if call.Conn != "" && call.Conn != own {
		return mcp.Answer{}, &mcp.Failure{Kind: mcp.FailGone, Server: w.name, Reason: "gone"}
	}
	if w.era() == mcp.Modern {
		return w.answer(ctx, call)
	}
	if call.Conn == "" && call.Method != mcp.MethodToolsCall {
		return fault(mcp.Legacy, `{"code":-32602,"message":"on another connection"}`), nil
	}
	got, err := w.answer(ctx, call)
	got.Conn = own
	return got, err
}

func (w *worker) answer(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	era := w.era()
	id, _ := mcp.LookupString(call.Params, "taskId")
	switch {
	case call.Method == mcp.MethodToolsCall:
		return w.call(call, era), nil
	case call.Method == mcp.MethodTaskList:
		return answered(era, `{"tasks":[{"taskId":"own 1","status":"working"},{"taskId":"own 2","status":"working"},{"taskId":"own 9","status":"working"}]}`), nil
	case !strings.HasPrefix(id, "own ") || w.looks[id] < 0:
		return fault(era, `{"code":-32602,"message":"no such task"}`), nil
	case call.Method == mcp.MethodTaskGet:
		if w.lose > 0 {
			w.lose--
			return mcp.Answer{}, &mcp.Failure{Kind: mcp.FailUnavailable, Server: w.name, Reason: "lost"}
		}
		state := w.states[min(w.looks[id], len(w.states)-1)]
		w.looks[id]++
		return answered(era, `{"taskId":"`+id+`",`+state+`}`), nil
	case call.Method == mcp.MethodTaskUpdate:
		w.answers = append(w.answers, string(mcp.Lookup(call.Params, "inputResponses")))
	case call.Method == mcp.MethodTaskResult:
		if w.result != nil {
			w.mu.Unlock()
			err := w.result(ctx, call)
			w.mu.Lock()
			if err != nil {
				return mcp.Answer{}, err
			}
		}
		return answered(era, `{"content":[],"task":"`+id+`","_meta":{"a":1,"io.modelcontextprotocol/related-task":{"taskId":"`+id+`"}}}`), nil
	case call.Method == mcp.MethodTaskCancel && era == mcp.Legacy:
		return answered(era, `{"taskId":"`+id+`","status":"cancelled"}`), nil
	}
	return answered(era, `{"resultType":"complete"}`), nil
}

func (w *worker) call(call *mcp.Call, era mcp.Era) mcp.Answer {
	wants := era == mcp.Legacy && mcp.IsObject(mcp.Lookup(call.Params, "task")) ||
		era == mcp.Modern && mcp.Lookup(call.Capabilities, "extensions", mcp.ExtensionTasks) != nil
	switch {
	case era == mcp.Legacy && (call.Key == "only" && !wants || call.Key == "never" && wants):
		return fault(era, `{"code":-32601,"message":"not so"}`)
	case call.Key == "only" && !wants:
		return fault(era, `{"code":-32021,"message":"tasks","data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}`)
	case call.Key == "never" || !wants:
		return answered(era, `{"content":[]}`)
	}
	w.made++
	state := fmt.Sprintf(`{"taskId":"own %d","status":"working","pollIntervalMs":200,"pollInterval":200,"ttl":60000`, w.made)
	if era == mcp.Legacy {
		return answered(era, `{"task":`+state+`},"_meta":{"io.modelcontextprotocol/model-immediate-response":"soon","io.modelcontextprotocol/related-task":{"taskId":"own"}}}`)
	}
	return answered(era, state+`,"resultType":"task","requestState":"x","inputRequests":{}}`)
}

// tasked serves one request of a modern client that declares tasks.
func (r *rig) tasked(id, method, members string, headers ...string) *recorder {
	r.t.Helper()
	body := strings.Replace(modernBody(id, method, members, ""), `"io.modelcontextprotocol/clientCapabilities":{`, declaredTasks, 1)
	return r.do(modernRequest(body, headers...))
}

// taskID returns the id of the task in a response.
func taskID(t testing.TB, w *recorder) string {
	t.Helper()
	for _, path := range [][]string{{"result", "taskId"}, {"result", "task", "taskId"}} {
		if id, ok := mcp.LookupString([]byte(w.text()), path...); ok {
			return id
		}
	}
	t.Fatalf("no task: %s", w.text())
	return ""
}

func ofTask(id string) string { return `"taskId":"` + id + `"` }

const (
	noSuchTask = `{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"Unknown task"}}`
	working    = `"status":"working","pollIntervalMs":200,"pollInterval":200`
	completed  = `"status":"completed","result":{"content":[{"type":"resource_link","uri":"file:///a"}],"_meta":{"io.modelcontextprotocol/serverInfo":{},"b":2}}`
)

// A task of the extension has an id of the gateway's own. Its call is charged; requests
// about it are not, but they pass the gate and leave an entry like the call.
func TestTaskOfTheExtension(t *testing.T) {
	b := newWorker(t, mcp.Modern, working, completed)
	r := noted(t, b.script, nil, nil)
	w := r.tasked("1", "tools/call", `"name":"s__job"`)
	id := taskID(t, w)
	want := `{"jsonrpc":"2.0","id":1,"result":{"_meta":{"io.modelcontextprotocol/serverInfo":` + string(r.serverInfo) + `},"taskId":"` + id + `","status":"working","pollIntervalMs":200,"pollInterval":200,"ttl":60000,"resultType":"task"}}`
	if w.text() != want || !strings.HasPrefix(id, "k1.") || strings.Contains(id, "own") {
		t.Errorf("made %s\nwant %s", w.text(), want)
	}
	if mcp.EncodeHeaderValue(id) != id {
		t.Errorf("the id %s does not travel in a header as it is", id)
	}
	w = r.tasked("2", "tasks/get", ofTask(id))
	if got := w.text(); w.code() != 200 || taskID(t, w) != id || !strings.Contains(got, `"status":"working"`) || !strings.Contains(got, `"resultType":"complete"`) {
		t.Errorf("the first look: %s", got)
	}
	w = r.tasked("3", "tasks/get", ofTask(id))
	if got, want := string(mcp.Lookup([]byte(w.text()), "result", "result")), `{"content":[{"type":"resource_link","uri":"s+file:///a"}],"_meta":{"b":2}}`; got != want || taskID(t, w) != id {
		t.Errorf("the result is %s, want %s", got, want)
	}
	ack := `"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":`
	for _, tt := range []struct{ method, members string }{
		{"tasks/update", `,"inputResponses":{"q":{"action":"accept","n":9007199254740993}}`}, {"tasks/cancel", ""},
	} {
		w = r.tasked("4", tt.method, ofTask(id)+tt.members)
		if got := w.text(); strings.Contains(got, "taskId") || !strings.Contains(strings.ReplaceAll(got, `{"_meta":{"io.modelcontextprotocol/serverInfo":`+string(r.serverInfo)+`},"resultType":"complete"}`, ack), ack) {
			t.Errorf("%s: %s", tt.method, got)
		}
	}
	for _, call := range b.seen("")[1:] {
		if own, _ := mcp.LookupString(call.Params, "taskId"); own != "own 1" || call.Kind != mcp.NoKind {
			t.Errorf("%s went out with %s", call.Method, call.Params)
		}
		if mcp.Lookup(call.Capabilities, "extensions", mcp.ExtensionTasks) == nil {
			t.Errorf("%s went out without the extension: %s", call.Method, call.Capabilities)
		}
	}
	if len(b.answers) != 1 || b.answers[0] != `{"q":{"action":"accept","n":9007199254740993}}` {
		t.Errorf("the server was told %s", b.answers)
	}
	entries := r.ledgerOf().all()
	if len(entries) != 5 {
		t.Fatalf("%d entries, want one for each of 5 requests", len(entries))
	}
	for i, e := range entries {
		if e.Outcome != audit.OutcomeOK || e.Server != "s" || e.Name != "s__job" || e.OriginalName != "job" || e.Kind != "tool" || e.Method == "" {
			t.Errorf("entry %d: %+v", i, e)
		}
	}
	steps := strings.Join(r.steps(), ", ")
	if strings.Count(steps, "charge") != 1 || strings.Count(steps, "gate request") != 5 || strings.Count(steps, "gate view") != 5 {
		t.Errorf("steps %s: want one charge, and the gate asked for each of 5 requests", steps)
	}
}

// ledgerOf returns the ledger of a rig.
func (r *rig) ledgerOf() *ledger { return r.opts.Auditor.(*ledger) }

// Ids that lead to no task of the caller get the same bytes, whatever the reason, and
// leave an entry.
func TestForeignTasks(t *testing.T) {
	b := newWorker(t, mcp.Modern, working)
	two := newWorker(t, mcp.Legacy, working)
	two.name = "two"
	hidden := false
	r := newRig(t, mounted(b.script, two.script), func(_ *Options, c *Config) {
		c.Chain = gate.NewChain(rule(func(_ context.Context, r *gate.Request) (gate.Decision, error) {
			if hidden && r.Action == gate.View && r.Identity.Subject == "alice" {
				return gate.Decision{Effect: gate.Deny, Reason: "hidden"}, nil
			}
			return gate.Decision{Effect: gate.Allow}, nil
		}))
	})
	id := taskID(t, r.tasked("1", "tools/call", `"name":"s__job"`))
	flipped := []byte(id)
	flipped[len(flipped)-5] ^= 1
	sealedAs := func(l seal.Label, ref taskRef) string {
		sealed, err := r.opts.Keys.Seal(l, person("alice").Key(), ref.encode())
		if err != nil {
			t.Fatal(err)
		}
		return sealed
	}
	tests := []struct{ name, id, who string }{
		{"tampered", string(flipped), "alice"},
		{"cut", id[:len(id)-2], "alice"},
		{"longer", id + "A", "alice"},
		{"the server's own", "own 1", "alice"},
		{"another principal", id, "bob"},
		{"a seal of another purpose", sealedAs(seal.Round, taskRef{server: "s", tool: "job", id: "own 1"}), "alice"},
		{"of a server that is gone", sealedAs(seal.Task, taskRef{server: "gone", tool: "job", id: "own 1"}), "alice"},
		{"of a tool that is gone", sealedAs(seal.Task, taskRef{server: "s", tool: "gone", id: "own 1"}), "alice"},
		{"of the other kind of tasks", sealedAs(seal.Task, taskRef{server: "two", tool: "job", id: "own 1"}), "alice"},
		{"of what may not be viewed", id, "alice"},
	}
	before := len(r.ledger.all())
	for i, tt := range tests {
		hidden = i == len(tests)-1
		for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/update"} {
			got := r.tasked("2", method, ofTask(tt.id)+`,"inputResponses":{}`, "Authorization", "Bearer "+tt.who)
			if got.text() != noSuchTask || got.code() != http.StatusOK {
				t.Errorf("%s, %s: %d %s", tt.name, method, got.code(), got.text())
			}
		}
	}
	if n := len(b.seen("")); n != 1 {
		t.Errorf("%d requests reached the server", n)
	}
	entries := r.ledger.all()[before:]
	if len(entries) != 3*len(tests) {
		t.Errorf("%d entries for %d requests", len(entries), 3*len(tests))
	}
	for _, e := range entries {
		if e.Outcome != audit.OutcomeDenied || e.Code != "-32602" {
			t.Errorf("entry %+v", e)
		}
	}
	hidden = false
	r.Apply(Config{Mounts: mounted(b.script), Chain: gate.NewChain(rule(func(_ context.Context, r *gate.Request) (gate.Decision, error) {
		if r.Action == gate.Call {
			return gate.Decision{Effect: gate.Deny, Reason: "it is not for you"}, nil
		}
		return gate.Decision{Effect: gate.Allow}, nil
	})), Limiter: r.config.Load().Limiter})
	if got := r.tasked("2", "tasks/get", ofTask(id)).text(); !strings.Contains(got, `"code":1002,"message":"This call is not allowed: it is not for you."`) {
		t.Errorf("a task of what may be viewed and not called: %s", got)
	}
	scoped := httpRequest(http.MethodPost, "/mcp/s/two", strings.Replace(modernBody("2", "tasks/get", ofTask(id), ""), `"io.modelcontextprotocol/clientCapabilities":{`, declaredTasks, 1),
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tasks/get", "Mcp-Name", id)
	r.Apply(Config{Mounts: mounted(b.script, two.script), Chain: gate.NewChain(gate.Open{}), Limiter: r.config.Load().Limiter})
	if got := r.do(scoped); got.text() != noSuchTask {
		t.Errorf("on the endpoint of another server: %s", got.text())
	}
}

// Requests about tasks are refused for their method, their headers, their client and
// their id, in this order.
func TestTaskOrder(t *testing.T) {
	r := newRig(t, mounted(newWorker(t, mcp.Modern, working).script))
	for _, tt := range []struct {
		name, method, members string
		declared              bool
		headers               []string
		status                int
		want                  string
	}{
		{"of another revision", "tasks/result", ofTask("x"), false, []string{"Mcp-Name", "y"}, 404, `"code":-32601`},
		{"of another revision", "tasks/list", "", false, nil, 404, `"code":-32601`},
		{"another name", "tasks/get", ofTask("x"), false, []string{"Mcp-Name", "y"}, 400, `"code":-32020`},
		{"no name", "tasks/update", ofTask("x"), false, []string{"Mcp-Name", ""}, 400, `"code":-32020`},
		{"not declared", "tasks/get", ofTask("gate-test"), false, nil, 400, string(errNoTasks.Append(nil))},
		{"not declared", "tasks/update", ofTask("gate-test"), false, nil, 400, string(errNoTasks.Append(nil))},
		{"not declared", "tasks/cancel", `"taskId":7`, false, nil, 400, string(errNoTasks.Append(nil))},
		{"no string", "tasks/get", `"taskId":7`, true, nil, 200, `"code":-32602,"message":"Invalid params: \"taskId\" must be a string"`},
		{"no id", "tasks/get", ``, true, nil, 200, `"code":-32602,"message":"Invalid params: \"taskId\" must be a string"`},
		{"no answers", "tasks/update", ofTask("x"), true, nil, 200, string(errResponses.Append(nil))},
		{"answers that are none", "tasks/update", ofTask("x") + `,"inputResponses":{"a":1}`, true, nil, 200, string(errResponses.Append(nil))},
		{"unknown", "tasks/cancel", ofTask("x"), true, nil, 200, string(errTask.Append(nil))},
	} {
		body := modernBody("2", tt.method, tt.members, "")
		if tt.declared {
			body = strings.Replace(body, `"io.modelcontextprotocol/clientCapabilities":{`, declaredTasks, 1)
		}
		before := len(r.ledger.all())
		got := r.do(modernRequest(body, tt.headers...))
		if got.code() != tt.status || !strings.Contains(got.text(), tt.want) {
			t.Errorf("%s, %s: %d %s, want %d %s", tt.method, tt.name, got.code(), got.text(), tt.status, tt.want)
		}
		want := 1
		if tt.status == 404 {
			want = 0 // it would have called nothing
		}
		if n := len(r.ledger.all()) - before; n != want {
			t.Errorf("%s, %s: %d entries, want %d", tt.method, tt.name, n, want)
		}
	}
}

// The questions of a task are checked like those of a call, and name their server.
func TestTaskQuestions(t *testing.T) {
	form := `"status":"input_required","requestState":"x","inputRequests":{"k":{"method":"elicitation/create","params":{"message":"who?"}}}`
	sampling := `"status":"input_required","inputRequests":{"k":{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"resource_link","uri":"file:///a"}}]}}}`
	for _, tt := range []struct {
		name, state string
		q           Questions
		want        string
	}{
		{"a form", form, Questions{Elicitation: true}, `"inputRequests":{"k":{"method":"elicitation/create","params":{"message":"[s] who?"}}}`},
		{"sampling", sampling, Questions{Sampling: true}, `"uri":"s+file:///a"`},
		{"not of the operator", form, Questions{Sampling: true}, `"kind":"question_refused"`},
		{"not of the client", `"status":"input_required","inputRequests":{"k":{"method":"roots/list"}}`, Questions{Roots: true}, `"kind":"question_refused"`},
		{"no object", `"status":"input_required","inputRequests":[]`, Questions{Elicitation: true}, `"kind":"upstream_error"`},
	} {
		mounts := mounted(newWorker(t, mcp.Modern, tt.state).script)
		mounts[0].Questions = tt.q
		r := newRig(t, mounts)
		id := taskID(t, r.tasked("1", "tools/call", `"name":"s__job"`))
		got := r.tasked("2", "tasks/get", ofTask(id)).text()
		if !strings.Contains(got, tt.want) || strings.Contains(got, "requestState") {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// A server that creates a malformed task, or a task for a client without support, is
// refused. A tool that needs tasks says so to a modern client without them.
func TestTasksThatAreNone(t *testing.T) {
	for _, id := range []string{`""`, `7`, `null`, `"` + strings.Repeat("x", maxTaskRef) + `"`} {
		b := newWorker(t, mcp.Modern, working)
		b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
			return answered(mcp.Modern, `{"resultType":"task","taskId":`+id+`}`), nil
		}
		r := newRig(t, mounted(b.script))
		for _, got := range []*recorder{r.tasked("1", "tools/call", `"name":"s__job"`), r.modern("1", "tools/call", `"name":"s__job"`)} {
			if !strings.Contains(got.text(), `"kind":"upstream_error"`) || strings.Contains(got.text(), "xxx") {
				t.Errorf("%.40s: %.300s", id, got.text())
			}
		}
	}
	r := newRig(t, mounted(newWorker(t, mcp.Modern, working).script))
	got := r.modern("1", "tools/call", `"name":"s__only"`)
	if got.code() != 400 || !strings.Contains(got.text(), `"code":-32021`) || !strings.Contains(got.text(), `"data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`) {
		t.Errorf("a tool that needs tasks: %d %s", got.code(), got.text())
	}
}

// A round that ends in a task is over, and its entry is closed.
func TestRoundThatBecomesTask(t *testing.T) {
	b := newWorker(t, mcp.Modern, working)
	b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
		if call.Method == mcp.MethodToolsCall && mcp.Lookup(call.Params, "inputResponses") == nil {
			return answered(mcp.Modern, asks(`"q":{"method":"elicitation/create","params":{"message":"who?"}}`, `"s"`)), nil
		}
		return b.serve(ctx, call)
	}
	r := newRig(t, mounted(b.script))
	state := stateOf(t, r.tasked("1", "tools/call", `"name":"s__job"`))
	w := r.tasked("2", "tools/call", `"name":"s__job","inputResponses":{"q":{"action":"accept"}},"requestState":"`+state+`"`)
	if id := taskID(t, w); strings.Contains(w.text(), "requestState") || taskID(t, r.tasked("3", "tasks/get", ofTask(id))) != id {
		t.Errorf("made %s", w.text())
	}
	open, _ := r.awaited()
	if entries := r.ledger.all(); len(entries) != 2 || entries[0].Rounds != 1 || open != 0 {
		t.Errorf("entries %+v, open %d", entries, open)
	}
}

// Tasks are declared before any call: in discovery, initialize and the lists.
func TestTasksOffered(t *testing.T) {
	one, two := newWorker(t, mcp.Modern, working), newWorker(t, mcp.Legacy, working)
	two.name = "two"
	three := newScript(t, "three", mcp.Legacy, `tool {"name":"a","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`)
	r := newRig(t, mounted(one.script, two.script, three))
	declared := func(version mcp.Version, path string) string {
		body := strings.Replace(initBody, "2025-11-25", string(version), 1)
		w := r.do(httpRequest(http.MethodPost, path, body))
		return string(mcp.Lookup([]byte(w.text()), "result", "capabilities", "tasks"))
	}
	const all = `{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`
	for version, want := range map[mcp.Version]string{mcp.V20251125: all, mcp.V20250618: "", mcp.V20241105: ""} {
		if got := declared(version, "/mcp"); got != want {
			t.Errorf("%s: %s", version, got)
		}
	}
	if got := declared(mcp.V20251125, "/mcp/s/three") + declared(mcp.V20251125, "/mcp/s/s"); got != "" {
		t.Errorf("for servers without them: %s", got)
	}
	if got := r.modern("1", "server/discover", "").text(); !strings.Contains(got, `"extensions":{"io.modelcontextprotocol/tasks":{}}`) || strings.Contains(got, `"tasks":{"`) {
		t.Errorf("discovery: %s", got)
	}
	session := r.do(httpRequest(http.MethodPost, "/mcp/s/three", initBody)).field("Mcp-Session-Id")
	if got := r.do(httpRequest(http.MethodPost, "/mcp/s/three", request("1", "tasks/list", ""), "Mcp-Session-Id", session)).text(); !strings.Contains(got, `"code":-32601`) {
		t.Errorf("tasks/list where nobody has tasks: %s", got)
	}
	list := r.legacy(r.open(), "1", "tools/list", "").text()
	if strings.Count(list, "taskSupport") != 2 || strings.Contains(list, `"three__a","inputSchema":{"type":"object"},"execution"`) {
		t.Errorf("listed %s", list)
	}
}

// An id holds whatever a server calls a task, in characters that fit a header, and is
// the same on every replica.
func TestSealedTaskIDs(t *testing.T) {
	r := newRig(t, mounted(newWorker(t, mcp.Modern, working).script))
	x := &Exchange{Identity: person("alice"), Era: mcp.Modern}
	route := r.snapshot.Load().catalog.tool("s", "job", Scope{})
	for _, id := range []string{"a", " a ", "ä\u2028\x00\"\\", strings.Repeat("z", 1500), "=?base64?eA==?="} {
		sealed, err := r.tasks.sealTask(x, route, "c", id, nil)
		if err != nil {
			t.Fatal(err)
		}
		if mcp.EncodeHeaderValue(sealed) != sealed || strings.ContainsAny(sealed, " \t") {
			t.Errorf("%q became %q", id, sealed)
		}
		if again, _ := r.tasks.sealTask(x, route, "c", id, nil); again != sealed {
			t.Errorf("%q became %q and %q", id, sealed, again)
		}
		got, err := r.tasks.openTask(r.snapshot.Load(), x, sealed)
		if err != nil || got.id != id || got.conn != "c" || got.route != route {
			t.Errorf("%q came back as %+v, %v", id, got, err)
		}
	}
}

func FuzzOpenTask(f *testing.F) {
	r := newRig(f, mounted(newWorker(f, mcp.Modern, working).script))
	x := &Exchange{Identity: person("alice"), Era: mcp.Modern}
	sealed, err := r.tasks.sealTask(x, r.snapshot.Load().catalog.tool("s", "job", Scope{}), "", "own 1", nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{sealed, sealed[:20], "k1.", ".", "", "own 1", sealed + "=", strings.ToUpper(sealed)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if got, err := r.tasks.openTask(r.snapshot.Load(), x, id); (err == nil) != (id == sealed) {
			t.Errorf("%q opened as %+v, %v", id, got, err)
		}
	})
}
