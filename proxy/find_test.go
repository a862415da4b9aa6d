package proxy

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/proxy/findview"
)

// findRig is a gateway whose clients of /mcp/find are served.
type findRig struct {
	*rig
	t *testing.T
}

func newFindRig(t *testing.T, config func(*Config), backends ...*script) *findRig {
	r := newRig(t, mounted(backends...), func(_ *Options, c *Config) {
		if config != nil {
			config(c)
		}
	})
	return &findRig{r.run(), t}
}

// post sends a request of a modern client to a path.
func (r *findRig) post(path, method, params string) *recorder {
	r.t.Helper()
	req := modernRequest(modernBody("1", method, params, ""))
	req.URL.Path = path
	return r.do(req)
}

// call calls a tool of the find view and returns the response.
func (r *findRig) call(tool, arguments string) string {
	r.t.Helper()
	return r.post("/mcp/find", "tools/call", `"name":"`+tool+`","arguments":`+arguments).text()
}

// structured is the structured content of a response.
func structured(t *testing.T, text string) []byte {
	t.Helper()
	s := mcp.Lookup([]byte(text), "result", "structuredContent")
	if s == nil {
		t.Fatalf("no structured content: %s", text)
	}
	return s
}

// namesIn returns the names of the tools in a structured answer.
func namesIn(answer []byte) (names []string) {
	list := mcp.Lookup(answer, "tools")
	for e := range mcp.Elements(list) {
		name, _ := mcp.LookupString(e.Of(list), "name")
		names = append(names, name)
	}
	return names
}

func annotated(name, description, annotations string) string {
	return `tool {"name":"` + name + `","description":"` + description + `","inputSchema":{"type":"object","properties":{"title":{"type":"string"},"state":{"enum":["open","closed"]}},"required":["title"]},"annotations":` + annotations + `}`
}

func issues(t *testing.T) *script {
	return newScript(t, "github", mcp.Legacy,
		annotated("list_issues", "Lists the issues of a repository.", `{"readOnlyHint":true}`),
		annotated("create_issue", "Opens an issue in a repository.", `{"readOnlyHint":false,"destructiveHint":false}`),
		annotated("delete_repo", "Deletes a repository for good.", `{}`),
		`prompt {"name":"triage","description":"Sorts new issues.","arguments":[{"name":"label","required":true}]}`,
	)
}

// TestFindViewIsConstant lists the find view in every revision, for callers who may view
// all and nothing, before and after the catalog changes.
func TestFindViewIsConstant(t *testing.T) {
	b := issues(t)
	r := newFindRig(t, func(c *Config) { c.Chain = gate.NewChain(onlyLocal) }, b)
	list := r.post("/mcp/find", "tools/list", "").text()
	var names []string
	for _, tool := range findview.Tools() {
		names = append(names, tool.Name)
	}
	if got := namesIn(mcp.Lookup([]byte(list), "result")); !slices.Equal(got, names) {
		t.Errorf("the list has %q, want %q", got, names)
	}
	b.offer(t, mcp.Legacy, everything, annotated("merge_local", "Merges.", `{}`))
	r.Changed(b.name)
	r.Settle(t.Context())
	if after := r.post("/mcp/find", "tools/list", "").text(); after != list {
		t.Errorf("the list changed with the catalog:\n%s\n%s", list, after)
	}
	if size := len(list); size > 4000 {
		t.Errorf("the list has %d bytes", size)
	}
}

// TestPins lists pinned tools beside those of the find view, for who may view them.
func TestPins(t *testing.T) {
	r := newFindRig(t, func(c *Config) {
		c.Pins = func(capsule string) []string {
			if capsule == "reading" {
				return nil
			}
			return []string{"github__create_issue", "github__nothing"}
		}
	}, issues(t))
	for path, want := range map[string]bool{"/mcp/find": true, "/mcp/s/github/find": true, "/mcp": true} {
		list := r.post(path, "tools/list", "").text()
		if got := slices.Contains(namesIn(mcp.Lookup([]byte(list), "result")), "github__create_issue"); got != want {
			t.Errorf("%s: the pinned tool is listed: %v", path, got)
		}
		if strings.Contains(list, "github__nothing") {
			t.Errorf("%s: a pin that names nothing is listed", path)
		}
	}
}

