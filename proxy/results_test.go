package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/redact"
	"github.com/toolgate/toolgate/proxy/result"
)

// canary removes one word.
type canary struct{}

var canaries = redact.Messages{Filter: canary{}}

const secretWord, secretMark = "hunter2x", "***"

func (canary) Value(value []byte, until time.Time) ([]byte, int, error) {
	n := bytes.Count(value, []byte(secretWord))
	switch {
	case bytes.Contains(value, []byte("slow")), time.Now().After(until):
		return nil, 0, errBoom
	case n == 0:
		return value, 0, nil
	}
	return bytes.ReplaceAll(value, []byte(secretWord), []byte(secretMark)), n, nil
}

func (c canary) Text(text string, until time.Time) (string, int, error) {
	clean, n, err := c.Value([]byte(text), until)
	return string(clean), n, err
}

// schemaStub reports content with the word wrong, and quotes it.
type schemaStub struct{ err error }

func (s schemaStub) CheckOutput(_, value []byte) ([]string, error) {
	if s.err != nil {
		return nil, s.err
	}
	if bytes.Contains(value, []byte("wrong")) {
		return []string{"structuredContent/a: is " + string(value)}, nil
	}
	return nil, nil
}

func (s schemaStub) Ready(schema []byte) error {
	if bytes.Contains(schema, []byte("refused")) {
		return errBoom
	}
	return nil
}

// withResults gives the first mount rules and the gateway a checker.
func withResults(rules result.Rules) func(*Options, *Config) {
	return func(_ *Options, c *Config) { c.Mounts[0].Results, c.Outputs = rules, schemaStub{} }
}

// reporter is a server whose tool, prompt and resource return what it is given. Its
// tool typed lists an output schema.
func reporter(t testing.TB, era mcp.Era, answer *mcp.Answer) *script {
	b := newScript(t, "s", era, tool("echo"),
		`tool {"name":"typed","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}`,
		`prompt {"name":"ask"}`, `resource {"uri":"file:///a","name":"a"}`)
	b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
		got := *answer
		got.Era = era
		return got, nil
	}
	return b
}

// resultOf returns the result of a response.
func resultOf(w *recorder) string { return string(mcp.Lookup([]byte(w.text()), "result")) }

// TestResultsStayAsTheyAre: without rules, and with rules that find nothing, a result
// keeps its bytes.
func TestResultsStayAsTheyAre(t *testing.T) {
	schema := result.Rules{Output: result.OutputEnforce, Redact: canaries, MaxBytes: 1 << 20, Larger: result.KeepLarger}
	for _, raw := range []string{
		`{"content":[]}`, `{}`, `{ "content" : [ {"type":"text" ,"text":"\u0041\ud800 1.0"} ], "x":9007199254740993, "structuredContent":{"b":1.50,"a":1e400}}`,
		`{"structuredContent":null,"content":null}`, `{"content":[1,"two",null,{"type":7},{"type":"video","data":"?"},[]],"isError":"no"}`,
		`{"content":[{"type":"text","text":"x"}],"isError":true,"_meta":{"a/b":[{"c":{}}]}}`,
		`{"content":{"type":"text","text":"not a list"},"_meta":1}`,
	} {
		for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
			answer := answered(era, raw)
			var got []string
			for _, rules := range []result.Rules{{}, schema} {
				r := newRig(t, mounted(reporter(t, era, &answer)), withResults(rules))
				for _, call := range []func(string) *recorder{
					func(name string) *recorder { return r.modern("1", "tools/call", `"name":"`+name+`"`) },
					func(name string) *recorder { return r.legacy(r.open(), "1", "tools/call", `{"name":"`+name+`"}`) },
				} {
					got = append(got, call("s__echo").text())
				}
			}
			if got[0] != got[2] || got[1] != got[3] {
				t.Errorf("%s of a %v server:\n%s", raw, era, strings.Join(got, "\n"))
			}
			if era == mcp.Legacy && !strings.Contains(raw, ":null,") && !strings.HasSuffix(got[1], `"result":`+raw+`}`) {
				t.Errorf("%s became %s", raw, got[1])
			}
		}
	}
}

