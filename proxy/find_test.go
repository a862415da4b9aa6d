package proxy

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/findview"
)

// findRig is a gateway whose clients of /mcp/find are served.
type findRig struct {
	*rig
	t *testing.T
}

func newFindRig(t *testing.T, config func(*Config), backends ...*script) *findRig {
	r := newRig(t, mounted(backends...), func(o *Options, c *Config) {
		o.Limits.JSONWait = time.Hour // no answer becomes a stream because the machine is busy
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