// TestFindPaths serves the find view behind each endpoint and nowhere else.
func TestFindPaths(t *testing.T) {
	r := newFindRig(t, func(c *Config) { c.Chain, c.Capsules = gate.NewChain(reading{}), reading{} }, newScript(t, "s", mcp.Legacy, tool("get"), tool("put")))
	for path, status := range map[string]int{
		"/mcp/find": http.StatusOK, "/mcp/s/s/find": http.StatusOK, "/mcp/c/reading/find": http.StatusOK,
		"/mcp/c/writing/find": http.StatusNotFound, "/mcp/s/none/find": http.StatusNotFound, "/mcp/find/find": http.StatusNotFound,
		"/mcp/s/find": http.StatusNotFound, "/mcp/c/find": http.StatusNotFound, "/find": http.StatusNotFound, "/message/find": http.StatusNotFound, "/mcp/find/": http.StatusNotFound,
	} {
		w := r.post(path, "tools/list", "")
		if w.code() != status {
			t.Errorf("%s: status %d, want %d", path, w.code(), status)
		}
		if status == http.StatusOK && !strings.Contains(w.text(), findview.FindTools) {
			t.Errorf("%s: %s", path, w.text())
		}
	}
	for _, view := range ViewPaths() {
		for _, endpoint := range []string{"/mcp", "/mcp/s/s", "/mcp/c/reading"} {
			if w := r.post(endpoint+view, "tools/list", ""); w.code() != http.StatusOK {
				t.Errorf("%s: status %d", endpoint+view, w.code())
			}
		}
	}
	got := r.post("/mcp/c/reading/find", "tools/call", `"name":"`+findview.FindTools+`","arguments":{"query":"put or get something"}`)
	if names := namesIn(structured(t, got.text())); !slices.Equal(names, []string{"s__get"}) {
		t.Errorf("the capsule finds %q", names)
	}
}

// TestFind searches, describes and calls.
func TestFind(t *testing.T) {
	b := issues(t)
	r := newFindRig(t, func(c *Config) {
		c.Recording.Fields = func(exposed string) []string {
			if exposed == findview.FindTools {
				return []string{"/query"}
			}
			return nil
		}
	}, b)
	answer := structured(t, r.call(findview.FindTools, `{"query":"open a new issue"}`))
	if names := namesIn(answer); len(names) == 0 || names[0] != "github__create_issue" {
		t.Errorf("found %q", names)
	}
	if !strings.Contains(string(answer), `"call":"`+findview.CallWrite+`"`) || !strings.Contains(string(answer), `"inputSchema":{`) {
		t.Errorf("the answer: %s", answer)
	}
	answer = structured(t, r.call(findview.FindTools, `{"query":"sort what is new","kind":"prompt"}`))
	if names := namesIn(answer); !slices.Equal(names, []string{"github__triage"}) || !strings.Contains(string(answer), `github__triage(label)`) {
		t.Errorf("prompts found: %s", answer)
	}
	answer = structured(t, r.call(findview.DescribeTools, `{"names":["github__delete_repo","github__delete_rep"]}`))
	if names := namesIn(answer); !slices.Equal(names, []string{"github__delete_repo"}) || !strings.Contains(string(answer), `\"github__delete_rep\" does not exist. You may mean github__delete_repo`) {
		t.Errorf("described: %s", answer)
	}
	if got := r.call(findview.CallWrite, `{"name":"github__create_issue","arguments":{"title":"x"}}`); !strings.Contains(got, `"resultType":"complete"`) || strings.Contains(got, `"isError":true`) {
		t.Errorf("a call: %s", got)
	}
	sent := b.seen("tools/call")
	if len(sent) != 1 || string(mcp.Lookup(sent[0].Params, "arguments")) != `{"title":"x"}` {
		t.Errorf("the server was sent %v", sent)
	}
	entries := r.ledger.all()
	last := entries[len(entries)-1]
	if last.Name != "github__create_issue" || last.Via != findview.CallWrite || last.Server != "github" {
		t.Errorf("the audit entry: %+v", last)
	}
	if first := entries[0]; first.Name != findview.FindTools || !slices.Contains(first.Shown, "github__create_issue") {
		t.Errorf("the audit entry of a search: %+v", first)
	} else if len(first.Fields) != 1 || first.Fields[0].Value != "open a new issue" {
		t.Errorf("the recorded query: %+v", first.Fields)
	}
}

