package steps

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/placeholder"
)

// Run is one run of a plan.
type Run struct {
	Caller mcp.NestedCaller
	As     mcp.NestedAs
	// Arguments are those of the tool as they came, a JSON object, and Values the same by
	// name, with defaults.
	Arguments []byte
	Values    placeholder.Values
	// Progress is told of each call that has ended, by one goroutine at a time. It does not
	// block. nil is told of nothing.
	Progress func(Progress)
}

// Progress is how far a run has come.
type Progress struct {
	Done  int    // calls of the whole run
	Step  string // the current step
	Calls int    // of the current step that have ended
	Of    int    // calls of the current step
}

// Run runs the plan and returns its result, a JSON value. The error is a [*Failed], also if
// ctx ends before the plan does. No call runs any more when Run returns.
func (p *Plan) Run(ctx context.Context, r *Run) ([]byte, error) {
	s := &state{plan: p, run: r, left: p.maxBytes, answers: make(map[string][]byte)}
	for i := range p.steps {
		if err := s.step(ctx, &p.steps[i]); err != nil {
			return nil, err
		}
	}
	out, err := s.result()
	if err == nil && p.maxBytes > 0 && int64(len(out)) > p.maxBytes {
		err = fmt.Errorf("the result has more than %d bytes", p.maxBytes)
	}
	if err != nil {
		return nil, s.failed("answer", err)
	}
	return out, nil
}

// state is what a run knows. Its steps run one after the other.
type state struct {
	plan    *Plan
	run     *Run
	answers map[string][]byte // by step
	done    []Done

	mu    sync.Mutex // guards what follows, which the calls of one step share
	left  int64      // bytes that further answers may have; no limit where the plan has none
	ended int        // calls
}

// scope is what a call can use: the arguments, the answers before it, and the element.
type scope struct {
	*state
	element []byte // nil outside of a for_each
}

func (v scope) lookup(r reference) []byte {
	if v.element != nil && r.name == item {
		return r.of(v.element)
	}
	if answer, ok := v.answers[r.name]; ok {
		return r.of(answer)
	}
	return r.of(v.run.Values[r.name])
}

// fill puts values into the places of a JSON value.
func (v scope) fill(with *placeholder.Value) (out []byte, ok bool, err error) {
	values := make(placeholder.Values)
	for _, name := range with.Names() {
		if r, err := parseReference(name); err == nil && name != placeholder.Whole {
			if value := v.lookup(r); value != nil {
				values[name] = value
			}
		}
	}
	return with.Append(nil, values, v.run.Arguments)
}

// errStopped is the cause of calls that another call of the same step ends.
var errStopped = errors.New("another call failed")

// step runs one step.
func (s *state) step(ctx context.Context, st *step) error {
	s.done = append(s.done, Done{Step: st.id, Call: st.call})
	d := &s.done[len(s.done)-1]
	if !st.hold(scope{state: s}, false) {
		return nil
	}
	elements, err := s.elements(st)
	if err != nil {
		if st.onError == onErrorSkip || st.onError == onErrorContinue {
			d.Errors++
			if st.onError == onErrorContinue {
				s.answers[st.id] = failure(err.Error())
			}
			return nil
		}
		return s.failed(st.id, err)
	}
	if st.each == nil {
		elements = [][]byte{nil}
	}
	answers, err := s.calls(ctx, st, d, elements)
	if err != nil {
		return err
	}
	if st.each == nil {
		if answers[0] != nil {
			s.answers[st.id] = answers[0]
		}
		return nil
	}
	list := []byte{'['}
	for _, a := range answers {
		if a == nil {
			continue
		}
		if len(list) > 1 {
			list = append(list, ',')
		}
		list = append(list, a...)
	}
	s.answers[st.id] = append(list, ']')
	return nil
}

// elements returns those of the list of a for_each. A step that did not run has none.
func (s *state) elements(st *step) ([][]byte, error) {
	if st.each == nil {
		return nil, nil
	}
	list := scope{state: s}.lookup(*st.each)
	if list == nil && s.skipped(st.each.name) {
		return nil, nil
	}
	if !mcp.IsArray(list) {
		return nil, errors.New("for_each: there is no list at its place")
	}
	var out [][]byte
	for e := range mcp.Elements(list) {
		if len(out) == st.max {
			return nil, fmt.Errorf("for_each: the list has more than %d elements, which is its max", st.max)
		}
		out = append(out, e.Of(list))
	}
	return out, nil
}

