package schedule

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/toolgate/toolgate/native/toolapi"
)

const (
	// Horizon is how far ahead a call may be planned.
	Horizon = 30 * 24 * time.Hour
	// shortest is the least time until a call.
	shortest = time.Second
	// maxShown is how much of each result a list has, in bytes.
	maxShown = 400
)

// Call is a planned call and what has become of it.
type Call struct {
	ID      string
	Tool    string
	State   string
	DueAt   time.Time
	EndedAt time.Time // zero until then
	Result  string    // what the tool has answered, or why the call was not made
	CallID  string    // in the audit log
}

// Planner plans calls of the caller of a context. It is safe for concurrent use. An error
// that is a [toolapi.Problem] is for the caller; every other is internal.
type Planner interface {
	// Plan plans a call of a tool with arguments, a JSON object.
	Plan(ctx context.Context, tool string, arguments []byte, at time.Time) (Call, error)
	// Calls returns the caller's calls, the latest first.
	Calls(ctx context.Context) ([]Call, error)
	// Cancel cancels a call that is planned; false when the caller has none of this id.
	Cancel(ctx context.Context, id string) (bool, error)
}

// Plugin returns the group on a planner.
func Plugin(p Planner) *toolapi.Plugin {
	g := &tools{p}
	out := toolapi.New(Name, "")
	toolapi.Add(out, toolapi.Tool{
		Name: "at", Title: "Schedule a call", Category: Name, Risk: toolapi.Medium, RatePerHour: 360,
		Description: "Have a tool called once, at a time or after a while. It is called with the rights that you have then, at most once, even if you are gone by then. list shows what it has answered.",
	}, g.at)
	toolapi.Add(out, toolapi.Tool{
		Name: "list", Title: "List scheduled calls", Category: Name, Risk: toolapi.Low, ReadOnly: true, Idempotent: true, RatePerHour: 3600,
		Description: "List your scheduled calls with their state, and the results of those that were made in the last week.",
	}, g.list)
	toolapi.Add(out, toolapi.Tool{
		Name: "cancel", Title: "Cancel a scheduled call", Category: Name, Risk: toolapi.Low, Idempotent: true, RatePerHour: 3600,
		Description: "Cancel a scheduled call that has not begun.",
	}, g.cancel)
	return out
}

// tools are the functions of the group.
type tools struct{ planner Planner }

type atIn struct {
	Tool      string         `json:"tool" jsonschema:"the name of the tool, as it is listed"`
	Arguments map[string]any `json:"arguments,omitempty" jsonschema:"the arguments of the call"`
	At        string         `json:"at,omitempty" jsonschema:"when, as 2030-01-31T09:00:00Z"`
	In        string         `json:"in,omitempty" jsonschema:"after which time, as 90s, 20m or 1h30m"`
}

type planned struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
}

func (g *tools) at(ctx context.Context, call *toolapi.Call, in atIn) (planned, error) {
	at, err := in.when(time.Now())
	if err != nil {
		return planned{}, err
	}
	if in.Tool == "" {
		return planned{}, toolapi.Problemf("Say which tool to call: {\"tool\": \"...\"}.")
	}
	args, err := argumentsOf(call.Arguments)
	if err != nil {
		return planned{}, err
	}
	got, err := g.planner.Plan(ctx, in.Tool, args, at)
	if err != nil {
		return planned{}, err
	}
	return planned{got.ID, got.DueAt}, nil
}

// argumentsOf returns the arguments of the planned call as they were written, so that
// large numbers stay what they are.
func argumentsOf(raw []byte) ([]byte, error) {
	var in struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, toolapi.Problemf("The arguments do not fit the tool: %v.", err)
	}
	if in.Arguments == nil || string(in.Arguments) == "null" {
		return []byte("{}"), nil
	}
	return in.Arguments, nil
}

// when returns the time of a call.
func (in *atIn) when(now time.Time) (at time.Time, err error) {
	switch {
	case (in.At == "") == (in.In == ""):
		return at, toolapi.Problemf("Say when with one of at, as in \"2030-01-31T09:00:00Z\", and in, as in \"20m\".")
	case in.In != "":
		wait, err := time.ParseDuration(in.In)
		if err != nil {
			return at, toolapi.Problemf("in is a time such as 90s, 20m or 1h30m.")
		}
		if wait < shortest || wait > Horizon {
			return at, toolapi.Problemf("in is from %s to %d days.", shortest, Horizon/(24*time.Hour))
		}
		return now.Add(wait).UTC(), nil
	}
	if at, err = time.Parse(time.RFC3339, in.At); err != nil {
		return at, toolapi.Problemf("at is a time with its zone, such as 2030-01-31T09:00:00Z.")
	}
	if wait := at.Sub(now); wait < 0 || wait > Horizon {
		return at, toolapi.Problemf("at is in the next %d days; it is now %s.", Horizon/(24*time.Hour), now.UTC().Format(time.RFC3339))
	}
	return at.UTC(), nil
}

type listIn struct {
	ID string `json:"id,omitempty" jsonschema:"only this call, with its whole result"`
}

type scheduled struct {
	ID      string     `json:"id"`
	Tool    string     `json:"tool"`
	State   string     `json:"state" jsonschema:"planned, running, made, failed, refused, missed, lost or cancelled"`
	At      time.Time  `json:"at"`
	EndedAt *time.Time `json:"ended_at,omitempty"`
	Result  string     `json:"result,omitempty" jsonschema:"what the tool has answered, or why the call was not made"`
	CallID  string     `json:"call_id,omitempty" jsonschema:"the id of the call in the audit log"`
}

type listed struct {
	Calls []scheduled `json:"calls"`
}

func (g *tools) list(ctx context.Context, _ *toolapi.Call, in listIn) (listed, error) {
	calls, err := g.planner.Calls(ctx)
	if err != nil {
		return listed{}, err
	}
	out := listed{[]scheduled{}}
	for i := range calls {
		c := &calls[i]
		if in.ID != "" && c.ID != in.ID {
			continue
		}
		one := scheduled{ID: c.ID, Tool: c.Tool, State: c.State, At: c.DueAt.Truncate(time.Second), Result: c.Result, CallID: c.CallID}
		if !c.EndedAt.IsZero() {
			ended := c.EndedAt.Truncate(time.Second)
			one.EndedAt = &ended
		}
		if in.ID == "" && len(one.Result) > maxShown {
			one.Result = strings.ToValidUTF8(one.Result[:maxShown], "") + "..."
		}
		out.Calls = append(out.Calls, one)
	}
	if in.ID != "" && len(out.Calls) == 0 {
		return listed{}, unknown(in.ID)
	}
	return out, nil
}

// unknown is the problem with an id that the caller has not, whether others have it or
// not.
func unknown(id string) error {
	return toolapi.Problemf("You have scheduled no call %.40q; list returns those that you have.", id)
}

type cancelIn struct {
	ID string `json:"id" jsonschema:"the id that at has returned"`
}

type cancelled struct {
	Cancelled string `json:"cancelled"`
}

func (g *tools) cancel(ctx context.Context, _ *toolapi.Call, in cancelIn) (cancelled, error) {
	ok, err := g.planner.Cancel(ctx, in.ID)
	if err != nil {
		return cancelled{}, err
	}
	if !ok {
		return cancelled{}, toolapi.Problemf("You have planned no call %.40q, or it has begun; list returns the state of those that you have.", in.ID)
	}
	return cancelled{in.ID}, nil
}
