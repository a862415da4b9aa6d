package modeltest

import (
	"encoding/json"
	"net/http"
	"strings"
)

// chat is the format of chat completions.
type chat struct{}

type chatRequest struct {
	Model               string             `json:"model"`
	Messages            []chatMessage      `json:"messages"`
	Tools               []chatTool         `json:"tools"`
	ToolChoice          json.RawMessage    `json:"tool_choice"`
	MaxCompletionTokens *int               `json:"max_completion_tokens"`
	MaxTokens           *int               `json:"max_tokens"`
	Stream              bool               `json:"stream"`
	StreamOptions       *chatStreamOptions `json:"stream_options"`
	Temperature         *float64           `json:"temperature"`
	TopP                *float64           `json:"top_p"`
	ReasoningEffort     string             `json:"reasoning_effort"`
	ParallelToolCalls   *bool              `json:"parallel_tool_calls"`
	Seed                *int64             `json:"seed"`
	Metadata            map[string]string  `json:"metadata"`
}

type chatStreamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type chatMessage struct {
	Role       string  `json:"role"`
	Content    *string `json:"content"`
	Name       string  `json:"name"`
	ToolCallID string  `json:"tool_call_id"`
	Reasoning  string  `json:"reasoning_content"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string  `json:"name"`
			Arguments *string `json:"arguments"`
		} `json:"function"`
		Extra json.RawMessage `json:"extra_content"`
	} `json:"tool_calls"`
}

type chatTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict"`
	} `json:"function"`
}

func (chat) read(_ http.Header, body []byte) (*asked, *fault) {
	var r chatRequest
	if f := strict(body, &r); f != nil {
		return nil, f
	}
	out := &asked{model: r.Model, stream: r.Stream, limit: 64, choice: "auto"}
	if r.StreamOptions != nil {
		if !r.Stream {
			return nil, bad("stream_options is only allowed when stream is true")
		}
		out.usage = r.StreamOptions.IncludeUsage
	}
	for i := range r.Tools {
		t := &r.Tools[i]
		if t.Type != "function" {
			return nil, bad("tools: the type is function")
		}
		if f := object(t.Function.Parameters, true); f != nil {
			return nil, f
		}
		out.tools = append(out.tools, t.Function.Name)
	}
	if f := out.readChoice(r.ToolChoice, true); f != nil {
		return nil, f
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		if f := out.readChat(m); f != nil {
			return nil, f
		}
	}
	return out, nil
}

func (a *asked) readChat(m *chatMessage) *fault {
	text := ""
	if m.Content != nil {
		text = *m.Content
	}
	switch m.Role {
	case "system", "developer":
		if len(a.said) > 0 || m.Content == nil {
			return bad("messages: the system's prompt comes first and has content")
		}
	case "user":
		if m.Content == nil {
			return bad("messages: a user's message has content")
		}
		a.said = append(a.said, said{role: "user", text: text})
	case "assistant":
		if m.Content == nil && len(m.ToolCalls) == 0 {
			return bad("messages: an assistant's message has content or tool_calls")
		}
		s := said{role: "assistant", text: text}
		for i := range m.ToolCalls {
			c := &m.ToolCalls[i]
			if c.Type != "function" || c.Function.Arguments == nil {
				return bad("messages: a call is of type function and has arguments")
			}
			if f := object([]byte(*c.Function.Arguments), false); f != nil {
				return f
			}
			s.calls, s.names = append(s.calls, c.ID), append(s.names, c.Function.Name)
		}
		a.said = append(a.said, s)
	case "tool":
		if m.Content == nil {
			return bad("messages: a result has content")
		}
		if n := len(a.said); n > 0 && a.said[n-1].role == "tools" {
			a.said[n-1].results, a.said[n-1].text = append(a.said[n-1].results, m.ToolCallID), a.said[n-1].text+"\n"+text
			return nil
		}
		a.said = append(a.said, said{role: "tools", text: text, results: []string{m.ToolCallID}})
	default:
		return bad("messages: there is no role " + m.Role)
	}
	return nil
}

