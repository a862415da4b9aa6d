package proxy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
)

// rounded is a modern backend that returns the given results in turn, and at the end
// what it was told.
func rounded(t *testing.T, results ...string) *script {
	b := newScript(t, "s", mcp.Modern, tool("ask"), `prompt {"name":"ask"}`, `resource {"uri":"file:///ask","name":"r"}`)
	b.reply = func(_ context.Context, call *mcp.Call) (mcp.Answer, error) {
		if n := len(b.seen(call.Method)) - 1; n < len(results) {
			return answered(mcp.Modern, results[n]), nil
		}
		return answered(mcp.Modern, `{"resultType":"complete","content":[],"said":`+string(mcp.Lookup(call.Params, "inputResponses"))+`}`), nil
	}
	return b
}

func asks(inputs, state string) string {
	out := `{"resultType":"input_required"`
	if inputs != "" {
		out += `,"inputRequests":{` + inputs + `}`
	}
	if state != "" {
		out += `,"requestState":` + state
	}
	return out + `}`
}

// answered sends a client's answers to questions, in the order of the ids.
func (c *wire) answered(answers ...string) {
	c.t.Helper()
	for i, a := range answers {
		synctest.Wait()
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"toolgate-%d",%s}`, i+1, a))
	}
}

// A modern server asks a legacy client by requests on the stream of its call, for up to
// ten rounds. The gate decides before each.
func TestModernServerAsksALegacyClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rounded(t,
			asks(`"a":{"method":"elicitation/create","params":{"mode":"form","message":"who?","requestedSchema":{}}}`, `"st\u0061te 1"`),
			asks("", `"state 2"`),
			asks(`"r":{"method":"roots/list"},"s":{"method":"sampling/createMessage","params":{"messages":[]}}`, ""))
		decided := 0
		r := noted(t, b, func(*gate.Request) (gate.Decision, error) {
			decided++
			return gate.Decision{Effect: gate.Allow}, nil
		}, nil).run()
		c := r.stdio(person("alice"))
		c.send(initBody)
		synctest.Wait()
		c.out.drain()
		decided = 0
		c.send(request("1", "tools/call", `{"name":"s__ask","arguments":{"n":1}}`))
		synctest.Wait()
		if got, want := c.out.drain(), `{"jsonrpc":"2.0","id":"toolgate-1","method":"elicitation/create","params":{"mode":"form","message":"[s] who?","requestedSchema":{}}}`+"\n"; got != want {
			t.Errorf("asked %swant %s", got, want)
		}
		c.send(`{"jsonrpc":"2.0","id":"toolgate-1","result":{"action":"accept","content":{"n":9007199254740993}}}`)
		synctest.Wait()
		if got := c.out.drain(); strings.Count(got, "\n") != 2 || !strings.Contains(got, `"method":"roots/list"}`) || !strings.Contains(got, `"method":"sampling/createMessage","params":{"messages":[]}}`) {
			t.Errorf("asked %s, want roots and sampling at once", got)
		}
		for id, answer := range map[string]string{"2": `{"roots":[]}`, "3": `{"roots":[]}`} {
			c.send(`{"jsonrpc":"2.0","id":"toolgate-` + id + `","result":` + answer + `}`)
		}
		synctest.Wait()
		if got, want := c.out.drain(), `{"jsonrpc":"2.0","id":1,"result":{"content":[],"said":{"r":{"roots":[]},"s":{"roots":[]}}}}`+"\n"; got != want {
			t.Errorf("got %swant %s", got, want)
		}
		var params []string
		for _, call := range b.seen(mcp.MethodToolsCall) {
			params = append(params, string(call.Params))
			if got := string(call.Capabilities); !strings.Contains(got, `"roots":{}`) {
				t.Errorf("the server was told of %s", got)
			}
		}
		want := []string{
			`{"name":"ask","arguments":{"n":1}}`,
			`{"requestState":"st\u0061te 1","inputResponses":{"a":{"action":"accept","content":{"n":9007199254740993}}},"name":"ask","arguments":{"n":1}}`,
			`{"requestState":"state 2","name":"ask","arguments":{"n":1}}`,
			`{"inputResponses":{"r":{"roots":[]},"s":{"roots":[]}},"name":"ask","arguments":{"n":1}}`,
		}
		if strings.Join(params, "\n") != strings.Join(want, "\n") {
			t.Errorf("the server saw\n%s\nwant\n%s", strings.Join(params, "\n"), strings.Join(want, "\n"))
		}
		if decided != 8 {
			t.Errorf("the gate was asked %d times, want twice before each of 4 rounds", decided)
		}
		if got := r.ledger.all(); len(got) != 1 || got[0].Rounds != 3 || got[0].Outcome != audit.OutcomeOK {
			t.Errorf("audit %+v, want one entry with the 3 questions", got)
		}
		if steps := strings.Join(r.steps(), ", "); strings.Count(steps, "charge") != 1 {
			t.Errorf("steps %s: want one charge", steps)
		}
	})
}

// Other ends of such a call: a legacy client gets a typed error, never an input
// request.
func TestEndsOfCallsWithQuestions(t *testing.T) {
	elicit := `"a":{"method":"elicitation/create","params":{"message":"m"}}`
	ten := make([]string, 11)
	for i := range ten {
		ten[i] = asks("", `"again"`)
	}
	many := make([]string, maxInputs+1)
	for i := range many {
		many[i] = fmt.Sprintf(`"q%d":{"method":"elicitation/create","params":{"message":"m"}}`, i)
	}
	tests := []struct {
		name    string
		results []string
		answers []string
		want    string
	}{
		{"ten rounds", ten[:10], nil, `"said":}`},
		{"eleven rounds", ten, nil, `asked more than 10 times`},
		{"too many at once", []string{asks(strings.Join(many, ","), "")}, nil, `asked more than 16 things at once`},
		{"questions as a list", []string{`{"resultType":"input_required","inputRequests":[]}`}, nil, `in a form that is not of the protocol`},
		{"a question of another form", []string{asks(`"a":7`, "")}, nil, `in a form that is not of the protocol`},
		{"params of another form", []string{asks(`"a":{"method":"roots/list","params":null}`, "")}, nil, `in a form that is not of the protocol`},
		{"not a question", []string{asks(`"a":{"method":"tools/call","params":{}}`, "")}, nil, `which this client or the operator does not allow`},
		{"declined by the client", []string{asks(elicit, "")}, []string{`"result":{"action":"decline"}`}, `"said":{"a":{"action":"decline"}}`},
		{"refused by the client", []string{asks(elicit, "")}, []string{`"error":{"code":-1,"message":"no"}`}, `"said":{"a":{"action":"cancel"}}`},
		{"sampling refused by the client", []string{asks(`"a":{"method":"sampling/createMessage","params":{"messages":[]}}`, "")}, []string{`"error":{"code":-1,"message":"no"}`}, `the client did not answer it`},
		{"by URL, which was not declared", []string{asks(`"a":{"method":"elicitation/create","params":{"mode":"url","url":"https://x.example/"}}`, "")}, nil, `which this client or the operator does not allow`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, mounted(rounded(t, tt.results...))).run()
				c := r.stdio(person("alice"))
				c.send(initBody, request("1", "tools/call", `{"name":"s__ask"}`))
				c.answered(tt.answers...)
				synctest.Wait()
				got := c.out.drain()
				want := strings.Replace(tt.want, `"said":}`, `"content":[]`, 1)
				if !strings.Contains(got, want) || strings.Contains(got, "input_required") {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		})
	}
}

// Prompts and resources may ask like tools, over every bidirectional transport;
// completions may not.
func TestQuestionsOfOtherMethods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rounded(t, asks(`"a":{"method":"elicitation/create","params":{"message":"m"}}`, `"s"`))
		r := newRig(t, mounted(b)).run()
		session := r.open()
		for method, params := range map[string]string{"prompts/get": `{"name":"s__ask"}`, "resources/read": `{"uri":"s+file:///ask"}`} {
			w, _ := r.begin(httpRequest("POST", "/mcp", request(`"x"`, method, params), "Mcp-Session-Id", session))
			synctest.Wait()
			_, id, _ := strings.Cut(w.next(), `"id":"`)
			id, _, _ = strings.Cut(id, `"`)
			r.post(`{"jsonrpc":"2.0","id":"`+id+`","result":{"action":"accept"}}`, "Mcp-Session-Id", session)
			<-w.done
			if got := w.next(); !strings.Contains(got, `"said":{"a":{"action":"accept"}}`) || strings.Contains(got, "resultType") {
				t.Errorf("%s: %s", method, got)
			}
		}
		w := r.legacy(session, "9", "completion/complete", `{"ref":{"type":"ref/prompt","name":"s__ask"},"argument":{"name":"a","value":""}}`)
		if !strings.Contains(w.text(), "cannot take") {
			t.Errorf("completion: %s", w.text())
		}
	})
}

