package openai

import (
	"encoding/json"
	"strings"

	"github.com/toolgate/toolgate/native/agents/model"
	"github.com/toolgate/toolgate/native/agents/model/internal/wire"
)

// responsesEvent is an event of a stream, as far as it counts.
type responsesEvent struct {
	Type     string          `json:"type"`
	Delta    json.RawMessage `json:"delta"` // a text, in the events that are of interest
	Item     json.RawMessage `json:"item"`
	Response json.RawMessage `json:"response"`
	Error    *wire.Fault     `json:"error"`
	wireError
}

// wireError is an error beside the type of an event.
type wireError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// response is the whole answer.
type response struct {
	Object     string            `json:"object"`
	Status     string            `json:"status"`
	Output     []json.RawMessage `json:"output"`
	Error      *wire.Fault       `json:"error"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Usage *struct {
		Input   int64 `json:"input_tokens"`
		Output  int64 `json:"output_tokens"`
		Details struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"input_tokens_details"`
	} `json:"usage"`
}

// outputItem is a message or a call of an answer.
type outputItem struct {
	Content []struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	} `json:"content"`
	CallID    string    `json:"call_id"`
	Name      string    `json:"name"`
	Arguments arguments `json:"arguments"`
}

// responsesAnswer is a turn as it arrives.
type responsesAnswer struct {
	r     *model.Request
	names *model.Names
	delta func(model.Delta)

	items []json.RawMessage // that are done
	calls int               // that have begun
	final *response
	usage model.Usage
}

// Usage implements [wire.Reader].
func (a *responsesAnswer) Usage() model.Usage { return a.usage }

// Whole implements [wire.Reader].
func (a *responsesAnswer) Whole(body []byte) error { return a.end(body) }

// End implements [wire.Reader].
func (a *responsesAnswer) End() error { return wire.ErrCut() }

// Event implements [wire.Reader].
func (a *responsesAnswer) Event(data []byte) (bool, error) {
	if string(data) == "[DONE]" {
		return true, wire.ErrCut()
	}
	var e responsesEvent
	if err := wire.Decode(data, &e); err != nil {
		return false, err
	}
	switch e.Type {
	case "error":
		if e.Error == nil {
			e.Error = &wire.Fault{Code: e.Code, Message: e.Message}
		}
		return false, e.Error.Error()
	case "response.completed", "response.incomplete", "response.failed":
		return true, a.end(e.Response)
	case "response.output_item.added":
		var item struct {
			Type string `json:"type"`
			Name string `json:"name"`
		}
		if err := wire.Decode(e.Item, &item); err != nil {
			return false, err
		}
		if item.Type == "function_call" {
			if a.calls++; a.calls > model.MaxCalls {
				return false, wire.TooMany()
			}
			a.tell(model.Delta{Call: a.names.Tool(wire.Cut(item.Name, 256))})
		}
	case "response.output_item.done":
		a.items = append(a.items, e.Item)
	case "response.output_text.delta", "response.refusal.delta":
		a.tell(model.Delta{Text: plain(e.Delta)})
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
		a.tell(model.Delta{Thinking: len(plain(e.Delta))})
	}
	return false, nil
}

func plain(data json.RawMessage) string {
	var s string
	_ = json.Unmarshal(data, &s) // progress alone depends on it
	return s
}

func (a *responsesAnswer) tell(d model.Delta) {
	if a.delta != nil {
		a.delta(d)
	}
}

// end takes the response that holds everything.
func (a *responsesAnswer) end(data []byte) error {
	var f response
	if err := wire.Decode(data, &f); err != nil {
		return err
	}
	if u := f.Usage; u != nil {
		a.usage = model.Usage{Input: u.Input, Output: u.Output, Cached: u.Details.Cached, Known: true}
	}
	switch {
	case f.Error != nil:
		return f.Error.Error()
	case f.Status != "completed" && f.Status != "incomplete":
		return model.Errorf(model.BadAnswer, "its response is neither completed nor incomplete")
	}
	if len(f.Output) == 0 {
		f.Output = a.items // some endpoints do not repeat them
	}
	a.final = &f
	return nil
}

// turn returns the turn once all of it is there.
func (a *responsesAnswer) turn() (*model.Turn, error) {
	if a.final == nil {
		return nil, wire.ErrCut()
	}
	out := &model.Turn{Message: model.Message{Role: model.Assistant}, Usage: a.usage}
	var said, refusal strings.Builder
	keep := false
	for _, raw := range a.final.Output {
		var item outputItem
		var kind struct {
			Type string `json:"type"`
		}
		if err := wire.Decode(raw, &kind); err != nil {
			return nil, err
		}
		if kind.Type != "message" && kind.Type != "function_call" {
			keep = true // reasoning, and what has to be given back beside it
			continue
		}
		if err := wire.Decode(raw, &item); err != nil {
			return nil, err
		}
		switch kind.Type {
		case "message":
			for _, part := range item.Content {
				said.WriteString(part.Text)
				refusal.WriteString(part.Refusal)
			}
		case "function_call":
			if len(out.Calls) == model.MaxCalls {
				return nil, wire.TooMany()
			}
			out.Calls = append(out.Calls, wire.Call(a.names, item.CallID, item.Name, string(item.Arguments)))
		}
	}
	if out.Text = said.String(); out.Text == "" {
		out.Text = refusal.String()
	}
	if fixed := wire.FixIDs(a.r, out.Calls); keep && !fixed {
		out.Opaque = wire.Keep("responses", a.r.Model, a.final.Output)
	}
	out.Stop = a.stop(len(out.Calls) > 0, refusal.Len() > 0)
	return out, nil
}

func (a *responsesAnswer) stop(calls, refused bool) model.StopReason {
	switch reason := a.final.Incomplete.Reason; {
	case refused || reason == "content_filter":
		return model.StopRefusal
	case reason == "max_output_tokens":
		return model.StopLength
	case a.final.Status == "incomplete":
		return model.StopOther
	case calls:
		return model.StopCalls
	}
	return model.StopEnd
}
