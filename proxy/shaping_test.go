package proxy

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/result"
	"github.com/toolgate/toolgate/proxy/result/jq"
)

const twoIssues = `{"content":[{"type":"text","text":"{\"items\":[{\"id\":1,\"title\":\"one\"},{\"id\":2,\"title\":\"two\"}]}"}],"structuredContent":{"items":[{"id":1,"title":"one"},{"id":2,"title":"two"}]}}`

// shaping is a rig whose first server shapes its results.
func shaping(t testing.TB, answer *mcp.Answer, s result.Shaping, changes ...func(*Options, *Config)) (*script, *rig) {
	t.Helper()
	b := reporter(t, mcp.Legacy, answer)
	return b, newRig(t, mounted(b), append([]func(*Options, *Config){withResults(result.Rules{Shaping: s})}, changes...)...)
}

func selecting(t testing.TB, source string) *jq.Program {
	t.Helper()
	p, err := jq.Compile(source)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestShapedResults: both eras get what is selected, the audit entry has the bytes that
// were saved, and the tool is listed without the schema that its results do not have.
func TestShapedResults(t *testing.T) {
	answer := answered(mcp.Legacy, twoIssues)
	_, r := shaping(t, &answer, result.Shaping{Select: selecting(t, ".items[].title")})
	const want = `{"content":[{"type":"text","text":"one\ntwo"}]`
	session := r.open()
	for _, got := range []string{
		resultOf(r.modern("1", "tools/call", `"name":"s__typed"`)), resultOf(r.legacy(session, "2", "tools/call", `{"name":"s__typed"}`)),
	} {
		if !strings.Contains(got, `"content":[{"type":"text","text":"one\ntwo"}]`) || strings.Contains(got, "structuredContent") ||
			!strings.Contains(got, `"dev.toolgate/result":{"output":"changed","shaped":["select"],"whole_bytes":`) {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
	for _, e := range r.ledger.all() {
		if e.Saved < 50 || e.Saved >= int64(len(twoIssues)) || e.Outcome != audit.OutcomeOK {
			t.Errorf("the entry is %+v", e)
		}
	}
	if got := r.legacy(session, "3", "tools/list", "").text(); !strings.Contains(got, `"s__typed"`) || strings.Contains(got, "outputSchema") || strings.Contains(got, result.OwnSelect) {
		t.Errorf("listed: %s", got)
	}
}

// TestShapedStaysValid: what still matches the output schema is not marked.
func TestShapedStaysValid(t *testing.T) {
	answer := answered(mcp.Legacy, twoIssues)
	_, r := shaping(t, &answer, result.Shaping{Select: selecting(t, "{items: [.items[] | {id}]}")})
	got := resultOf(r.modern("1", "tools/call", `"name":"s__typed"`))
	if !strings.Contains(got, `"structuredContent":{"items":[{"id":1},{"id":2}]}`) || strings.Contains(got, `"output"`) {
		t.Errorf("got %s", got)
	}
}

// TestOwnSelect: the server never sees the argument of the model, nor do the rules, and a
// program that does not compile is explained without a call.
func TestOwnSelect(t *testing.T) {
	answer := answered(mcp.Legacy, twoIssues)
	var asked []string
	b, r := shaping(t, &answer, result.Shaping{Own: true}, func(_ *Options, c *Config) {
		c.Chain = gate.NewChain(rule(func(_ context.Context, q *gate.Request) (gate.Decision, error) {
			if q.Action == gate.Call {
				asked = append(asked, string(q.Args))
			}
			return gate.Decision{Effect: gate.Allow}, nil
		}))
	})
	var sent []string
	reply := b.reply
	b.reply = func(ctx context.Context, c *mcp.Call) (mcp.Answer, error) {
		sent = append(sent, string(mcp.Lookup(c.Params, "arguments")))
		return reply(ctx, c)
	}
	call := func(arguments string) string {
		return resultOf(r.modern("1", "tools/call", `"name":"s__echo","arguments":`+arguments))
	}
	if got := call(`{"q":1,"toolgate_select":".items | length"}`); !strings.Contains(got, `"text":"2"`) || !strings.Contains(got, `"shaped":["toolgate_select"]`) {
		t.Errorf("got %s", got)
	}
	if got := call(`{"q":1}`); !strings.Contains(got, `"structuredContent":{"items"`) || strings.Contains(got, result.Key) {
		t.Errorf("got %s", got)
	}
	if got := call(`{"q":1,"toolgate_select":null}`); strings.Contains(got, result.Key) {
		t.Errorf("got %s", got)
	}
	if got := call(`{"q":1,"toolgate_select":".items["}`); !strings.Contains(got, `"isError":true`) || !strings.Contains(got, "toolgate_select does not compile: it ends too early, at character 8.") {
		t.Errorf("got %s", got)
	}
	if got := strings.Join(sent, " "); got != `{"q":1} {"q":1} {"q":1}` {
		t.Errorf("the server was sent %s", got)
	}
	for _, args := range asked {
		if args != `{"q":1}` {
			t.Errorf("the gate was asked about %s", args)
		}
	}
	list := r.modern("2", "tools/list", "").text()
	if !strings.Contains(list, `"toolgate_select":{"type":"string"`) {
		t.Errorf("listed: %s", list)
	}
}

// TestOwnSelectStrict: a strict client is listed the argument too, and what it selects is no
// argument of the server's.
func TestOwnSelectStrict(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, nullable)
	b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) { return answered(mcp.Legacy, twoIssues), nil }
	r := newFindRig(t, func(c *Config) {
		c.Mounts[0].Results, c.Outputs = result.Rules{Shaping: result.Shaping{Own: true}}, schemaStub{}
	}, b)
	schema := schemaIn(t, r.post("/mcp/strict", "tools/list", "").text())
	if mcp.LookupSpan([]byte(schema), "properties", result.OwnSelect).Absent() {
		t.Errorf("the schema is %s", schema)
	}
	got := resultOf(r.post("/mcp/strict", "tools/call", `"name":"s__move","arguments":{"at":{"integer":5},"toolgate_select":".items | length"}`))
	calls := b.seen(mcp.MethodToolsCall)
	if len(calls) != 1 || !strings.Contains(got, `"text":"2"`) {
		t.Fatalf("%d calls: %s", len(calls), got)
	}
	if sent := string(mcp.Lookup(calls[0].Params, "arguments")); sent != `{"at":5,"to":null}` {
		t.Errorf("the server was sent %s", sent)
	}
}

// TestShapedTasks: the result of a task is shaped as that of a call, however a client gets it.
func TestShapedTasks(t *testing.T) {
	for _, era := range []mcp.Era{mcp.Modern, mcp.Legacy} {
		synctest.Test(t, func(t *testing.T) {
			b := newWorker(t, era, working, `"status":"completed","result":`+twoIssues)
			serve := b.reply
			b.reply = func(ctx context.Context, c *mcp.Call) (mcp.Answer, error) {
				if c.Method == mcp.MethodTaskResult {
					return answered(era, twoIssues), nil
				}
				return serve(ctx, c)
			}
			r := newRig(t, mounted(b.script), withResults(result.Rules{Shaping: result.Shaping{Select: selecting(t, ".items[].title")}})).run()
			session := r.open()
			got := map[string]string{"followed": r.legacy(session, "1", "tools/call", `{"name":"s__only"}`).text()}
			if era == mcp.Modern {
				id := taskID(t, r.tasked("2", "tools/call", `"name":"s__job"`))
				r.tasked("3", "tasks/get", ofTask(id))
				got["tasks/get"] = r.tasked("4", "tasks/get", ofTask(id)).text()
			} else {
				got["tasks/result"] = r.legacy(session, "3", "tasks/result", `{`+ofTask(r.makeTask(session))+`}`).text()
			}
			for way, text := range got {
				if !strings.Contains(text, `"text":"one\ntwo"`) || strings.Contains(text, "structuredContent") || !strings.Contains(text, `"shaped":["select"]`) {
					t.Errorf("%v, %s: %s", era, way, text)
				}
			}
		})
	}
}

// TestOwnSelectOfATool: a tool with an argument of that name keeps it.
func TestOwnSelectOfATool(t *testing.T) {
	const schema = `{"type":"object","properties":{"toolgate_select":{"type":"number"}}}`
	b := newScript(t, "s", mcp.Legacy, `tool {"name":"has","inputSchema":`+schema+`}`)
	var sent string
	b.reply = func(_ context.Context, c *mcp.Call) (mcp.Answer, error) {
		sent = string(mcp.Lookup(c.Params, "arguments"))
		return answered(mcp.Legacy, twoIssues), nil
	}
	r := newRig(t, mounted(b), withResults(result.Rules{Shaping: result.Shaping{Own: true}}))
	if got := resultOf(r.modern("1", "tools/call", `"name":"s__has","arguments":{"toolgate_select":7}`)); sent != `{"toolgate_select":7}` || strings.Contains(got, result.Key) {
		t.Errorf("sent %s, got %s", sent, got)
	}
	if list := r.modern("2", "tools/list", "").text(); !strings.Contains(list, `"inputSchema":`+schema) {
		t.Errorf("listed: %s", list)
	}
}

// TestReusedResultsAreShaped: what is reused is what the server sent. Each call shapes
// it for itself, so calls with other selections are equal.
func TestReusedResultsAreShaped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		b := newScript(t, "s", mcp.Legacy, tool("read"))
		b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
			calls++
			return answered(mcp.Legacy, twoIssues), nil
		}
		r := newRig(t, mounted(b), func(_ *Options, c *Config) {
			c.Mounts[0].Results = result.Rules{Shaping: result.Shaping{Own: true, Drop: []result.Path{{"items", "*", "id"}}}}
			c.Mounts[0].Tools = map[string]ToolShape{"read": {Reuse: time.Minute}}
			c.Reusable = func(*gate.Request, []byte) (string, bool) { return "NORMAL", true }
		})
		for program, want := range map[string]string{
			`.items | length`: `"text":"2"`, `.items[0]`: `"text":"{\"title\":\"one\"}"`, `.items[1].title`: `"text":"two"`, `.`: `"text":"{\"items\":[{\"title\"`,
			`.nosuch.a.b + [1] + 2`: `"text":"[toolgate: toolgate_select was not applied: `,
		} {
			got := resultOf(r.modern("1", "tools/call", `"name":"s__read","arguments":{"q":1,"toolgate_select":`+string(mcp.Quote(program))+`}`))
			if !strings.Contains(got, want) || strings.Contains(got, `\"id\"`) {
				t.Errorf("%s: %s", program, got)
			}
		}
		if calls != 1 {
			t.Errorf("the server was asked %d times", calls)
		}
	})
}