// TestWrongCall calls tools by the tools of the find view that say something else of
// them.
func TestWrongCall(t *testing.T) {
	b := issues(t)
	r := newFindRig(t, nil, b)
	right := map[string]string{"list_issues": findview.CallRead, "create_issue": findview.CallWrite, "delete_repo": findview.CallDestructive}
	for name, by := range right {
		for _, via := range []string{findview.CallRead, findview.CallWrite, findview.CallDestructive} {
			got := r.call(via, `{"name":"github__`+name+`","arguments":{"title":"x"}}`)
			if refused := strings.Contains(got, `"kind":"wrong_call"`); refused != (via != by) {
				t.Errorf("%s by %s: %s", name, via, got)
			} else if refused && !strings.Contains(got, by) {
				t.Errorf("%s by %s does not name %s: %s", name, via, by, got)
			}
		}
	}
	if n := len(b.seen("tools/call")); n != 3 {
		t.Errorf("%d calls reached the server, want 3", n)
	}
}

// TestFindRefusals gives the tools of the find view what they cannot use.
func TestFindRefusals(t *testing.T) {
	r := newFindRig(t, func(c *Config) { c.Arguments = &checker{} }, issues(t))
	for _, tt := range []struct{ tool, arguments, want string }{
		{findview.FindTools, `{}`, "must say in words"},
		{findview.FindTools, `{"query":" "}`, "must say in words"},
		{findview.FindTools, `{"query":7}`, "must say in words"},
		{findview.FindTools, `{"query":"` + strings.Repeat("x", 100_000) + `"}`, "at most 4096 are read"},
		{findview.FindTools, `{"query":"x","limit":0}`, "whole number from 1 to 50"},
		{findview.FindTools, `{"query":"x","kind":"thing"}`, `\"kind\" must be`},
		{findview.FindTools, `{"query":"x","detail":"all"}`, `\"detail\" must be`},
		{findview.FindTools, `{"querry":"x"}`, `did you mean \"query\"?`},
		{findview.DescribeTools, `{}`, "must be a list of names"},
		{findview.DescribeTools, `{"names":[]}`, "is empty"},
		{findview.DescribeTools, `{"names":[1]}`, "must be a name"},
		{findview.CallRead, `{}`, `\"name\" must be the name of a tool`},
		{findview.CallRead, `{"name":"github__list_issues","title":"x"}`, `belong into \"arguments\"`},
		{findview.CallRead, `{"name":"github__list_issues","arguments":[1]}`, `\"arguments\" must be an object`},
		{findview.CallRead, `{"name":"` + findview.FindTools + `","arguments":{}}`, "is called by itself"},
		{findview.CallRead, `{"name":"github__list_isues","arguments":{}}`, "You may mean github__list_issues"},
		{findview.CallRead, `{"name":"github__list_issues","arguments":{"x":1}}`, `The schema of the arguments: {\"type\":\"object\"`},
		{findview.CallRead, `{"name":"github__list_issues","arguments":"{\"x\":1}"}`, "x is not wanted"},
	} {
		got := r.call(tt.tool, tt.arguments)
		if !strings.Contains(got, `"isError":true`) || !strings.Contains(got, tt.want) {
			t.Errorf("%s with %.80s: %.400s", tt.tool, tt.arguments, got)
		}
	}
	for _, tt := range []struct{ arguments, want string }{
		{`{"query":"qqqq zzzz"}`, "Nothing matches"},
		{`{"query":"issues","server":"gitlab"}`, `There is no server \"gitlab\"`},
		{`{"query":"бисквитка"}`, "Nothing matches"},
	} {
		if got := r.call(findview.FindTools, tt.arguments); strings.Contains(got, `"isError":true`) || !strings.Contains(string(structured(t, got)), tt.want) {
			t.Errorf("%s: %s", tt.arguments, got)
		}
	}
	if got := r.post("/mcp", "tools/call", `"name":"`+findview.FindTools+`","arguments":{"query":"x"}`).text(); !strings.Contains(got, "Unknown tool") {
		t.Errorf("the full view has the tools of the find view: %s", got)
	}
}

