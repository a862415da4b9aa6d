package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/budgettest"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// purse is a budget store that records its calls.
type purse struct {
	budgettest.Memory
	journal *journal
	err     error
}

func (p *purse) Charge(ctx context.Context, b budget.Bill) ([]budget.Balance, error) {
	p.journal.add("charge %s %d", b.Call, b.Charges[0].Amount)
	if p.err != nil {
		return nil, p.err
	}
	return p.Memory.Charge(ctx, b)
}

func (p *purse) Settle(ctx context.Context, b budget.Bill, used []int64) error {
	if used == nil {
		p.journal.add("refund %s", b.Call)
	} else {
		p.journal.add("settle %s %d", b.Call, used)
	}
	return p.Memory.Settle(ctx, b, used)
}

// limited returns a limiter with budgets.
func limited(t *testing.T, store budget.Store, rules ...budget.Rule) *budget.Limiter {
	t.Helper()
	l, err := budget.New(budget.Settings{Store: store, Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// flat charges every call its cost.
var flat = budget.Rule{Name: "flat", Per: budget.PerSubject, Unit: budget.Cost, Limit: 1000, Window: budget.Month}

// noted is a rig whose gate, budget and backend write the journal.
func noted(t *testing.T, b *script, verdict func(*gate.Request) (gate.Decision, error), spent error, changes ...func(*Options, *Config)) *rig {
	t.Helper()
	j := &journal{}
	answer := b.reply
	b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
		j.add("backend %s", call.Key)
		if answer == nil {
			return answered(b.era(), `{"content":[]}`), nil
		}
		return answer(ctx, call)
	}
	return newRig(t, mounted(b), append([]func(*Options, *Config){func(o *Options, c *Config) {
		o.Auditor.(*ledger).journal = j
		c.Chain = gate.NewChain(rule(func(_ context.Context, r *gate.Request) (gate.Decision, error) {
			j.add("gate %s", r.Action)
			if verdict == nil {
				return gate.Decision{Effect: gate.Allow}, nil
			}
			return verdict(r)
		}))
		c.Limiter = limited(t, &purse{journal: j, err: spent}, flat)
	}}, changes...)...)
}

// steps are the lines of the journal of the rig's auditor.
func (r *rig) steps() []string { return r.opts.Auditor.(*ledger).journal.all() }

func denyAt(action gate.Action) func(*gate.Request) (gate.Decision, error) {
	return func(r *gate.Request) (gate.Decision, error) {
		if r.Action == action {
			return gate.Decision{Effect: gate.Deny, Reason: "it is not for you"}, nil
		}
		return gate.Decision{Effect: gate.Allow}, nil
	}
}

func failAt(action gate.Action) func(*gate.Request) (gate.Decision, error) {
	return func(r *gate.Request) (gate.Decision, error) {
		if r.Action == action {
			return gate.Decision{Effect: gate.Allow}, errBoom
		}
		return gate.Decision{Effect: gate.Allow}, nil
	}
}

// TestPipeline checks for every outcome of a call which steps it took, in which order,
// its audit entry and the response. Each case has exactly one audit entry, at the end.
func TestPipeline(t *testing.T) {
	unreachable := func(delivered bool) func(context.Context, *mcp.Call) (mcp.Answer, error) {
		return func(context.Context, *mcp.Call) (mcp.Answer, error) {
			return mcp.Answer{}, &mcp.Failure{Kind: mcp.FailTimeout, Origin: mcp.OriginServer, Server: "s", Reason: "The server s did not answer.", Delivered: delivered}
		}
	}
	tests := []struct {
		name    string
		tool    string // echo when empty
		params  string // further members
		verdict func(*gate.Request) (gate.Decision, error)
		spent   error
		reply   func(context.Context, *mcp.Call) (mcp.Answer, error)
		change  func(*Options, *Config)
		steps   string
		outcome audit.Outcome
		code    string // of the entry
		answer  string // a part of it
	}{
		{name: "passes", steps: "gate view, gate request, charge call-1 1, backend echo", outcome: audit.OutcomeOK, answer: `"result":{"content":[]}`},
		{name: "costs", change: func(_ *Options, c *Config) { c.Mounts[0].Tools = map[string]ToolShape{"echo": {Cost: 7}} }, steps: "gate view, gate request, charge call-1 7, backend echo", outcome: audit.OutcomeOK, answer: `"result":{"content":[]}`},
		{name: "unknown", tool: "none", outcome: audit.OutcomeDenied, code: "-32602", answer: `"error":{"code":-32602,"message":"Unknown tool: s__none"}`},
		{name: "not viewable", verdict: denyAt(gate.View), steps: "gate view", outcome: audit.OutcomeDenied, code: "-32602", answer: `"error":{"code":-32602,"message":"Unknown tool: s__echo"}`},
		{
			name: "not callable", verdict: denyAt(gate.Call), steps: "gate view, gate request", outcome: audit.OutcomeDenied, code: "denied",
			answer: `"result":{"content":[{"type":"text","text":"This call is not allowed: it is not for you."}],"isError":true,"_meta":{"dev.toolgate/refusal":{"kind":"denied","code":1002,"phase":"rule","decision_id":"call-1"}}}`,
		},
		{name: "view cannot be decided", verdict: failAt(gate.View), steps: "gate view", outcome: audit.OutcomeDenied, code: "policy_error", answer: `"error":{"code":1001,"message":"The gateway cannot decide at the moment whether this is allowed.","data":{"kind":"policy_error","code":1001,"phase":"rule","decision_id":"call-1"}}`},
		{name: "call cannot be decided", verdict: failAt(gate.Call), steps: "gate view, gate request", outcome: audit.OutcomeDenied, code: "policy_error", answer: `"error":{"code":1001,`},
		{name: "panic in the gate", verdict: func(*gate.Request) (gate.Decision, error) { panic("gate") }, steps: "gate view", outcome: audit.OutcomeDenied, code: "policy_error", answer: `"error":{"code":1001,"message":"The gateway cannot decide at the moment whether this is allowed."`},
		{
			name: "fixed argument given", params: `,"arguments":{"FIXED":1}`, change: func(_ *Options, c *Config) {
				c.Mounts[0].Tools = map[string]ToolShape{"echo": {Args: map[string]ArgumentShape{"fixed": {Fixed: []byte("1")}}}}
			},
			steps: "gate view, gate request", outcome: audit.OutcomeDenied, code: "invalid_arguments",
			answer: `"isError":true,"_meta":{"dev.toolgate/refusal":{"kind":"invalid_arguments","code":1003,"phase":"arguments","decision_id":"call-1"}}`,
		},
		{name: "a legacy client has no request states", params: `,"requestState":"x"`, steps: "gate view, gate request", outcome: audit.OutcomeDenied, code: "-32602", answer: `"error":{"code":-32602,"message":"Invalid requestState"}`},
		{
			name: "budget", spent: &budget.Refusal{Counter: budget.Counter{Budget: "flat"}, Limit: 10, Used: 9, ResetAt: time.Unix(0, 0)}, steps: "gate view, gate request, charge call-1 1", outcome: audit.OutcomeDenied, code: "budget",
			answer: `"result":{"content":[{"type":"text","text":"The budget flat is used up until 1970-01-01T00:00:00Z."}],"isError":true,"_meta":{"dev.toolgate/refusal":{"kind":"budget","code":1006,"phase":"budget","budget":"flat","limit":10,"used":9,"reset_at":"1970-01-01T00:00:00Z","decision_id":"call-1"}}}`,
		},
		{name: "budget store down", spent: errBoom, steps: "gate view, gate request, charge call-1 1", outcome: audit.OutcomeDenied, code: "budget_unavailable", answer: `"error":{"code":1001,"message":"The budgets cannot be read at the moment, so calls that have a limit are refused; try again in a moment.","data":{"kind":"budget_unavailable","code":1001,"phase":"budget","retry_after_ms":1000,"decision_id":"call-1"}}`},
		{
			name: "not delivered", reply: unreachable(false), steps: "gate view, gate request, charge call-1 1, backend echo, refund call-1", outcome: audit.OutcomeError, code: "upstream_timeout",
			answer: `"result":{"content":[{"type":"text","text":"The server s did not answer."}],"isError":true,"_meta":{"dev.toolgate/refusal":{"kind":"upstream_timeout","code":1001,"phase":"upstream","decision_id":"call-1"}}}`,
		},
		{name: "perhaps delivered", reply: unreachable(true), steps: "gate view, gate request, charge call-1 1, backend echo", outcome: audit.OutcomeError, code: "upstream_timeout", answer: `"isError":true`},
		{name: "panic in the backend", reply: func(context.Context, *mcp.Call) (mcp.Answer, error) { panic("backend") }, steps: "gate view, gate request, charge call-1 1, backend echo", outcome: audit.OutcomeError, answer: `"error":{"code":-32603,"message":"Internal error"}`},
		{name: "an error of another kind", reply: func(context.Context, *mcp.Call) (mcp.Answer, error) { return mcp.Answer{}, errBoom }, steps: "gate view, gate request, charge call-1 1, backend echo", outcome: audit.OutcomeError, code: "internal", answer: `"error":{"code":1001,`},
		{
			name: "tool error", reply: func(context.Context, *mcp.Call) (mcp.Answer, error) {
				return answered(mcp.Legacy, `{"content":[],"isError":true}`), nil
			},
			steps: "gate view, gate request, charge call-1 1, backend echo", outcome: audit.OutcomeToolError, answer: `"result":{"content":[],"isError":true}`,
		},
		{
			name: "protocol error", reply: func(context.Context, *mcp.Call) (mcp.Answer, error) {
				return fault(mcp.Legacy, `{"code":-32042,"message":"m","data":{"n":9007199254740993}}`), nil
			},
			steps: "gate view, gate request, charge call-1 1, backend echo", outcome: audit.OutcomeError, code: "-32042", answer: `"error":{"code":-32042,"message":"m","data":{"n":9007199254740993}}`,
		},
		{
			name: "an error of the next hop", reply: func(context.Context, *mcp.Call) (mcp.Answer, error) {
				return fault(mcp.Modern, `{"code":-32022,"message":"secret","data":{"supported":["x"]}}`), nil
			},
			steps: "gate view, gate request, charge call-1 1, backend echo", outcome: audit.OutcomeError, code: "-32603", answer: `"error":{"code":-32603,"message":"The server s could not handle the request"}`,
		},
		{name: "no audit", change: func(o *Options, _ *Config) { o.Auditor.(*ledger).down = errBoom }, outcome: audit.OutcomeDenied, code: "audit_unavailable", answer: `"error":{"code":1001,"message":"The gateway cannot write its audit log and therefore runs nothing.","data":{"kind":"audit_unavailable","code":1001,"phase":"audit","decision_id":"call-1"}}`},
		{name: "zero chain", change: func(_ *Options, c *Config) { c.Chain = &gate.Chain{} }, outcome: audit.OutcomeDenied, code: "-32602", answer: `"error":{"code":-32602,"message":"Unknown tool: s__echo"}`},
		{name: "no chain", change: func(_ *Options, c *Config) { c.Chain = nil }, outcome: audit.OutcomeDenied, code: "-32602", answer: `"error":{"code":-32602,"message":"Unknown tool: s__echo"}`},
		{name: "zero limiter", change: func(_ *Options, c *Config) { c.Limiter = &budget.Limiter{} }, steps: "gate view, gate request", outcome: audit.OutcomeError, code: "internal", answer: `"error":{"code":1001,`},
		{name: "no limiter", change: func(_ *Options, c *Config) { c.Limiter = nil }, steps: "gate view, gate request", outcome: audit.OutcomeError, code: "internal", answer: `"error":{"code":1001,`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newScript(t, "s", mcp.Legacy, tool("echo"))
			b.reply = tt.reply
			var changes []func(*Options, *Config)
			if tt.change != nil {
				changes = append(changes, tt.change)
			}
			r := noted(t, b, tt.verdict, tt.spent, changes...)
			name := tt.tool
			if name == "" {
				name = "echo"
			}
			session := r.open()
			r.opts.Auditor.(*ledger).journal.clear() // the decisions of initialize
			w := r.legacy(session, "1", "tools/call", `{"name":"s__`+name+`"`+tt.params+`}`)
			if w.code() != http.StatusOK || !strings.Contains(w.text(), tt.answer) {
				t.Errorf("status %d, answer %s\nwant %s", w.code(), w.text(), tt.answer)
			}
			want := tt.steps
			if want != "" {
				want += ", "
			}
			want += "audit " + string(tt.outcome)
			if got := strings.Join(r.steps(), ", "); got != want {
				t.Errorf("steps %s\nwant  %s", got, want)
			}
			entries := r.ledger.all()
			if len(entries) != 1 {
				t.Fatalf("%d audit entries, want 1", len(entries))
			}
			e := entries[0]
			if e.Outcome != tt.outcome || e.Code != tt.code || e.CallID != "call-1" || e.Name != "s__"+name || e.Principal.Subject != "alice" || e.ArgsHash == "" {
				t.Errorf("entry %+v; want outcome %s, code %q", e, tt.outcome, tt.code)
			}
			// Whatever happened, the gateway still works.
			if w := r.legacy(r.open(), "1", "ping", ""); w.code() != http.StatusOK {
				t.Errorf("ping after it: status %d", w.code())
			}
		})
	}
}

// The wait for a permit comes after the gate and the arguments and before the charge.
func TestSlotIsBetweenArgumentsAndCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Legacy, tool("echo"))
		release := make(chan struct{})
		b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
			<-release
			return answered(mcp.Legacy, `{"content":[]}`), nil
		}
		r := noted(t, b, nil, nil, func(_ *Options, c *Config) {
			c.Mounts[0].Concurrency, c.Mounts[0].Queue = 1, 1
			c.Mounts[0].Tools = map[string]ToolShape{"echo": {Args: map[string]ArgumentShape{"f": {Fixed: []byte("1")}}}}
		})
		id := r.open()
		r.opts.Auditor.(*ledger).journal.clear() // the decisions of initialize
		call := func(n int, arguments string) *recorder {
			w, _ := r.begin(httpRequest("POST", "/mcp", request(fmt.Sprint(n), "tools/call", `{"name":"s__echo","arguments":`+arguments+`}`), "Mcp-Session-Id", id))
			synctest.Wait()
			return w
		}
		first, second := call(1, "{}"), call(2, "{}")
		third, fourth := call(3, "{}"), call(4, `{"f":2}`)
		want := []string{
			"gate view", "gate request", "charge call-1 1", "backend echo",
			"gate view", "gate request", // the second waits for a permit, uncharged
			"gate view", "gate request", "audit denied", // the third finds the queue full
			"gate view", "gate request", "audit denied", // the fourth is invalid and asks for no permit
		}
		if diff := cmp.Diff(want, r.steps()); diff != "" {
			t.Errorf("steps (-want +got):\n%s", diff)
		}
		if !third.ended() || !strings.Contains(third.text(), `"kind":"upstream_busy","code":1001,"phase":"concurrency"`) {
			t.Errorf("a full queue: %s", third.text())
		}
		if !fourth.ended() || !strings.Contains(fourth.text(), `"kind":"invalid_arguments"`) {
			t.Errorf("bad arguments: %s", fourth.text())
		}
		close(release)
		<-first.done
		<-second.done
		if diff := cmp.Diff([]string{"audit ok", "charge call-2 1", "backend echo", "audit ok"}, firstEndFirst(r.steps()[len(want):])); diff != "" {
			t.Errorf("after the release (-want +got):\n%s", diff)
		}
	})
}

