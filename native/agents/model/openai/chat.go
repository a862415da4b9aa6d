package openai

import (
	"context"
	"encoding/json"

	"github.com/toolgate/toolgate/native/agents/model"
	"github.com/toolgate/toolgate/native/agents/model/internal/wire"
)

// Chat asks an endpoint for chat completions.
type Chat struct{ e *model.Endpoint }

// NewChat returns the client of an endpoint. The error says what is wrong with that.
func NewChat(e *model.Endpoint) (*Chat, error) {
	if err := wire.CheckEndpoint(e, model.Chat); err != nil {
		return nil, err
	}
	return &Chat{e}, nil
}

type chatRequest struct {
	Model         string        `json:"model"`
	Messages      []chatMessage `json:"messages"`
	Tools         []chatTool    `json:"tools,omitempty"`
	ToolChoice    any           `json:"tool_choice,omitempty"`
	MaxTokens     int           `json:"max_completion_tokens,omitempty"`
	Stream        bool          `json:"stream"`
	StreamOptions streamOptions `json:"stream_options"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type chatMessage struct {
	Role       string     `json:"role"`
	Content    *string    `json:"content,omitempty"`
	ToolCalls  []chatCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
	Reasoning  string     `json:"reasoning_content,omitempty"`
}

type chatCall struct {
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	Function chatFunction    `json:"function"`
	Extra    json.RawMessage `json:"extra_content,omitempty"`
}

type chatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type chatTool struct {
	Type     string       `json:"type"`
	Function functionTool `json:"function"`
}

type functionTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

// chatKept is what a turn keeps: thinking that some endpoints want to be given back, and
// what they have put beside calls.
type chatKept struct {
	Reasoning string                     `json:"reasoning_content,omitempty"`
	Extra     map[string]json.RawMessage `json:"extra_content,omitempty"` // by call
}

// Infer implements [model.Model].
func (c *Chat) Infer(ctx context.Context, r *model.Request, delta func(model.Delta)) (*model.Turn, error) {
	if err := wire.Check(r); err != nil {
		return nil, err
	}
	names := model.NewNames(r.Tools, maxName)
	write := func() ([]byte, error) { return wire.Body(c.e, c.request(r, names)) }
	answer := &chatAnswer{r: r, names: names, delta: delta}
	if err := wire.Do(ctx, c.e, address(c.e, "/chat/completions"), header(c.e, r.ID), write, answer); err != nil {
		return nil, err
	}
	return answer.turn(), nil
}

func (c *Chat) request(r *model.Request, names *model.Names) *chatRequest {
	out := &chatRequest{
		Model: r.Model, Messages: chatMessages(r, names), MaxTokens: r.MaxTokens,
		Stream: true, StreamOptions: streamOptions{IncludeUsage: true},
	}
	for i := range r.Tools {
		t := &r.Tools[i]
		out.Tools = append(out.Tools, chatTool{"function", functionTool{names.Wire(t.Name), t.Description, wire.Schema(t)}})
	}
	if len(r.Tools) == 0 {
		return out // a choice without tools is an error
	}
	switch r.Choice.Mode {
	case model.ChooseAuto:
	case model.ChooseRequired, model.ChooseNone:
		out.ToolChoice = string(r.Choice.Mode)
	case model.ChooseTool:
		out.ToolChoice = map[string]any{"type": "function", "function": map[string]string{"name": names.Wire(r.Choice.Tool)}}
	}
	return out
}

func chatMessages(r *model.Request, names *model.Names) []chatMessage {
	var out []chatMessage
	if r.Instructions != "" {
		out = append(out, chatMessage{Role: "system", Content: &r.Instructions})
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		switch m.Role {
		case model.User:
			out = append(out, chatMessage{Role: "user", Content: &m.Text})
		case model.Assistant:
			var kept chatKept
			wire.Kept(m, "chat", r.Model, &kept)
			a := chatMessage{Role: "assistant", Reasoning: kept.Reasoning}
			if m.Text != "" || len(m.Calls) == 0 {
				a.Content = &m.Text
			}
			for k := range m.Calls {
				call := &m.Calls[k]
				a.ToolCalls = append(a.ToolCalls, chatCall{call.ID, "function", chatFunction{names.Wire(call.Tool), string(wire.Args(call))}, kept.Extra[call.ID]})
			}
			out = append(out, a)
		case model.Tools:
			for k := range m.Results {
				text := wire.ResultText(&m.Results[k])
				out = append(out, chatMessage{Role: "tool", Content: &text, ToolCallID: m.Results[k].Call})
			}
		}
	}
	return out
}
