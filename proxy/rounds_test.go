package proxy

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/proxy/refusal"
)

const question = `"inputRequests":{"q":{"method":"elicitation/create","params":{"message":"who?"}}}`

// asking is a backend that asks the given number of times, each time with a new state,
// and then answers.
func asking(t *testing.T, times int) *script {
	b := newScript(t, "s", mcp.Modern, tool("ask"), tool("other"), `prompt {"name":"ask"}`, `resource {"uri":"file:///ask","name":"r"}`)
	b.reply = func(_ context.Context, call *mcp.Call) (mcp.Answer, error) {
		round := 0
		if state, ok := mcp.LookupString(call.Params, "requestState"); ok {
			_, _ = fmt.Sscanf(state, "state/%d", &round)
		}
		if round == times {
			return answered(mcp.Modern, `{"resultType":"complete","content":[]}`), nil
		}
		return answered(mcp.Modern, fmt.Sprintf(`{"resultType":"input_required",%s,"requestState":"\u0073tate\/%d"}`, question, round+1)), nil
	}
	return b
}

// stateOf returns the requestState of a response.
func stateOf(t testing.TB, w *recorder) string {
	t.Helper()
	state, ok := mcp.LookupString([]byte(w.text()), "result", "requestState")
	if !ok {
		t.Fatalf("no requestState: %s", w.text())
	}
	return state
}

const badState = `{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"Invalid requestState"}}`

// again is the retry of a call of s__ask.
func (r *rig) again(state, members string, headers ...string) *recorder {
	r.t.Helper()
	if members == "" {
		members = `"name":"s__ask"`
	}
	return r.modern("2", "tools/call", members+`,"inputResponses":{"q":{"action":"accept"}},"requestState":"`+state+`"`, headers...)
}

func TestRounds(t *testing.T) {
	b := asking(t, 3)
	r := noted(t, b, nil, nil)
	w := r.modern("1", "tools/call", `"name":"s__ask"`)
	for round := 1; round <= 3; round++ {
		state := stateOf(t, w)
		if strings.Contains(state, "state/") || !strings.HasPrefix(state, "k1.") {
			t.Errorf("the state of the server is not sealed: %s", state)
		}
		for _, e := range r.ledger.all() {
			if e.CallID == "call-1" {
				t.Errorf("before round %d the call has an entry: %+v", round, e)
			}
		}
		w = r.again(state, "")
		calls := b.seen("")
		if got, want := string(mcp.Lookup(calls[len(calls)-1].Params, "requestState")), fmt.Sprintf(`"\u0073tate\/%d"`, round); got != want {
			t.Errorf("round %d: the server got its state as %s, want %s", round, got, want)
		}
		// A used state cannot be used again.
		if again := r.again(state, ""); again.text() != badState {
			t.Errorf("round %d: a second use: %s", round, again.text())
		}
	}
	if !strings.Contains(w.text(), `"resultType":"complete"`) {
		t.Errorf("after the last round: %s", w.text())
	}
	var own []audit.Entry
	for _, e := range r.ledger.all() {
		if e.CallID == "call-1" {
			own = append(own, e)
		}
	}
	if len(own) != 1 || own[0].Rounds != 3 || own[0].Outcome != audit.OutcomeOK {
		t.Errorf("entries of the call %+v, want one with 3 rounds", own)
	}
	steps := strings.Join(r.steps(), ", ")
	if strings.Count(steps, "charge") != 1 || strings.Count(steps, "backend") != 4 || strings.Count(steps, "gate request") != 7 {
		t.Errorf("steps %s: want one charge, four runs and the gate asked each time", steps)
	}
}

