package agents_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/native/agents"
	"github.com/toolgate/toolgate/native/agents/model"
)

// TestSample: an agent's model answers what servers ask of it, in the protocol's words, and
// the answer tells nothing of an endpoint that failed.
func TestSample(t *testing.T) {
	s := &agents.Settings{Model: "m", MaxTokens: 50, Timeout: time.Minute, Context: 1000}
	const hi = `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":9}`
	for name, tt := range map[string]struct {
		params string
		turn   *model.Turn
		err    error
		want   string
	}{
		"one block":          {hi, says("blue"), nil, `{"role":"assistant","content":{"type":"text","text":"blue"},"model":"m","stopReason":"endTurn"}`},
		"blocks":             {`{"messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"text","text":"you"}]}],"maxTokens":9}`, says("blue"), nil, `"endTurn"`},
		"cut":                {hi, &model.Turn{Message: model.Message{Text: "bl"}, Stop: model.StopLength}, nil, `"stopReason":"maxTokens"`},
		"refused":            {hi, &model.Turn{Stop: model.StopRefusal}, nil, "has not answered"},
		"an endpoint's text": {hi, nil, errors.New("key sk-123 is wrong"), "cannot be asked"},
		"no messages":        {`{"maxTokens":9}`, says("x"), nil, "messages and maxTokens"},
		"no bound":           {`{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}]}`, says("x"), nil, "messages and maxTokens"},
		"an image":           {`{"messages":[{"role":"user","content":{"type":"image","data":"","mimeType":"image/png"}}],"maxTokens":9}`, says("x"), nil, "messages are texts"},
		"another role":       {`{"messages":[{"role":"system","content":{"type":"text","text":"hi"}}],"maxTokens":9}`, says("x"), nil, "messages are texts"},
		"tools":              {`{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":9,"tools":[{}]}`, says("x"), nil, "tools were not offered"},
		"not JSON":           {`{"messages":`, says("x"), nil, "Invalid params"},
	} {
		m := &script{say: func(int, *model.Request) (*model.Turn, error) { return tt.turn, tt.err }}
		got, fault := agents.Sample(t.Context(), s, m, nil, slog.New(slog.DiscardHandler), []byte(tt.params))
		text := string(got)
		if fault != nil {
			text = fault.Message
		}
		if !strings.Contains(text, tt.want) || strings.Contains(text, "sk-123") {
			t.Errorf("%s: %s", name, text)
		}
		for _, r := range m.seen {
			if r.MaxTokens != 9 || r.Choice.Mode != model.ChooseNone || len(r.Messages) != 1 || !strings.HasPrefix(r.Messages[0].Text, "hi") {
				t.Errorf("%s: asked %+v", name, r)
			}
		}
	}
}
