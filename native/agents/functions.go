package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/agents/model"
	"github.com/toolgate/toolgate/native/toolapi"
)

// callFunctions has the client run the functions that the last turn calls, all at the
// same time. Where it cannot be asked, the run waits for it.
func (r *Run) callFunctions(ctx context.Context) error {
	var calls []*model.Call
	var steps []*Step
	for i := range r.pending {
		c := &r.pending[i]
		if !r.waitsFor(c) {
			continue
		}
		step := r.begun(c)
		if step == nil {
			asked, err := json.Marshal(c)
			if err != nil {
				return fmt.Errorf("write a call: %w", err)
			}
			if step, err = r.begin(ctx, Step{Kind: StepFunction, Turn: r.turns, Name: c.Tool, Asked: asked}); err != nil {
				return err
			}
		}
		calls, steps = append(calls, c), append(steps, step)
	}
	if len(calls) == 0 {
		return nil
	}
	if r.Ask == nil {
		return &end{status: RequiresAction}
	}
	var all sync.WaitGroup
	errs := make([]error, len(calls))
	missing := make([]bool, len(calls))
	for i := range calls {
		r.say(fmt.Sprintf("turn %d: asking the client for %s", r.turns, calls[i].Tool))
		all.Go(func() {
			result, answered := r.Ask(ctx, calls[i])
			if missing[i] = !answered; answered {
				errs[i] = r.function(ctx, steps[i], result)
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, m := range missing {
		if m {
			return &end{status: RequiresAction}
		}
	}
	return nil
}

// function ends the step of a function with what the client gave.
func (r *Run) function(ctx context.Context, step *Step, result model.Result) error {
	result.Text = r.cut(result.Text)
	state := Done
	if result.IsError {
		state = Faulty
	}
	return r.finish(ctx, step, state, result)
}

// Output is what a function gave that the client has run.
type Output struct {
	ID      string `json:"id"`
	Output  string `json:"output"`
	IsError bool   `json:"is_error,omitempty"`
}

// Waits are the calls of functions for which a run waits, by the steps that it has. The
// latest turn alone can have some.
func Waits(steps []Step) []model.Call {
	var calls []model.Call
	for i := len(steps) - 1; i >= 0 && steps[i].Kind != StepInference; i-- {
		var c model.Call
		if s := &steps[i]; s.Kind == StepFunction && s.State == Begun && json.Unmarshal(s.Asked, &c) == nil {
			calls = append([]model.Call{c}, calls...)
		}
	}
	return calls
}

// RequiredBy are the functions for which a run waits, as its caller is told of them.
func RequiredBy(steps []Step) []RequiredCall {
	var all []RequiredCall
	for _, c := range Waits(steps) {
		all = append(all, RequiredCall{c.ID, c.Tool, c.Args})
	}
	return all
}

// CheckOutputs reports what is wrong with what a client gives for the functions for which
// a run waits: it is everything that is required, once, and nothing else.
func CheckOutputs(steps []Step, outputs []Output) error {
	waits := map[string]bool{}
	var ids []string
	for _, c := range Waits(steps) {
		waits[c.ID], ids = true, append(ids, c.ID)
	}
	for i := range outputs {
		o := &outputs[i]
		switch {
		case !waits[o.ID]:
			return toolapi.Problemf("The run does not wait for an output %.80q, or has it twice; it waits for %s.", o.ID, strings.Join(ids, ", "))
		case len(o.Output) > maxOutput:
			return toolapi.Problemf("An output has at most %d bytes.", maxOutput)
		}
		delete(waits, o.ID)
	}
	if len(waits) > 0 {
		return toolapi.Problemf("The run waits for the outputs %s, all at once.", strings.Join(ids, ", "))
	}
	return nil
}

// WithOutputs ends the steps of functions with what the client gave. The ends are returned
// alone, to be saved before the run goes on, and are in steps as well.
func WithOutputs(steps []Step, outputs []Output) (ends []Step, err error) {
	for _, o := range outputs {
		for i := len(steps) - 1; i >= 0 && steps[i].Kind != StepInference; i-- {
			s := &steps[i]
			if s.Kind != StepFunction || s.State != Begun || callID(s.Asked) != o.ID {
				continue
			}
			if s.Answer, err = json.Marshal(model.Result{Call: o.ID, Text: o.Output, IsError: o.IsError}); err != nil {
				return nil, fmt.Errorf("write an output: %w", err)
			}
			if s.State = Done; o.IsError {
				s.State = Faulty
			}
			ends = append(ends, *s)
			ends[len(ends)-1].Asked = nil
			break
		}
	}
	return ends, nil
}

// outputForm is what a client answers with.
const outputForm = `{"type":"object","properties":{"output":{"type":"string","title":"Output","description":"what the function gave, as text"}},"required":["output"]}`

// AskClient returns how the client of a call is asked to run functions of a run; nil where it
// cannot be asked.
func AskClient(call *mcp.Call, run string) Asker {
	if call == nil || call.Ask == nil || !call.Askable {
		return nil
	}
	return func(ctx context.Context, c *model.Call) (model.Result, bool) {
		message := fmt.Sprintf("The agent asks you to run %s with %s", c.Tool, c.Args)
		params := mcp.AppendQuote([]byte(`{"mode":"form","message":`), message)
		params = append(append(params, `,"requestedSchema":`...), outputForm...)
		params = append(append(params, `,"_meta":{"`...), mcp.MetaFunction...)
		params = mcp.AppendQuote(append(params, `":{"run":`...), run)
		params = mcp.AppendQuote(append(params, `,"id":`...), c.ID)
		params = mcp.AppendQuote(append(params, `,"name":`...), c.Tool)
		params = append(append(append(params, `,"arguments":`...), c.Args...), "}}}"...)
		answer, fault := call.AskAndWait(ctx, mcp.MethodElicit, params)
		if fault != nil || ctx.Err() != nil { // the answer to a question that ends with its call is nobody's
			return model.Result{}, false
		}
		r := model.Result{Call: c.ID}
		switch action, _ := mcp.LookupString(answer, "action"); action {
		case "accept":
			var ok bool
			if r.Text, ok = mcp.LookupString(answer, "content", "output"); !ok {
				r.Text, r.IsError = "The client has run the function and has given no output.", true
			}
		case "decline", "cancel":
			r.Text, r.IsError = "The client, or its user, has not run the function.", true
		default:
			return model.Result{}, false
		}
		if len(r.Text) > maxOutput {
			r.Text = strings.ToValidUTF8(r.Text[:maxOutput], "") + "\n[cut]"
		}
		return r, true
	}
}