// readChoice reads the choice of tools as OpenAI writes it. nested is how chat completions
// name a tool.
func (a *asked) readChoice(data json.RawMessage, nested bool) *fault {
	if len(data) == 0 {
		return nil
	}
	if json.Unmarshal(data, &a.choice) == nil {
		if a.choice != "auto" && a.choice != "none" && a.choice != "required" {
			return bad("tool_choice: there is no " + a.choice)
		}
		return nil
	}
	var one struct {
		Type     string `json:"type"`
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if f := strict(data, &one); f != nil {
		return f
	}
	a.choice, a.tool = "tool", one.Name
	if nested {
		a.tool = one.Function.Name
	}
	if one.Type != "function" || (one.Name != "") == nested {
		return bad("tool_choice is not as the format has it")
	}
	return nil
}

func chatFinish(t *Turn) string {
	switch {
	case t.Cut:
		return "length"
	case len(t.Calls) > 0:
		return "tool_calls"
	}
	return "stop"
}

func chatUsage(t *Turn) map[string]any {
	u := usageOf(t)
	return map[string]any{
		"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details": map[string]any{"cached_tokens": u.Cached},
	}
}

func (chat) stream(a *asked, t *Turn) []sse {
	var out []sse
	chunk := func(choices []any, usage any) {
		out = append(out, sse{data: map[string]any{
			"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": a.model, "choices": choices, "usage": usage,
		}})
	}
	delta := func(d map[string]any) {
		chunk([]any{map[string]any{"index": 0, "delta": d, "logprobs": nil, "finish_reason": nil}}, nil)
	}
	delta(map[string]any{"role": "assistant", "content": "", "refusal": nil})
	for _, p := range pieces(t.Thinking) {
		delta(map[string]any{"reasoning_content": p})
	}
	member := "content"
	if t.Refusal {
		member = "refusal"
	}
	for _, p := range pieces(t.Text) {
		delta(map[string]any{member: p})
	}
	for i := range t.Calls {
		c := &t.Calls[i]
		delta(map[string]any{"tool_calls": []any{map[string]any{
			"index": i, "id": a.callID("call_", t, i), "type": "function", "function": map[string]any{"name": a.wireName(c.Tool), "arguments": ""},
		}}})
		for _, p := range pieces(c.args()) {
			delta(map[string]any{"tool_calls": []any{map[string]any{"index": i, "function": map[string]any{"arguments": p}}}})
		}
	}
	chunk([]any{map[string]any{"index": 0, "delta": map[string]any{}, "logprobs": nil, "finish_reason": chatFinish(t)}}, nil)
	if a.usage {
		chunk([]any{}, chatUsage(t))
	}
	return append(out, sse{data: "[DONE]"})
}

func (chat) whole(a *asked, t *Turn) any {
	message := map[string]any{"role": "assistant", "content": t.Text, "refusal": nil}
	if t.Refusal {
		message["content"], message["refusal"] = nil, t.Text
	}
	if t.Thinking != "" {
		message["reasoning_content"] = t.Thinking
	}
	var calls []any
	for i := range t.Calls {
		calls = append(calls, map[string]any{
			"id": a.callID("call_", t, i), "type": "function", "function": map[string]any{"name": a.wireName(t.Calls[i].Tool), "arguments": t.Calls[i].args()},
		})
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	return map[string]any{
		"id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": a.model,
		"choices": []any{map[string]any{"index": 0, "message": message, "logprobs": nil, "finish_reason": chatFinish(t)}},
		"usage":   chatUsage(t),
	}
}

func (chat) fault(f *fault) any { return openAIFault(f) }

func (chat) broken(f *fault) sse { return sse{data: openAIFault(f)} }

func openAIFault(f *fault) map[string]any {
	var param, code any
	if f.param != "" {
		param = f.param
	}
	if f.code != "" {
		code = f.code
	}
	return map[string]any{"error": map[string]any{"message": f.message, "type": strings.TrimSuffix(f.kind, "_error") + "_error", "param": param, "code": code}}
}