// TestRedactedResults has results with a secret in every place. The secret must be in
// no response, entry or log line.
func TestRedactedResults(t *testing.T) {
	const pixels, text, mixed = "AAEC/w==", "aHVudGVyMng=", "Kioq" // bytes; hunter2x; ***
	for _, tt := range []struct {
		method, params, in, out string
		n                       int64
	}{
		{"tools/call", `"name":"s__echo"`, `{"content":[{"type":"text","text":"a hunter2x b"}]}`, `{"content":[{"type":"text","text":"a *** b"}]}`, 1},
		{"tools/call", `"name":"s__echo"`, `{"content":[],"structuredContent":{"a":["hunter2x",{"hunter2x":1}]},"hunter2x":"hunter2x"}`, `{"content":[],"structuredContent":{"a":["***",{"***":1}]},"hunter2x":"***"}`, 3},
		{"tools/call", `"name":"s__echo"`, `{"content":[{"type":"resource","resource":{"uri":"x://hunter2x","mimeType":"text/plain","text":"hunter2x"}}],"_meta":{"a":"hunter2x"}}`, `{"content":[{"type":"resource","resource":{"uri":"s+x://***","mimeType":"text/plain","text":"***"}}],"_meta":{"a":"***"}}`, 3},
		{"tools/call", `"name":"s__echo"`, `{"content":[{"type":"image","mimeType":"image/hunter2x","data":"` + pixels + `"},{"type":"resource","resource":{"uri":"x:/a","blob":"` + text + `"}},"hunter2x"]}`, `{"content":[{"type":"image","mimeType":"image/hunter2x","data":"` + pixels + `"},{"type":"resource","resource":{"uri":"s+x:/a","blob":"` + mixed + `"}},"***"]}`, 2},
		{"tools/call", `"name":"s__echo"`, `{"content":[{"type":"image","data":"hunter2x!"},{"type":"audio","data":7}]}`, `{"content":[{"type":"image","data":"***!"},{"type":"audio","data":7}]}`, 1},
		{"tools/call", `"name":"s__echo"`, `{"content":"hunter2x","isError":true}`, `{"content":"***","isError":true}`, 1},
		{"prompts/get", `"name":"s__ask"`, `{"description":"hunter2x","messages":[{"role":"user","content":{"type":"text","text":"hunter2x"}},"hunter2x",{"role":"hunter2x","x":"hunter2x"}]}`, `{"description":"***","messages":[{"role":"user","content":{"type":"text","text":"***"}},"***",{"role":"hunter2x","x":"***"}]}`, 4},
		{"resources/read", `"uri":"s+file:///a"`, `{"contents":[{"uri":"file:///a","text":"hunter2x"},{"uri":"file:///b","blob":"` + text + `"}]}`, `{"contents":[{"uri":"s+file:///a","text":"***"},{"uri":"s+file:///b","blob":"` + mixed + `"}]}`, 2},
	} {
		answer := answered(mcp.Legacy, tt.in)
		var counted int
		r := newRig(t, mounted(reporter(t, mcp.Legacy, &answer)), withResults(result.Rules{Redact: canaries}), func(o *Options, _ *Config) {
			o.Metrics = &Metrics{Redacted: func(_ string, n int) { counted += n }}
		})
		got := resultOf(r.legacy(r.open(), "1", tt.method, `{`+tt.params+`}`))
		if got != tt.out {
			t.Errorf("%s\ngot  %s\nwant %s", tt.in, got, tt.out)
		}
		entries := r.ledger.all()
		if e := entries[len(entries)-1]; e.Redacted != tt.n || counted != int(tt.n) {
			t.Errorf("%s: the entry counts %d, the metric %d, want %d", tt.in, e.Redacted, counted, tt.n)
		}
	}
}