// firstEndFirst orders the end of the first call and the start of the second, which
// race.
func firstEndFirst(lines []string) []string {
	for i, l := range lines {
		if l == "audit ok" {
			return append([]string{l}, append(lines[:i:i], lines[i+1:]...)...)
		}
	}
	return lines
}

// A call that is cancelled while it waits for a permit is neither charged nor made, and
// holds no permit.
func TestGivenUpWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Modern, tool("echo"))
		release := make(chan struct{})
		b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
			<-release
			return answered(mcp.Modern, `{"content":[]}`), nil
		}
		r := noted(t, b, nil, nil, func(_ *Options, c *Config) { c.Mounts[0].Concurrency = 1 })
		first, _ := r.begin(modernRequest(modernBody("1", "tools/call", `"name":"s__echo"`, "")))
		synctest.Wait()
		second, leave := r.begin(modernRequest(modernBody("2", "tools/call", `"name":"s__echo"`, "")))
		synctest.Wait()
		leave()
		<-second.done
		close(release)
		<-first.done
		third := r.modern("3", "tools/call", `"name":"s__echo"`)
		if !strings.Contains(third.text(), `"result"`) {
			t.Errorf("the next call: %s", third.text())
		}
		got := strings.Join(r.steps(), ", ")
		if strings.Count(got, "charge") != 2 || strings.Count(got, "backend") != 2 || strings.Count(got, "audit cancelled") != 1 || strings.Count(got, "audit") != 3 {
			t.Errorf("steps %s", got)
		}
	})
}