// TestFindTellsNothingOfArguments finds a tool whose call depends on its arguments: the
// gate is not asked about a call without them.
func TestFindTellsNothingOfArguments(t *testing.T) {
	calls := rule(func(_ context.Context, q *gate.Request) (gate.Decision, error) {
		if q.Action == gate.Call && mcp.Lookup(q.Args, "title") == nil {
			return gate.Decision{Reason: "no title"}, nil
		}
		return gate.Decision{Effect: gate.Allow}, nil
	})
	r := newFindRig(t, func(c *Config) { c.Chain = gate.NewChain(calls) }, issues(t))
	answer := string(structured(t, r.call(findview.FindTools, `{"query":"open a new issue"}`)))
	if !strings.Contains(answer, `"call":"`+findview.CallWrite+`"`) || strings.Contains(answer, "no title") {
		t.Errorf("the answer: %s", answer)
	}
	if got := r.call(findview.CallWrite, `{"name":"github__create_issue","arguments":{}}`); !strings.Contains(got, "no title") {
		t.Errorf("a call: %s", got)
	}
}

// TestDescribePrompt describes a prompt without saying that a tool calls it.
func TestDescribePrompt(t *testing.T) {
	r := newFindRig(t, nil, issues(t))
	answer := string(structured(t, r.call(findview.DescribeTools, `{"names":["github__triage"]}`)))
	if !strings.Contains(answer, `"kind":"prompt"`) || strings.Contains(answer, `"call":`) {
		t.Errorf("the answer: %s", answer)
	}
}

// TestDescribeOnlyWhatIsListed asks for a description of a resource that its server may
// have and does not list.
func TestDescribeOnlyWhatIsListed(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, `resource {"uri":"file:///a","name":"a"}`)
	r := newFindRig(t, nil, b)
	answer := structured(t, r.call(findview.DescribeTools, `{"names":["s+file:///a","s+file:///b"]}`))
	list := mcp.Lookup(answer, "tools")
	n := 0
	for range mcp.Elements(list) {
		n++
	}
	if n != 1 || !strings.Contains(string(answer), `\"s+file:///b\" does not exist`) {
		t.Errorf("described: %s", answer)
	}
}

// TestOwnNamesAreNotImitated serves a server without a namespace that lists names of the
// gateway's own form.
func TestOwnNamesAreNotImitated(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, tool(findview.CallRead), tool("fine"))
	r := newFindRig(t, func(c *Config) { c.Mounts[0].Namespace = "" }, b)
	if list := r.post("/mcp", "tools/list", "").text(); strings.Contains(list, findview.CallRead) || !strings.Contains(list, `"fine"`) {
		t.Errorf("the list: %s", list)
	}
}

// TestStringOfArgumentsIsBounded gives the arguments as a text with more values than a
// message may have.
func TestStringOfArgumentsIsBounded(t *testing.T) {
	b := issues(t)
	r := newFindRig(t, nil, b)
	long := `"{\"title\":[` + strings.Repeat("0,", 200_000) + `0]}"`
	if got := r.call(findview.CallWrite, `{"name":"github__create_issue","arguments":`+long+`}`); !strings.Contains(got, `\"arguments\" must be an object`) {
		t.Errorf("got %.300s", got)
	}
	if n := len(b.seen("tools/call")); n != 0 {
		t.Errorf("%d calls reached the server", n)
	}
	for _, arguments := range []string{`{"names":["` + strings.Repeat("x", 100_000) + `"]}`, `{"names":"` + strings.Repeat("x", 100_000) + `"}`} {
		if got := r.call(findview.DescribeTools, arguments); len(got) > 2000 {
			t.Errorf("%d bytes of answer", len(got))
		}
	}
}

// discreet is a registry that shows the instructions of servers to alice alone.
type discreet struct{}

func (discreet) Record(context.Context, []*gate.Offer) {}

func (discreet) ShowsInstructionsToAll(string, string) bool { return false }

func (discreet) ShowsInstructions(id *gate.Identity, _, _ string) bool {
	return id != nil && id.Subject == "alice"
}