// Any other state than its own for its own call is refused alike, and does not use up
// the state.
func TestForeignStates(t *testing.T) {
	b := asking(t, 1)
	r := newRig(t, mounted(b))
	w := r.modern("1", "tools/call", `"name":"s__ask","arguments":{"a":1}`)
	state := stateOf(t, w)
	flipped := []byte(state)
	flipped[len(flipped)-5] ^= 1
	cursor, err := r.opts.Keys.Seal(seal.Cursor, person("alice").Key(), []byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	args := `"name":"s__ask","arguments":{"a":1}`
	tests := []struct{ name, state, members, who string }{
		{"tampered", string(flipped), args, "alice"},
		{"cut", state[:len(state)-2], args, "alice"},
		{"longer", state + "A", args, "alice"},
		{"without key id", strings.TrimPrefix(state, "k1."), args, "alice"},
		{"another key id", "k2." + strings.TrimPrefix(state, "k1."), args, "alice"},
		{"empty", "", args, "alice"},
		{"the server's own", "state/1", args, "alice"},
		{"a seal of another purpose", cursor, args, "alice"},
		{"another principal", state, args, "bob"},
		{"other arguments", state, `"name":"s__ask","arguments":{"a":2}`, "alice"},
		{"no arguments", state, `"name":"s__ask"`, "alice"},
		{"another tool", state, `"name":"s__other","arguments":{"a":1}`, "alice"},
	}
	for _, tt := range tests {
		if got := r.again(tt.state, tt.members, "Authorization", "Bearer "+tt.who); got.text() != badState || got.code() != 200 {
			t.Errorf("%s: %d %s", tt.name, got.code(), got.text())
		}
	}
	prompt := r.modern("2", "prompts/get", `"name":"s__ask","arguments":{"a":"1"},"requestState":"`+state+`"`)
	if prompt.text() != badState {
		t.Errorf("another method: %s", prompt.text())
	}
	number := r.modern("2", "tools/call", args+`,"requestState":7`)
	if number.text() != badState {
		t.Errorf("a number: %s", number.text())
	}
	if n := len(b.seen("")); n != 1 {
		t.Errorf("%d calls reached the server, want the first alone", n)
	}
	// The same arguments in another spelling are the same call.
	if got := r.again(state, `"name":"s__ask","arguments":{"\u0061": 1}`); !strings.Contains(got.text(), `"resultType":"complete"`) {
		t.Errorf("the rightful retry: %s", got.text())
	}
}

func TestStateExpires(t *testing.T) {
	for _, tt := range []struct {
		name  string
		after time.Duration
		used  bool // once before
		ok    bool
	}{
		{"in time", 15*time.Minute - time.Millisecond, false, true},
		{"at its end", 15 * time.Minute, false, false},
		{"too late", 15*time.Minute + time.Second, false, false},
		{"used before, in time", 15*time.Minute - time.Millisecond, true, false},
		{"used before, at its end", 15 * time.Minute, true, false},
		{"used before, too late", 16 * time.Minute, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, mounted(asking(t, 1))).run()
				state := stateOf(t, r.modern("1", "tools/call", `"name":"s__ask"`))
				if tt.used {
					r.again(state, "")
				}
				time.Sleep(tt.after)
				synctest.Wait()
				got := r.again(state, "")
				refused := got.text() == badState || tt.after >= 15*time.Minute && got.text() == strings.Replace(badState, "requestState", "requestState: it has expired", 1)
				if ok := strings.Contains(got.text(), `"resultType":"complete"`); ok != tt.ok || !ok && !refused {
					t.Errorf("%s", got.text())
				}
			})
		})
	}
}

// Of two concurrent retries one is accepted.
func TestRacingRetries(t *testing.T) {
	b := asking(t, 1)
	r := newRig(t, mounted(b))
	for range 20 {
		state := stateOf(t, r.modern("1", "tools/call", `"name":"s__ask"`))
		var all sync.WaitGroup
		var mu sync.Mutex
		won := 0
		for range 8 {
			all.Go(func() {
				w := r.again(state, "")
				mu.Lock()
				defer mu.Unlock()
				switch {
				case strings.Contains(w.text(), `"resultType":"complete"`):
					won++
				case w.text() != badState:
					t.Errorf("the loser got %s", w.text())
				}
			})
		}
		all.Wait()
		if won != 1 {
			t.Fatalf("%d of 8 racing retries were admitted, want 1", won)
		}
	}
}