// TestRedactedErrors: errors of a server are passed on without secrets, and otherwise
// unchanged.
func TestRedactedErrors(t *testing.T) {
	answer := fault(mcp.Legacy, `{"code":-7,"message":"no hunter2x","data":{"a":"hunter2x","b":1.0},"hunter2x":"hunter2x"}`)
	r := newRig(t, mounted(reporter(t, mcp.Legacy, &answer)), withResults(result.Rules{Redact: canaries}))
	session := r.open()
	want := `{"jsonrpc":"2.0","id":1,"error":{"code":-7,"message":"no ***","data":{"a":"***","b":1.0},"hunter2x":"***"}}`
	if got := r.legacy(session, "1", "tools/call", `{"name":"s__echo"}`).text(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if e := r.ledger.all()[0]; e.Redacted != 3 || strings.Contains(fmt.Sprint(e), secretWord) {
		t.Errorf("the entry is %+v", e)
	}
	answer = fault(mcp.Legacy, `{ "code": -7, "message":"plain" }`)
	if got := r.legacy(session, "1", "tools/call", `{"name":"s__echo"}`).text(); !strings.HasSuffix(got, `"error":{ "code": -7, "message":"plain" }}`) {
		t.Errorf("got %s", got)
	}
	if strings.Contains(r.log.String(), secretWord) {
		t.Errorf("the log has it: %s", r.log.String())
	}
}

// TestTooLargeToRedact: what cannot be searched is not passed on.
func TestTooLargeToRedact(t *testing.T) {
	answer := answered(mcp.Legacy, `{"content":[{"type":"text","text":"`+strings.Repeat("a", 3000)+`hunter2x"}]}`)
	r := newRig(t, mounted(reporter(t, mcp.Legacy, &answer)), withResults(result.Rules{Redact: redact.Messages{Filter: canary{}, SearchLimits: redact.SearchLimits{RedactBytes: 2000}}}))
	got := r.legacy(r.open(), "1", "tools/call", `{"name":"s__echo"}`).text()
	if !strings.Contains(got, `"kind":"result_too_large"`) || !strings.Contains(got, "limits.redact") || strings.Contains(got, "aaa") {
		t.Errorf("got %s", got)
	}
	if e := r.ledger.all()[0]; e.Outcome != audit.OutcomeError || e.Code != "result_too_large" {
		t.Errorf("the entry is %+v", e)
	}
	answer = fault(mcp.Legacy, `{"code":-7,"message":"`+strings.Repeat("a", 3000)+`"}`)
	if got := r.legacy(r.open(), "1", "tools/call", `{"name":"s__echo"}`).text(); !strings.Contains(got, `"code":-7`) || !strings.Contains(got, "limits.redact") || strings.Contains(got, "aaa") {
		t.Errorf("got %s", got)
	}
}

// TestTooSlowToRedact: what was not searched in time is not passed on.
func TestTooSlowToRedact(t *testing.T) {
	answer := answered(mcp.Legacy, `{"content":[{"type":"text","text":"it is slow hunter2x"},{"type":"text","text":"fast"}]}`)
	r := newRig(t, mounted(reporter(t, mcp.Legacy, &answer)), withResults(result.Rules{Redact: canaries}))
	session := r.open()
	got := r.legacy(session, "1", "tools/call", `{"name":"s__echo"}`).text()
	if !strings.Contains(got, `"kind":"result_too_large"`) || !strings.Contains(got, "limits.redact_time") || strings.Contains(got, secretWord) {
		t.Errorf("got %s", got)
	}
	answer = answered(mcp.Legacy, `{"contents":[{"uri":"x:/","blob":"c2xvdw=="}]}`)
	if got := r.legacy(session, "2", "resources/read", `{"uri":"s+file:///a"}`).text(); !strings.Contains(got, "limits.redact_time") {
		t.Errorf("got %s", got)
	}
	answer = fault(mcp.Legacy, `{"code":-7,"message":"slow hunter2x"}`)
	if got := r.legacy(session, "3", "tools/call", `{"name":"s__echo"}`).text(); !strings.Contains(got, `"code":-7`) || !strings.Contains(got, "limits.redact_time") || strings.Contains(got, secretWord) {
		t.Errorf("got %s", got)
	}
}

// TestRedactedOnTheWay: secrets are removed from progress, log messages and questions
// too.
func TestRedactedOnTheWay(t *testing.T) {
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		synctest.Test(t, func(t *testing.T) {
			b := newScript(t, "s", era, tool("echo"))
			b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
				if mcp.Lookup(call.Params, "inputResponses") != nil {
					return answered(era, `{"resultType":"complete","content":[]}`), nil
				}
				if call.Notify != nil {
					call.Notify(mcp.NotifyProgress, []byte(`{"progressToken":1,"progress":1,"message":"hunter2x"}`))
					call.Notify(mcp.NotifyMessage, []byte(`{"level":"error","data":{"a":"hunter2x"}}`))
				}
				if era == mcp.Modern {
					return answered(era, `{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"hunter2x","requestedSchema":{"type":"object","properties":{}}}},"m":{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"hunter2x"}}],"systemPrompt":"hunter2x","maxTokens":1}}}}`), nil
				}
				_, _ = call.AskAndWait(ctx, mcp.MethodElicit, []byte(`{"message":"hunter2x","requestedSchema":{"type":"object","properties":{}}}`))
				return answered(era, `{"content":[]}`), nil
			}
			r := newRig(t, mounted(b), withResults(result.Rules{Redact: canaries})).run()
			c := r.stdio(person("alice"))
			c.send(initBody, request("2", "logging/setLevel", `{"level":"debug"}`))
			synctest.Wait()
			c.out.drain()
			c.send(request("1", "tools/call", `{"name":"s__echo","_meta":{"progressToken":1}}`))
			synctest.Wait()
			if got := c.out.drain(); strings.Contains(got, secretWord) || strings.Count(got, secretMark) != map[mcp.Era]int{mcp.Legacy: 3, mcp.Modern: 5}[era] {
				t.Errorf("a legacy client of a %v server is told %s", era, got)
			}
			w := r.do(modernRequest(modernBody("1", "tools/call", `"name":"s__echo"`, `"progressToken":1,"io.modelcontextprotocol/logLevel":"debug"`)))
			if got := w.text(); strings.Contains(got, secretWord) || strings.Count(got, secretMark) != map[mcp.Era]int{mcp.Legacy: 3, mcp.Modern: 5}[era] {
				t.Errorf("a modern client of a %v server is told %s", era, got)
			}
		})
	}
}

