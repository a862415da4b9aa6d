package agents_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/agents"
	"github.com/toolgate/toolgate/native/agents/model"
	"github.com/toolgate/toolgate/native/toolapi"
)

// conversation is a model that goes by what it has been told, so that it says the same
// after a crash: it reads, then writes and reads, then answers.
func conversation(_ int, r *model.Request) (*model.Turn, error) {
	switch n := len(results(r)); {
	case n == 0:
		return calls("fs__read"), nil
	case n == 1:
		return calls("fs__write", "fs__read"), nil
	}
	return says("done: " + strings.Join(results(r), "; ")), nil
}

// A run whose process dies at any write of its journal goes on with what the journal has:
// nothing that writes is called twice, and each inference is charged once.
func TestGoesOnAfterEveryStep(t *testing.T) {
	for crash := 1; ; crash++ {
		r := newRig(conversation)
		p := newPurse(1 << 30)
		r.Budget = p
		crashed := false
		r.journal.at = func(saves int, _ []agents.Step) error {
			if crashed = crashed || saves == crash; crashed {
				return agents.ErrLost
			}
			return nil
		}
		if _, err := r.Do(t.Context()); err == nil {
			if crash < 10 {
				t.Errorf("it took %d writes", crash)
			}
			return
		}
		next := r.again(conversation)
		o := next.do(t)
		writes := 0
		for _, made := range slices.Concat(r.tools.made, next.tools.made) {
			if strings.HasPrefix(made, "fs__write") {
				writes++
			}
		}
		if o.Status != agents.Completed || writes > 1 {
			t.Errorf("crash at %d: %+v, wrote %d times", crash, o, writes)
		}
		if writes == 0 && !strings.Contains(o.Text, "is not known") {
			t.Errorf("crash at %d: nothing was written, and the model was told %q", crash, o.Text)
		}
		charged := int64(0)
		for _, s := range next.journal.steps {
			if s.State == agents.Begun {
				t.Errorf("crash at %d: the step %+v has no end", crash, s)
			}
			charged += s.Input + s.Output
		}
		if asked := len(r.model.seen) + len(next.model.seen); len(p.settled)+len(p.reserved) < asked || p.used() != charged || o.Usage.Input+o.Usage.Output != charged {
			t.Errorf("crash at %d: asked %d times, %d charges of %d, the steps have %d, the run %+v", crash, asked, len(p.settled)+len(p.reserved), p.used(), charged, o.Usage)
		}
	}
}

