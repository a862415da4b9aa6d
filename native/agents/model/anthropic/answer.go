package anthropic

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/native/agents/model"
	"github.com/toolgate/toolgate/native/agents/model/internal/wire"
)

const maxBlocks = 1024 // of one turn

// event is an event of a stream, as far as it counts.
type event struct {
	Type    string          `json:"type"`
	Message whole           `json:"message"`
	Index   int             `json:"index"`
	Block   json.RawMessage `json:"content_block"`
	Delta   struct {
		Type       string `json:"type"`
		Text       string `json:"text"`
		JSON       string `json:"partial_json"`
		Thinking   string `json:"thinking"`
		Signature  string `json:"signature"`
		StopReason string `json:"stop_reason"`
	} `json:"delta"`
	Usage usage       `json:"usage"`
	Error *wire.Fault `json:"error"`
}

// whole is the whole answer.
type whole struct {
	Type       string            `json:"type"`
	Content    []json.RawMessage `json:"content"`
	StopReason string            `json:"stop_reason"`
	Usage      usage             `json:"usage"`
	Error      *wire.Fault       `json:"error"`
}

// usage is what has been said of the cost. Later figures replace earlier ones.
type usage struct {
	Input   *int64 `json:"input_tokens"`
	Output  *int64 `json:"output_tokens"`
	Read    *int64 `json:"cache_read_input_tokens"`
	Written *int64 `json:"cache_creation_input_tokens"`
}

func (u *usage) add(o usage) {
	for _, f := range []struct{ to, from **int64 }{{&u.Input, &o.Input}, {&u.Output, &o.Output}, {&u.Read, &o.Read}, {&u.Written, &o.Written}} {
		if *f.from != nil {
			*f.to = *f.from
		}
	}
}

