package proxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/intercept"
	"github.com/toolgate/toolgate/proxy/result"
)

// interceptorFunc is an interceptor that answers by a function.
type interceptorFunc func(inv *intercept.Invocation) (intercept.Verdict, error)

func (f interceptorFunc) Intercept(_ context.Context, inv *intercept.Invocation) (intercept.Verdict, error) {
	return f(inv)
}

func intercepting(entries ...intercept.Entry) func(*Options, *Config) {
	return func(_ *Options, c *Config) { c.Interceptors = intercept.New(entries) }
}

func interceptor(name string, f interceptorFunc, phases ...intercept.Phase) intercept.Entry {
	return intercept.Entry{Settings: intercept.Settings{Name: name, Type: "mutation", Phase: phases}, By: f}
}

// sets returns an interceptor that sets a member of the arguments.
func sets(member, value string) intercept.Entry {
	return interceptor("sets-"+member, func(inv *intercept.Invocation) (intercept.Verdict, error) {
		return intercept.Verdict{Effect: intercept.Pass, Payload: mcp.SetMember(inv.Payload, member, []byte(value))}, nil
	}, intercept.Before)
}

func hashed(args string) string { return fmt.Sprintf("%x", mcp.Hash([]byte(args))) }

// TestChangedArguments: the arguments that interceptors leave are those that the gate
// decides on, that are checked, approved, recorded and delivered.
func TestChangedArguments(t *testing.T) {
	const final = `{"b":2,"a":1}`
	c := newCounter(t, mcp.Legacy, nil)
	var checked []string
	config := *c.config.Load()
	config.Interceptors = intercept.New([]intercept.Entry{sets("b", "2")})
	config.Arguments = argumentsSeen(func(args []byte) { checked = append(checked, string(args)) })
	c.Apply(config)
	asked := c.call(`,"arguments":{"a":1}`)
	state := mcp.Lookup([]byte(asked.text()), "result", "requestState")
	if state == nil || !strings.Contains(asked.text(), `Arguments: {\"b\":2,\"a\":1}`) {
		t.Fatalf("asked %s", asked.text())
	}
	if q := c.pending(); q.ArgsHash != hashed(final) {
		t.Errorf("the question is about %s", q.Arguments)
	}
	agreed := `,"arguments":{"a":1},"inputResponses":{"approval":{"action":"accept","content":{}}},"requestState":` + string(state)
	got := c.call(agreed)
	calls := c.b.seen(mcp.MethodToolsCall)
	if len(calls) != 1 || string(mcp.Lookup(calls[0].Params, "arguments")) != final {
		t.Fatalf("%d calls: %s", len(calls), got.text())
	}
	if checked[len(checked)-1] != final {
		t.Errorf("checked %q", checked)
	}
	last := c.ledger.all()
	if e := last[len(last)-1]; e.ArgsHash != hashed(final) || e.Outcome != audit.OutcomeOK {
		t.Errorf("recorded %+v", e)
	}
	if again := c.call(agreed); len(c.b.seen(mcp.MethodToolsCall)) != 1 {
		t.Errorf("the approval counts twice: %s", again.text())
	}
}

// TestChangedOtherwise: an approval of some arguments is none of others, though the client
// has sent the same; and no call continues with other arguments than it began with.
func TestChangedOtherwise(t *testing.T) {
	var n atomic.Int64
	counts := interceptor("counts", func(inv *intercept.Invocation) (intercept.Verdict, error) {
		return intercept.Verdict{Effect: intercept.Pass, Payload: mcp.SetMember(inv.Payload, "n", fmt.Append(nil, n.Add(1)))}, nil
	}, intercept.Before)
	c := newCounter(t, mcp.Legacy, nil)
	config := *c.config.Load()
	config.Interceptors = intercept.New([]intercept.Entry{counts})
	c.Apply(config)
	state := mcp.Lookup([]byte(c.call("").text()), "result", "requestState")
	c.call(`,"inputResponses":{"approval":{"action":"accept","content":{}}},"requestState":` + string(state))
	if calls := c.b.seen(mcp.MethodToolsCall); len(calls) != 0 {
		t.Errorf("what nobody approved of was delivered: %s", calls[0].Params)
	}

	n.Store(0)
	b := asking(t, 1)
	r := newRig(t, mounted(b), intercepting(counts))
	first := r.modern("1", "tools/call", `"name":"s__ask"`)
	state = mcp.Lookup([]byte(first.text()), "result", "requestState")
	if state == nil {
		t.Fatal(first.text())
	}
	again := `"name":"s__ask","inputResponses":{},"requestState":` + string(state)
	if got := r.modern("2", "tools/call", again); !strings.Contains(got.text(), "otherwise than before") || len(b.seen(mcp.MethodToolsCall)) != 1 {
		t.Errorf("it continues: %s", got.text())
	}
	without := *r.config.Load()
	without.Interceptors = nil
	r.Apply(without)
	if got := r.modern("3", "tools/call", again); !strings.Contains(got.text(), "otherwise than before") || len(b.seen(mcp.MethodToolsCall)) != 1 {
		t.Errorf("it continues without the interceptors: %s", got.text())
	}
}

