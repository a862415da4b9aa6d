package modeltest

import (
	"encoding/json"
	"net/http"
	"strings"
)

// messages is the format of Anthropic's messages.
type messages struct{}

type messagesRequest struct {
	Model         string            `json:"model"`
	MaxTokens     int               `json:"max_tokens"`
	System        string            `json:"system"`
	Stream        bool              `json:"stream"`
	Temperature   *float64          `json:"temperature"`
	TopP          *float64          `json:"top_p"`
	StopSequences []string          `json:"stop_sequences"`
	Thinking      json.RawMessage   `json:"thinking"`
	CacheControl  json.RawMessage   `json:"cache_control"`
	Metadata      map[string]string `json:"metadata"`
	ToolChoice    *struct {
		Type     string `json:"type"`
		Name     string `json:"name"`
		Parallel *bool  `json:"disable_parallel_tool_use"`
	} `json:"tool_choice"`
	Tools []struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"input_schema"`
	} `json:"tools"`
	Messages []struct {
		Role    string          `json:"role"`
		Content []messagesBlock `json:"content"`
	} `json:"messages"`
}

type messagesBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	ToolUseID string          `json:"tool_use_id"`
	IsError   bool            `json:"is_error"`
	Content   []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
}

func (messages) read(h http.Header, body []byte) (*asked, *fault) {
	var r messagesRequest
	if f := strict(body, &r); f != nil {
		return nil, f
	}
	out := &asked{model: r.Model, stream: r.Stream, limit: 128, choice: "auto", usage: true, thinking: true}
	switch {
	case h.Get("Anthropic-Version") == "2026-10-21" && (r.Temperature != nil || r.TopP != nil):
		return nil, bad("temperature and top_p are not part of this version")
	case h.Get("Anthropic-Version") != "2026-10-21" && h.Get("Anthropic-Version") != "2023-06-01":
		return nil, bad("anthropic-version: header is required")
	case r.MaxTokens < 1:
		return nil, bad("max_tokens: field required")
	case len(r.Messages) > 0 && r.Messages[0].Role != "user":
		return nil, bad("messages: first message must use the user role")
	}
	for i := range r.Tools {
		if f := object(r.Tools[i].InputSchema, true); f != nil {
			return nil, f
		}
		out.tools = append(out.tools, r.Tools[i].Name)
	}
	if c := r.ToolChoice; c != nil {
		choice, ok := map[string]string{"auto": "auto", "any": "required", "none": "none", "tool": "tool"}[c.Type]
		if !ok || (c.Name != "") != (c.Type == "tool") {
			return nil, bad("tool_choice is not as the format has it")
		}
		out.choice, out.tool = choice, c.Name
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		if len(m.Content) == 0 {
			return nil, bad("messages: all messages must have non-empty content")
		}
		if f := out.readBlocks(m.Role, m.Content); f != nil {
			return nil, f
		}
	}
	return out, nil
}

func (a *asked) readBlocks(role string, blocks []messagesBlock) *fault {
	user := said{role: role}
	results := said{role: "tools"}
	for i := range blocks {
		b := &blocks[i]
		switch {
		case b.Type == "text":
			if strings.TrimSpace(b.Text) == "" {
				return bad("messages: text content blocks must contain non-whitespace text")
			}
			user.text += b.Text
		case b.Type == "tool_use" && role == "assistant":
			if f := object(b.Input, false); f != nil {
				return f
			}
			user.calls, user.names = append(user.calls, b.ID), append(user.names, b.Name)
		case b.Type == "thinking" && role == "assistant":
			if b.Signature != sign(b.Thinking) {
				return bad("messages: Invalid `signature` in `thinking` block")
			}
		case b.Type == "tool_result" && role == "user":
			if user.text != "" {
				return bad("messages: tool_result blocks come first")
			}
			results.results = append(results.results, b.ToolUseID)
			for _, c := range b.Content {
				results.text += c.Text + "\n"
			}
		default:
			return bad("messages: a message by " + role + " has no block of type " + b.Type)
		}
	}
	if results.results != nil {
		a.said = append(a.said, results)
		if user.text == "" {
			return nil
		}
	}
	a.said = append(a.said, user)
	return nil
}

func messagesStop(t *Turn) string {
	switch {
	case t.Refusal:
		return "refusal"
	case t.Cut:
		return "max_tokens"
	case len(t.Calls) > 0:
		return "tool_use"
	}
	return "end_turn"
}

func messagesUsage(t *Turn) map[string]any {
	u := usageOf(t)
	return map[string]any{
		"input_tokens": u.Input - u.Cached, "cache_read_input_tokens": u.Cached, "cache_creation_input_tokens": 0, "output_tokens": u.Output,
	}
}

func (messages) message(a *asked, t *Turn, content []any, stop any) map[string]any {
	return map[string]any{
		"id": "msg_1", "type": "message", "role": "assistant", "model": a.model, "content": content,
		"stop_reason": stop, "stop_sequence": nil, "usage": messagesUsage(t),
	}
}

func (f messages) whole(a *asked, t *Turn) any {
	content := []any{}
	if t.Thinking != "" {
		content = append(content, map[string]any{"type": "thinking", "thinking": t.Thinking, "signature": sign(t.Thinking)})
	}
	if t.Text != "" {
		content = append(content, map[string]any{"type": "text", "text": t.Text})
	}
	for i := range t.Calls {
		input := json.RawMessage(t.Calls[i].args())
		if !json.Valid(input) {
			input, _ = json.Marshal(string(input)) // a string always can
		}
		content = append(content, map[string]any{"type": "tool_use", "id": a.callID("toolu_", t, i), "name": a.wireName(t.Calls[i].Tool), "input": input})
	}
	return f.message(a, t, content, messagesStop(t))
}

func (f messages) stream(a *asked, t *Turn) []sse {
	var out []sse
	event := func(name string, members map[string]any) {
		members["type"] = name
		out = append(out, sse{name, members})
	}
	begun := f.message(a, t, []any{}, nil)
	usage := messagesUsage(t)
	usage["output_tokens"] = 1
	begun["usage"] = usage
	event("message_start", map[string]any{"message": begun})
	event("ping", map[string]any{})
	index := 0
	block := func(start map[string]any, deltas []map[string]any) {
		event("content_block_start", map[string]any{"index": index, "content_block": start})
		for _, d := range deltas {
			event("content_block_delta", map[string]any{"index": index, "delta": d})
		}
		event("content_block_stop", map[string]any{"index": index})
		index++
	}
	deltas := func(kind, member, text string) []map[string]any {
		var list []map[string]any
		for _, p := range pieces(text) {
			list = append(list, map[string]any{"type": kind, member: p})
		}
		return list
	}
	if t.Thinking != "" {
		list := deltas("thinking_delta", "thinking", t.Thinking)
		block(map[string]any{"type": "thinking", "thinking": "", "signature": ""}, append(list, map[string]any{"type": "signature_delta", "signature": sign(t.Thinking)}))
	}
	if t.Text != "" {
		block(map[string]any{"type": "text", "text": ""}, deltas("text_delta", "text", t.Text))
	}
	for i := range t.Calls {
		block(map[string]any{"type": "tool_use", "id": a.callID("toolu_", t, i), "name": a.wireName(t.Calls[i].Tool), "input": map[string]any{}}, deltas("input_json_delta", "partial_json", t.Calls[i].args()))
	}
	event("message_delta", map[string]any{"delta": map[string]any{"stop_reason": messagesStop(t), "stop_sequence": nil}, "usage": map[string]any{"output_tokens": usageOf(t).Output}})
	event("message_stop", map[string]any{})
	return out
}

func (messages) fault(f *fault) any {
	kind := f.kind
	if f.code == "context_length_exceeded" {
		kind = "invalid_request_error"
	}
	return map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": f.message}, "request_id": "req_1"}
}

func (f messages) broken(what *fault) sse { return sse{"error", f.fault(what)} }