// When a call is cancelled while its client is asked, the question is withdrawn and the
// call is not sent again.
func TestQuestionsOfACancelledCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rounded(t, asks(`"a":{"method":"elicitation/create","params":{"message":"m"}}`, ""))
		r := newRig(t, mounted(b)).run()
		c := r.stdio(person("alice"))
		c.send(initBody, request("1", "tools/call", `{"name":"s__ask"}`))
		synctest.Wait()
		c.out.drain()
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		synctest.Wait()
		if got, want := c.out.drain(), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"toolgate-1"}}`+"\n"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := r.ledger.outcomes(); len(got) != 1 || got[0] != audit.OutcomeCancelled || len(b.seen("")) != 1 {
			t.Errorf("audit %v, %d calls", got, len(b.seen("")))
		}
	})
}

// A modern server's lifetime of a resource counts if it is a number of milliseconds,
// but never for a request that brought answers.
func TestReadIsFresh(t *testing.T) {
	for _, tt := range []struct{ given, members, want string }{
		{`,"ttlMs":7`, ``, `7`},
		{``, ``, `0`},
		{`,"ttlMs":-1`, ``, `0`},
		{`,"ttlMs":1.5`, ``, `0`},
		{`,"ttlMs":"7"`, ``, `0`},
		{`,"ttlMs":null`, ``, `0`},
		{`,"ttlMs":7`, `,"inputResponses":{}`, `0`},
	} {
		b := newScript(t, "s", mcp.Modern, `resource {"uri":"file:///a","name":"r"}`)
		b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
			return answered(mcp.Modern, `{"resultType":"complete","cacheScope":"public"`+tt.given+`,"contents":[]}`), nil
		}
		w := newRig(t, mounted(b)).modern("1", "resources/read", `"uri":"s+file:///a"`+tt.members)
		got := mcp.Lookup([]byte(w.text()), "result")
		if ttl := string(mcp.Lookup(got, "ttlMs")); ttl != tt.want || string(mcp.Lookup(got, "cacheScope")) != `"private"` {
			t.Errorf("given %q with %q: %s", tt.given, tt.members, got)
		}
	}
}