// A panic, a refusal or an error of one call does not affect others.
func TestPanicIsAlone(t *testing.T) {
	b := newScript(t, "s", mcp.Modern, tool("echo"), tool("panic"))
	b.reply = func(_ context.Context, call *mcp.Call) (mcp.Answer, error) {
		if call.Key == "panic" {
			panic("on purpose")
		}
		return answered(mcp.Modern, `{"content":[]}`), nil
	}
	r := newRig(t, mounted(b), func(_ *Options, c *Config) { c.Mounts[0].Concurrency, c.Mounts[0].Queue = 2, 40 })
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			name := []string{"echo", "panic"}[i%2]
			w := r.do(modernRequest(modernBody(fmt.Sprint(i), "tools/call", `"name":"s__`+name+`"`, "")))
			want := map[string]string{"echo": `"result":`, "panic": `"error":{"code":-32603,"message":"Internal error"}`}[name]
			if !strings.Contains(w.text(), want) || strings.Contains(w.text(), "on purpose") {
				t.Errorf("%s: %s", name, w.text())
			}
		})
	}
	all.Wait()
	if got := len(r.ledger.all()); got != 40 {
		t.Errorf("%d audit entries, want 40", got)
	}
	if !strings.Contains(r.log.String(), "on purpose") {
		t.Error("the panic is not in the log")
	}
}

