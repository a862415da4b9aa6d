package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/background"
	"github.com/toolgate/toolgate/native/agents/model"
)

const (
	// maxTries is how often one turn is asked for, and firstPause how long after the first
	// failure; each further pause is twice as long. maxPause bounds what an endpoint may
	// ask for.
	maxTries   = 4
	firstPause = 500 * time.Millisecond
	maxPause   = 30 * time.Second
)

// infer asks the model for the next turn. Each try is a step of its own, with a charge of
// its own.
func (r *Run) infer(ctx context.Context) (*model.Turn, error) {
	r.turn = r.turns + 1
	pause := firstPause
	for try := 1; ; try++ {
		request, err := r.request()
		if err != nil {
			return nil, err
		}
		turn, err := r.try(ctx, request)
		bad, ok := errors.AsType[*model.Error](err)
		switch {
		case err == nil:
			return turn, nil
		case ctx.Err() != nil || !ok:
			return nil, err
		case bad.Kind == model.TooLong && try < maxTries:
			r.window = r.window * 3 / 4 // the endpoint counts more tokens than are guessed here
			continue
		case bad.Kind == model.TooLong:
			return nil, limited(LimitContext, "The conversation does not fit the model.%s", detail(bad))
		case !bad.Repeat || try == maxTries:
			return nil, failed("The model cannot be asked: %s.%s", bad, detail(bad))
		}
		r.Progress(fmt.Sprintf("turn %d: the model is asked again", r.turn))
		if !wait(ctx, min(max(bad.After, pause+rand.N(pause/2)), maxPause)) {
			return nil, ctx.Err()
		}
		pause *= 2
	}
}

func detail(e *model.Error) string {
	if e.Detail == "" {
		return ""
	}
	return fmt.Sprintf(" It says: %.300q", e.Detail)
}

// try asks the model once. What comes before and after is [background.Apart].
func (r *Run) try(ctx context.Context, request *model.Request) (turn *model.Turn, err error) {
	var in *inference
	if err := background.Apart(func() (err error) { in, err = r.reserve(ctx, request); return err }); err != nil {
		return nil, err
	}
	turn, err = r.Model.Infer(ctx, request, nil)
	asked := err
	err = background.Apart(func() (err error) { turn, err = r.inferred(ctx, in, turn, asked); return err })
	return turn, err
}

// inference is one that has begun.
type inference struct {
	step     *Step
	reserved Reservation
}

// reserve decides whether the model may be asked, saves that it is, and charges the budget.
func (r *Run) reserve(ctx context.Context, request *model.Request) (*inference, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if r.Allowed != nil {
		switch err := r.Allowed(ctx); {
		case err == nil:
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, ErrLeft):
			return nil, ErrLeft
		default:
			return nil, failed("The caller may not run this agent any more: %s.", strings.TrimSuffix(err.Error(), "."))
		}
	}
	input := int64(r.size())*bytesPerToken/leastBytes + promptTokens
	reserved := Reservation{Run: r.ID, Tokens: input + int64(request.MaxTokens), Input: input, Cost: r.Settings.Prices.Cost(input, int64(request.MaxTokens))}
	if most := r.Settings.RunTokens; most > 0 && r.usage.Input+r.usage.Output+reserved.Tokens > most {
		return nil, limited(LimitRunTokens, "A run may use %d tokens, of which %d are used, and the next turn may need %d (run_tokens of the agent).", most, r.usage.Input+r.usage.Output, reserved.Tokens)
	}
	asked, err := json.Marshal(reserved)
	if err != nil {
		return nil, fmt.Errorf("write a reservation: %w", err)
	}
	step, err := r.begin(ctx, Step{Kind: StepInference, Turn: r.turn, Name: r.Settings.Model, Input: reserved.Input, Output: reserved.Tokens - reserved.Input, Cost: reserved.Cost, Asked: asked})
	if err != nil {
		return nil, err
	}
	reserved.Seq, reserved.At = step.Seq, step.BegunAt
	r.Progress(fmt.Sprintf("turn %d: asking the model", r.turn))
	if r.Budget != nil {
		if err := r.Budget.Reserve(ctx, reserved); err != nil {
			step.Input, step.Output, step.Cost = 0, 0, 0
			ended := r.end(ctx, step, Faulty, nil)
			r.settle(ctx, reserved, none(reserved)) // it may have been charged all the same
			return nil, errors.Join(ended, refused(err))
		}
	}
	request.ID = fmt.Sprintf("%s-%d", r.ID, step.Seq)
	return &inference{step, reserved}, nil
}

