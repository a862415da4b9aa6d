package inside

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/native/plugins/schedule"
	"github.com/toolgate/toolgate/native/toolapi"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/schemas"
)

// Gateway is what groups need of the gateway that serves them.
type Gateway interface {
	Why(ctx context.Context, id *gate.Identity, scope proxy.Scope, name string, args []byte) *proxy.Why
	CallFor(ctx context.Context, present func() (*gate.Identity, bool), scope proxy.Scope, tool string, args []byte) proxy.Made
}

// schedules makes the group schedule.
func schedules(p *Parts) *toolapi.Plugin {
	return schedule.Plugin(&planner{p, store.NewSchedules(p.Store)})
}

// planner plans calls in the store.
type planner struct {
	parts *Parts
	calls *store.Schedules
}

var _ schedule.Planner = (*planner)(nil)

// maxArguments is how large the arguments of a planned call may be, in bytes. Sealed, they
// have a third more.
const maxArguments = 64 << 10

var errNoCaller = errors.New("the call has no caller")

// Plan implements [schedule.Planner].
func (p *planner) Plan(ctx context.Context, tool string, arguments []byte, at time.Time) (schedule.Call, error) {
	id, capsule := gate.CallerOf(ctx)
	switch {
	case id == nil:
		return schedule.Call{}, errNoCaller
	case !p.parts.Lasts(id):
		return schedule.Call{}, toolapi.Problemf("Calls are scheduled for callers with an API key. Your token or certificate is not kept, so that nobody could tell at that time whether it still holds and what it allows; ask the operator for a key under toolgate.auth.keys.")
	case len(arguments) > maxArguments:
		return schedule.Call{}, toolapi.Problemf("The arguments have at most %d bytes.", maxArguments)
	}
	w := p.parts.Gateway().Why(ctx, id, proxy.Scope{Capsule: capsule}, tool, nil)
	switch {
	case w == nil || w.Kind != mcp.Tool || w.View.Effect != gate.Allow:
		return schedule.Call{}, toolapi.Problemf("There is no tool %.100q.", tool)
	case w.Server == schedule.Name:
		return schedule.Call{}, toolapi.Problemf("A scheduled call does not schedule others.")
	}
	call := store.Schedule{ID: store.NewScheduleID(), Principal: id.Key(), Credential: id.Credential, Capsule: capsule, Tool: tool, DueAt: at}
	sealed, err := p.parts.Keys.Seal(PlannedCall, SealedWith(&call), slices.Concat([]byte(proxy.SchemasOf(ctx)), []byte("\n"), arguments))
	if err != nil {
		return schedule.Call{}, fmt.Errorf("seal the arguments of a planned call: %w", err)
	}
	call.Arguments = []byte(sealed)
	got, err := p.calls.Add(ctx, call)
	if errors.Is(err, store.ErrTooMany) {
		return schedule.Call{}, toolapi.Problemf("You have %d calls planned, which is the most; cancel one of them first.", store.MaxPlanned)
	}
	return planned(&got), err
}

// Calls implements [schedule.Planner].
func (p *planner) Calls(ctx context.Context) ([]schedule.Call, error) {
	id, _ := gate.CallerOf(ctx)
	if id == nil {
		return nil, errNoCaller
	}
	list, err := p.calls.List(ctx, id.Key())
	out := make([]schedule.Call, len(list))
	for i := range list {
		out[i] = planned(&list[i])
	}
	return out, err
}

// Cancel implements [schedule.Planner].
func (p *planner) Cancel(ctx context.Context, call string) (bool, error) {
	id, _ := gate.CallerOf(ctx)
	if id == nil {
		return false, errNoCaller
	}
	return p.calls.Cancel(ctx, id.Key(), call)
}

func planned(s *store.Schedule) schedule.Call {
	return schedule.Call{
		ID: s.ID, Tool: s.Tool, State: s.State, DueAt: s.DueAt, EndedAt: s.EndedAt, Result: string(s.Result), CallID: s.CallID,
	}
}

// PlannedCall separates the seals of planned arguments from all others.
const PlannedCall = seal.Kept + "planned call"

// SealedWith is what the arguments of a planned call belong to. A row of the store cannot be
// made another caller's, a call of another tool or one at another time, and no copy of it is
// made once more.
func SealedWith(c *store.Schedule) string {
	return fmt.Sprintf("%q %q %q %q %q %d", c.ID, c.Principal, c.Credential, c.Capsule, c.Tool, c.DueAt.UnixNano())
}

// writtenFor splits what is sealed into the arguments, an object, and the mode of schemas
// that they were written for; an empty one where it is not known.
func writtenFor(opened []byte) (schemas.Mode, []byte) {
	mode, arguments, _ := bytes.Cut(opened, []byte("\n"))
	if slices.Contains(schemas.Modes, schemas.Mode(mode)) {
		return schemas.Mode(mode), arguments
	}
	return "", opened
}

// Make makes a planned call like one of a client that is not there to be asked, and
// returns what is kept of it: the text of the result without its secrets, cut. present
// returns its caller as it is then.
func (g *Groups) Make(ctx context.Context, present func() (*gate.Identity, bool), call *store.Schedule) (state string, end store.ScheduleEnd) {
	arguments, err := g.parts.Keys.Open(PlannedCall, SealedWith(call), string(call.Arguments))
	if err != nil {
		return store.ScheduleRefused, store.ScheduleEnd{Result: []byte("Its arguments cannot be opened here: they were sealed with another key, by another version of toolgate, or for another call. Set the same toolgate.keys on all gateways that share the store, and plan the call again.")}
	}
	mode, arguments := writtenFor(arguments)
	made := g.parts.Gateway().CallFor(ctx, present, proxy.Scope{Capsule: call.Capsule, Schemas: mode}, call.Tool, arguments)
	text := textOf(&made)
	switch made.Outcome {
	case audit.OutcomeOK:
		state = store.ScheduleMade
	case audit.OutcomeDenied:
		state = store.ScheduleRefused
	default:
		state = store.ScheduleFailed
	}
	clean, err := g.parts.redact(text)
	if err != nil {
		clean = fmt.Sprintf("(left out: %v)", err)
	}
	if len(clean) > store.MaxScheduledResult {
		clean = strings.ToValidUTF8(clean[:store.MaxScheduledResult-len(cutMark)], "") + cutMark
	}
	return state, store.ScheduleEnd{CallID: made.CallID, Result: []byte(clean)}
}

// cutMark ends a result of which the rest is not kept.
const cutMark = "\n[cut]"

// textOf is the text of a result: its text blocks, or the structure where there is none.
func textOf(made *proxy.Made) string {
	switch {
	case made.Fault != nil:
		return made.Fault.Message
	case made.Outcome == "":
		return "The tool asks for input, and nobody was there to give it."
	}
	var text []string
	content := mcp.Lookup(made.Result, "content")
	for e := range mcp.Elements(content) {
		if s, ok := mcp.LookupString(e.Of(content), "text"); ok {
			text = append(text, s)
		}
	}
	if len(text) == 0 {
		return string(mcp.Lookup(made.Result, "structuredContent"))
	}
	return strings.Join(text, "\n")
}