// TestHiddenInstructionsAreNotSearched searches for a word of instructions that are not
// for everybody.
func TestHiddenInstructionsAreNotSearched(t *testing.T) {
	for want, registry := range map[string]Registry{"github__list_issues": nil, "Nothing matches": discreet{}} {
		b := issues(t)
		b.mu.Lock()
		l := *b.listing
		l.Instructions = "Everything about payroll."
		b.listing = &l
		b.mu.Unlock()
		r := newFindRig(t, func(c *Config) { c.Registry = registry }, b)
		if got := string(structured(t, r.call(findview.FindTools, `{"query":"payroll"}`))); !strings.Contains(got, want) {
			t.Errorf("want %s: %s", want, got)
		}
	}
}

// onlyLocal lets callers view what has "local" in its name.
var onlyLocal = rule(func(_ context.Context, r *gate.Request) (gate.Decision, error) {
	if strings.Contains(r.Exposed, "local") {
		return gate.Decision{Effect: gate.Allow}, nil
	}
	return gate.Decision{Reason: "not local"}, nil
})

var (
	findWorlds  = flag.Int("find-worlds", 20, "pairs of gateways of TestHiddenToolsChangeNothing")
	findQueries = flag.Int("find-queries", 20, "searches of each of them")
	findChanges = flag.Int("find-changes", 40, "changes of the catalog of TestFindWhileTheCatalogChanges")
)

// TestHiddenToolsChangeNothing compares the answers of two gateways that differ in hidden
// tools alone.
func TestHiddenToolsChangeNothing(t *testing.T) {
	words := strings.Fields("list create delete issue repository file read write search page user message channel send open close table row query")
	random := rand.New(rand.NewPCG(1, 2))
	some := func() string { return words[random.IntN(len(words))] }
	for range *findWorlds {
		var seen, all []string
		for i := range 30 {
			item := annotated(fmt.Sprintf("%s_%s_local_%d", some(), some(), i), some()+" "+some()+" "+some(), `{"readOnlyHint":true}`)
			seen, all = append(seen, item), append(all, item)
			all = append(all, annotated(fmt.Sprintf("%s_%s_%d", some(), some(), i), some()+" "+some()+" "+some(), `{"readOnlyHint":true}`))
		}
		var rigs [2]*findRig
		for i, items := range [][]string{seen, all} {
			rigs[i] = newFindRig(t, func(c *Config) { c.Chain = gate.NewChain(onlyLocal) }, newScript(t, "s", mcp.Legacy, items...))
		}
		for range *findQueries {
			text := []string{some(), some(), some(), some()}
			query := `{"query":"` + strings.Join(text[:1+random.IntN(4)], " ") + `","limit":` + strconv.Itoa(1+random.IntN(20)) + `}`
			name := `{"name":"s__` + some() + "_" + some() + `_1","arguments":{}}`
			a, b := rigs[0].call(findview.FindTools, query), rigs[1].call(findview.FindTools, query)
			if a != b {
				t.Fatalf("%s:\n%s\n%s", query, a, b)
			}
			a, b = rigs[0].call(findview.CallRead, name), rigs[1].call(findview.CallRead, name)
			if withoutDecision(a) != withoutDecision(b) {
				t.Fatalf("%s:\n%s\n%s", name, a, b)
			}
		}
	}
}

// TestFindWhileTheCatalogChanges searches while one tool of many changes again and again.
// No search fails, and none misses a tool that stays.
func TestFindWhileTheCatalogChanges(t *testing.T) {
	items := manyTools(1000)
	stay := annotated("water_plants", "Waters the plants on the balcony.", `{"readOnlyHint":true}`)
	b := newScript(t, "s", mcp.Legacy, append(items, stay)...)
	r := newFindRig(t, nil, b)
	ctx, cancel := context.WithCancel(t.Context())
	var searching sync.WaitGroup
	var searches atomic.Int64
	for range 2 {
		searching.Go(func() {
			for ctx.Err() == nil {
				got := r.call(findview.FindTools, `{"query":"water the plants"}`)
				if searches.Add(1); !strings.Contains(got, "s__water_plants") || strings.Contains(got, `"isError":true`) {
					t.Errorf("a search: %s", got)
					return
				}
			}
		})
	}
	for i := range *findChanges {
		items[i%len(items)] = annotated(fmt.Sprintf("changed_%d", i), "Changed.", `{}`)
		b.offer(t, mcp.Legacy, everything, append(items, stay)...)
		r.Changed(b.name)
		r.Settle(t.Context())
	}
	cancel()
	searching.Wait()
	if searches.Load() == 0 {
		t.Error("nothing was searched")
	}
	last := fmt.Sprintf("s__changed_%d", *findChanges-1)
	testwait.Until(t, time.Minute, "the last change is found", func() bool {
		return strings.Contains(r.call(findview.FindTools, `{"query":"`+last+`"}`), last)
	})
}