// TestRedactedNotifications: secrets are removed from log messages outside of calls,
// and from the states of tasks.
func TestRedactedNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWorker(t, mcp.Legacy, `"status":"working","statusMessage":"hunter2x"`)
		r := newRig(t, mounted(b.script), withResults(result.Rules{Redact: canaries})).run()
		c := r.stdio(person("alice"))
		c.send(initBody, request("1", "logging/setLevel", `{"level":"debug"}`), request("2", "tools/call", `{"name":"s__job","task":{"ttl":60000}}`))
		synctest.Wait()
		made := strings.Split(strings.TrimSpace(c.out.drain()), "\n")
		id, _ := mcp.LookupString([]byte(made[len(made)-1]), "result", "task", "taskId")
		line := b.line(person("alice").Key())
		r.Happened(mcp.Event{Server: "s", Principal: person("alice").Key(), Method: mcp.NotifyMessage, Params: []byte(`{"level":"error","data":"hunter2x"}`)})
		r.Happened(mcp.Event{Server: "s", Conn: line, Principal: person("alice").Key(), Method: mcp.NotifyTaskStatus, Params: []byte(`{"taskId":"own 1","status":"working","statusMessage":"hunter2x"}`)})
		c.send(request("3", "tasks/get", `{`+ofTask(id)+`}`))
		synctest.Wait()
		if got := c.out.drain(); strings.Contains(got, secretWord) || strings.Count(got, secretMark) != 3 {
			t.Errorf("got %s", got)
		}
	})
}

// TestTaskResults: the results of tasks pass the same phases.
func TestTaskResults(t *testing.T) {
	const big = `"result":{"content":[{"type":"text","text":"hunter2x `
	whole := strings.Repeat("word ", 2000)
	b := newWorker(t, mcp.Modern, `"status":"completed",`+big+whole+`"}]}`)
	r := newRig(t, mounted(b.script), withResults(result.Rules{Redact: canaries, MaxBytes: 4096, Larger: result.KeepLarger}))
	id := taskID(t, r.tasked("1", "tools/call", `"name":"s__job"`))
	var uris []string
	for range 2 { // fetched twice, kept once
		got := resultOf(r.tasked("2", "tasks/get", ofTask(id)))
		uri, _ := mcp.LookupString([]byte(got), "result", "_meta", result.Key, "resource")
		if strings.Contains(got, secretWord) || !strings.Contains(got, secretMark) || len(got) > 5000 || uri == "" {
			t.Errorf("got %s", got)
		}
		uris = append(uris, uri)
	}
	if n, _ := r.keptResults.Len(); uris[0] != uris[1] || n != 1 {
		t.Errorf("kept as %s", uris)
	}
	if got := resultOf(r.modern("3", "resources/read", `"uri":"`+uris[0]+`"`)); !strings.Contains(got, whole) || strings.Contains(got, secretWord) {
		t.Errorf("read %.300s", got)
	}
}

