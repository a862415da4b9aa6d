package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/store/runs"
	"github.com/toolgate/toolgate/native/agents"
	"github.com/toolgate/toolgate/native/agents/model"
)

// maxShown is how much of each text an operator is shown, in bytes.
const maxShown = 4 << 10

// List returns the latest runs that match a query.
func (h *Host) List(ctx context.Context, q admin.RunQuery) ([]admin.Run, error) {
	list, err := h.o.Runs.List(ctx, runs.Filter{State: runs.State(q.State), Principal: q.Principal, BeforeAt: q.Before.CreatedAt, BeforeID: q.Before.ID, Limit: q.Limit})
	out := make([]admin.Run, len(list))
	for i := range list {
		out[i] = shown(&list[i], ownerName(list[i].Principal))
	}
	return out, err
}

// ownerName names whose run it is, for people, without the names of agents: these are in
// what was asked of the run, which a list does not read.
func ownerName(owner string) string {
	if who, ok := gate.ParsePrincipal(owner); ok {
		return who.Subject + " of " + who.Tenant
	}
	if who, ok := gate.ParsePrincipal(owner[:max(0, strings.LastIndex(owner, byAgents))]); ok {
		return "an agent for " + who.Subject + " of " + who.Tenant
	}
	return ""
}

func shown(r *runs.Run, caller string) admin.Run {
	return admin.Run{ID: r.ID, Agent: r.Agent, Caller: caller, State: string(r.State), CreatedAt: r.CreatedAt, ChangedAt: r.Changed}
}

// Show returns a run with its steps; of an owner alone where it is not empty, whom the store
// is asked for before anything is opened. redact returns the first bytes of a text without
// secrets, at most most of the text.
func (h *Host) Show(ctx context.Context, id, of string, redact func(text string, most int) (string, error)) (admin.RunDetails, error) {
	run, ok, err := h.o.Runs.Get(ctx, of, id)
	if err != nil {
		return admin.RunDetails{}, err
	}
	if !ok {
		return admin.RunDetails{}, fmt.Errorf("%w: %q", admin.ErrNoRun, id)
	}
	k := kept{Task: new(agents.Task)}
	if err := h.opened(requestOf(&run), run.Request, &k); err != nil {
		return admin.RunDetails{}, err
	}
	list, err := h.o.Runs.Steps(ctx, id)
	if err != nil {
		return admin.RunDetails{}, err
	}
	steps, err := h.stepsOf(&run, list)
	if err != nil {
		return admin.RunDetails{}, err
	}
	text := func(s string) string {
		clean, err := redact(s, maxShown)
		if err != nil {
			return fmt.Sprintf("(left out: %v)", err)
		}
		if len(s) > maxShown {
			clean += fmt.Sprintf("\n[cut: %d bytes]", len(s))
		}
		return clean
	}
	out := admin.RunDetails{Run: shown(&run, k.Caller), Task: text(k.Task.Task), Steps: make([]admin.RunStep, len(steps))}
	if o, err := h.known(&run); err == nil {
		out.Reason, out.Text = text(o.Reason), text(o.Text)
	}
	for i := range steps {
		s := &steps[i]
		one := admin.RunStep{
			Seq: s.Seq, Turn: s.Turn, Kind: string(s.Kind), Name: s.Name, State: string(s.State), CallID: s.CallID,
			Input: s.Input, Output: s.Output, Cost: s.Cost, BegunAt: s.BegunAt,
		}
		if !s.EndedAt.IsZero() {
			one.EndedAt = &s.EndedAt
		}
		out.Input, out.Output, out.Cost = out.Input+s.Input, out.Output+s.Output, out.Cost+s.Cost
		if s.Kind == agents.StepFunction { // the caller has named it
			one.Name = text(one.Name)
		}
		one.Asked, one.Answer = said(s)
		one.Asked, one.Answer = text(one.Asked), text(one.Answer)
		out.Steps[i] = one
	}
	return out, nil
}

// said is what was asked and answered in a step, for a person.
func said(s *agents.Step) (asked, answer string) {
	var (
		call   model.Call
		result model.Result
		turn   model.Turn
	)
	switch {
	case s.Kind != agents.StepInference:
		_, _ = json.Unmarshal(s.Asked, &call), json.Unmarshal(s.Answer, &result)
		return string(call.Args), result.Text
	case json.Unmarshal(s.Answer, &turn) == nil:
		return "", turn.Text
	}
	return "", ""
}
