package openai

import (
	"encoding/json"
	"strings"

	"github.com/toolgate/toolgate/native/agents/model"
	"github.com/toolgate/toolgate/native/agents/model/internal/wire"
)

// chatChunk is an event of a stream, or with message in place of delta the whole answer.
type chatChunk struct {
	Choices []struct {
		Index        int       `json:"index"`
		Delta        chatDelta `json:"delta"`
		Message      chatDelta `json:"message"`
		FinishReason string    `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Input   int64 `json:"prompt_tokens"`
		Output  int64 `json:"completion_tokens"`
		Details struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error *wire.Fault `json:"error"`
}

type chatDelta struct {
	Content   text   `json:"content"`
	Refusal   string `json:"refusal"`
	Reasoning text   `json:"reasoning_content"`
	Thinking  text   `json:"reasoning"` // as some endpoints call it
	ToolCalls []struct {
		Index    *int   `json:"index"`
		ID       string `json:"id"`
		Function struct {
			Name      string    `json:"name"`
			Arguments arguments `json:"arguments"`
		} `json:"function"`
		Extra json.RawMessage `json:"extra_content"`
	} `json:"tool_calls"`
}

// text is a text, or a list of parts of which the texts count.
type text string

// UnmarshalJSON implements [json.Unmarshaler]. It takes everything: what is no text is
// none.
func (t *text) UnmarshalJSON(data []byte) error {
	var s string
	if json.Unmarshal(data, &s) == nil {
		*t = text(s)
		return nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	_ = json.Unmarshal(data, &parts) // what is there counts
	for _, p := range parts {
		if p.Type == "text" {
			*t += text(p.Text)
		}
	}
	return nil
}

// arguments is a text, or the object that it should hold.
type arguments string

// UnmarshalJSON implements [json.Unmarshaler].
func (a *arguments) UnmarshalJSON(data []byte) error {
	var s string
	if json.Unmarshal(data, &s) != nil {
		s = string(data)
	}
	*a = arguments(s)
	return nil
}

// chatAnswer is a turn as it arrives.
type chatAnswer struct {
	r     *model.Request
	names *model.Names
	delta func(model.Delta)

	text, refusal, reasoning strings.Builder
	calls                    []*chatCalled
	open                     map[int]*chatCalled // by index
	finish                   string
	looked                   int // how often arguments were looked at
	usage                    model.Usage
}

type chatCalled struct {
	id, tool string
	args     strings.Builder
	extra    json.RawMessage
}

// Usage implements [wire.Reader].
func (a *chatAnswer) Usage() model.Usage { return a.usage }

// Whole implements [wire.Reader].
func (a *chatAnswer) Whole(body []byte) error {
	if _, err := a.Event(body); err != nil {
		return err
	}
	if a.finish == "" && a.text.Len() == 0 && len(a.calls) == 0 {
		return model.Errorf(model.BadAnswer, "its answer holds no choice")
	}
	return nil
}

// Event implements [wire.Reader].
func (a *chatAnswer) Event(data []byte) (bool, error) {
	if string(data) == "[DONE]" {
		return true, a.End()
	}
	var chunk chatChunk
	if err := wire.Decode(data, &chunk); err != nil {
		return false, err
	}
	if u := chunk.Usage; u != nil { // some endpoints say more than once what it has cost so far
		a.usage = model.Usage{Input: max(a.usage.Input, u.Input), Output: max(a.usage.Output, u.Output), Cached: max(a.usage.Cached, u.Details.Cached), Known: true}
	}
	if chunk.Error != nil {
		return false, chunk.Error.Error()
	}
	for i := range chunk.Choices {
		c := &chunk.Choices[i]
		if c.Index != 0 {
			continue // one was asked for
		}
		if c.FinishReason != "" {
			a.finish = c.FinishReason
		}
		for _, d := range []*chatDelta{&c.Delta, &c.Message} {
			if err := a.add(d); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// End implements [wire.Reader]. Some endpoints end without saying so.
func (a *chatAnswer) End() error {
	if a.finish == "" {
		return wire.ErrCut()
	}
	return nil
}

func (a *chatAnswer) tell(d model.Delta) {
	if a.delta != nil {
		a.delta(d)
	}
}

func (a *chatAnswer) add(d *chatDelta) error {
	if n := len(d.Reasoning) + len(d.Thinking); n > 0 {
		a.reasoning.WriteString(string(d.Reasoning))
		a.tell(model.Delta{Thinking: n})
	}
	if said := string(d.Content) + d.Refusal; said != "" {
		a.text.WriteString(string(d.Content))
		a.refusal.WriteString(d.Refusal)
		a.tell(model.Delta{Text: said})
	}
	for i := range d.ToolCalls {
		part := &d.ToolCalls[i]
		at := i // of a whole answer, which numbers nothing
		if part.Index != nil {
			at = *part.Index
		}
		called := a.open[at]
		// Some endpoints number every call 0, or none at all.
		if called == nil || part.ID != "" && called.id != "" && part.ID != called.id || part.ID == "" && part.Function.Name != "" && called.tool != "" && a.complete(called) {
			if len(a.calls) == model.MaxCalls {
				return wire.TooMany()
			}
			called = &chatCalled{}
			a.calls = append(a.calls, called)
			if a.open == nil {
				a.open = map[int]*chatCalled{}
			}
			a.open[at] = called
			a.tell(model.Delta{Call: a.names.Tool(wire.Cut(part.Function.Name, 256))})
		}
		if called.id == "" {
			called.id = part.ID
		}
		if called.tool == "" {
			called.tool = part.Function.Name
		}
		if len(part.Extra) > 0 {
			called.extra = part.Extra
		}
		called.args.WriteString(string(part.Function.Arguments))
	}
	return nil
}

// complete reports whether the arguments of a call are a whole value, so that another name
// begins another call. An answer that has it looked at again and again is not looked at.
func (a *chatAnswer) complete(c *chatCalled) bool {
	if a.looked++; a.looked > model.MaxCalls || c.args.Len() > maxLooked {
		return false
	}
	return json.Valid([]byte(c.args.String()))
}

// maxLooked bounds the arguments that are looked at before their answer has ended, in bytes.
const maxLooked = 256 << 10

// turn returns the turn once all of it is there.
func (a *chatAnswer) turn() *model.Turn {
	out := &model.Turn{Message: model.Message{Role: model.Assistant, Text: a.text.String()}, Usage: a.usage}
	if out.Text == "" {
		out.Text = a.refusal.String()
	}
	for _, c := range a.calls {
		out.Calls = append(out.Calls, wire.Call(a.names, c.id, c.tool, c.args.String()))
	}
	wire.FixIDs(a.r, out.Calls)
	kept := chatKept{Reasoning: a.reasoning.String()}
	for i, c := range a.calls {
		if c.extra != nil {
			if kept.Extra == nil {
				kept.Extra = map[string]json.RawMessage{}
			}
			kept.Extra[out.Calls[i].ID] = c.extra
		}
	}
	if kept.Reasoning != "" || kept.Extra != nil {
		out.Opaque = wire.Keep("chat", a.r.Model, kept)
	}
	out.Stop = a.stop(len(out.Calls) > 0)
	return out
}

func (a *chatAnswer) stop(calls bool) model.StopReason {
	switch {
	case a.finish == "content_filter" || a.refusal.Len() > 0:
		return model.StopRefusal
	case a.finish == "length":
		return model.StopLength
	case calls: // some endpoints say stop then
		return model.StopCalls
	case a.finish == "stop":
		return model.StopEnd
	}
	return model.StopOther
}
