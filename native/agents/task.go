package agents

import (
	"encoding/json"
	"slices"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/agents/model"
	"github.com/toolgate/toolgate/native/toolapi"
)

// The bounds of what a caller asks.
const (
	maxTask      = 128 << 10 // bytes of the task and its context together
	maxFunctions = 64
	maxFunction  = 16 << 10 // bytes of the description and parameters of one
	maxAllowed   = 512
	maxOutput    = 128 << 10 // bytes of what one function gave
	// maxTools is how many tools a model is offered, which is what endpoints take.
	maxTools = 128
)

// Task is what a run is asked, by its caller. It is kept with the run.
type Task struct {
	Task    string `json:"task"`
	Context string `json:"context,omitempty"`
	// Functions are tools that the client of the caller runs itself.
	Functions []model.Tool `json:"functions,omitempty"`
	Choice    model.Choice `json:"choice,omitzero"`
	// Allowed are the exposed names of the only tools of the gateway that may be called.
	// nil is no limit.
	Allowed []string `json:"allowed"`
	// MaxTurns is how often the model is asked, if that is less than the agent allows; 0 for
	// as often as it allows.
	MaxTurns int `json:"max_turns,omitempty"`
}

// check reports what is wrong with a task, for the caller.
func (t *Task) check() error {
	switch {
	case t.Task == "":
		return toolapi.Problemf(`Say what the agent has to do: {"task": "..."}.`)
	case len(t.Task)+len(t.Context) > maxTask:
		return toolapi.Problemf("task and context have at most %d bytes together.", maxTask)
	case len(t.Functions) > maxFunctions:
		return toolapi.Problemf("tools has at most %d functions.", maxFunctions)
	case len(t.Allowed) > maxAllowed:
		return toolapi.Problemf("allowed_tools has at most %d names.", maxAllowed)
	case t.MaxTurns < 0:
		return toolapi.Problemf("max_turns is 1 or more.")
	}
	seen := map[string]bool{}
	for i := range t.Functions {
		f := &t.Functions[i]
		switch {
		case !validFunction(f.Name):
			return toolapi.Problemf("The name %.80q of a function is not 1 to 64 of A-Z, a-z, 0-9, _ and -.", f.Name)
		case seen[f.Name]:
			return toolapi.Problemf("Two functions have the name %s.", f.Name)
		case len(f.Description)+len(f.Schema) > maxFunction:
			return toolapi.Problemf("The description and the parameters of the function %s have at most %d bytes together.", f.Name, maxFunction)
		case f.Schema != nil && !mcp.IsObject(f.Schema):
			return toolapi.Problemf("The parameters of the function %s are a JSON Schema, an object.", f.Name)
		}
		seen[f.Name] = true
	}
	return nil
}

func validFunction(name string) bool {
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return len(name) >= 1 && len(name) <= 64
}

// choiceOf reads tool_choice: auto, required, none or the name of a tool.
func choiceOf(text string) model.Choice {
	switch text {
	case "", "auto":
		return model.Choice{}
	case "required":
		return model.Choice{Mode: model.ChooseRequired}
	case "none":
		return model.Choice{Mode: model.ChooseNone}
	}
	return model.Choice{Mode: model.ChooseTool, Tool: text}
}

// Arguments are those of the tool of an agent that give it this task.
func (t *Task) Arguments() json.RawMessage {
	in := map[string]any{"task": t.Task}
	if t.Context != "" {
		in["context"] = t.Context
	}
	if t.Allowed != nil {
		in["allowed_tools"] = t.Allowed
	}
	if t.MaxTurns != 0 {
		in["max_turns"] = t.MaxTurns
	}
	switch {
	case t.Choice.Mode == model.ChooseTool:
		in["tool_choice"] = t.Choice.Tool
	case t.Choice.Mode != model.ChooseAuto:
		in["tool_choice"] = string(t.Choice.Mode)
	}
	var functions []map[string]any
	for _, f := range t.Functions {
		one := map[string]any{"name": f.Name}
		if f.Description != "" {
			one["description"] = f.Description
		}
		if f.Schema != nil {
			one["parameters"] = f.Schema
		}
		functions = append(functions, one)
	}
	if functions != nil {
		in["tools"] = functions
	}
	raw, _ := json.Marshal(in) // texts, numbers, and JSON that was read
	return raw
}

// prompt is what the model is asked first.
func (t *Task) prompt() string {
	if t.Context == "" {
		return t.Task
	}
	return t.Task + "\n\nContext:\n" + t.Context
}

// offered are the tools of a run.
type offered struct {
	list      []model.Tool
	tools     []gatewayTool
	functions map[string]bool // of the client; nil without one
}

// gatewayTool is what a run knows of a tool of the gateway besides what the model is told.
type gatewayTool struct {
	name     string
	harmless bool // it can be called twice
}

// tool returns a tool of the gateway; nil if there is none of the name.
func (o *offered) tool(name string) *gatewayTool {
	if i := slices.IndexFunc(o.tools, func(t gatewayTool) bool { return t.name == name }); i >= 0 {
		return &o.tools[i]
	}
	return nil
}

// offer puts together what the model may call. A function of the client wins over a tool
// of the gateway of the same name, which is then out of reach.
func offer(t *Task, tools []mcp.NestedTool) (*offered, error) {
	o := new(offered)
	if len(t.Functions) > 0 {
		o.functions = make(map[string]bool, len(t.Functions))
	}
	for i := range t.Functions {
		o.functions[t.Functions[i].Name] = true
		o.list = append(o.list, t.Functions[i])
	}
	for i := range tools {
		tool := &tools[i]
		if o.functions[tool.Name] || t.Allowed != nil && !slices.Contains(t.Allowed, tool.Name) {
			continue
		}
		o.tools = append(o.tools, gatewayTool{tool.Name, tool.ReadOnly || tool.Idempotent})
		o.list = append(o.list, model.Tool{Name: tool.Name, Description: tool.Description, Schema: json.RawMessage(tool.Input)})
	}
	if len(o.list) > maxTools && t.Choice.Mode != model.ChooseNone {
		return nil, toolapi.Problemf("The agent may call %d tools, and a model takes at most %d. Name those that it needs in allowed_tools, or ask the operator for a capsule of the agent.", len(o.list), maxTools)
	}
	if want := t.Choice.Tool; t.Choice.Mode == model.ChooseTool && !o.functions[want] && o.tool(want) == nil {
		return nil, toolapi.Problemf("tool_choice is auto, required, none or one of the tools that the agent may call; %.100q is none of them.", want)
	}
	return o, nil
}