// A server without a state gets none back. A call that is repeated without the state is
// a new one.
func TestNoState(t *testing.T) {
	b := newScript(t, "s", mcp.Modern, tool("ask"))
	b.reply = func(_ context.Context, call *mcp.Call) (mcp.Answer, error) {
		if mcp.Lookup(call.Params, "inputResponses") != nil {
			return answered(mcp.Modern, `{"resultType":"complete","content":[]}`), nil
		}
		return answered(mcp.Modern, `{"resultType":"input_required",`+question+`}`), nil
	}
	r := noted(t, b, nil, nil)
	state := stateOf(t, r.modern("1", "tools/call", `"name":"s__ask"`))
	r.again(state, "")
	calls := b.seen("")
	if raw := mcp.Lookup(calls[1].Params, "requestState"); raw != nil {
		t.Errorf("the server got a state that it never made: %s", raw)
	}
	r.modern("3", "tools/call", `"name":"s__ask","inputResponses":{}`)
	steps := strings.Join(r.steps(), ", ")
	if strings.Count(steps, "charge call-1 1") != 1 || strings.Count(steps, "charge") != 2 {
		t.Errorf("steps %s: want the call without state charged as a new one", steps)
	}
}

// Questions that the client did not declare, or the operator does not allow, do not
// reach it.
func TestRefusedQuestions(t *testing.T) {
	ask := func(method, params string) string {
		return `{"resultType":"input_required","inputRequests":{"ok":{"method":"elicitation/create","params":{"message":"m"}},"q":{"method":"` + method + `","params":` + params + `}},"requestState":"x"}`
	}
	tests := []struct {
		name      string
		questions Questions
		result    string
		ok        bool
	}{
		{"declared", Questions{Sampling: true, Elicitation: true}, ask("sampling/createMessage", `{"messages":[]}`), true},
		{"roots are not declared", Questions{Sampling: true, Elicitation: true, Roots: true}, ask("roots/list", `{}`), false},
		{"URLs are not declared", Questions{Elicitation: true}, ask("elicitation/create", `{"mode":"url"}`), false},
		{"sampling is not allowed", Questions{Elicitation: true}, ask("sampling/createMessage", `{"messages":[]}`), false},
		{"nothing is allowed", Questions{}, ask("elicitation/create", `{}`), false},
		{"no such question", Questions{Sampling: true, Elicitation: true, Roots: true}, ask("tools/call", `{}`), false},
		{"params of another form", Questions{Sampling: true, Elicitation: true, Roots: true}, ask("elicitation/create", `null`), false},
		{"questions as a list", Questions{Elicitation: true}, `{"resultType":"input_required","inputRequests":[{"method":"elicitation/create"}],"requestState":"x"}`, false},
		{"another type of result", Questions{Elicitation: true}, `{"resultType":"task","taskId":"1"}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newScript(t, "s", mcp.Modern, tool("ask"))
			b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) { return answered(mcp.Modern, tt.result), nil }
			mounts := mounted(b)
			mounts[0].Questions = tt.questions
			r := newRig(t, mounts)
			w := r.modern("1", "tools/call", `"name":"s__ask"`)
			if tt.ok {
				stateOf(t, w)
				return
			}
			if !strings.Contains(w.text(), `"isError":true`) || strings.Contains(w.text(), "requestState") || strings.Contains(w.text(), "inputRequests") {
				t.Errorf("%s", w.text())
			}
			if got := r.ledger.outcomes(); len(got) != 1 || got[0] != audit.OutcomeError {
				t.Errorf("audit %v", got)
			}
			// The server was not told of what it may not use.
			told := string(b.seen("")[0].Capabilities)
			for name, allowed := range map[string]bool{"sampling": tt.questions.Sampling, "elicitation": tt.questions.Elicitation} {
				if strings.Contains(told, name) != allowed {
					t.Errorf("the server was told of the capabilities %s, allowed %+v", told, tt.questions)
				}
			}
		})
	}
}

// Only calls of tools, prompts and resources may ask (2026-07-28 basic/patterns mrtr,
// Supported Requests).
func TestWhichMethodsMayAsk(t *testing.T) {
	b := asking(t, 1)
	r := newRig(t, mounted(b))
	for _, q := range []struct {
		method, members string
		ok              bool
	}{
		{"tools/call", `"name":"s__ask"`, true},
		{"prompts/get", `"name":"s__ask"`, true},
		{"resources/read", `"uri":"s+file:///ask"`, true},
		{"completion/complete", `"ref":{"type":"ref/prompt","name":"s__ask"},"argument":{"name":"a","value":""}`, false},
	} {
		w := r.modern("1", q.method, q.members)
		if got := strings.Contains(w.text(), `"requestState":"k1.`); got != q.ok {
			t.Errorf("%s: %s", q.method, w.text())
		}
		if !q.ok {
			continue
		}
		if w := r.modern("2", q.method, q.members+`,"requestState":"`+stateOf(t, w)+`"`); !strings.Contains(w.text(), `"resultType":"complete"`) {
			t.Errorf("%s again: %s", q.method, w.text())
		}
	}
}