// withoutDecision removes the id of the call, which is another in each.
func withoutDecision(text string) string {
	before, rest, ok := strings.Cut(text, `"decision_id":"`)
	if !ok {
		return text
	}
	_, after, _ := strings.Cut(rest, `"`)
	return before + after
}

// found is the members of a call of a tool by the find view.
func found(name, arguments string) string {
	return `"name":"` + findview.CallDestructive + `","arguments":{"name":"` + name + `","arguments":` + arguments + `}`
}

// TestFoundRounds answers a question of a server during a call by the find view.
func TestFoundRounds(t *testing.T) {
	b := asking(t, 2)
	r := &findRig{noted(t, b, nil, nil), t}
	w := r.post("/mcp/find", "tools/call", found("s__ask", "{}"))
	for range 2 {
		w = r.post("/mcp/find", "tools/call", found("s__ask", "{}")+`,"inputResponses":{"q":{"action":"accept"}},"requestState":"`+stateOf(t, w)+`"`)
	}
	if !strings.Contains(w.text(), `"resultType":"complete"`) {
		t.Errorf("after the last answer: %s", w.text())
	}
	var own []audit.Entry
	for _, e := range r.ledger.all() {
		if e.Outcome != "" && e.Name == "s__ask" {
			own = append(own, e)
		}
	}
	if len(own) != 1 || own[0].Via != findview.CallDestructive || own[0].Rounds != 2 {
		t.Errorf("the entries: %+v", own)
	}
}

// TestFoundTask makes a task by the find view, which is polled like any other.
func TestFoundTask(t *testing.T) {
	b := newWorker(t, mcp.Modern, working, completed)
	r := &findRig{noted(t, b.script, nil, nil), t}
	tasked := func(method, members string) *recorder {
		body := strings.Replace(modernBody("1", method, members, ""), `"io.modelcontextprotocol/clientCapabilities":{`, declaredTasks, 1)
		req := modernRequest(body)
		req.URL.Path = "/mcp/find"
		return r.do(req)
	}
	id := taskID(t, tasked("tools/call", found("s__job", "{}")))
	tasked("tasks/get", ofTask(id))
	if w := tasked("tasks/get", ofTask(id)); !strings.Contains(w.text(), `"status":"completed"`) {
		t.Errorf("the task: %s", w.text())
	}
}

// TestFoundByLegacyClients finds and calls on a stream of lines in every legacy
// revision, with progress, a log message, a question, and a cancellation.
func TestFoundByLegacyClients(t *testing.T) {
	for _, version := range []mcp.Version{mcp.V20241105, mcp.V20250326, mcp.V20250618, mcp.V20251125} {
		synctest.Test(t, func(t *testing.T) {
			began := make(chan struct{}, 1)
			b := newScript(t, "s", mcp.Legacy, tool("job"), tool("slow"))
			b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
				if call.Key == "slow" {
					began <- struct{}{}
					<-ctx.Done()
					return mcp.Answer{}, context.Cause(ctx)
				}
				return answered(mcp.Legacy, `{"content":[{"type":"text","text":"done"}]}`), nil
			}
			r := newRig(t, mounted(b)).run()
			in, feed := io.Pipe()
			c := &wire{t: t, in: feed, out: &syncBuffer{}, done: make(chan struct{})}
			go func() {
				defer close(c.done)
				c.err = r.ServeStdio(t.Context(), person("alice"), Scope{View: FindView}, in, c.out)
			}()
			c.send(
				strings.Replace(initBody, string(mcp.V20251125), string(version), 1), `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
				request("1", "tools/list", "{}"),
				request("2", "tools/call", `{"name":"`+findview.FindTools+`","arguments":{"query":"a job"}}`),
				request("3", "tools/call", "{"+found("s__job", "{}")+"}"),
				request("4", "tools/call", "{"+found("s__slow", "{}")+"}"),
			)
			<-began
			c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`)
			synctest.Wait()
			_ = feed.Close()
			<-c.done
			out := c.out.String()
			for _, want := range []string{findview.CallRead, `s__job`, `"text":"done"`} {
				if !strings.Contains(out, want) {
					t.Errorf("%s: no %s in %s", version, want, out)
				}
			}
			if has := strings.Contains(out, "structuredContent"); has != (version >= mcp.V20250618) {
				t.Errorf("%s: structured content: %v", version, has)
			}
			if strings.Contains(out, `"id":4`) {
				t.Errorf("%s: the cancelled call was answered: %s", version, out)
			}
			if outcomes := r.ledger.outcomes(); !slices.Contains(outcomes, audit.OutcomeCancelled) {
				t.Errorf("%s: outcomes %v", version, outcomes)
			}
		})
	}
}

