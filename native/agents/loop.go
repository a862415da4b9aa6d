package agents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/background"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/agents/model"
	"github.com/toolgate/toolgate/native/toolapi"
)

const (
	// width is how many calls of a turn are made at once. The gateway's own limits hold
	// besides.
	width = 8
	// maxUseless is how many turns in a row may have nothing that can be done: no text and
	// no call, or calls of tools that there are not.
	maxUseless = 3
	// saveTime bounds what is saved after the context of a run has ended.
	saveTime = 5 * time.Second
)

// Asker has the client of the open call run a function. answered is false where it could
// not be asked, or has not answered.
type Asker func(ctx context.Context, call *model.Call) (r model.Result, answered bool)

// Run is the work on one run. All fields but Budget, Ask, Progress and Cancel are required. It
// is used once.
type Run struct {
	ID    string
	Agent string
	// Settings are those of the agent.
	Settings *Settings
	Task     *Task
	Model    model.Model
	Tools    mcp.NestedCaller
	Journal  Journal
	Budget   Budget // nil charges nothing
	Ask      Asker  // nil where nobody can be asked
	// Allowed decides again, before each turn, whether the caller may run the agent; nil
	// allows it.
	Allowed func(ctx context.Context) error
	// Progress is told of each step. It is called from one goroutine at a time.
	Progress func(message string)
	Log      *slog.Logger
	// Cancel ends the context of Do, with a cause; nil where only Do can end it.
	Cancel context.CancelCauseFunc
	// Steps are those of a run that goes on.
	Steps []Step
	// More gives the run as many turns again, where it has used those that it had.
	More bool

	as      mcp.NestedAs
	offered *offered
	cancel  context.CancelCauseFunc

	mu       sync.Mutex // guards all below, while the calls of a turn are made
	steps    []Step
	turns    int // that were had
	turn     int // the number of the last one that was asked for
	most     int // turns
	useless  int // turns in a row
	chosen   bool
	messages []model.Message
	pending  []model.Call            // of the last turn, without results
	results  map[string]model.Result // of the calls of the last turn
	text     string                  // of the last turn that had one
	usage    Usage
	window   int // tokens that the model reads
}

// end is why a run has no further turn.
type end struct {
	status Status
	limit  string
	reason string
	cause  error // for the log; nil for none
}

func (e *end) Error() string { return e.reason }

func (e *end) Unwrap() error { return e.cause }

func limited(limit, format string, args ...any) error {
	return &end{status: Limited, limit: limit, reason: fmt.Sprintf(format, args...)}
}

func failed(format string, args ...any) error {
	return &end{status: Failed, reason: fmt.Sprintf(format, args...)}
}

// errLate is the cause of a run that exceeded its time.
var errLate = errors.New("the run took too long")

// Do works on the run until it has ended, waits for its client, or ctx has ended. An
// error means that the run did not end: somebody else goes on with it, or its journal
// cannot be written.
func (r *Run) Do(ctx context.Context) (*Outcome, error) {
	if r.cancel = r.Cancel; r.cancel == nil {
		ctx, r.cancel = context.WithCancelCause(ctx)
		defer r.cancel(nil)
	}
	late := time.AfterFunc(r.Settings.Timeout, func() { r.cancel(errLate) })
	defer late.Stop()
	timed := limitedTo{ctx, time.Now().Add(r.Settings.Timeout)}
	err := background.Apart(func() error { return r.prepare(timed) })
	if err == nil {
		err = r.work(timed)
	}
	if timed.Err() != nil && !isEnd(err) {
		err = r.ended(timed)
	}
	e, ok := errors.AsType[*end](err)
	if !ok {
		return nil, err
	}
	return r.outcome(e), nil
}

// limitedTo is a context that somebody ends at a time, who tells the cause. A deadline of package
// context would be one context more, which each run holds while it waits for its model.
type limitedTo struct {
	context.Context
	by time.Time
}

// Deadline implements [context.Context].
func (l limitedTo) Deadline() (time.Time, bool) {
	if by, ok := l.Context.Deadline(); ok && by.Before(l.by) {
		return by, true
	}
	return l.by, true
}

func isEnd(err error) bool {
	e, ok := errors.AsType[*end](err)
	return ok && e.status == Completed
}

// ended returns why a run ends with its context.
func (r *Run) ended(ctx context.Context) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errLate):
		return limited(LimitTime, "It may take %s (timeout of the agent).", r.Settings.Timeout)
	case errors.Is(cause, ErrLeft):
		return ErrLeft
	case errors.Is(cause, errJournal):
		return cause
	case errors.Is(cause, ErrCancelled):
		return &end{status: Cancelled, reason: "Somebody has cancelled it."}
	default:
		return &end{status: Cancelled, reason: "Its caller has gone, or has cancelled the call."}
	}
}

// prepare reads what was done so far, and what may be called.
func (r *Run) prepare(ctx context.Context) error {
	r.as = mcp.NestedAs{Agent: r.Agent, Capsule: r.Settings.Capsule, Only: r.Task.Allowed}
	r.window, r.results = r.Settings.Context, map[string]model.Result{}
	r.most = r.Settings.MaxTurns
	if n := r.Task.MaxTurns; n > 0 {
		r.most = min(r.most, n)
	}
	if r.Progress == nil {
		r.Progress = func(string) {}
	}
	var tools []mcp.NestedTool
	var err error
	if r.Task.Choice.Mode != model.ChooseNone && (r.Task.Allowed == nil || len(r.Task.Allowed) > 0) {
		if tools, err = r.Tools.Tools(ctx, r.as); err != nil {
			return failed("What the agent may call cannot be told: %s", err)
		}
	}
	r.offered, err = offer(r.Task, tools)
	if problem, ok := errors.AsType[toolapi.Problem](err); ok {
		return failed("%s", string(problem))
	} else if err != nil {
		return err
	}
	r.Progress("run " + r.ID) // by which its caller finds it again, whatever happens
	r.messages = []model.Message{{Role: model.User, Text: r.Task.prompt()}}
	if err := r.replay(ctx); err != nil {
		return err
	}
	if r.More && r.turns >= r.most {
		r.most += r.turns
	}
	return nil
}