// A question that is never answered closes its call once, when it expires or when the
// gateway ends.
func TestAbandonedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, mounted(asking(t, 2)))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		r.modern("1", "tools/call", `"name":"s__ask"`)
		time.Sleep(10 * time.Minute)
		r.again(stateOf(t, r.modern("1", "tools/call", `"name":"s__ask"`)), "") // asks again
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := r.ledger.all(); len(got) != 1 || got[0].Outcome != audit.OutcomeAbandoned || got[0].CallID != "call-1" || got[0].Rounds != 0 {
			t.Errorf("after 20 minutes %+v, want the first call abandoned", got)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := r.ledger.all(); len(got) != 2 || got[1].Outcome != audit.OutcomeAbandoned || got[1].CallID != "call-2" || got[1].Rounds != 1 {
			t.Errorf("at the end %+v, want the second call abandoned in its second round", got)
		}
	})
}

func TestOpenCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, mounted(asking(t, 1)), func(o *Options, _ *Config) { o.Limits.Rounds = 2 }).run()
		var mu sync.Mutex
		decisions := map[string]bool{}
		for range 2 {
			stateOf(t, r.modern("1", "tools/call", `"name":"s__ask"`))
		}
		w := r.modern("1", "tools/call", `"name":"s__ask"`)
		if !strings.Contains(w.text(), `"kind":"too_many_open_calls"`) {
			t.Errorf("beyond the limit: %s", w.text())
		}
		var all sync.WaitGroup
		for range 8 { // each refusal names its own call
			all.Go(func() {
				w := r.modern("1", "tools/call", `"name":"s__ask"`)
				id, _ := mcp.LookupString([]byte(w.text()), "result", "_meta", refusal.Key, "decision_id")
				if id == "" || strings.Count(w.text(), id) != 1 {
					t.Errorf("decision %q: %s", id, w.text())
				}
				mu.Lock()
				defer mu.Unlock()
				if decisions[id] {
					t.Errorf("two refusals name the decision %s", id)
				}
				decisions[id] = true
			})
		}
		all.Wait()
		time.Sleep(17 * time.Minute)
		stateOf(t, r.modern("1", "tools/call", `"name":"s__ask"`))
	})
}

// A retry passes the gate like the first request.
func TestRetryPassesTheGate(t *testing.T) {
	allowed := true
	b := asking(t, 1)
	r := noted(t, b, func(r *gate.Request) (gate.Decision, error) {
		if !allowed {
			return gate.Decision{Effect: gate.Deny, Reason: "not any more"}, nil
		}
		return gate.Decision{Effect: gate.Allow}, nil
	}, nil)
	state := stateOf(t, r.modern("1", "tools/call", `"name":"s__ask"`))
	allowed = false
	if w := r.again(state, ""); !strings.Contains(w.text(), "Unknown tool") {
		t.Errorf("a retry of what was taken away: %s", w.text())
	}
	if n := len(b.seen("")); n != 1 {
		t.Errorf("%d calls reached the server", n)
	}
	allowed = true
	if w := r.again(state, ""); !strings.Contains(w.text(), `"resultType":"complete"`) {
		t.Errorf("a refused retry has used the state up: %s", w.text())
	}
}

// Another replica, or this one after a restart, opens the state with the same keys. It
// accepts it once if both share the record of used states, and else not at all.
func TestStateOfAnotherReplica(t *testing.T) {
	b := asking(t, 1)
	memory, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "store.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	shared := func(o *Options, _ *Config) { o.UseRound = memory.Rounds().Use }
	for _, tt := range []struct {
		name    string
		changes []func(*Options, *Config)
		ok      bool
	}{{"without a store", nil, false}, {"with a store", []func(*Options, *Config){shared}, true}} {
		t.Run(tt.name, func(t *testing.T) {
			one, two := newRig(t, mounted(b), tt.changes...), newRig(t, mounted(b), tt.changes...)
			one.instance, two.instance = "one"+tt.name, "two"
			state := stateOf(t, one.modern("1", "tools/call", `"name":"s__ask"`))
			if w := two.again(state, ""); strings.Contains(w.text(), `"resultType":"complete"`) != tt.ok {
				t.Errorf("the other replica: %s", w.text())
			}
			for name, r := range map[string]*rig{"there": two, "at the first": one} {
				if w := r.again(state, ""); tt.ok && w.text() != badState {
					t.Errorf("a second use %s: %s", name, w.text())
				}
			}
		})
	}
}