// TestFindOverSSE finds over the transport of 2024-11-05.
func TestFindOverSSE(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, mounted(issues(t))).run()
		stream, cancel := r.begin(httpRequest(http.MethodGet, "/sse/find", ""))
		synctest.Wait()
		_, rest, _ := strings.Cut(stream.text(), "sessionId=")
		id, _, _ := strings.Cut(rest, "\n")
		for _, body := range []string{initBody, request("1", "tools/list", "{}")} {
			if w := r.do(httpRequest(http.MethodPost, "/message?sessionId="+id, body)); w.code() != http.StatusAccepted {
				t.Errorf("status %d: %s", w.code(), w.text())
			}
		}
		synctest.Wait()
		if out := stream.text(); !strings.Contains(out, findview.FindTools) || strings.Contains(out, "github__delete_repo") {
			t.Errorf("the stream: %s", out)
		}
		cancel()
	})
}

// manyTools are the definitions of n tools whose words differ.
func manyTools(n int) []string {
	verbs := strings.Fields("list create delete update read search send close merge archive copy move rename share")
	nouns := strings.Fields("issue repository file page message channel invoice order customer ticket event calendar contact report table row query image video")
	items := make([]string, n)
	for i := range items {
		verb, noun := verbs[i%len(verbs)], nouns[i/len(verbs)%len(nouns)]
		items[i] = annotated(fmt.Sprintf("%s_%s_%d", verb, noun, i), fmt.Sprintf("Can %s one %s of a project, by its number %d.", verb, noun, i), `{"readOnlyHint":true}`)
	}
	return items
}

// BenchmarkFind is what the find view costs with 10,000 tools: its list, a search, and a
// call by it beside the same call made directly.
func BenchmarkFind(b *testing.B) {
	backend := newScript(b, "s", mcp.Legacy, manyTools(10_000)...)
	backend.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
		return answered(mcp.Legacy, `{"content":[]}`), nil
	}
	r := newRig(b, mounted(backend), func(o *Options, _ *Config) { o.Auditor = forgetful{} }).run()
	r.finder.index.Await(b.Context())
	for name, params := range map[string]string{
		"list":   "",
		"search": `"name":"` + findview.FindTools + `","arguments":{"query":"close the old tickets and send a report to the customer"}`,
		"found":  `"name":"` + findview.CallRead + `","arguments":{"name":"s__list_issue_0","arguments":{"title":"x"}}`,
		"direct": `"name":"s__list_issue_0","arguments":{"title":"x"}`,
	} {
		method := mcp.MethodToolsCall
		if params == "" {
			method = mcp.MethodToolsList
		}
		message, err := mcp.Parse([]byte(modernBody("1", method, params, "")), mcp.Limits{})
		if err != nil {
			b.Fatal(err)
		}
		x := &Exchange{
			Message: message, Identity: person("alice"), Scope: Scope{View: FindView}, Era: mcp.Modern, Version: mcp.LatestModern, Transport: "http", responder: nobody{},
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if answer := r.serveRequest(b.Context(), x); answer.fault != nil || isError(answer.result) {
					b.Fatalf("%s %v", answer.result, answer.fault)
				}
			}
		})
	}
}
