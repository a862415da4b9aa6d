package modeltest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// responses is the format of responses.
type responses struct{}

type responsesRequest struct {
	Model             string            `json:"model"`
	Instructions      string            `json:"instructions"`
	Input             []json.RawMessage `json:"input"`
	ToolChoice        json.RawMessage   `json:"tool_choice"`
	MaxOutputTokens   *int              `json:"max_output_tokens"`
	Store             *bool             `json:"store"`
	Include           []string          `json:"include"`
	Stream            bool              `json:"stream"`
	Temperature       *float64          `json:"temperature"`
	TopP              *float64          `json:"top_p"`
	Reasoning         json.RawMessage   `json:"reasoning"`
	ParallelToolCalls *bool             `json:"parallel_tool_calls"`
	Metadata          map[string]string `json:"metadata"`
	Tools             []struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict"`
	} `json:"tools"`
}

type responsesItem struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Status    string          `json:"status"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments *string         `json:"arguments"`
	Output    *string         `json:"output"`
	Summary   []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"summary"`
	Encrypted string `json:"encrypted_content"`
}

func (responses) read(_ http.Header, body []byte) (*asked, *fault) {
	var r responsesRequest
	if f := strict(body, &r); f != nil {
		return nil, f
	}
	out := &asked{model: r.Model, stream: r.Stream, limit: 64, choice: "auto", usage: true, thinking: slices.Contains(r.Include, "reasoning.encrypted_content")}
	if out.thinking && strings.HasPrefix(r.Model, "plain") {
		return nil, &fault{status: http.StatusBadRequest, kind: "invalid_request_error", param: "include", message: "Encrypted content is not supported with this model."}
	}
	if r.Store == nil || *r.Store {
		return nil, bad("store: nothing is stored here")
	}
	for i := range r.Tools {
		t := &r.Tools[i]
		if t.Type != "function" || t.Strict == nil {
			return nil, bad("tools: the type is function, and strict is required")
		}
		if f := object(t.Parameters, true); f != nil {
			return nil, f
		}
		out.tools = append(out.tools, t.Name)
	}
	if f := out.readChoice(r.ToolChoice, false); f != nil {
		return nil, f
	}
	for _, raw := range r.Input {
		if f := out.readItem(raw); f != nil {
			return nil, f
		}
	}
	return out, nil
}

func (a *asked) readItem(raw json.RawMessage) *fault {
	var item responsesItem
	if f := strict(raw, &item); f != nil {
		return f
	}
	role := "assistant"
	switch {
	case item.Type == "function_call_output":
		role = "tools"
	case item.Type == "message" && item.Role != "assistant":
		role = item.Role
	}
	if n := len(a.said); n == 0 || a.said[n-1].role != role {
		a.said = append(a.said, said{role: role})
	}
	s := &a.said[len(a.said)-1]
	switch item.Type {
	case "message":
		if item.Role != "user" && item.Role != "assistant" {
			return bad("input: there is no role " + item.Role)
		}
		text, f := messageText(item.Content)
		if f != nil {
			return f
		}
		s.text += text
	case "function_call":
		if item.Arguments == nil {
			return bad("input: a call has arguments")
		}
		if f := object([]byte(*item.Arguments), false); f != nil {
			return f
		}
		s.calls, s.names = append(s.calls, item.CallID), append(s.names, item.Name)
	case "function_call_output":
		if item.Output == nil {
			return bad("input: a result has output")
		}
		s.results, s.text = append(s.results, item.CallID), s.text+*item.Output+"\n"
	case "reasoning":
		var thought strings.Builder
		for _, p := range item.Summary {
			thought.WriteString(p.Text)
		}
		if item.ID == "" || item.Summary == nil || item.Encrypted != sign(thought.String()) {
			return bad("input: the encrypted content for item " + item.ID + " could not be verified")
		}
	default:
		return bad("input: there is no item " + item.Type)
	}
	return nil
}

// messageText returns the text of a message's content.
func messageText(content json.RawMessage) (string, *fault) {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		Refusal     string `json:"refusal"`
		Annotations []any  `json:"annotations"`
		Logprobs    []any  `json:"logprobs"`
	}
	if f := strict(content, &parts); f != nil {
		return "", f
	}
	for _, p := range parts {
		text += p.Text + p.Refusal
	}
	return text, nil
}