// TestChangedRounds: a server gets its own state back, and none of the gateway's, though
// interceptors change the arguments of each round.
func TestChangedRounds(t *testing.T) {
	b := asking(t, 1)
	r := newRig(t, mounted(b), intercepting(sets("b", "2")))
	state := mcp.Lookup([]byte(r.modern("1", "tools/call", `"name":"s__ask"`).text()), "result", "requestState")
	r.modern("2", "tools/call", `"name":"s__ask","inputResponses":{},"requestState":`+string(state))
	calls := b.seen(mcp.MethodToolsCall)
	if len(calls) != 2 {
		t.Fatalf("%d calls", len(calls))
	}
	own, _ := mcp.LookupString(calls[1].Params, "requestState")
	if own != "state/1" || string(mcp.Lookup(calls[1].Params, "arguments")) != `{"b":2}` {
		t.Errorf("the server is sent %s", calls[1].Params)
	}

	c := newCounter(t, mcp.Modern, nil)
	config := *c.config.Load()
	config.Interceptors = intercept.New([]intercept.Entry{sets("b", "2")})
	c.Apply(config)
	state = mcp.Lookup([]byte(c.call("").text()), "result", "requestState")
	c.call(`,"inputResponses":{"approval":{"action":"accept","content":{}}},"requestState":` + string(state))
	sent := c.b.seen(mcp.MethodToolsCall)
	if len(sent) != 1 || mcp.Lookup(sent[0].Params, "requestState") != nil || mcp.Lookup(sent[0].Params, "inputResponses") != nil {
		t.Errorf("the server is sent %v", sent)
	}
}

// TestInterceptedResults: interceptors see results without secrets, may leave notes and
// change them, and hold them back.
func TestInterceptedResults(t *testing.T) {
	answer := answered(mcp.Legacy, `{"content":[{"type":"text","text":"hunter2x and a name"}],"structuredContent":{"items":[]}}`)
	var saw string
	redacts := interceptor("redacts", func(inv *intercept.Invocation) (intercept.Verdict, error) {
		saw = string(inv.Payload)
		return intercept.Verdict{
			Effect: intercept.Pass, Note: "a name was taken out, near hunter2x",
			Payload: []byte(strings.ReplaceAll(strings.ReplaceAll(saw, "a name", "[NAME]"), `{"items":[]}`, `{"items":"wrong"}`)),
		}, nil
	}, intercept.After)
	b := reporter(t, mcp.Legacy, &answer)
	r := newRig(t, mounted(b), withResults(result.Rules{Redact: canaries}), intercepting(redacts))
	got := resultOf(r.modern("1", "tools/call", `"name":"s__typed"`))
	if strings.Contains(saw, secretWord) || !strings.Contains(got, "[NAME]") || !strings.Contains(got, `"dev.toolgate/result":{"notes":{"redacts":"a name was taken out, near ***"},"output":"changed"}`) {
		t.Errorf("saw %s, got %s", saw, got)
	}
	r = newRig(t, mounted(b), intercepting(interceptor("dlp", func(*intercept.Invocation) (intercept.Verdict, error) {
		return intercept.Verdict{Reason: "it holds names"}, nil
	}, intercept.After)))
	w := r.modern("1", "tools/call", `"name":"s__typed"`)
	requireKind(t, w, "denied")
	if !strings.Contains(w.text(), "The call was made, and the interceptor dlp holds its result back: it holds names.") || strings.Contains(w.text(), "a name\"") {
		t.Error(w.text())
	}
	for _, request := range [][2]string{{"prompts/get", `"name":"s__ask"`}, {"resources/read", `"uri":"s+file:///a"`}} {
		if w := r.modern("2", request[0], request[1]); !strings.Contains(w.text(), "holds its result back") {
			t.Errorf("%s: %s", request[0], w.text())
		}
	}
}

