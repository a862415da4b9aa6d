//go:build e2e

package matrix

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// asker makes one question of a cell, under a key, as the server's revision
// writes it.
type asker func(c *cell, key string) question

func sampling(c *cell, key string) question {
	return question{key, mcp.MethodSampling, json.RawMessage(`{"messages":[{"role":"user","content":{"type":"text","text":"` + c.id + " " + key + `"}}],"maxTokens":10}`)}
}

func samplingTools(c *cell, key string) question {
	q := sampling(c, key)
	q.Params = mcp.SetMember(q.Params, "tools", []byte(`[{"name":"calc","inputSchema":{"type":"object"}}]`))
	return q
}

func form(c *cell, key string) question {
	mode := ""
	if c.to.kind.rev >= mcp.V20251125 {
		mode = `"mode":"form",`
	}
	return question{key, mcp.MethodElicit, json.RawMessage(`{` + mode + `"message":"` + c.id + " " + key +
		`","requestedSchema":{"type":"object","properties":{"word":{"type":"string"},"n":{"type":"integer"}}}}`)}
}

func visit(c *cell, key string) question {
	id := ""
	if !c.to.kind.modern() {
		id = `,"elicitationId":"` + c.id + `"`
	}
	return question{key, mcp.MethodElicit, json.RawMessage(`{"mode":"url","message":"` + c.id + " " + key + `","url":"https://example.com/` + c.id + `"` + id + `}`)}
}

func roots(_ *cell, key string) question { return question{Key: key, Method: mcp.MethodRoots} }

// oneRound asks one question.
func oneRound(a asker) func(c *cell) [][]question {
	return func(c *cell) [][]question { return [][]question{{a(c, "only")}} }
}

// elicits tells whether both sides of a cell know elicitation.
func (c *cell) elicits() bool {
	return c.down.rev >= mcp.V20250618 && c.to.kind.rev >= mcp.V20250618
}

// other is a second kind of question where both sides have one.
func (c *cell) other(key string) question {
	if c.elicits() {
		return form(c, key)
	}
	return sampling(c, key)
}

func several(c *cell) [][]question {
	return [][]question{{sampling(c, "first"), c.other("second"), sampling(c, "third")}}
}

func threeRounds(c *cell) [][]question {
	return [][]question{{sampling(c, "one")}, {c.other("two")}, {sampling(c, "three"), c.other("four")}}
}

// script writes down what a cell asks.
func (c *cell) script(force bool, rounds [][]question) []byte {
	raw, err := json.Marshal(script{Cell: c.id, Force: force, Rounds: rounds})
	if err != nil {
		c.problem("the test's own script: %v", err)
	}
	return raw
}

// ask calls the tool that asks, and holds what came back to what the client
// said.
func ask(rounds func(*cell) [][]question) func(context.Context, *cell) error {
	return func(ctx context.Context, c *cell) error {
		asks := rounds(c)
		params := []byte(`{"name":"` + c.to.tool("ask") + `","arguments":` + string(c.script(false, asks)) + `}`)
		got, err := c.good(c.client.do(ctx, mcp.MethodToolsCall, params))
		if err != nil {
			return err
		}
		return c.settled(got, asks)
	}
}

// askIn is ask for another method than tools/call.
func askIn(method string) func(context.Context, *cell) error {
	return func(ctx context.Context, c *cell) error {
		asks := [][]question{{sampling(c, "only")}}
		written := c.script(false, asks)
		params := []byte(`{"name":"` + c.to.tool("ask") + `","arguments":{"script":` + string(mcp.Quote(string(written))) + `}}`)
		if method == mcp.MethodRead {
			params = []byte(`{"uri":"` + c.to.uri(askURI(written)) + `"}`)
		}
		got, err := c.good(c.client.do(ctx, method, params))
		if err != nil {
			return err
		}
		return c.settled(got, asks)
	}
}

// settled holds the answers that the server got to the questions that it asked.
func (c *cell) settled(got outcome, asks [][]question) error {
	var answers []answered
	if err := json.Unmarshal([]byte(said(got.result)), &answers); err != nil {
		return fmt.Errorf("the server's word on its answers: %w: %s", err, got.result)
	}
	var want, keys, came []string
	for _, round := range asks {
		for _, q := range round {
			want, keys = append(want, q.Method), append(keys, q.Key)
		}
	}
	for i, a := range answers {
		came = append(came, a.Key)
		if a.Fault != nil || i < len(keys) && !c.fits(keyed(asks, a.Key), a.Answer) {
			return fmt.Errorf("the answer to %s is %s%s", a.Key, a.Answer, a.Fault)
		}
	}
	asked := slices.Clone(got.asked)
	slices.Sort(asked)
	slices.Sort(want)
	switch {
	case !slices.Equal(came, keys):
		return fmt.Errorf("answers to %q, not to %q", came, keys)
	case !slices.Equal(asked, want):
		return fmt.Errorf("the client was asked %q, the server asked %q", asked, want)
	case c.down.modern() && got.rounds < len(asks):
		return fmt.Errorf("%d rounds, not %d", got.rounds, len(asks))
	}
	return nil
}

func keyed(asks [][]question, key string) question {
	for _, round := range asks {
		for _, q := range round {
			if q.Key == key {
				return q
			}
		}
	}
	return question{}
}

// fits tells whether an answer is this client's to this question.
func (c *cell) fits(q question, answer []byte) bool {
	mode, _ := mcp.LookupString(q.Params, "mode")
	switch {
	case q.Method == mcp.MethodRoots:
		return strings.Contains(string(answer), "file:///home/"+c.client.name)
	case mode == "url":
		return string(mcp.Lookup(answer, "action")) == `"accept"`
	case q.Method == mcp.MethodElicit && string(mcp.Lookup(answer, "content", "n")) != "9007199254740993":
		return false
	}
	asked := c.id + " " + q.Key
	if q.Method == mcp.MethodElicit { // a person is told which server asks
		asked = "[" + c.to.namespace() + "] " + asked
	}
	return strings.Contains(string(answer), c.client.name+" on "+asked)
}

// undeclared has a server ask what the client did not declare: nobody is asked,
// and the server hears so.
func undeclared(ctx context.Context, c *cell) error {
	askers := []asker{sampling}
	if c.elicits() {
		askers = append(askers, form)
	}
	for _, a := range askers {
		params := []byte(`{"name":"` + c.to.tool("ask") + `","arguments":` + string(c.script(true, [][]question{{a(c, "only")}})) + `}`)
		got, err := c.client.do(ctx, mcp.MethodToolsCall, params)
		if err != nil {
			return err
		}
		if len(got.asked) > 0 || got.rounds > 0 {
			return fmt.Errorf("the client was asked %q", got.asked)
		}
		refused := got.fault != nil || string(mcp.Lookup(got.result, "isError")) == "true"
		if c.to.kind.modern() && refused {
			continue // there may be no answer that says no
		}
		if _, err := c.good(got, nil); err != nil {
			return err
		}
		var answers []answered
		if err := json.Unmarshal([]byte(said(got.result)), &answers); err != nil || len(answers) != 1 {
			return fmt.Errorf("the server's word on its answers: %w: %s", err, got.result)
		}
		if action, _ := mcp.LookupString(answers[0].Answer, "action"); answers[0].Fault == nil && action != "decline" {
			return fmt.Errorf("the server was answered %s", answers[0].Answer)
		}
	}
	return nil
}