// inferred saves what has come of an inference, and tells the budget.
func (r *Run) inferred(ctx context.Context, in *inference, turn *model.Turn, err error) (*model.Turn, error) {
	step, reserved := in.step, in.reserved
	used, answer := reserved, json.RawMessage(nil)
	state := Faulty
	if err == nil {
		repair(turn)
		state = Done
		used = r.used(reserved, turn.Usage)
		if answer, err = json.Marshal(turn); err != nil {
			return nil, fmt.Errorf("write a turn: %w", err)
		}
	} else {
		used = r.usedBy(reserved, err)
	}
	step.Input, step.Output, step.Cost = used.Input, used.Tokens-used.Input, used.Cost
	r.count(step)
	if ended := r.end(ctx, step, state, answer); ended != nil {
		return nil, errors.Join(ended, err)
	}
	r.settle(ctx, reserved, used)
	return turn, err
}

// repair makes a turn fit to be kept and given back, whatever its client let pass: its
// arguments are JSON, and its calls can be told apart.
func repair(t *model.Turn) {
	if t.Opaque != nil && !json.Valid(t.Opaque) {
		t.Opaque = nil
	}
	seen := make(map[string]bool, len(t.Calls))
	for i := range t.Calls {
		c := &t.Calls[i]
		if c.Args != nil && !json.Valid(c.Args) {
			c.Args, c.Broken = nil, "the arguments are not JSON"
		}
		if c.ID == "" || seen[c.ID] {
			c.ID = fmt.Sprintf("%s-%d", c.ID, i)
		}
		seen[c.ID] = true
	}
}

// refused is the end of a run whose budget does not give what an inference needs.
func refused(err error) error {
	if exhausted, ok := errors.AsType[*Exhausted](err); ok {
		return limited(LimitBudget, "%s", exhausted.Reason)
	}
	return &end{status: Failed, reason: "The budgets cannot be charged at the moment.", cause: err}
}

// mostUsed is how many tokens no turn can use: whoever says so does not know.
const mostUsed = 1 << 30

// used is what a turn has used, as its endpoint says, which may be more than was reserved;
// where it does not say, everything that was reserved.
func (r *Run) used(reserved Reservation, u model.Usage) Reservation {
	if !u.Known || u.Input < 0 || u.Output < 0 || u.Input > mostUsed || u.Output > mostUsed {
		return reserved
	}
	used := reserved
	used.Input, used.Tokens, used.Cost = u.Input, u.Input+u.Output, r.Settings.Prices.Cost(u.Input, u.Output)
	return used
}

// usedBy is what an inference has used that brought no turn. What an endpoint has refused,
// or could not be reached for, costs nothing. Where it may have been at work, everything
// that was reserved counts.
func (r *Run) usedBy(reserved Reservation, err error) Reservation {
	bad, ok := errors.AsType[*model.Error](err)
	switch {
	case ok && bad.Usage.Known:
		return r.used(reserved, bad.Usage)
	case ok && bad.Kind == model.Unreachable:
		if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
			return none(reserved) // nothing was sent
		}
		return reserved
	case ok && bad.Kind != model.BadAnswer && bad.Kind != model.Timeout:
		return none(reserved)
	}
	return reserved
}

// none is a reservation of which nothing was used.
func none(reserved Reservation) Reservation {
	reserved.Input, reserved.Tokens, reserved.Cost = 0, 0, 0
	return reserved
}

// settle tells the budget what an inference has used. What is not told stays charged as
// it was reserved.
func (r *Run) settle(ctx context.Context, reserved, used Reservation) {
	if r.Budget == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer stop()
	if err := r.Budget.Settle(ctx, reserved, used); err != nil {
		r.Log.Warn("what an inference has used is not charged; all that was reserved is", "run", r.ID, "step", reserved.Seq, "err", err)
	}
}

// count adds what an inference has used to the usage of the run.
func (r *Run) count(s *Step) {
	r.usage.Input += s.Input
	r.usage.Output += s.Output
	r.usage.Cost += s.Cost
}

// end saves the end of a step.
func (r *Run) end(ctx context.Context, s *Step, state StepState, answer json.RawMessage) error {
	s.State, s.Answer, s.EndedAt = state, answer, time.Now()
	return r.save(ctx, s)
}