// A call that may have been made is not made again, unless that does no harm.
func TestUnknownCalls(t *testing.T) {
	asked := func(tool string) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"id":"c0","tool":%q,"args":{}}`, tool))
	}
	for tool, again := range map[string]bool{"fs__read": true, "fs__write": false} {
		turn, err := json.Marshal(calls(tool))
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(turns(says("done")))
		r.Steps = []agents.Step{
			{Seq: 0, Kind: agents.StepInference, Turn: 1, State: agents.Done, Answer: turn, Input: 7},
			{Seq: 1, Kind: agents.StepCall, Turn: 1, Name: tool, State: agents.Begun, Asked: asked(tool)},
		}
		r.journal.steps = slices.Clone(r.Steps)
		o := r.do(t)
		if (len(r.tools.made) == 1) != again || o.Usage.Input != 107 || o.Turns != 2 {
			t.Errorf("%s: made %q; %+v", tool, r.tools.made, o)
		}
		if told := results(&r.model.seen[0]); len(told) != 1 || strings.Contains(told[0], "is not known") == again {
			t.Errorf("%s: told %q", tool, told)
		}
	}
}

// When the gateway ends, what a run does is given up, and is not lost.
func TestLeft(t *testing.T) {
	r := newRig(turns(calls("fs__read", "fs__write"), says("done")))
	ctx, cancel := context.WithCancelCause(t.Context())
	r.tools.call = func(ctx context.Context, c mcp.NestedCall) mcp.NestedAnswer {
		cancel(agents.ErrLeft)
		<-ctx.Done()
		return mcp.NestedAnswer{Fault: mcp.Errorf(mcp.CodeInternal, "cancelled"), Delivered: true}
	}
	if o, err := r.Do(ctx); !errors.Is(err, agents.ErrLeft) {
		t.Fatalf("%+v, %v", o, err)
	}
	next := r.again(turns(says("done")))
	o := next.do(t)
	writes := func(r *rig) bool {
		return slices.ContainsFunc(r.tools.made, func(c string) bool { return strings.HasPrefix(c, "fs__write") })
	}
	if o.Status != agents.Completed || writes(r) && writes(next) { // it may not have come to the write before, and the model is told so
		t.Errorf("%+v, made %q, then %q", o, r.tools.made, next.tools.made)
	}
}

// Its owner goes on with a run from its limit.
func TestGoesOnFromALimit(t *testing.T) {
	r := newRig(turns(calls("fs__read")))
	r.do(t)
	next := r.again(turns(calls("fs__read"), says("done")))
	next.More = true
	if o := next.do(t); o.Status != agents.Completed || o.Turns != 7 || len(o.Done) != 6 {
		t.Errorf("%+v", o)
	}
	half := says("half")
	half.Stop = model.StopLength
	r = newRig(turns(half))
	r.do(t)
	next = r.again(turns(says("the rest")))
	next.More = true
	if o := next.do(t); o.Status != agents.Completed || o.Text != "the rest" {
		t.Errorf("%+v", o)
	}
	if m := next.model.seen[0].Messages; len(m) != 3 || m[1].Text != "half" {
		t.Errorf("%+v", m)
	}
	last := next.again(turns(says("never")))
	if o := last.do(t); o.Text != "the rest" || len(last.model.seen) != 0 {
		t.Errorf("%+v", o)
	}
}

// functions returns a rig whose caller has two functions.
func functions(say func(int, *model.Request) (*model.Turn, error)) *rig {
	r := newRig(say)
	r.Task.Functions = []model.Tool{{Name: "pick"}, {Name: "show"}}
	return r
}

// A turn that calls functions of the client asks it, for all of them at once; three
// rounds of it.
func TestFunctions(t *testing.T) {
	r := functions(turns(calls("pick", "fs__read", "show"), calls("pick"), calls("show", "rm"), says("done")))
	r.Ask = agents.AskClient(&mcp.Call{Askable: true, Ask: func(_ context.Context, method string, params []byte, reply func([]byte, *mcp.Error)) {
		name, _ := mcp.LookupString(params, "_meta", "dev.toolgate/function", "name")
		message, _ := mcp.LookupString(params, "message")
		if method != mcp.MethodElicit || !strings.Contains(message, name+" with {}") || mcp.Validate(params, mcp.Limits{}) != nil {
			t.Errorf("%s %s", method, params)
		}
		reply([]byte(`{"action":"accept","content":{"output":"gave `+name+`"}}`), nil)
	}}, r.ID)
	o := r.do(t)
	if o.Status != agents.Completed || len(r.model.seen) != 4 || len(r.tools.made) != 1 {
		t.Errorf("%+v, made %q", o, r.tools.made)
	}
	if got := results(&r.model.seen[3]); !slices.Equal(got[:5], []string{"gave pick", "did fs__read", "gave show", "gave pick", "gave show"}) {
		t.Errorf("%q", got)
	}
}

func TestFunctionsAreDeclined(t *testing.T) {
	for answer, want := range map[string]string{
		`{"action":"decline"}`:             "has not run",
		`{"action":"cancel"}`:              "has not run",
		`{"action":"accept","content":{}}`: "no output",
		`{"action":"accept"}`:              "no output",
	} {
		r := functions(turns(calls("pick"), says("done")))
		r.Ask = agents.AskClient(&mcp.Call{Askable: true, Ask: func(_ context.Context, _ string, _ []byte, reply func([]byte, *mcp.Error)) {
			reply([]byte(answer), nil)
		}}, r.ID)
		if o := r.do(t); o.Status != agents.Completed || !strings.Contains(results(&r.model.seen[1])[0], want) {
			t.Errorf("%s: %+v, %q", answer, o, results(&r.model.seen[1]))
		}
	}
	if agents.AskClient(&mcp.Call{}, "r") != nil || agents.AskClient(nil, "r") != nil {
		t.Error("who cannot be asked is asked")
	}
}

// A client that cannot be asked is told what to run, and comes back with all of it.
func TestRequiresAction(t *testing.T) {
	r := functions(turns(calls(`pick {"of":[1,2]}`, "fs__read", "show"), says("done")))
	o := r.do(t)
	if o.Status != agents.RequiresAction || len(o.Required) != 2 || o.Required[0].Name != "pick" || string(o.Required[0].Arguments) != `{"of":[1,2]}` || len(r.tools.made) != 1 {
		t.Fatalf("%+v", o)
	}
	result, err := o.Result()
	if err != nil || result.IsError || !strings.Contains(result.Text, `call this tool again with {"run": "run_1", "outputs"`) {
		t.Errorf("%+v, %v", result, err)
	}
	steps := r.journal.steps
	for bad, outputs := range map[string][]agents.Output{
		"all at once":                        {{ID: "c0", Output: "x"}},
		"does not wait for an output \"c1\"": {{ID: "c0"}, {ID: "c1"}, {ID: "c2"}},
		"or has it twice":                    {{ID: "c0"}, {ID: "c0"}, {ID: "c2"}},
		"at most":                            {{ID: "c0", Output: strings.Repeat("x", 1<<20)}, {ID: "c2"}},
	} {
		var problem toolapi.Problem
		if err := agents.CheckOutputs(steps, outputs); !errors.As(err, &problem) || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	outputs := []agents.Output{{ID: "c2", Output: "shown"}, {ID: "c0", Output: "no", IsError: true}}
	if err := agents.CheckOutputs(steps, outputs); err != nil {
		t.Fatal(err)
	}
	ends, err := agents.WithOutputs(steps, outputs)
	if err != nil || len(ends) != 2 {
		t.Fatal(ends, err)
	}
	next := r.again(turns(says("done")))
	if o := next.do(t); o.Status != agents.Completed || !slices.Equal(results(&next.model.seen[0]), []string{"no", "did fs__read", "shown"}) {
		t.Errorf("%+v, %q", o, results(&next.model.seen[0]))
	}
	if err := agents.CheckOutputs(next.journal.steps, outputs); err == nil {
		t.Error("outputs are taken twice")
	}
}

// A step that was begun beside another one can be missing, and the last inference is
// settled however the run ends.
func TestStepsAreMissing(t *testing.T) {
	both, err := json.Marshal(calls("fs__read", "fs__write"))
	if err != nil {
		t.Fatal(err)
	}
	last, err := json.Marshal(says("done"))
	if err != nil {
		t.Fatal(err)
	}
	reserved := agents.Reservation{Run: "run_1", Tokens: 500}
	asked, err := json.Marshal(reserved)
	if err != nil {
		t.Fatal(err)
	}
	steps := []agents.Step{
		{Seq: 0, Kind: agents.StepInference, Turn: 1, State: agents.Done, Answer: both},
		{Seq: 2, Kind: agents.StepCall, Turn: 1, Name: "fs__write", State: agents.Begun, Asked: json.RawMessage(`{"id":"c1","tool":"fs__write","args":{}}`)},
	}
	r := newRig(turns(says("done")))
	r.Steps, r.journal.steps = slices.Clone(steps), []agents.Step{steps[0], {Seq: 1, State: "hole"}, steps[1]}
	if o := r.do(t); o.Status != agents.Completed || !slices.Equal(r.tools.made, []string{"fs__read {}"}) || r.journal.steps[3].Kind != agents.StepCall {
		t.Errorf("%+v, made %q", o, r.tools.made)
	}
	p := newPurse(1000)
	reserved.Seq = 3
	if err := p.Reserve(t.Context(), reserved); err != nil {
		t.Fatal(err)
	}
	r = newRig(turns(says("never")))
	r.Budget, r.Steps = p, []agents.Step{{Seq: 3, Kind: agents.StepInference, Turn: 1, State: agents.Done, Input: 100, Output: 10, Asked: asked, Answer: last}}
	if o := r.do(t); o.Text != "done" || p.used() != 110 {
		t.Errorf("%+v, %d charged", o, p.used())
	}
}

// A question that ends with its call is answered by nobody, so that the run asks again.
func TestFunctionWithoutItsCall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ask := agents.AskClient(&mcp.Call{Askable: true, Ask: func(_ context.Context, _ string, _ []byte, reply func([]byte, *mcp.Error)) {
		cancel()
		reply([]byte(`{"action":"cancel"}`), nil)
	}}, "r")
	if r, answered := ask(ctx, &model.Call{ID: "c", Tool: "pick"}); answered {
		t.Errorf("%+v", r)
	}
}