// skipped tells whether a name is that of a step without an answer, or of an argument that
// was not given.
func (s *state) skipped(name string) bool {
	_, answered := s.answers[name]
	_, given := s.run.Values[name]
	return !answered && !given
}

// calls makes the calls of a step, no more than its width at a time, and returns their
// answers in the order of the elements; nil for those that are left out.
func (s *state) calls(ctx context.Context, st *step, d *Done, elements [][]byte) ([][]byte, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	answers := make([][]byte, len(elements))
	var failed *Failed
	next, cut := 0, false
	var workers sync.WaitGroup
	take := func() (i int, ok bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if next == len(elements) {
			return 0, false
		}
		if ctx.Err() != nil {
			cut = true
			return 0, false
		}
		next++
		return next - 1, true
	}
	for range min(st.width, len(elements)) {
		workers.Go(func() {
			for {
				i, ok := take()
				if !ok {
					return
				}
				got := s.call(ctx, st, scope{s, elements[i]})
				s.mu.Lock()
				if got.err != nil && ctx.Err() != nil {
					if cut = true; got.delivered {
						d.Unknown++
					}
				} else if err := s.ending(st, d, &got, len(elements)); err != nil {
					failed = &Failed{Step: st.id, Err: err}
					if st.each != nil {
						failed.Item = new(i)
					}
					stop(errStopped)
				}
				answers[i] = got.value
				s.mu.Unlock()
			}
		})
	}
	workers.Wait()
	switch {
	case failed != nil:
		failed.Done = s.done
		return nil, failed
	case cut:
		return nil, s.failed(st.id, context.Cause(ctx))
	}
	return answers, nil
}

// outcome is what became of one call.
type outcome struct {
	value     []byte // nil for none
	made      bool
	delivered bool
	err       error
}

// call makes one call, if its conditions hold.
func (s *state) call(ctx context.Context, st *step, v scope) (out outcome) {
	if !st.hold(v, true) {
		return outcome{}
	}
	args, ok, err := v.fill(&st.with)
	if err != nil {
		return outcome{err: err}
	}
	if !ok || len(args) == 0 {
		args = []byte("{}")
	}
	a := s.run.Caller.Call(ctx, s.run.As, mcp.NestedCall{Tool: st.call, Args: args})
	value, failed := valueOf(&a)
	if failed != "" {
		return outcome{made: true, delivered: a.Delivered, err: errors.New(failed)}
	}
	return outcome{made: true, value: value}
}

// ending counts a call that has ended, and returns why the run ends with it; mu is held.
func (s *state) ending(st *step, d *Done, got *outcome, of int) error {
	switch {
	case got.err == nil && !got.made:
		return nil
	case got.err != nil:
		d.Errors++
	default:
		d.Calls++
	}
	s.ended++
	if s.run.Progress != nil {
		s.run.Progress(Progress{Done: s.ended, Step: st.id, Calls: d.Calls + d.Errors, Of: of})
	}
	if got.err != nil {
		switch st.onError {
		case onErrorSkip:
			return nil
		case onErrorContinue:
			got.value = failure(got.err.Error())
		default:
			return got.err
		}
	}
	if s.plan.maxBytes > 0 {
		if s.left -= int64(len(got.value)); s.left < 0 {
			return fmt.Errorf("the answers have more than %d bytes together", s.plan.maxBytes)
		}
	}
	return nil
}

// failure stands for the answer of a call that failed.
func failure(text string) []byte {
	return append(mcp.AppendQuote([]byte(`{"error":`), text), '}')
}

// result returns what the tool returns.
func (s *state) result() ([]byte, error) {
	v, a := scope{state: s}, &s.plan.answer
	if a.at != nil {
		if value := v.lookup(*a.at); value != nil {
			return value, nil
		}
		if s.skipped(a.at.name) {
			return []byte("null"), nil
		}
		return nil, errors.New("there is nothing at its place")
	}
	out, ok, err := v.fill(&a.with)
	if err != nil || ok {
		return out, err
	}
	return []byte("null"), nil
}
