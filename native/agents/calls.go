package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/agents/model"
)

// callTools makes the calls of the last turn that are the gateway's, at the same time.
func (r *Run) callTools(ctx context.Context) error {
	places := make(chan struct{}, width)
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for i := range r.pending {
		c := &r.pending[i]
		r.mu.Lock()
		_, answered := r.results[c.ID]
		r.mu.Unlock()
		if answered || r.waitsFor(c) {
			continue
		}
		if problem := r.problem(c); problem != "" {
			r.answer(model.Result{Call: c.ID, Text: problem, IsError: true})
			continue
		}
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			if err := r.callTool(ctx, c); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(errs...)
}

// problem is why a call is not made, for the model; empty for a good one.
func (r *Run) problem(c *model.Call) string {
	switch {
	case c.Broken != "":
		return fmt.Sprintf("The call was not made: %s. The arguments are a JSON object that fits the tool's schema.", strings.TrimSuffix(c.Broken, "."))
	case r.Task.Choice.Mode == model.ChooseNone:
		return "The call was not made: no tools may be called in this run."
	case r.offered.tool(c.Tool) == nil:
		return fmt.Sprintf("The call was not made: there is no tool %.100q. %s", c.Tool, r.offered.names())
	case !mcp.IsObject(c.Args):
		return "The call was not made: the arguments are not a JSON object."
	}
	return ""
}

// names says which tools there are.
func (o *offered) names() string {
	const most = 50
	var names []string
	for i := range o.list {
		names = append(names, o.list[i].Name)
	}
	slices.Sort(names)
	switch n := len(names); {
	case n == 0:
		return "There are no tools; answer without."
	case n > most:
		return "There are " + strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d others.", n-most)
	}
	return "There are " + strings.Join(names, ", ") + "."
}

// answer notes the result of a call of the last turn.
func (r *Run) answer(result model.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results[result.Call] = result
}

// callTool makes one call of the last turn, as a step.
func (r *Run) callTool(ctx context.Context, c *model.Call) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	step := r.begun(c)
	if step == nil {
		asked, err := json.Marshal(c)
		if err != nil {
			return fmt.Errorf("write a call: %w", err)
		}
		if step, err = r.begin(ctx, Step{Kind: StepCall, Turn: r.turns, Name: c.Tool, Asked: asked}); err != nil {
			return err
		}
	}
	if ctx.Err() != nil { // nothing was made yet
		return errors.Join(r.finish(ctx, step, Faulty, model.Result{Call: c.ID, Text: "The call was not made: the run had ended.", IsError: true}), ctx.Err())
	}
	r.say(fmt.Sprintf("turn %d: %s", r.turns, c.Tool))
	answer := r.call(ctx, c)
	step.CallID = answer.CallID
	result := model.Result{Call: c.ID}
	state := Done
	switch {
	case answer.Result != nil:
		result.Text, result.IsError = textOf(answer.Result)
		result.Text = r.cut(result.Text)
		if result.IsError {
			state = Faulty
		}
	case answer.Delivered:
		if r.harmless(c.Tool) && ctx.Err() != nil && errors.Is(context.Cause(ctx), ErrLeft) {
			return ctx.Err() // it stays begun, and is made again
		}
		state, result.IsError = Unknown, true
		result.Text = unknownText + " " + messageOf(answer.Fault)
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), ErrLeft):
		return r.undo(ctx, step, c)
	default:
		state, result.IsError = Faulty, true
		result.Text = r.cut(messageOf(answer.Fault))
	}
	return r.finish(ctx, step, state, result)
}

// unknownText is what the model is told of a call that may have had its effect.
const unknownText = "Whether this call was made is not known: it may have had its effect. It was not repeated. Look for its effect before you call the tool again."

// notMade is what the model is told of a call that was not made when the gateway ended.
const notMade = "The call was not made, because the gateway ended. Call the tool again if it is still needed."

// undo ends a step whose call was certainly not made, because the gateway ends.
func (r *Run) undo(ctx context.Context, step *Step, c *model.Call) error {
	return errors.Join(r.finish(ctx, step, Faulty, model.Result{Call: c.ID, Text: notMade, IsError: true}), ctx.Err())
}

// finish saves the end of a step with a result, which the model gets.
func (r *Run) finish(ctx context.Context, step *Step, state StepState, result model.Result) error {
	raw, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("write a result: %w", err)
	}
	r.answer(result)
	return r.end(ctx, step, state, raw)
}

// begun returns the step of a call that has begun in an earlier process, and may be made
// again.
func (r *Run) begun(c *model.Call) *Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.steps) - 1; i >= 0 && r.steps[i].Kind != StepInference; i-- {
		if s := &r.steps[i]; s.State == Begun && callID(s.Asked) == c.ID {
			own := *s
			return &own
		}
	}
	return nil
}

func callID(asked []byte) string {
	id, _ := mcp.LookupString(asked, "id")
	return id
}

// harmless tells whether a tool can be called twice.
func (r *Run) harmless(tool string) bool {
	t := r.offered.tool(tool)
	return t != nil && t.harmless
}

// call makes a call. A panic is the fault of this call alone.
func (r *Run) call(ctx context.Context, c *model.Call) (answer mcp.NestedAnswer) {
	defer func() {
		if p := recover(); p != nil {
			r.Log.Error("panic in a call of an agent", "run", r.ID, "tool", c.Tool, "value", fmt.Sprint(p), "stack", string(debug.Stack()))
			answer = mcp.NestedAnswer{Fault: mcp.Errorf(mcp.CodeInternal, "The gateway failed during the call."), Delivered: true}
		}
	}()
	return r.Tools.Call(ctx, r.as, mcp.NestedCall{Tool: c.Tool, Args: c.Args})
}

// say reports progress, from one goroutine at a time.
func (r *Run) say(message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Progress(message)
}

func messageOf(f *mcp.Error) string {
	if f == nil {
		return "The call has failed."
	}
	return f.Message
}

// textOf is the text of a tool's result for a model: its text blocks, or the structure
// where there is none.
func textOf(result []byte) (text string, isError bool) {
	var parts []string
	content := mcp.Lookup(result, "content")
	for e := range mcp.Elements(content) {
		block := e.Of(content)
		switch kind, _ := mcp.LookupString(block, "type"); kind {
		case "text":
			s, _ := mcp.LookupString(block, "text")
			parts = append(parts, s)
		case "resource":
			if s, ok := mcp.LookupString(block, "resource", "text"); ok {
				parts = append(parts, s)
				continue
			}
			uri, _ := mcp.LookupString(block, "resource", "uri")
			parts = append(parts, "[the resource "+uri+" is not text]")
		case "resource_link":
			uri, _ := mcp.LookupString(block, "uri")
			parts = append(parts, "[resource "+uri+"]")
		default:
			parts = append(parts, "["+kind+" left out]")
		}
	}
	if len(parts) == 0 {
		if structured := mcp.Lookup(result, "structuredContent"); structured != nil {
			parts = append(parts, string(structured))
		}
	}
	return strings.Join(parts, "\n"), string(mcp.Lookup(result, "isError")) == "true"
}