// TestInterceptorsOfEachPlan: a call by the find view and one without a client meet them,
// and steps are recorded.
func TestInterceptorsOfEachPlan(t *testing.T) {
	denies := interceptor("no", func(*intercept.Invocation) (intercept.Verdict, error) { return intercept.Verdict{Reason: "no"}, nil }, intercept.Before)
	b := issues(t)
	r := newFindRig(t, func(c *Config) { c.Interceptors = intercept.New([]intercept.Entry{denies}) }, b)
	for name, text := range map[string]string{
		"direct": r.post("/mcp", "tools/call", `"name":"github__list_issues"`).text(),
		"found":  r.call("toolgate__call_read", `{"name":"github__list_issues","arguments":{}}`),
	} {
		if !strings.Contains(text, "The interceptor no does not allow this call: no.") {
			t.Errorf("%s: %s", name, text)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	alice := person("alice")
	if made := r.CallFor(ctx, func() (*gate.Identity, bool) { return alice, true }, Scope{}, "github__list_issues", []byte("{}")); made.Outcome != audit.OutcomeDenied {
		t.Errorf("without a client: %+v", made)
	}
	if calls := b.seen(mcp.MethodToolsCall); len(calls) != 0 {
		t.Errorf("%d calls", len(calls))
	}
	for _, e := range r.ledger.all() {
		found := false
		for _, s := range e.Steps {
			found = found || s.Phase == "interceptor/no" && s.Verdict == "deny" && s.Rule == "no"
		}
		if !found {
			t.Errorf("the steps are %+v", e.Steps)
		}
	}
}

// randomInterceptor returns an interceptor that does anything at all.
func randomInterceptor(random *rand.Rand, i int) intercept.Entry {
	payloads := []string{`{}`, `{"bad":true}`, `{"bad":false}`, `{"content":[]}`, `{"content":[],"isError":false}`, `{"content":[],"isError":true}`, `[]`, `{`, ``}
	seed := random.Uint64()
	e := interceptor(fmt.Sprint("i", i), func(inv *intercept.Invocation) (intercept.Verdict, error) {
		own := rand.New(rand.NewPCG(seed, uint64(len(inv.Payload))))
		v := intercept.Verdict{Effect: intercept.Effect(own.IntN(4)), Reason: "r"}
		if own.IntN(3) > 0 {
			v.Effect = intercept.Pass
		}
		if own.IntN(2) == 0 {
			v.Payload = []byte(payloads[own.IntN(len(payloads))])
		}
		switch own.IntN(20) {
		case 0:
			panic("random")
		case 1:
			return v, errors.New("random")
		}
		return v, nil
	})
	e.Type = []string{"mutation", "validation"}[random.IntN(2)]
	e.OnError = []string{"deny", "skip"}[random.IntN(2)]
	e.Mode = []string{"enforce", "enforce", "audit"}[random.IntN(3)]
	return e
}

// TestInterceptorsWidenNothing: whatever interceptors do, what the gate hides has the
// response that it has without them, nothing is delivered that the gate denies, and an
// error of a tool is none but an error.
func TestInterceptorsWidenNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	b := newScript(t, "s", mcp.Legacy, tool("hidden"), tool("fails"), tool("works"))
	b.reply = func(_ context.Context, c *mcp.Call) (mcp.Answer, error) {
		if bad := string(mcp.Lookup(c.Params, "arguments", "bad")) == "true"; bad || c.Key == "hidden" {
			t.Errorf("delivered: %s %s", c.Key, c.Params)
		}
		return answered(mcp.Legacy, map[bool]string{true: `{"content":[],"isError":true}`, false: `{"content":[{"type":"text","text":"x"}]}`}[c.Key == "fails"]), nil
	}
	world := func(_ *Options, c *Config) {
		c.Chain = gate.NewChain(rule(func(_ context.Context, r *gate.Request) (gate.Decision, error) {
			denied := r.Original == "hidden" || r.Action == gate.Call && string(mcp.Lookup(r.Args, "bad")) == "true"
			if denied {
				return gate.Decision{Effect: gate.Deny, Reason: "no"}, nil
			}
			return gate.Decision{Effect: gate.Allow}, nil
		}))
	}
	bare := newRig(t, mounted(b), world)
	delivered, refused := 0, 0
	for range 400 {
		var entries []intercept.Entry
		for i := range 1 + random.IntN(4) {
			entries = append(entries, randomInterceptor(random, i))
		}
		r := newRig(t, mounted(b), world, intercepting(entries...))
		for _, name := range []string{"hidden", "fails", "works", "missing"} {
			params := `"name":"s__` + name + `","arguments":{"bad":` + []string{"true", "false"}[random.IntN(2)] + `}`
			want, got := bare.modern("1", "tools/call", params).text(), r.modern("1", "tools/call", params).text()
			ok := strings.Contains(got, `"result"`) && !strings.Contains(got, `"isError":true`)
			switch {
			case (name == "hidden" || name == "missing") && got != want:
				t.Fatalf("%s: %s\nwithout interceptors %s", name, got, want)
			case ok && (name != "works" || strings.Contains(params, "true")):
				t.Fatalf("%s is a success: %s", params, got)
			case ok:
				delivered++
			default:
				refused++
			}
		}
		if got, want := r.modern("2", "tools/list", "").text(), bare.modern("2", "tools/list", "").text(); got != want {
			t.Fatalf("listed %s\nwithout interceptors %s", got, want)
		}
	}
	if delivered < 20 || refused < 100 {
		t.Errorf("%d successes, %d refusals", delivered, refused)
	}
}

// TestInterceptedFault: interceptors see the JSON-RPC error of a server as they see a result,
// and never make a result of it.
func TestInterceptedFault(t *testing.T) {
	const shown = `{"error":{"code":-32050,"message":"no row for bob","data":{"row":7}}}`
	for name, tt := range map[string]struct {
		leaves string // of what was shown; empty holds it back
		want   string
	}{
		"left":                    {shown, `"error":{"code":-32050,"message":"no row for bob","data":{"row":7}}`},
		"changed":                 {`{"error":{"code":-32050,"message":"no row"}}`, `"error":{"code":-32050,"message":"no row"}`},
		"held back":               {"", "holds its result back"},
		"a result":                {`{"content":[]}`, "did not answer as it should"},
		"a result beside":         {`{"error":{"code":-32050,"message":"x"},"content":[]}`, "did not answer as it should"},
		"another code":            {`{"error":{"code":-32603,"message":"x"}}`, "did not answer as it should"},
		"a message that is none":  {`{"error":{"code":-32050,"message":1}}`, "did not answer as it should"},
		"nothing":                 {`{}`, "did not answer as it should"},
		"an error that is a text": {`{"error":"x"}`, "did not answer as it should"},
	} {
		for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
			b := newScript(t, "s", era, tool("t"))
			b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
				return mcp.Answer{Era: era, Fault: &mcp.Error{Code: -32050, Message: "no row for bob", Data: []byte(`{"row":7}`), Origin: mcp.OriginServer}}, nil
			}
			var seen string
			r := newRig(t, mounted(b), intercepting(interceptor("masks", func(inv *intercept.Invocation) (intercept.Verdict, error) {
				if seen = string(inv.Payload); tt.leaves == "" {
					return intercept.Verdict{Effect: intercept.Deny, Reason: "rows"}, nil
				}
				return intercept.Verdict{Effect: intercept.Pass, Payload: []byte(tt.leaves)}, nil
			}, intercept.After)))
			got := r.modern("1", "tools/call", `"name":"s__t"`)
			if seen != shown || !strings.Contains(got.text(), tt.want) || strings.Contains(got.text(), `"resultType":"complete","content":[]`) {
				t.Errorf("%s, %v: saw %s, answered %s", name, era, seen, got.text())
			}
		}
	}
}
