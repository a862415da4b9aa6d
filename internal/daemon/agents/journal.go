package agents

import (
	"context"
	"errors"
	"fmt"

	"github.com/toolgate/toolgate/internal/store/runs"
	"github.com/toolgate/toolgate/native/agents"
)

// journal keeps the steps of one run in the store, sealed.
type journal struct {
	h   *Host
	run *runs.Run
}

func (h *Host) journal(run *runs.Run) agents.Journal { return journal{h, run} }

// stepOf is what a part of a step belongs to.
func stepOf(run string, seq int, part string) string {
	return fmt.Sprintf("step %q %d %s", run, seq, part)
}

// Save implements [agents.Journal].
func (j journal) Save(ctx context.Context, steps ...agents.Step) error {
	list := make([]runs.Step, len(steps))
	for i := range steps {
		s := &steps[i]
		list[i] = runs.Step{
			Seq: s.Seq, Kind: runs.Kind(s.Kind), Turn: s.Turn, Name: name(s.Name), State: runs.StepState(s.State), CallID: s.CallID,
			Input: s.Input, Output: s.Output, Cost: s.Cost, BegunAt: s.BegunAt, EndedAt: s.EndedAt,
		}
		for part, from := range map[string][]byte{"asked": s.Asked, "answer": s.Answer} {
			if len(from) == 0 {
				continue
			}
			text, err := j.h.sealBytes(stepOf(j.run.ID, s.Seq, part), from)
			if err != nil {
				return err
			}
			if part == "asked" {
				list[i].Asked = text
			} else {
				list[i].Answer = text
			}
		}
	}
	cancelled, err := j.h.o.Runs.Save(ctx, j.run.ID, j.h.holder, list...)
	switch {
	case errors.Is(err, runs.ErrLost):
		return agents.ErrLost
	case errors.Is(err, runs.ErrTooLarge):
		return agents.ErrFull
	case err == nil && cancelled:
		return agents.ErrCancelled
	}
	return err
}

// name is the name of a step as it can be stored. A model's tools have such names; what it
// makes up is never called.
func name(s string) string {
	const most = 512
	return s[:min(len(s), most)]
}

// stepsOf opens the steps of a run.
func (h *Host) stepsOf(run *runs.Run, list []runs.Step) ([]agents.Step, error) {
	steps := make([]agents.Step, len(list))
	for i := range list {
		s := &list[i]
		steps[i] = agents.Step{
			Seq: s.Seq, Kind: agents.Kind(s.Kind), Turn: s.Turn, Name: s.Name, State: agents.StepState(s.State), CallID: s.CallID,
			Input: s.Input, Output: s.Output, Cost: s.Cost, BegunAt: s.BegunAt, EndedAt: s.EndedAt,
		}
		var err error
		if len(s.Asked) > 0 {
			if steps[i].Asked, err = h.openBytes(stepOf(run.ID, s.Seq, "asked"), s.Asked); err != nil {
				return nil, err
			}
		}
		if len(s.Answer) > 0 {
			if steps[i].Answer, err = h.openBytes(stepOf(run.ID, s.Seq, "answer"), s.Answer); err != nil {
				return nil, err
			}
		}
	}
	return steps, nil
}
