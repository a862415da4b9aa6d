// Package anthropic speaks to models in the wire format of Anthropic's messages.
//
// The format is held against Anthropic's own library in the tests of package conformance.
// ADR 0047 says why the library is not in the program.
package anthropic

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/toolgate/toolgate/native/agents/model"
	"github.com/toolgate/toolgate/native/agents/model/internal/wire"
)

// version is the one that every endpoint with this format knows. What is written and read
// here is the same in 2026-10-21, which refuses temperature and the like.
const version = "2023-06-01"

const (
	maxName   = 128  // bytes of the name of a tool
	maxTokens = 4096 // where the request says nothing, because the format wants a number
)

// Messages asks an endpoint for messages.
type Messages struct{ e *model.Endpoint }

// NewMessages returns the client of an endpoint. The error says what is wrong with that.
func NewMessages(e *model.Endpoint) (*Messages, error) {
	if err := wire.CheckEndpoint(e, model.Messages); err != nil {
		return nil, err
	}
	return &Messages{e}, nil
}

type request struct {
	Model      string    `json:"model"`
	MaxTokens  int       `json:"max_tokens"`
	System     string    `json:"system,omitempty"`
	Messages   []message `json:"messages"`
	Tools      []tool    `json:"tools,omitempty"`
	ToolChoice *choice   `json:"tool_choice,omitempty"`
	Stream     bool      `json:"stream"`
}

type message struct {
	Role    string            `json:"role"`
	Content []json.RawMessage `json:"content"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
}

type choice struct {
	Type string `json:"type"`
	Name string `json:"name,omitempty"`
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type useBlock struct {
	Type  string          `json:"type"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

type resultBlock struct {
	Type      string      `json:"type"`
	ToolUseID string      `json:"tool_use_id"`
	Content   []textBlock `json:"content,omitempty"`
	IsError   bool        `json:"is_error,omitempty"`
}

// Infer implements [model.Model].
func (c *Messages) Infer(ctx context.Context, r *model.Request, delta func(model.Delta)) (*model.Turn, error) {
	if err := wire.Check(r); err != nil {
		return nil, err
	}
	names := model.NewNames(r.Tools, maxName)
	write := func() ([]byte, error) { return wire.Body(c.e, newRequest(r, names)) }
	header := http.Header{}
	header.Set("Anthropic-Version", version)
	if c.e.Key != "" {
		header.Set("X-Api-Key", c.e.Key)
	}
	if r.ID != "" {
		header.Set("Idempotency-Key", r.ID)
	}
	base := strings.TrimSuffix(strings.TrimRight(c.e.URL, "/"), "/v1")
	a := &answer{r: r, names: names, delta: delta}
	if err := wire.Do(ctx, c.e, base+"/v1/messages", header, write, a); err != nil {
		return nil, err
	}
	return a.turn(), nil
}

func newRequest(r *model.Request, names *model.Names) *request {
	out := &request{Model: r.Model, MaxTokens: r.MaxTokens, System: r.Instructions, Messages: messages(r, names), Stream: true}
	if out.MaxTokens == 0 {
		out.MaxTokens = maxTokens
	}
	for i := range r.Tools {
		t := &r.Tools[i]
		out.Tools = append(out.Tools, tool{names.Wire(t.Name), t.Description, wire.Schema(t)})
	}
	if len(r.Tools) == 0 {
		return out
	}
	switch r.Choice.Mode {
	case model.ChooseAuto:
	case model.ChooseRequired:
		out.ToolChoice = &choice{Type: "any"}
	case model.ChooseNone:
		out.ToolChoice = &choice{Type: "none"}
	case model.ChooseTool:
		out.ToolChoice = &choice{"tool", names.Wire(r.Choice.Tool)}
	}
	return out
}

func messages(r *model.Request, names *model.Names) []message {
	var out []message
	add := func(role string, blocks []json.RawMessage) {
		// A turn without text and calls cannot be said, and two messages of one role are one.
		if len(blocks) == 0 {
			return
		}
		if n := len(out); n > 0 && out[n-1].Role == role {
			out[n-1].Content = append(out[n-1].Content, blocks...)
			return
		}
		out = append(out, message{role, blocks})
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		var blocks []json.RawMessage
		switch m.Role {
		case model.User:
			add("user", append(blocks, block(textBlock{"text", m.Text})))
		case model.Assistant:
			if !wire.Kept(m, "messages", r.Model, &blocks) {
				if strings.TrimSpace(m.Text) != "" {
					blocks = append(blocks, block(textBlock{"text", m.Text}))
				}
				for k := range m.Calls {
					call := &m.Calls[k]
					blocks = append(blocks, block(useBlock{"tool_use", call.ID, names.Wire(call.Tool), wire.Args(call)}))
				}
			}
			add("assistant", blocks)
		case model.Tools:
			for k := range m.Results {
				result := &m.Results[k]
				b := resultBlock{Type: "tool_result", ToolUseID: result.Call, IsError: result.IsError}
				if strings.TrimSpace(result.Text) != "" {
					b.Content = []textBlock{{"text", result.Text}}
				}
				blocks = append(blocks, block(b))
			}
			add("user", blocks)
		}
	}
	return out
}

// block returns a block as JSON. Its parts are strings and JSON that is valid.
func block(b any) json.RawMessage {
	out, err := wire.JSON(b)
	if err != nil {
		panic("anthropic: a block of strings cannot be written: " + err.Error())
	}
	return out
}