// What does not exist and what is hidden look the same: in lists and calls, for all
// methods, byte for byte, with the same HTTP status.
func TestUnknownAndHiddenAreOne(t *testing.T) {
	items := []string{tool("hidden"), `prompt {"name":"hidden"}`, `resource {"uri":"file:///hidden","name":"h"}`, `template {"uriTemplate":"file:///hidden/{x}","name":"h"}`}
	shown := []string{tool("shown"), `prompt {"name":"shown"}`, `resource {"uri":"file:///shown","name":"h"}`}
	with := newRig(t, mounted(newScript(t, "s", mcp.Modern, append(items, shown...)...)),
		hide("hidden", "file:///hidden", "file:///hidden/{x}"))
	without := newRig(t, mounted(newScript(t, "s", mcp.Modern, shown...)), hide("hidden", "file:///hidden", "file:///hidden/{x}"))
	requests := []struct{ method, members string }{
		{"tools/list", ""},
		{"prompts/list", ""},
		{"resources/list", ""},
		{"resources/templates/list", ""},
		{"tools/call", `"name":"s__hidden"`},
		{"tools/call", `"name":"s__hidden","requestState":"x"`},
		{"prompts/get", `"name":"s__hidden"`},
		{"resources/read", `"uri":"s+file:///hidden"`},
		{"completion/complete", `"ref":{"type":"ref/prompt","name":"s__hidden"},"argument":{"name":"a","value":""}`},
		{"completion/complete", `"ref":{"type":"ref/resource","uri":"s+file:///hidden/{x}"},"argument":{"name":"a","value":""}`},
		{"subscriptions/listen", `"notifications":{"resourceSubscriptions":["s+file:///hidden"]}`},
	}
	for _, q := range requests {
		ask := func(r *rig) (string, int) {
			w, leave := r.begin(modernRequest(modernBody("1", q.method, q.members, "")))
			if q.method == "subscriptions/listen" {
				testwait.Until(t, patience, "the stream is acknowledged", func() bool { return strings.Contains(w.text(), "acknowledged") })
				leave()
			}
			<-w.done
			return w.text(), w.code()
		}
		got, status := ask(with)
		want, wantStatus := ask(without)
		if strings.Contains(q.members, `"ref/resource"`) { // an unlisted URI of a known server is tried as a resource
			want = strings.ReplaceAll(want, "Unknown template", "Unknown resource")
		}
		if got != want || status != wantStatus {
			t.Errorf("%s %s\nhidden:  %d %s\nunknown: %d %s", q.method, q.members, status, got, wantStatus, want)
		}
	}
	session, other := with.open(), without.open()
	for _, q := range []struct{ method, params string }{
		{"resources/subscribe", `{"uri":"s+file:///hidden"}`},
		{"resources/read", `{"uri":"s+file:///hidden"}`},
		{"tools/call", `{"name":"s__hidden"}`},
	} {
		got, want := with.legacy(session, "1", q.method, q.params), without.legacy(other, "1", q.method, q.params)
		if got.text() != want.text() || got.code() != want.code() {
			t.Errorf("legacy %s\nhidden:  %s\nunknown: %s", q.method, got.text(), want.text())
		}
	}
}

