package agents

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toolgate/toolgate/native/toolapi"
)

// Status is what has become of a run.
type Status string

// The statuses.
const (
	Completed      Status = "completed"       // the model has answered
	Limited        Status = "limit"           // a limit is reached; see [Outcome.Limit]
	Failed         Status = "failed"          // the model, or the way to it, has failed
	Cancelled      Status = "cancelled"       // by the caller or the operator
	RequiresAction Status = "requires_action" // the client has to run functions
	Running        Status = "running"         // somebody else works on it
	Interrupted    Status = "interrupted"     // its gateway has ended; the caller goes on with it
)

// The limits of a run.
const (
	LimitTurns     = "max_turns"
	LimitTime      = "timeout"
	LimitRunTokens = "run_tokens"
	LimitMaxTokens = "max_tokens"
	LimitContext   = "context"
	LimitBudget    = "budget"
	LimitSize      = "size" // of what is kept of a run
)

// Outcome is what a caller is told of a run.
type Outcome struct {
	Run    string `json:"run"`
	Agent  string `json:"agent"`
	Status Status `json:"status"`
	Limit  string `json:"limit,omitempty"`
	Reason string `json:"reason,omitempty"`
	Text   string `json:"text,omitempty"`
	Turns  int    `json:"turns"`
	Usage  Usage  `json:"usage"`
	// Done are the calls that were made, the latest at most maxDone.
	Done []DoneCall `json:"done,omitempty"`
	// Required are the functions that the client has to run.
	Required []RequiredCall `json:"required,omitempty"`
}

// Usage is what a run has used.
type Usage struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
	Cost   int64 `json:"cost"`
}

// DoneCall is a call that a run has made.
type DoneCall struct {
	Tool   string    `json:"tool"`
	State  StepState `json:"state"`
	CallID string    `json:"call_id,omitempty"`
}

// RequiredCall is a function that the client has to run.
type RequiredCall struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// maxDone is how many calls an outcome names.
const maxDone = 50

// outputSchema is that of an [Outcome].
const outputSchema = `{"type":"object","properties":{
"run":{"type":"string","description":"the id of the run"},
"agent":{"type":"string"},
"status":{"type":"string","enum":["completed","limit","failed","cancelled","requires_action","running","interrupted"]},
"limit":{"type":"string","description":"which limit was reached: max_turns, timeout, run_tokens, max_tokens, context, budget or size"},
"reason":{"type":"string","description":"why the run is not completed"},
"text":{"type":"string","description":"the answer of the agent"},
"turns":{"type":"integer","description":"how often the model was asked"},
"usage":{"type":"object","properties":{"input_tokens":{"type":"integer"},"output_tokens":{"type":"integer"},"cost":{"type":"integer"}},"required":["input_tokens","output_tokens","cost"]},
"done":{"type":"array","description":"the calls that were made","items":{"type":"object","properties":{"tool":{"type":"string"},"state":{"type":"string","enum":["done","failed","unknown","begun"]},"call_id":{"type":"string"}},"required":["tool","state"]}},
"required":{"type":"array","description":"the functions to run; come back with run and outputs","items":{"type":"object","properties":{"id":{"type":"string"},"name":{"type":"string"},"arguments":{"type":"object"}},"required":["id","name","arguments"]}}},
"required":["run","agent","status","turns","usage"]}`

// Result returns an outcome as the result of a tool.
func (o *Outcome) Result() (toolapi.Result, error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return toolapi.Result{}, fmt.Errorf("write the outcome of a run: %w", err)
	}
	bad := o.Status == Limited || o.Status == Failed || o.Status == Cancelled
	return toolapi.Result{Text: o.text(), Structured: raw, IsError: bad}, nil
}

// text says what has become of the run, for a model or a person.
func (o *Outcome) text() string {
	var b strings.Builder
	switch o.Status {
	case Completed:
		return o.Text
	case RequiresAction:
		fmt.Fprintf(&b, "The agent %s needs %d of your functions:\n", o.Agent, len(o.Required))
		for _, r := range o.Required {
			fmt.Fprintf(&b, "- %s %s, id %s\n", r.Name, r.Arguments, r.ID)
		}
		fmt.Fprintf(&b, `Run them, and call this tool again with {"run": %q, "outputs": [{"id": ID, "output": TEXT}]}.`, o.Run)
		return b.String()
	case Running:
		fmt.Fprintf(&b, `The run %s of the agent %s is at work. Call this tool again with {"run": %q} to see what has become of it.`, o.Run, o.Agent, o.Run)
		return b.String()
	case Interrupted:
		fmt.Fprintf(&b, `The gateway has ended during the run %s of the agent %s. Call this tool again with {"run": %q} to go on.`, o.Run, o.Agent, o.Run)
		return b.String()
	case Limited:
		fmt.Fprintf(&b, "The run %s of the agent %s has reached a limit, %s. %s", o.Run, o.Agent, o.Limit, o.Reason)
	case Failed:
		fmt.Fprintf(&b, "The run %s of the agent %s has failed. %s", o.Run, o.Agent, o.Reason)
	case Cancelled:
		fmt.Fprintf(&b, "The run %s of the agent %s was cancelled. %s", o.Run, o.Agent, o.Reason)
	}
	fmt.Fprintf(&b, "\nIt has asked the model %d times", o.Turns)
	if len(o.Done) > 0 {
		b.WriteString(" and has called")
		for i, d := range o.Done {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, " %s (%s)", d.Tool, d.State)
		}
	}
	b.WriteByte('.')
	if o.Status == Limited {
		fmt.Fprintf(&b, "\nCall this tool again with {\"run\": %q} to go on from there.", o.Run)
	}
	if o.Text != "" {
		b.WriteString("\nWhat it has said so far:\n" + o.Text)
	}
	return b.String()
}