// part is a block of an answer.
type part struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`

	raw       json.RawMessage // as it began
	more      strings.Builder // of the text, the thinking or the input
	signature strings.Builder
}

// answer is a turn as it arrives.
type answer struct {
	r     *model.Request
	names *model.Names
	delta func(model.Delta)

	parts []*part
	calls int
	stop  string
	usage usage
}

// Usage implements [wire.Reader].
func (a *answer) Usage() model.Usage {
	value := func(n *int64) int64 {
		if n == nil {
			return 0
		}
		return *n
	}
	u := &a.usage
	return model.Usage{
		Input: value(u.Input) + value(u.Read) + value(u.Written), Output: value(u.Output), Cached: value(u.Read),
		Known: u.Input != nil || u.Output != nil,
	}
}

// Whole implements [wire.Reader].
func (a *answer) Whole(body []byte) error {
	var w whole
	if err := wire.Decode(body, &w); err != nil {
		return err
	}
	a.usage.add(w.Usage)
	switch {
	case w.Error != nil:
		return w.Error.Error()
	case w.Type != "message" || w.StopReason == "":
		return model.Errorf(model.BadAnswer, "its answer is no message that has ended")
	}
	a.stop = w.StopReason
	for _, raw := range w.Content {
		if err := a.begin(raw); err != nil {
			return err
		}
	}
	return nil
}

// End implements [wire.Reader].
func (a *answer) End() error { return wire.ErrCut() }

// Event implements [wire.Reader].
func (a *answer) Event(data []byte) (bool, error) {
	var e event
	if err := wire.Decode(data, &e); err != nil {
		return false, err
	}
	switch e.Type {
	case "error":
		if e.Error == nil {
			e.Error = &wire.Fault{}
		}
		return false, e.Error.Error()
	case "message_start":
		a.usage.add(e.Message.Usage)
	case "content_block_start":
		if e.Index != len(a.parts) {
			return false, model.Errorf(model.BadAnswer, "its answer numbers its blocks wrongly")
		}
		return false, a.begin(e.Block)
	case "content_block_delta":
		if e.Index < 0 || e.Index >= len(a.parts) {
			return false, model.Errorf(model.BadAnswer, "its answer numbers its blocks wrongly")
		}
		a.parts[e.Index].more.WriteString(e.Delta.Text + e.Delta.Thinking + e.Delta.JSON)
		a.parts[e.Index].signature.WriteString(e.Delta.Signature)
		if e.Delta.Text != "" || e.Delta.Thinking != "" {
			a.tell(model.Delta{Text: e.Delta.Text, Thinking: len(e.Delta.Thinking)})
		}
	case "message_delta":
		a.usage.add(e.Usage)
		if e.Delta.StopReason != "" {
			a.stop = e.Delta.StopReason
		}
	case "message_stop":
		if a.stop == "" {
			return false, wire.ErrCut()
		}
		return true, nil
	}
	return false, nil
}

func (a *answer) tell(d model.Delta) {
	if a.delta != nil {
		a.delta(d)
	}
}

// begin takes a block, or the beginning of one.
func (a *answer) begin(raw json.RawMessage) error {
	p := &part{}
	var kind struct {
		Type string `json:"type"`
	}
	if err := wire.Decode(raw, &kind); err != nil {
		return err
	}
	p.Type = kind.Type
	if slices.Contains([]string{"text", "tool_use", "thinking"}, kind.Type) {
		if err := wire.Decode(raw, p); err != nil {
			return err
		}
	}
	p.raw = raw
	if len(a.parts) == maxBlocks {
		return model.Errorf(model.BadAnswer, "its turn has more than %d blocks", maxBlocks)
	}
	a.parts = append(a.parts, p)
	switch p.Type {
	case "text":
		if p.Text != "" {
			a.tell(model.Delta{Text: p.Text})
		}
	case "tool_use":
		if a.calls++; a.calls > model.MaxCalls {
			return wire.TooMany()
		}
		a.tell(model.Delta{Call: a.names.Tool(wire.Cut(p.Name, 256))})
	}
	return nil
}

// turn returns the turn once all of it is there.
func (a *answer) turn() *model.Turn {
	out := &model.Turn{Message: model.Message{Role: model.Assistant}, Usage: a.Usage()}
	keep := false
	var said strings.Builder
	for _, p := range a.parts {
		switch p.Type {
		case "text":
			said.WriteString(p.Text + p.more.String())
		case "tool_use":
			args := p.more.String()
			if args == "" {
				args = string(p.Input)
			}
			out.Calls = append(out.Calls, wire.Call(a.names, p.ID, p.Name, args))
		default:
			keep = true
		}
	}
	out.Text = said.String()
	if fixed := wire.FixIDs(a.r, out.Calls); keep && !fixed {
		out.Opaque = wire.Keep("messages", a.r.Model, a.blocks(out.Calls))
	}
	switch {
	case a.stop == "refusal":
		out.Stop = model.StopRefusal
	case a.stop == "max_tokens" || a.stop == "model_context_window_exceeded":
		out.Stop = model.StopLength
	case len(out.Calls) > 0:
		out.Stop = model.StopCalls
	case a.stop == "end_turn" || a.stop == "stop_sequence":
		out.Stop = model.StopEnd
	default:
		out.Stop = model.StopOther
	}
	return out
}

// blocks returns the answer as it is given back: each block where it was.
func (a *answer) blocks(calls []model.Call) []json.RawMessage {
	var out []json.RawMessage
	for _, p := range a.parts {
		switch p.Type {
		case "text":
			if text := p.Text + p.more.String(); strings.TrimSpace(text) != "" {
				out = append(out, block(textBlock{"text", text}))
			}
		case "tool_use":
			c := &calls[0]
			calls = calls[1:]
			out = append(out, block(useBlock{"tool_use", c.ID, a.names.Wire(c.Tool), wire.Args(c)}))
		case "thinking":
			out = append(out, block(struct {
				Type      string `json:"type"`
				Thinking  string `json:"thinking"`
				Signature string `json:"signature"`
			}{"thinking", p.Thinking + p.more.String(), p.Signature + p.signature.String()}))
		default:
			out = append(out, p.raw)
		}
	}
	return out
}