// work takes turns until the run ends.
func (r *Run) work(ctx context.Context) error {
	for {
		if len(r.pending) > 0 {
			if err := background.Apart(func() error { return r.answerCalls(ctx) }); err != nil {
				return err
			}
		}
		switch {
		case r.useless >= maxUseless:
			return failed("The model has said nothing that can be done, %d times in a row.", r.useless)
		case r.turns >= r.most:
			return limited(LimitTurns, "The model may be asked %d times.", r.most)
		}
		turn, err := r.infer(ctx)
		if err != nil {
			return err
		}
		if err := r.take(turn); err != nil {
			return err
		}
	}
}

// take adds a turn of the model to the run. The error is how the run ends with it.
func (r *Run) take(t *model.Turn) error {
	r.turns++
	if t.Text != "" {
		r.text = t.Text
	}
	if len(t.Calls) == 0 {
		switch {
		case t.Stop == model.StopRefusal:
			return failed("The model refuses to go on.")
		case t.Stop == model.StopLength:
			return limited(LimitMaxTokens, "The answer is cut: the model may write %d tokens (max_tokens of the agent).", r.Settings.MaxTokens)
		case t.Text == "":
			r.useless++ // an empty message would be refused by most endpoints
			return nil
		}
		return &end{status: Completed}
	}
	message := t.Message
	message.Role = model.Assistant
	r.messages = append(r.messages, message)
	r.pending, r.chosen = t.Calls, true
	clear(r.results)
	if slices.ContainsFunc(t.Calls, func(c model.Call) bool { return c.Broken == "" && r.offered.has(c.Tool) }) {
		r.useless = 0
	} else {
		r.useless++
	}
	return nil
}

func (o *offered) has(tool string) bool { return o.functions[tool] || o.tool(tool) != nil }

// answerCalls brings the results of the calls of the last turn, and adds them.
func (r *Run) answerCalls(ctx context.Context) error {
	if err := r.callTools(ctx); err != nil {
		return err
	}
	if err := r.callFunctions(ctx); err != nil {
		return err
	}
	message := model.Message{Role: model.Tools}
	for i := range r.pending {
		message.Results = append(message.Results, r.results[r.pending[i].ID])
	}
	r.messages, r.pending = append(r.messages, message), nil
	return nil
}

// choice is which tools the model has to call now. A demand is met by the first call.
func (r *Run) choice() model.Choice {
	if c := r.Task.Choice; c.Mode == model.ChooseNone || !r.chosen {
		return c
	}
	return model.Choice{}
}

// outcome is what the caller is told of the end of a run.
func (r *Run) outcome(e *end) *Outcome {
	o := &Outcome{Run: r.ID, Agent: r.Agent, Status: e.status, Limit: e.limit, Reason: e.reason, Text: r.text, Turns: r.turns, Usage: r.usage}
	for i := range r.steps {
		if s := &r.steps[i]; s.Kind == StepCall {
			o.Done = append(o.Done, DoneCall{s.Name, s.State, s.CallID})
		}
	}
	o.Done = o.Done[max(0, len(o.Done)-maxDone):]
	if e.status == RequiresAction {
		for i := range r.pending {
			if c := &r.pending[i]; r.waitsFor(c) {
				o.Required = append(o.Required, RequiredCall{c.ID, c.Tool, c.Args})
			}
		}
	}
	return o
}

// waitsFor tells whether a call of the last turn is one of a function without a result.
func (r *Run) waitsFor(c *model.Call) bool {
	r.mu.Lock() // calls of the same turn may end meanwhile
	_, ok := r.results[c.ID]
	r.mu.Unlock()
	return !ok && c.Broken == "" && r.offered.functions[c.Tool]
}

// errJournal is the cause of a run whose steps cannot be saved.
var errJournal = errors.New("the steps of the run cannot be saved")

// save saves steps, new ones and the ends of those that have begun. It is tried again for
// a while, because a step that has had its effect must not count as one that has not.
func (r *Run) save(ctx context.Context, steps ...*Step) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer stop()
	r.mu.Lock()
	list := make([]Step, len(steps))
	for i, s := range steps {
		if list[i] = *s; s.Seq < len(r.steps) {
			r.steps[s.Seq] = *s
			if s.State != Begun {
				list[i].Asked = nil // saved before, and never changed
			}
		}
	}
	r.mu.Unlock()
	for pause := 50 * time.Millisecond; ; pause *= 2 {
		err := r.Journal.Save(ctx, list...)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrCancelled):
			r.cancel(ErrCancelled)
			return nil
		case errors.Is(err, ErrFull):
			return limited(LimitSize, "What is kept of a run has become too large.")
		case errors.Is(err, ErrLost) || !wait(ctx, pause):
			err = fmt.Errorf("%w: %w", errJournal, err)
			r.cancel(err) // nothing more may have an effect
			return err
		}
	}
}

// wait waits, unless ctx ends before.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// begin returns a new step, which is saved.
func (r *Run) begin(ctx context.Context, s Step) (*Step, error) {
	r.mu.Lock()
	s.Seq, s.State, s.BegunAt = len(r.steps), Begun, time.Now()
	r.steps = append(r.steps, s)
	r.mu.Unlock()
	own := s
	if err := r.save(ctx, &own); err != nil {
		return nil, err
	}
	return &own, nil
}
