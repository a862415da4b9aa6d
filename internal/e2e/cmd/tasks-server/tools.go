package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Whether a tool runs as a task. The words are those of execution.taskSupport
// in 2025-11-25; 2026-07-28 does not list them, there the server decides.
const (
	forbidden = "forbidden" // never as a task
	optional  = "optional"  // as a task for those who can have one
	required  = "required"  // only as a task
)

// A tool is a function that may first put questions to the user, in rounds.
// However it is called, its questions are the same; how they reach the user is
// not its concern.
type tool struct {
	name, description string
	schema            string // of its arguments
	support           string
	// rounds gives the questions for these arguments. A round is asked at once,
	// the next when all of it is answered. Nil asks nothing.
	rounds func(arguments) [][]question
	// asksFirst makes a modern call gather the answers in the call itself,
	// before there is a task (SEP-2663, "Task Creation").
	asksFirst bool
	// run does the work. An error is a JSON-RPC error; a failure that the model
	// should see is a result with isError.
	run func(context.Context, arguments, map[string]answer) (*toolResult, *rpcError)
}

// arguments are those of all tools.
type arguments struct {
	Name     string  `json:"name"`
	Seconds  float64 `json:"seconds"`
	Label    string  `json:"label"`
	Filename string  `json:"filename"`
}

// A question is put to the user as a form with one field.
type question struct {
	key, message, field, kind string
}

func (q question) params() object {
	return object{
		"mode":    "form",
		"message": q.message,
		"requestedSchema": object{
			"type":       "object",
			"properties": object{q.field: object{"type": q.kind}},
			"required":   []string{q.field},
		},
	}
}

// inputRequests makes the map of questions that both the call and the task of
// the modern era carry.
func inputRequests(questions []question) object {
	m := object{}
	for _, q := range questions {
		m[q.key] = object{"method": "elicitation/create", "params": q.params()}
	}
	return m
}

// An answer is the result of elicitation/create.
type answer struct {
	Action  string         `json:"action"`
	Content map[string]any `json:"content,omitempty"`
}

// UnmarshalJSON takes anything: what is not an answer is not valid, and only
// matters if somebody asked for it.
func (a *answer) UnmarshalJSON(data []byte) error {
	type plain answer
	if json.Unmarshal(data, (*plain)(a)) != nil {
		*a = answer{}
	}
	return nil
}

func (a answer) valid() bool {
	return a.Action == "accept" || a.Action == "decline" || a.Action == "cancel"
}

func (a answer) text(field string) string {
	s, _ := a.Content[field].(string)
	if a.Action != "accept" || s == "" {
		return "stranger"
	}
	return s
}

// toolResult is what a call of a tool returns, however it was run.
type toolResult struct {
	text    string
	isError bool
}

func (r *toolResult) object() object {
	return object{"content": []object{{"type": "text", "text": r.text}}, "isError": r.isError}
}

const maxSeconds = 3600

// decode reads the arguments of a call.
func decode(raw json.RawMessage) (args arguments, err *rpcError) {
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &args); err != nil {
			return args, errorf(codeInvalidParams, "invalid arguments: %v", err)
		}
	}
	if args.Seconds < 0 || args.Seconds > maxSeconds {
		return args, errorf(codeInvalidParams, "invalid arguments: seconds must be between 0 and %d", maxSeconds)
	}
	return args, nil
}

// wait sleeps, unless ctx ends first.
func wait(ctx context.Context, d time.Duration) *rpcError {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return errorf(codeInternal, "stopped: %v", context.Cause(ctx))
	}
}

func findTool(name string) (*tool, *rpcError) {
	for i := range tools {
		if tools[i].name == name {
			return &tools[i], nil
		}
	}
	return nil, errorf(codeInvalidParams, "unknown tool: %s", name)
}

const jobTime = 100 * time.Millisecond