// TestOutputCheck checks what happens to structured content.
func TestOutputCheck(t *testing.T) {
	const good, bad = `{"content":[],"structuredContent":{"a":1}}`, `{"content":[],"structuredContent":{"a":"wrong hunter2x"},"_meta":{"x":1}}`
	for _, tt := range []struct {
		name, tool, in string
		rules          result.Rules
		checker        result.OutputChecker
		out            string // a part of the result
		invalid        bool
		outcome        audit.Outcome
	}{
		{"good", "typed", good, result.Rules{Output: result.OutputEnforce}, schemaStub{}, good, false, audit.OutcomeOK},
		{"unchecked", "typed", bad, result.Rules{}, schemaStub{}, bad, false, audit.OutcomeOK},
		{"no schema", "echo", bad, result.Rules{Output: result.OutputEnforce}, schemaStub{}, bad, false, audit.OutcomeOK},
		{"no checker", "typed", bad, result.Rules{Output: result.OutputEnforce}, nil, bad, false, audit.OutcomeOK},
		{"failed", "typed", `{"content":[],"isError":true}`, result.Rules{Output: result.OutputEnforce}, schemaStub{}, `{"content":[],"isError":true}`, false, audit.OutcomeToolError},
		{"warn", "typed", bad, result.Rules{Output: result.OutputWarn}, schemaStub{}, `{"content":[],"structuredContent":{"a":"wrong hunter2x"},"_meta":{"x":1,"dev.toolgate/result":{"output":"invalid","problems":["structuredContent/a: is {\"a\":\"wrong hunter2x\"}"]}}}`, true, audit.OutcomeOK},
		{"warn and redact", "typed", bad, result.Rules{Output: result.OutputWarn, Redact: canaries}, schemaStub{}, `{"content":[],"structuredContent":{"a":"wrong ***"},"_meta":{"x":1,"dev.toolgate/result":{"output":"invalid","problems":["structuredContent/a: is {\"a\":\"wrong ***\"}"]}}}`, true, audit.OutcomeOK},
		{"enforce", "typed", bad, result.Rules{Output: result.OutputEnforce, Redact: canaries}, schemaStub{}, `does not fit its own output schema, so that it is not passed on. What the tool did is done; other arguments may give data that fits.\n- structuredContent/a: is {\"a\":\"wrong ***\"}"}],"isError":true,"_meta":{"dev.toolgate/refusal":{"kind":"invalid_output","code":1001,"phase":"results"`, true, audit.OutcomeError},
		{"missing", "typed", `{"content":[]}`, result.Rules{Output: result.OutputEnforce}, schemaStub{}, `structuredContent: is missing`, true, audit.OutcomeError},
		{"cannot check", "typed", good, result.Rules{Output: result.OutputEnforce}, schemaStub{errors.New("it is odd")}, `cannot be checked, because it is odd`, true, audit.OutcomeError},
		{"cannot check, warn", "typed", good, result.Rules{Output: result.OutputWarn}, schemaStub{errors.New("it is odd")}, `cannot be checked, because it is odd`, true, audit.OutcomeOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answer := answered(mcp.Legacy, tt.in)
			r := newRig(t, mounted(reporter(t, mcp.Legacy, &answer)), withResults(tt.rules), func(_ *Options, c *Config) { c.Outputs = tt.checker })
			got := resultOf(r.legacy(r.open(), "1", "tools/call", `{"name":"s__`+tt.tool+`"}`))
			if !strings.Contains(got, tt.out) {
				t.Errorf("got  %s\nwant %s", got, tt.out)
			}
			if e := r.ledger.all()[0]; e.OutputInvalid != tt.invalid || e.Outcome != tt.outcome {
				t.Errorf("the entry is %+v", e)
			}
			if tt.rules.Redact.Filter != nil && strings.Contains(got+r.log.String(), secretWord) {
				t.Errorf("it says %s, and the log %s", got, r.log.String())
			}
		})
	}
}