// TestShapedIsKeptAsShaped: a result that is still too large after it was shaped is
// kept as the client may see it.
func TestShapedIsKeptAsShaped(t *testing.T) {
	answer := answered(mcp.Legacy, `{"content":[{"type":"text","text":"{\"secret\":1,\"list\":\"`+strings.Repeat("x", 5000)+`\"}"}]}`)
	b := reporter(t, mcp.Legacy, &answer)
	r := newRig(t, mounted(b), withResults(result.Rules{MaxBytes: 2048, Larger: result.KeepLarger, Shaping: result.Shaping{Drop: []result.Path{{"secret"}}}}))
	w := r.modern("1", "tools/call", `"name":"s__echo"`)
	got := resultOf(r.modern("2", "resources/read", `"uri":"`+keptAs(w)+`"`))
	if !strings.Contains(got, "xxxx") || strings.Contains(got, "secret") || strings.Contains(resultOf(w), "secret") {
		t.Errorf("got %s, kept %s", resultOf(w), got)
	}
}

// TestShapedIsRedacted selects a secret that the server's text holds in an escaped form,
// which is no secret to read before it is decoded: from the result, and from one that is
// kept.
func TestShapedIsRedacted(t *testing.T) {
	answer := answered(mcp.Legacy, `{"content":[{"type":"text","text":"{\"k\":\"hunter\\u0032x\",\"long\":\"`+strings.Repeat("y", 3000)+`\"}"}]}`)
	_, r := shaping(t, &answer, result.Shaping{}, withResults(result.Rules{
		Redact: canaries, Shaping: result.Shaping{Select: selecting(t, "{k}")},
	}))
	if got := resultOf(r.modern("1", "tools/call", `"name":"s__echo"`)); strings.Contains(got, secretWord) || !strings.Contains(got, secretMark) {
		t.Errorf("got %s", got)
	}
	_, r = shaping(t, &answer, result.Shaping{}, withResults(result.Rules{Redact: canaries, MaxBytes: 1000, Larger: result.KeepLarger}))
	got := resultOf(r.modern("1", "tools/call", `"name":"s__echo"`))
	_, id, _ := strings.Cut(got, result.URIPrefix)
	if len(id) < 32 {
		t.Fatalf("nothing is kept: %s", got)
	}
	x := &Exchange{Message: mcp.Message{ID: mcp.NumberID(1)}, Identity: person("alice"), Era: mcp.Modern, Version: mcp.LatestModern, responder: nobody{}}
	ctx := result.WithReader(t.Context(), keptReader(r.Gateway, x))
	if got, err := result.Query(ctx, []byte(`{"id":"`+id[:32]+`","select":".k"}`)); err != nil || got != secretMark {
		t.Errorf("read %q, %v", got, err)
	}
}

// TestSelectionIsNoOtherCall makes the same call in a row with another selection each time.
func TestSelectionIsNoOtherCall(t *testing.T) {
	answer := answered(mcp.Legacy, twoIssues)
	_, r := shaping(t, &answer, result.Shaping{Own: true}, inARow(2))
	for i, program := range []string{".", ". ", ".  "} {
		if allowed := r.called("alice", "s__echo", `{"x":1,"`+result.OwnSelect+`":"`+program+`"}`); allowed != (i < 2) {
			t.Errorf("call %d: allowed %v", i+1, allowed)
		}
	}
}
