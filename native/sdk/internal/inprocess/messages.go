package inprocess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/toolgate/toolgate/native/sdk"
)

// definition is a tool as tools/list has it.
type definition struct {
	Name        string          `json:"name"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"inputSchema"`
	Output      json.RawMessage `json:"outputSchema"`
	Annotations struct {
		Title       string `json:"title"`
		ReadOnly    bool   `json:"readOnlyHint"`
		Destructive *bool  `json:"destructiveHint"`
		Idempotent  bool   `json:"idempotentHint"`
		OpenWorld   *bool  `json:"openWorldHint"`
	} `json:"annotations"`
}

// tool returns the tool of a plugin. What a server does not say has MCP's default: a tool
// that is not read only may destroy, and a tool may reach the outside.
func (d *definition) tool(a *adapter) sdk.Tool {
	name, hints := d.Name, &d.Annotations
	t := sdk.Tool{
		Name: name, Title: d.Title, Description: d.Description, Input: d.Input, Output: d.Output,
		ReadOnly: hints.ReadOnly, Idempotent: hints.Idempotent,
		Destructive: !hints.ReadOnly && (hints.Destructive == nil || *hints.Destructive),
		OpenWorld:   hints.OpenWorld == nil || *hints.OpenWorld,
	}
	if t.Title == "" {
		t.Title = hints.Title
	}
	t.Run = func(ctx context.Context, call *sdk.Call) (sdk.Result, error) { return a.call(ctx, name, call) }
	return t
}

// result returns the answer to tools/call as a plugin gives it.
func result(raw json.RawMessage) (sdk.Result, error) {
	var r struct {
		Content    json.RawMessage `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
		IsError    bool            `json:"isError"`
		Type       string          `json:"resultType"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return sdk.Result{}, fmt.Errorf("read the result of the server: %w", err)
	}
	if r.Type == "input_required" {
		return sdk.Result{}, errors.New("the tool asks its client something, which a plugin cannot")
	}
	out := sdk.Result{Content: r.Content, Structured: r.Structured, IsError: r.IsError}
	if string(out.Content) == "null" || len(out.Content) == 0 {
		out.Content = json.RawMessage("[]")
	}
	if string(out.Structured) == "null" {
		out.Structured = nil
	}
	return out, nil
}

// report passes on what the server reports about a call.
func report(call *sdk.Call, method string, params json.RawMessage) {
	switch method {
	case "notifications/progress":
		var p struct {
			Progress, Total float64
			Message         string
		}
		if json.Unmarshal(params, &p) == nil {
			call.Progress(p.Progress, p.Total, p.Message)
		}
	case "notifications/message":
		var p struct {
			Level string
			Data  json.RawMessage
		}
		if json.Unmarshal(params, &p) != nil {
			return
		}
		var text string
		if json.Unmarshal(p.Data, &text) != nil {
			text = string(p.Data)
		}
		call.Log(p.Level, text)
	}
}