// TestRulesOfATool: the rules of a tool replace those of its server.
func TestRulesOfATool(t *testing.T) {
	answer := answered(mcp.Legacy, `{"content":[{"type":"text","text":"hunter2x"}]}`)
	r := newRig(t, mounted(reporter(t, mcp.Legacy, &answer)), withResults(result.Rules{Redact: canaries}), func(_ *Options, c *Config) {
		c.Mounts[0].Tools = map[string]ToolShape{"typed": {Rules: &result.Rules{}}, "echo": {Cost: 2}}
	})
	session := r.open()
	if got := r.legacy(session, "1", "tools/call", `{"name":"s__echo"}`).text(); strings.Contains(got, secretWord) {
		t.Errorf("got %s", got)
	}
	if got := r.legacy(session, "2", "tools/call", `{"name":"s__typed"}`).text(); !strings.Contains(got, secretWord) {
		t.Errorf("got %s", got)
	}
}

// TestCutResults has results larger than 4096 bytes and their cut forms.
func TestCutResults(t *testing.T) {
	text := func(n int) string { return strings.Repeat("0123456789abcde\\n", n/17+1)[:n/17*17] }
	for _, tt := range []struct {
		name, tool, in string
		has, hasNot    []string
		failed         bool
	}{
		{"text", "echo", `{"content":[{"type":"text","text":"` + text(9000) + `"}]}`, []string{`{"type":"text","text":"0123456789abcde\n`, `abcde\n"},{"type":"text","text":"[toolgate: this result had 9032 bytes`, "Left out: 5950 ", "bytes of 1 text(s). To see more"}, nil, false},
		{"blocks", "echo", `{"content":[{"type":"image","data":"` + strings.Repeat("QUJD", 1500) + `","mimeType":"image/png"},{"type":"text","text":"small"},{"type":"text","text":"` + text(5000) + `"},{"type":"text","text":"last"},{"type":"text","text":"` + text(3000) + `"}],"isError":true}`, []string{`"content":[{"type":"text","text":"small"},{"type":"text","text":"0123`, "1 other block(s) of 60", "3 text(s)", `"isError":true`}, []string{"QUJD"}, true},
		{"embedded", "echo", `{"content":[{"type":"resource","resource":{"uri":"x:/a","mimeType":"text/plain","text":"` + text(9000) + `"}}]}`, []string{`{"type":"resource","resource":{"uri":"s+x:/a","mimeType":"text/plain","text":"0123`}, nil, false},
		{"structured", "echo", `{"content":[{"type":"text","text":"short"}],"structuredContent":{"a":"` + text(9000) + `"}}`, []string{`"short"`, "the structured content of 9"}, []string{"structuredContent"}, false},
		{"structured and promised", "typed", `{"content":[{"type":"text","text":"short"}],"isError":false,"structuredContent":{"a":"` + text(9000) + `"}}`, []string{`"isError":true,"content":[{"type":"text","text":"short"}`}, []string{"structuredContent", "false"}, true},
		{"structured fits", "typed", `{"content":[{"type":"text","text":"` + text(9000) + `"}],"structuredContent":{"a":"` + text(1000) + `"}}`, []string{`"structuredContent":{"a":"0123`, `"type":"text","text":"0123`}, nil, false},
		{"others", "echo", `{"content":[],"x":"` + text(9000) + `","y":[1],"_meta":{"a":2}}`, []string{`"y":[1]`, `"a":2`, "bytes of other members"}, []string{`"x"`}, false},
		{"no list", "echo", `{"content":"` + text(9000) + `"}`, []string{`"content":[{"type":"text","text":"[toolgate`, "of other members"}, nil, false},
		{"odd blocks", "echo", `{"content":["` + text(9000) + `",{"type":"text","text":7,"x":"` + text(9000) + `"}]}`, []string{"2 other block(s)"}, []string{"0123"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answer := answered(mcp.Legacy, tt.in)
			r := newRig(t, mounted(reporter(t, mcp.Legacy, &answer)), withResults(result.Rules{MaxBytes: 4096}))
			got := resultOf(r.legacy(r.open(), "1", "tools/call", `{"name":"s__`+tt.tool+`"}`))
			for _, part := range append(tt.has, `"dev.toolgate/result":{"bytes":`, `"limit":4096,"left_out":`) {
				if !strings.Contains(got, part) {
					t.Errorf("%s\nlacks %s", got, part)
				}
			}
			for _, part := range tt.hasNot {
				if strings.Contains(got, part) {
					t.Errorf("%s\nhas %s", got, part)
				}
			}
			if isError([]byte(got)) != tt.failed {
				t.Errorf("%s: failed is not %v", got, tt.failed)
			}
			checkCut(t, tt.in, got, 4096)
			e := r.ledger.all()[0]
			if left := string(mcp.Lookup([]byte(got), "_meta", result.Key, "left_out")); left != fmt.Sprint(e.LeftOut) || e.LeftOut == 0 {
				t.Errorf("the entry says %d was left out, the result %s", e.LeftOut, left)
			}
		})
	}
}

