package openai

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/toolgate/toolgate/native/agents/model"
	"github.com/toolgate/toolgate/native/agents/model/internal/wire"
)

// Responses asks an endpoint for responses. It has nothing stored there, so that a
// conversation can go on at any time and from any replica.
type Responses struct {
	e *model.Endpoint
	// plain is set once the endpoint has refused to give encrypted reasoning, which models
	// without reasoning do.
	plain atomic.Bool
}

// NewResponses returns the client of an endpoint. The error says what is wrong with that.
func NewResponses(e *model.Endpoint) (*Responses, error) {
	if err := wire.CheckEndpoint(e, model.Responses); err != nil {
		return nil, err
	}
	return &Responses{e: e}, nil
}

type responsesRequest struct {
	Model        string          `json:"model"`
	Instructions string          `json:"instructions,omitempty"`
	Input        []any           `json:"input"`
	Tools        []responsesTool `json:"tools,omitempty"`
	ToolChoice   any             `json:"tool_choice,omitempty"`
	MaxTokens    int             `json:"max_output_tokens,omitempty"`
	Store        bool            `json:"store"`
	Include      []string        `json:"include,omitempty"`
	Stream       bool            `json:"stream"`
}

type responsesTool struct {
	Type string `json:"type"`
	functionTool
	Strict bool `json:"strict"` // which is true where it is not said, and takes few schemas
}

type inputMessage struct {
	Type    string `json:"type"`
	Role    string `json:"role"`
	Content string `json:"content"`
}

type inputCall struct {
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type inputResult struct {
	Type   string `json:"type"`
	CallID string `json:"call_id"`
	Output string `json:"output"`
}

// Infer implements [model.Model]. A request that is refused because the model has no
// reasoning that could be given back is made again without asking for it: nothing was done
// for the first one.
func (c *Responses) Infer(ctx context.Context, r *model.Request, delta func(model.Delta)) (*model.Turn, error) {
	if err := wire.Check(r); err != nil {
		return nil, err
	}
	plain := c.plain.Load()
	turn, err := c.infer(ctx, r, delta, plain)
	if fault, ok := errors.AsType[*model.Error](err); ok && fault.Status == http.StatusBadRequest && fault.Param == "include" && !plain {
		c.plain.Store(true)
		turn, err = c.infer(ctx, r, delta, true)
	}
	return turn, err
}

// infer makes one request. Its body is the same each time it is written, whatever another
// request finds out meanwhile.
func (c *Responses) infer(ctx context.Context, r *model.Request, delta func(model.Delta), plain bool) (*model.Turn, error) {
	names := model.NewNames(r.Tools, maxName)
	write := func() ([]byte, error) { return wire.Body(c.e, c.request(r, names, plain)) }
	answer := &responsesAnswer{r: r, names: names, delta: delta}
	if err := wire.Do(ctx, c.e, address(c.e, "/responses"), header(c.e, r.ID), write, answer); err != nil {
		return nil, err
	}
	return answer.turn()
}

func (c *Responses) request(r *model.Request, names *model.Names, plain bool) *responsesRequest {
	out := &responsesRequest{
		Model: r.Model, Instructions: r.Instructions, Input: responsesInput(r, names),
		MaxTokens: r.MaxTokens, Stream: true,
	}
	if !plain {
		out.Include = []string{"reasoning.encrypted_content"}
	}
	for i := range r.Tools {
		t := &r.Tools[i]
		out.Tools = append(out.Tools, responsesTool{"function", functionTool{names.Wire(t.Name), t.Description, wire.Schema(t)}, false})
	}
	if len(r.Tools) == 0 {
		return out
	}
	switch r.Choice.Mode {
	case model.ChooseAuto:
	case model.ChooseRequired, model.ChooseNone:
		out.ToolChoice = string(r.Choice.Mode)
	case model.ChooseTool:
		out.ToolChoice = map[string]string{"type": "function", "name": names.Wire(r.Choice.Tool)}
	}
	return out
}

func responsesInput(r *model.Request, names *model.Names) []any {
	out := []any{}
	for i := range r.Messages {
		m := &r.Messages[i]
		switch m.Role {
		case model.User:
			out = append(out, inputMessage{"message", "user", m.Text})
		case model.Assistant:
			var kept []json.RawMessage
			if wire.Kept(m, "responses", r.Model, &kept) {
				for _, item := range kept {
					out = append(out, item)
				}
				continue
			}
			if m.Text != "" {
				out = append(out, inputMessage{"message", "assistant", m.Text})
			}
			for k := range m.Calls {
				call := &m.Calls[k]
				out = append(out, inputCall{"function_call", call.ID, names.Wire(call.Tool), string(wire.Args(call))})
			}
		case model.Tools:
			for k := range m.Results {
				out = append(out, inputResult{"function_call_output", m.Results[k].Call, wire.ResultText(&m.Results[k])})
			}
		}
	}
	return out
}