// Refusals of methods without isError are errors with the same object.
func TestRefusalsWithoutIsError(t *testing.T) {
	b := newScript(t, "s", mcp.Modern, `prompt {"name":"p"}`, `resource {"uri":"file:///r","name":"r"}`)
	r := newRig(t, mounted(b), forbid("p", "file:///r"))
	for _, q := range []struct{ method, members string }{
		{"prompts/get", `"name":"s__p"`},
		{"resources/read", `"uri":"s+file:///r"`},
		{"completion/complete", `"ref":{"type":"ref/prompt","name":"s__p"},"argument":{"name":"a","value":""}`},
	} {
		w := r.modern("1", q.method, q.members)
		if w.code() != http.StatusOK || !strings.Contains(w.text(), `"error":{"code":1002,"message":"This call is not allowed: it is not for you.","data":{"kind":"denied","code":1002,"phase":"rule","decision_id":"`) {
			t.Errorf("%s: %d %s", q.method, w.code(), w.text())
		}
	}
	b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
		return mcp.Answer{}, &mcp.Failure{Kind: mcp.FailUnavailable, Reason: "The server s is not connected."}
	}
	r = newRig(t, mounted(b))
	w := r.modern("1", "prompts/get", `"name":"s__p"`)
	if !strings.Contains(w.text(), `"error":{"code":1001,"message":"The server s is not connected.","data":{"kind":"upstream_unavailable","code":1001,"phase":"upstream","decision_id":"`) {
		t.Errorf("unavailable: %s", w.text())
	}
}