func checkCut(t *testing.T, in, got string, most int) {
	t.Helper()
	if err := mcp.Validate([]byte(got), mcp.Limits{LoneSurrogates: true}); err != nil {
		t.Fatalf("%.200s became %s: %v", in, got, err)
	}
	if len(got) > most {
		t.Fatalf("%d bytes became %d: %s", len(in), len(got), got)
	}
}

// TestRefusedResults: an oversized result is refused if the operator wants that.
func TestRefusedResults(t *testing.T) {
	answer := answered(mcp.Legacy, `{"content":[{"type":"text","text":"`+strings.Repeat("x", 5000)+`"}]}`)
	r := newRig(t, mounted(reporter(t, mcp.Legacy, &answer)), withResults(result.Rules{MaxBytes: 4096, Larger: result.RefuseLarger}))
	got := resultOf(r.legacy(r.open(), "1", "tools/call", `{"name":"s__echo"}`))
	if strings.Contains(got, "xxx") || !strings.Contains(got, `The result of s__echo has 5039 bytes, and may have 4096 (max_bytes under results of the server s), so that it is not passed on.`) || !strings.Contains(got, `"kind":"result_too_large"`) {
		t.Errorf("got %s", got)
	}
	if e := r.ledger.all()[0]; e.Outcome != audit.OutcomeError || e.Code != "result_too_large" {
		t.Errorf("the entry is %+v", e)
	}
}

// TestTooManyNotifications: of a server's messages during a call, only the allowed
// number pass in each second.
func TestTooManyNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Legacy, tool("echo"))
		b.reply = func(_ context.Context, call *mcp.Call) (mcp.Answer, error) {
			for i := range 100 {
				call.Notify(mcp.NotifyProgress, fmt.Appendf(nil, `{"progressToken":1,"progress":%d}`, i))
			}
			time.Sleep(time.Second)
			call.Notify(mcp.NotifyProgress, []byte(`{"progressToken":1,"progress":100}`))
			return answered(mcp.Legacy, `{"content":[]}`), nil
		}
		r := newRig(t, mounted(b), func(o *Options, _ *Config) { o.Limits.NotificationsPerSecond = 10 }).run()
		c := r.stdio(person("alice"))
		c.send(initBody)
		synctest.Wait()
		c.out.drain()
		c.send(request("1", "tools/call", `{"name":"s__echo","_meta":{"progressToken":1}}`))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		got := c.out.drain()
		if n := strings.Count(got, `"notifications/progress"`); n != 11 || !strings.Contains(got, `"progress":100`) || strings.Contains(got, `"progress":10}`) {
			t.Errorf("%d passed: %s", n, got)
		}
		if n := strings.Count(r.log.String(), "too many notifications"); n != 1 {
			t.Errorf("it is logged %d times", n)
		}
	})
}

// TestOutputThatCannotBeChecked: if a result must match an unusable schema, the tool is
// not called at all.
func TestOutputThatCannotBeChecked(t *testing.T) {
	for rules, called := range map[result.OutputMode]int{result.OutputUnchecked: 1, result.OutputWarn: 1, result.OutputEnforce: 0} {
		b := newScript(t, "s", mcp.Legacy, `tool {"name":"odd","inputSchema":{"type":"object"},"outputSchema":{"refused":1}}`)
		r := newRig(t, mounted(b), withResults(result.Rules{Output: rules}))
		got := r.legacy(r.open(), "1", "tools/call", `{"name":"s__odd"}`).text()
		if n := len(b.seen(mcp.MethodToolsCall)); n != called {
			t.Errorf("%v: called %d times: %s", rules, n, got)
		}
		if e := r.ledger.all()[0]; called == 0 && (!strings.Contains(got, "The tool s__odd was not called") || e.Code != "schema_refused" || e.Outcome != audit.OutcomeDenied) {
			t.Errorf("got %s, the entry is %+v", got, e)
		}
	}
}