// output returns the items of an answer.
func (responses) output(a *asked, t *Turn) []map[string]any {
	out := []map[string]any{}
	if t.Thinking != "" {
		item := map[string]any{"type": "reasoning", "id": fmt.Sprintf("rs_%d", a.turns), "summary": []any{map[string]any{"type": "summary_text", "text": t.Thinking}}}
		if a.thinking {
			item["encrypted_content"] = sign(t.Thinking)
		}
		out = append(out, item)
	}
	if t.Text != "" {
		part := map[string]any{"type": "output_text", "text": t.Text, "annotations": []any{}, "logprobs": []any{}}
		if t.Refusal {
			part = map[string]any{"type": "refusal", "refusal": t.Text}
		}
		out = append(out, map[string]any{"type": "message", "id": fmt.Sprintf("msg_%d", a.turns), "status": "completed", "role": "assistant", "content": []any{part}})
	}
	for i := range t.Calls {
		c := &t.Calls[i]
		out = append(out, map[string]any{
			"type": "function_call", "id": fmt.Sprintf("fc_%d_%d", a.turns, i), "status": "completed",
			"call_id": a.callID("call_", t, i), "name": a.wireName(c.Tool), "arguments": c.args(),
		})
	}
	return out
}

func (f responses) whole(a *asked, t *Turn) any { return f.response(a, t, f.output(a, t)) }

func (responses) response(a *asked, t *Turn, output []map[string]any) map[string]any {
	status, incomplete := "completed", any(nil)
	if t.Cut {
		status, incomplete = "incomplete", map[string]any{"reason": "max_output_tokens"}
	}
	u := usageOf(t)
	return map[string]any{
		"id": "resp_1", "object": "response", "created_at": 1700000000, "status": status, "error": nil,
		"incomplete_details": incomplete, "instructions": nil, "model": a.model, "output": output,
		"parallel_tool_calls": true, "temperature": 1.0, "top_p": 1.0, "tool_choice": "auto", "tools": []any{}, "metadata": map[string]any{},
		"usage": map[string]any{
			"input_tokens": u.Input, "input_tokens_details": map[string]any{"cached_tokens": u.Cached},
			"output_tokens": u.Output, "output_tokens_details": map[string]any{"reasoning_tokens": 0}, "total_tokens": u.Input + u.Output,
		},
	}
}

func (f responses) stream(a *asked, t *Turn) []sse {
	var out []sse
	event := func(name string, members map[string]any) {
		members["type"], members["sequence_number"] = name, len(out)
		out = append(out, sse{name, members})
	}
	begun := f.response(a, t, []map[string]any{})
	begun["status"], begun["usage"], begun["incomplete_details"] = "in_progress", nil, nil
	event("response.created", map[string]any{"response": begun})
	output := f.output(a, t)
	for i, item := range output {
		event("response.output_item.added", map[string]any{"output_index": i, "item": without(item, "content", "summary", "encrypted_content", "arguments")})
		switch item["type"] {
		case "reasoning":
			for _, p := range pieces(t.Thinking) {
				event("response.reasoning_summary_text.delta", map[string]any{"item_id": item["id"], "output_index": i, "summary_index": 0, "delta": p})
			}
		case "message":
			name := "response.output_text.delta"
			if t.Refusal {
				name = "response.refusal.delta"
			}
			for _, p := range pieces(t.Text) {
				members := map[string]any{"item_id": item["id"], "output_index": i, "content_index": 0, "delta": p}
				if !t.Refusal {
					members["logprobs"] = []any{}
				}
				event(name, members)
			}
		case "function_call":
			for _, p := range pieces(item["arguments"].(string)) {
				event("response.function_call_arguments.delta", map[string]any{"item_id": item["id"], "output_index": i, "delta": p})
			}
		}
		event("response.output_item.done", map[string]any{"output_index": i, "item": item})
	}
	last := "response.completed"
	if t.Cut {
		last = "response.incomplete"
	}
	event(last, map[string]any{"response": f.response(a, t, output)})
	return out
}

// without returns an item as it begins: with the members of some names empty.
func without(item map[string]any, names ...string) map[string]any {
	out := map[string]any{}
	for name, value := range item {
		if slices.Contains(names, name) {
			if _, ok := value.(string); ok {
				value = ""
			} else {
				value = []any{}
			}
		}
		out[name] = value
	}
	if _, ok := out["status"]; ok {
		out["status"] = "in_progress"
	}
	return out
}

func (responses) fault(f *fault) any { return openAIFault(f) }

func (responses) broken(f *fault) sse {
	return sse{"error", map[string]any{"type": "error", "code": f.code, "message": f.message, "param": nil, "sequence_number": 99}}
}