// A refused modern call is a complete result of the gateway.
func TestModernRefusalIsAResult(t *testing.T) {
	r := newRig(t, mounted(newScript(t, "s", mcp.Modern, tool("echo"))), forbid("echo"))
	want := `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[{"type":"text","text":"This call is not allowed: it is not for you."}],"isError":true,` +
		`"_meta":{"dev.toolgate/refusal":{"kind":"denied","code":1002,"phase":"rule","decision_id":"call-1"},"io.modelcontextprotocol/serverInfo":{"name":"toolgate","title":"toolgate","version":"1.0.0"}}}}`
	if w := r.modern("1", "tools/call", `"name":"s__echo"`); w.text() != want || w.code() != http.StatusOK {
		t.Errorf("status %d: %s\nwant %s", w.code(), w.text(), want)
	}
}

func TestUpstreamFaults(t *testing.T) {
	tests := []struct {
		name     string
		server   mcp.Era
		fault    string
		legacy   string // error for a legacy client
		modern   string // and for a modern one
		status   int    // HTTP status of the latter
		noModern bool
	}{
		{"its own code", mcp.Legacy, `{"code":-32000,"message":"m","x":1}`, `{"code":-32000,"message":"m","x":1}`, `{"code":-32000,"message":"m","x":1}`, 200, false},
		{"URL elicitation required", mcp.Legacy, `{"code":-32042,"message":"m","data":{"elicitations":[]}}`, `{"code":-32042,"message":"m","data":{"elicitations":[]}}`, "", 0, true},
		{"header mismatch", mcp.Modern, `{"code":-32020,"message":"m"}`, `{"code":-32603,"message":"The server s could not handle the request"}`, `{"code":-32603,"message":"The server s could not handle the request"}`, 200, false},
		{"version", mcp.Modern, `{"code":-32022,"message":"m","data":{}}`, `{"code":-32603,"message":"The server s could not handle the request"}`, `{"code":-32603,"message":"The server s could not handle the request"}`, 200, false},
		{
			"capability", mcp.Modern, `{"code":-32021,"message":"m","data":{"requiredCapabilities":{"x":{}},"other":1}}`, `{"code":-32603,"message":"The server s could not handle the request"}`,
			`{"code":-32021,"message":"The server s needs a capability that the client did not declare","data":{"requiredCapabilities":{"x":{}}}}`, 400, false,
		},
		{"no such resource", mcp.Legacy, `{"code":-32002,"message":"m","data":1}`, `{"code":-32002,"message":"m","data":1}`, `{"code":-32602,"message":"m","data":1}`, 200, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newScript(t, "s", tt.server, tool("echo"))
			b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) { return fault(tt.server, tt.fault), nil }
			r := newRig(t, mounted(b))
			if w := r.legacy(r.open(), "1", "tools/call", `{"name":"s__echo"}`); w.text() != `{"jsonrpc":"2.0","id":1,"error":`+tt.legacy+`}` {
				t.Errorf("legacy client: %s\nwant %s", w.text(), tt.legacy)
			}
			if tt.noModern {
				return
			}
			if w := r.modern("1", "tools/call", `"name":"s__echo"`); w.text() != `{"jsonrpc":"2.0","id":1,"error":`+tt.modern+`}` || w.code() != tt.status {
				t.Errorf("modern client: %d %s\nwant %d %s", w.code(), w.text(), tt.status, tt.modern)
			}
		})
	}
}