// tools are the fixtures of the official conformance suite and, as the last
// one, one that asks in two rounds.
var tools = []tool{
	{
		name: "greet", description: "Says hello at once; never a task.", support: forbidden,
		schema: `{"type":"object","properties":{"name":{"type":"string"}}}`,
		run: func(_ context.Context, args arguments, _ map[string]answer) (*toolResult, *rpcError) {
			return &toolResult{text: "Hello, " + args.Name + "!"}, nil
		},
	},
	{
		name: "slow_compute", description: "Works for some seconds.", support: optional,
		schema: `{"type":"object","properties":{"seconds":{"type":"number","minimum":0,"maximum":3600},"label":{"type":"string"}}}`,
		run: func(ctx context.Context, args arguments, _ map[string]answer) (*toolResult, *rpcError) {
			if err := wait(ctx, time.Duration(args.Seconds*float64(time.Second))); err != nil {
				return nil, err
			}
			return &toolResult{text: fmt.Sprintf("computed %q in %g s", args.Label, args.Seconds)}, nil
		},
	},
	{
		name: "failing_job", description: "Runs only as a task, and its result is an error of the tool.", support: required,
		schema: `{"type":"object"}`,
		run: func(ctx context.Context, _ arguments, _ map[string]answer) (*toolResult, *rpcError) {
			if err := wait(ctx, jobTime); err != nil {
				return nil, err
			}
			return &toolResult{text: "the job failed", isError: true}, nil
		},
	},
	{
		name: "protocol_error_job", description: "Ends with a JSON-RPC error.", support: optional,
		schema: `{"type":"object"}`,
		run: func(ctx context.Context, _ arguments, _ map[string]answer) (*toolResult, *rpcError) {
			if err := wait(ctx, jobTime); err != nil {
				return nil, err
			}
			return nil, errorf(codeInternal, "the job broke")
		},
	},
	{
		name: "confirm_delete", description: "Asks before it deletes a file (it has none).", support: optional,
		schema: `{"type":"object","properties":{"filename":{"type":"string"}}}`,
		rounds: func(args arguments) [][]question {
			return [][]question{{{"confirm", "Delete " + args.Filename + "?", "confirm", "boolean"}}}
		},
		run: func(_ context.Context, args arguments, answers map[string]answer) (*toolResult, *rpcError) {
			if a := answers["confirm"]; a.Action != "accept" || a.Content["confirm"] != true {
				return &toolResult{text: "kept " + args.Filename}, nil
			}
			return &toolResult{text: "deleted " + args.Filename}, nil
		},
	},
	{
		name: "multi_input", description: "Asks two questions at once.", support: optional,
		schema: `{"type":"object"}`,
		rounds: func(arguments) [][]question {
			return [][]question{{
				{"first_name", "Your first name?", "name", "string"},
				{"last_name", "Your last name?", "name", "string"},
			}}
		},
		run: func(_ context.Context, _ arguments, answers map[string]answer) (*toolResult, *rpcError) {
			return &toolResult{text: "Hello, " + answers["first_name"].text("name") + " " + answers["last_name"].text("name") + "!"}, nil
		},
	},
	{
		name: "test_tool_with_task", description: "Asks for a name, then runs as a task.", support: required,
		schema: `{"type":"object"}`, asksFirst: true,
		rounds: func(arguments) [][]question {
			return [][]question{{{"user_name", "What is your name?", "name", "string"}}}
		},
		run: func(ctx context.Context, _ arguments, answers map[string]answer) (*toolResult, *rpcError) {
			if err := wait(ctx, jobTime); err != nil {
				return nil, err
			}
			return &toolResult{text: "Hello, " + answers["user_name"].text("name") + "!"}, nil
		},
	},
	{
		name: "interview", description: "Asks one question after the other.", support: optional,
		schema: `{"type":"object"}`,
		rounds: func(arguments) [][]question {
			return [][]question{
				{{"name", "What is your name?", "name", "string"}},
				{{"city", "Where do you live?", "city", "string"}},
			}
		},
		run: func(_ context.Context, _ arguments, answers map[string]answer) (*toolResult, *rpcError) {
			return &toolResult{text: answers["name"].text("name") + " lives in " + answers["city"].text("city")}, nil
		},
	},
}

// questions gives the rounds of a call; none if the tool asks nothing.
func (t *tool) questions(args arguments) [][]question {
	if t.rounds == nil {
		return nil
	}
	return t.rounds(args)
}
