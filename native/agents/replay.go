package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/toolgate/toolgate/native/agents/model"
)

// goOn is what the model is told whose answer was cut, when its caller wants the rest.
const goOn = "Your answer was cut. Go on where it ended."

// replay brings the run to where its steps end. Nothing is called and nothing is asked.
// Whatever may have had an effect and has no end gets one here.
func (r *Run) replay(ctx context.Context) error {
	for i := range r.Steps { // a step that was begun beside another one may be missing
		for len(r.steps) < r.Steps[i].Seq {
			r.steps = append(r.steps, Step{Seq: len(r.steps), State: Faulty})
		}
		r.steps = append(r.steps, r.Steps[i])
	}
	r.Steps = nil
	last := -1 // inference that has ended
	for i := range r.steps {
		if s := &r.steps[i]; s.Kind == StepInference {
			r.count(s)
			if s.State != Begun {
				last = i
			}
		}
	}
	if last >= 0 { // whether it is settled is not known, and all before it are
		r.replaySettle(ctx, &r.steps[last])
	}
	for i := range r.steps {
		var err error
		switch s := &r.steps[i]; s.Kind {
		case StepInference:
			err = r.replayInference(ctx, i)
		case StepCall, StepFunction:
			err = r.replayCall(ctx, s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// replayInference takes the turn of an earlier inference.
func (r *Run) replayInference(ctx context.Context, i int) error {
	s := r.steps[i]
	switch s.State {
	case Begun: // what it has used is not known, so that everything reserved counts
		return r.end(ctx, &s, Unknown, nil)
	case Done:
	default:
		return nil
	}
	var t model.Turn
	if err := json.Unmarshal(s.Answer, &t); err != nil {
		return fmt.Errorf("read a turn of the run %s: %w", r.ID, err)
	}
	r.replayResults()
	err := r.take(&t)
	if e, ok := errors.AsType[*end](err); ok && e.limit == LimitMaxTokens && (r.More || i < len(r.steps)-1) {
		if t.Text != "" {
			r.messages = append(r.messages, model.Message{Role: model.Assistant, Text: t.Text}, model.Message{Role: model.User, Text: goOn})
		}
		return nil
	}
	return err
}

// replayResults adds the results of the calls of a turn, which are all there.
func (r *Run) replayResults() {
	if len(r.pending) == 0 {
		return
	}
	message := model.Message{Role: model.Tools}
	for i := range r.pending {
		c := &r.pending[i]
		result, ok := r.results[c.ID]
		if !ok {
			if result = (model.Result{Call: c.ID, Text: r.problem(c), IsError: true}); result.Text == "" {
				result.Text = "The call was not made."
			}
		}
		message.Results = append(message.Results, result)
	}
	r.messages, r.pending = append(r.messages, message), nil
}

// replayCall takes the result of an earlier call. One without an end stays as it is where
// it can be made again; nobody else makes it.
func (r *Run) replayCall(ctx context.Context, s *Step) error {
	if s.State == Begun {
		var c model.Call
		if err := json.Unmarshal(s.Asked, &c); err != nil {
			return fmt.Errorf("read a call of the run %s: %w", r.ID, err)
		}
		if s.Kind == StepFunction || r.harmless(c.Tool) {
			return nil
		}
		own := *s
		return r.finish(ctx, &own, Unknown, model.Result{Call: c.ID, Text: unknownText, IsError: true})
	}
	var result model.Result
	if err := json.Unmarshal(s.Answer, &result); err != nil {
		return fmt.Errorf("read a result of the run %s: %w", r.ID, err)
	}
	r.answer(result)
	return nil
}

// replaySettle settles the charge of an inference once more.
func (r *Run) replaySettle(ctx context.Context, s *Step) {
	var reserved Reservation
	if json.Unmarshal(s.Asked, &reserved) != nil {
		return
	}
	reserved.Run, reserved.Seq, reserved.At = r.ID, s.Seq, s.BegunAt
	used := reserved
	used.Input, used.Tokens, used.Cost = s.Input, s.Input+s.Output, s.Cost
	r.settle(ctx, reserved, used)
}