// The entry of a call holds everything that is known of it.
func TestAuditEntry(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, tool("a.b"))
	r := newRig(t, mounted(b), func(o *Options, _ *Config) {
		o.CapabilityIDs = func(_ context.Context, keys []CapabilityKey) ([]string, error) {
			ids := make([]string, len(keys))
			for i, k := range keys {
				ids[i] = "cap:" + k.Server + ":" + k.Kind + ":" + k.Original
			}
			return ids, nil
		}
	})
	name := r.snapshot.Load().catalog.lists[mcp.Tool].entries[0].Exposed
	w := r.legacy(r.open(), "1", "tools/call", `{"name":"`+name+`","arguments":{"b":1,"a":2},"_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}`)
	e := r.ledger.all()[0]
	want := audit.Entry{
		CallID: "call-1", Principal: audit.Principal{Issuer: "test", Tenant: "default", Subject: "alice"},
		Client: audit.Client{Name: "tester", Version: "3"}, Transport: "http", Era: "legacy", ProtocolVersion: "2025-11-25",
		Method: "tools/call", Kind: "tool", Name: name, Server: "s", OriginalName: "a.b", CapabilityID: "cap:s:tool:a.b",
		ArgsHash: fmt.Sprintf("%x", mcp.Hash([]byte(`{"a":2,"b":1}`))), Outcome: audit.OutcomeOK, TraceID: "0af7651916cd43dd8448eb211c80319c",
		BytesOut: int64(len(`{}`)),
	}
	var steps []string
	for i, s := range e.Steps {
		steps = append(steps, s.Phase+" "+s.Verdict)
		if i > 0 && s.US < e.Steps[i-1].US {
			t.Errorf("step %d is before the one before: %+v", i, e.Steps)
		}
	}
	if diff := cmp.Diff([]string{"view allow", "open allow", "arguments pass", "rates pass", "budget pass"}, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if begun := r.ledger.begun; len(begun) != 1 || begun[0].CallID != e.CallID || begun[0].ArgsHash != e.ArgsHash || begun[0].Outcome != "" {
		t.Errorf("begun: %+v", begun)
	}
	if e.Session == "" || e.Time.IsZero() || e.BytesIn == 0 || e.DurationUS < e.UpstreamUS {
		t.Errorf("entry %+v of %s", e, w.text())
	}
	e.Session, e.Time, e.BytesIn, e.DurationUS, e.GatewayUS, e.UpstreamUS, e.Steps = "", time.Time{}, 0, 0, 0, 0, nil
	if diff := cmp.Diff(want, e); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
}