// The rounds of one call may take turns at two replicas. What the first kept of an earlier
// round does not pass for a second use.
func TestRoundsInTurn(t *testing.T) {
	b := asking(t, 4)
	memory, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "store.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	shared := func(o *Options, _ *Config) { o.UseRound = memory.Rounds().Use }
	one, two := newRig(t, mounted(b), shared), newRig(t, mounted(b), shared)
	one.instance, two.instance = "one", "two"
	w := one.modern("1", "tools/call", `"name":"s__ask"`)
	var first string
	for i, r := range []*rig{two, one, one, two} {
		state := stateOf(t, w)
		if i == 0 {
			first = state
		}
		w = r.again(state, "")
	}
	if !strings.Contains(w.text(), `"resultType":"complete"`) {
		t.Errorf("the last round: %s", w.text())
	}
	for _, r := range []*rig{one, two} {
		if w := r.again(first, ""); w.text() != badState {
			t.Errorf("the first round a second time: %s", w.text())
		}
	}
}

// Questions about resources use the exposed URIs.
func TestQuestionsExposeURIs(t *testing.T) {
	b := newScript(t, "s", mcp.Modern, tool("ask"))
	b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
		return answered(mcp.Modern, `{"resultType":"input_required","inputRequests":{"q":{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"resource_link","uri":"file:///a"}}]}},"uri":{"params":{"message":"uri","uri":"u"},"method":"elicitation/create"}}}`), nil
	}
	w := newRig(t, mounted(b)).modern("1", "tools/call", `"name":"s__ask"`)
	if !strings.Contains(w.text(), `{"type":"resource_link","uri":"s+file:///a"}`) || !strings.Contains(w.text(), `"uri":"u"`) {
		t.Errorf("%s", w.text())
	}
}

// A server cannot ask for ever, nor everything at once.
func TestRoundsAreCapped(t *testing.T) {
	r := newRig(t, mounted(asking(t, maxRounds+1)))
	w := r.modern("1", "tools/call", `"name":"s__ask"`)
	for range maxRounds {
		w = r.again(stateOf(t, w), "")
	}
	if !strings.Contains(w.text(), "asked more than 10 times") || strings.Contains(w.text(), "inputRequests") {
		t.Errorf("the eleventh question: %s", w.text())
	}
	b := newScript(t, "s", mcp.Modern, tool("ask"))
	var many []string
	for i := range maxInputs + 1 {
		many = append(many, fmt.Sprintf(`"q%d":{"method":"elicitation/create","params":{"message":"m"}}`, i))
	}
	b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
		return answered(mcp.Modern, `{"resultType":"input_required","inputRequests":{`+strings.Join(many, ",")+`}}`), nil
	}
	w = newRig(t, mounted(b)).modern("1", "tools/call", `"name":"s__ask"`)
	if !strings.Contains(w.text(), "asked more than 16 things at once") {
		t.Errorf("17 questions at once: %s", w.text())
	}
}

// Malformed answers are the client's fault, even with the first request, and reach no
// server.
func TestAnswersOfAnotherShape(t *testing.T) {
	b := newScript(t, "s", mcp.Modern, tool("echo"))
	r := newRig(t, mounted(b))
	for _, answers := range []string{`{"name":12345}`, `null`, `[]`, `"name"`} {
		w := r.modern("1", "tools/call", `"name":"s__echo","inputResponses":`+answers)
		if !strings.Contains(w.text(), `"code":-32602`) || !strings.Contains(w.text(), "object of objects") {
			t.Errorf("%s: %s", answers, w.text())
		}
	}
	if calls := b.seen(mcp.MethodToolsCall); len(calls) != 0 {
		t.Errorf("%d calls reached the server", len(calls))
	}
	if w := r.modern("2", "tools/call", `"name":"s__echo","inputResponses":{"name":{"action":"accept"}}`); strings.Contains(w.text(), `"error"`) {
		t.Errorf("answers in their shape: %s", w.text())
	}
}
