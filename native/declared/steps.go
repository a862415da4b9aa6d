package declared

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/placeholder"
	"github.com/toolgate/toolgate/native/steps"
)

// path returns the path of answer, as it is written for a request or a program.
func (t *Settings) path() (string, error) {
	if len(t.Answer) == 0 {
		return "", nil
	}
	text, err := mcp.Unquote(t.Answer)
	if err != nil {
		return "", errors.New("only a tool with type: steps has an answer with places")
	}
	_, err = parsePath(text)
	return text, err
}

// Path returns the path of the part of an answer that is the result; empty for all of it.
// The settings have been checked.
func (t *Settings) Path() string {
	path, _ := t.path()
	return path
}

// Declaration returns the steps of a tool with everything that they are checked by.
func (t *Settings) Declaration() *steps.Declaration {
	most := int64(t.MaxBytes)
	if most <= 0 {
		most = defaultMaxBytes
	}
	input := t.InputSchema
	if t.Within != nil {
		input = t.Within // which has every property of the tool's own
	}
	return &steps.Declaration{Steps: t.Steps, Answer: t.Answer, Input: input, MaxBytes: most}
}

// ofParts are the keys that a tool with steps does not have, because its parts decide.
var ofParts = map[string]string{
	"class": "the class of a tool with steps is the strictest of theirs", "risk": "the risk of a tool with steps is the strictest of theirs",
	"idempotent": "whether a call can be repeated depends on the steps", "cache": "results are reused where the tools of the steps say so",
}

// checkSteps reports what the steps of a tool have wrong by themselves.
func (t *Settings) checkSteps(p *tree.Problems, n *tree.Node, path string) {
	if n != nil {
		for _, f := range n.Fields {
			if what := ofParts[f.Key]; what != "" && !f.Value.IsNull() {
				p.AtField(f, tree.Join(path, f.Key), "remove it", "%s", what)
			}
			if f.Key == "queue" && t.Queue {
				p.AtField(f, tree.Join(path, f.Key), "remove it, and queue the tools of its steps", "steps are not queued")
			}
		}
	}
	d := t.Declaration()
	d.Steps = slices.Clone(d.Steps)
	for i := range d.Steps {
		if s := &d.Steps[i]; s.Max == 0 && !n.Get("steps").Item(i).Get("max").IsNull() {
			s.Max = steps.MaxItems // it has been refused where it was read
		}
	}
	_, problems := steps.Compile(d)
	steps.Report(p, n, path, problems)
}

// sequence is the runner of a tool with steps.
type sequence struct {
	of   *compiled
	plan *steps.Plan
}

func newSequence(c *compiled, d *steps.Declaration) (*sequence, error) {
	plan, problems := steps.Compile(d)
	if len(problems) > 0 {
		return nil, steps.Join(problems)
	}
	return &sequence{c, plan}, nil
}

func (*sequence) close() {}

func (*sequence) check(context.Context, placeholder.Values, []byte) error { return nil }

// run is not used: the calls of a sequence are made for a call, see [sequence.call].
func (*sequence) run(context.Context, placeholder.Values, []byte) (outcome, error) {
	return outcome{}, errNobody
}

var errNobody = placeholder.Problemf("The tool calls other tools, and calls are nested too deeply here.")

// call makes the calls of a plan for the caller of a call.
func (s *sequence) call(ctx, bounded context.Context, call *mcp.Call, limit time.Duration, v placeholder.Values, args []byte) (mcp.Answer, error) {
	if call.Nested == nil {
		return mcp.Answer{}, errNobody
	}
	run := &steps.Run{Caller: call.Nested, As: mcp.NestedAs{RunAs: s.of.RunAs}, Arguments: args, Values: v}
	if call.Progress && call.Notify != nil {
		run.Progress = func(p steps.Progress) { call.Notify(mcp.NotifyProgress, progress(p)) }
	}
	got, err := s.plan.Run(bounded, run)
	switch failed, ok := errors.AsType[*steps.Failed](err); {
	case err == nil:
		return s.of.valued(got), nil
	case ctx.Err() != nil:
		return mcp.Answer{}, context.Cause(ctx)
	case !ok:
		return mcp.Answer{}, err
	default:
		if errors.Is(err, errLate) {
			failed.Err = fmt.Errorf("the tool did not end within %s", limit)
		}
		raw := failed.JSON()
		return answerOf(failed.Error()+"\n\n"+string(raw), raw, true), nil
	}
}

// progress returns the parameters of a notification about a call that has ended.
func progress(p steps.Progress) []byte {
	text := fmt.Sprintf("%s: %d of %d", p.Step, p.Calls, p.Of)
	out := strconv.AppendInt([]byte(`{"progress":`), int64(p.Done), 10)
	return append(mcp.AppendQuote(append(out, `,"message":`...), text), '}')
}

// valued returns the answer of a tool whose result is a value.
func (c *compiled) valued(value json.RawMessage) mcp.Answer {
	object := mcp.IsObject(value)
	if c.Output != nil && !object {
		return told("The answer is not a JSON object, as the tool's output schema says.\n\n" + clip(string(value)))
	}
	text := string(value)
	if plain, err := mcp.Unquote(value); err == nil {
		text = plain
	}
	if !object {
		return answerOf(text, nil, false)
	}
	return answerOf(text, value, false)
}