// A call whose beginning cannot be recorded does not reach its backend.
func TestCallBeginsInTheAuditLog(t *testing.T) {
	b := newScript(t, "s", mcp.Modern, tool("echo"))
	b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
		t.Error("the backend was called")
		return mcp.Answer{}, nil
	}
	r := newRig(t, mounted(b))
	r.ledger.refuses = errBoom
	requireKind(t, r.modern("1", "tools/call", `"name":"s__echo"`), "audit_unavailable")
	if e := r.ledger.all(); len(e) != 1 || e[0].Outcome != audit.OutcomeDenied || e[0].Code != "audit_unavailable" {
		t.Errorf("entries %+v", e)
	}
}

func TestClassify(t *testing.T) {
	if err := classify(fmt.Errorf("x: %w", errCancelled)); !errors.Is(err, errCancelled) {
		t.Errorf("a cancelled call became %v", err)
	}
	if err := classify(nil); err != nil {
		t.Errorf("nil became %v", err)
	}
}

// Over HTTP, an error from the server is a normal response, whatever its code: 404
// would mean that the gateway does not know the method.
func TestRelayedFaultsAreAnswers(t *testing.T) {
	for code, want := range map[int]int{-32601: http.StatusOK, -32600: http.StatusOK, -32700: http.StatusOK, -32021: http.StatusBadRequest, 7: http.StatusOK} {
		for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
			b := newScript(t, "s", era, tool("echo"))
			b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
				return fault(era, fmt.Sprintf(`{"code":%d,"message":"m"}`, code)), nil
			}
			w := newRig(t, mounted(b)).modern("1", "tools/call", `"name":"s__echo"`)
			if w.code() != want || !strings.Contains(w.text(), fmt.Sprintf(`"code":%d`, code)) {
				t.Errorf("%s, code %d: status %d, %s", era, code, w.code(), w.text())
			}
		}
	}
}
