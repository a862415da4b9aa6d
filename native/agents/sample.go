package agents

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/agents/model"
)

// sampleTime bounds the answer to one request for sampling.
const sampleTime = 2 * time.Minute

// sampling are the params of sampling/createMessage (2025-11-25 client/sampling).
type sampling struct {
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	System    string          `json:"systemPrompt"`
	MaxTokens int             `json:"maxTokens"`
	Tools     json.RawMessage `json:"tools"`
}

// Sample answers a server's request for sampling by the model of an agent, within its
// budget. What the server asks of the choice of a model, of context and of randomness are
// wishes, which are left out. The error is the answer to the server: it never has what an
// endpoint said.
func Sample(ctx context.Context, s *Settings, m model.Model, b Budget, log *slog.Logger, params []byte) ([]byte, *mcp.Error) {
	request, fault := s.sampled(params)
	if fault != nil {
		return nil, fault
	}
	ctx, stop := context.WithTimeout(ctx, min(sampleTime, s.Timeout))
	defer stop()
	input := int64(len(params)+len(s.Parameters))*bytesPerToken/leastBytes + promptTokens
	reserved := Reservation{
		Run: "sample-" + rand.Text(), At: time.Now(), Tokens: input + int64(request.MaxTokens), Input: input,
		Cost: s.Prices.Cost(input, int64(request.MaxTokens)),
	}
	r := &Run{ID: reserved.Run, Settings: s, Budget: b, Log: log}
	if b != nil {
		if err := b.Reserve(ctx, reserved); err != nil {
			r.settle(ctx, reserved, none(reserved)) // it may have been charged all the same
			log.Warn("a request for sampling was not answered", "model", s.Model, "err", err)
			return nil, mcp.Errorf(mcp.CodeInternal, "The model cannot be asked at the moment.") // whose budget is used up is not the server's to know
		}
	}
	request.ID = reserved.Run
	turn, err := m.Infer(ctx, request, nil)
	if err != nil {
		r.settle(ctx, reserved, r.usedBy(reserved, err))
		log.Warn("a request for sampling was not answered", "model", s.Model, "err", err)
		return nil, mcp.Errorf(mcp.CodeInternal, "The model cannot be asked at the moment.")
	}
	r.settle(ctx, reserved, r.used(reserved, turn.Usage))
	if turn.Stop == model.StopRefusal || turn.Text == "" {
		return nil, mcp.Errorf(mcp.CodeInternal, "The model has not answered.")
	}
	reason := "endTurn"
	if turn.Stop == model.StopLength {
		reason = "maxTokens"
	}
	out := mcp.AppendQuote([]byte(`{"role":"assistant","content":{"type":"text","text":`), turn.Text)
	out = mcp.AppendQuote(append(out, `},"model":`...), s.Model)
	return append(mcp.AppendQuote(append(out, `,"stopReason":`...), reason), '}'), nil
}

// sampled is what a model is asked for a request of a server.
func (s *Settings) sampled(params []byte) (*model.Request, *mcp.Error) {
	var in sampling
	if len(params) > maxTask || json.Unmarshal(params, &in) != nil || len(in.Messages) == 0 || in.MaxTokens < 1 {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: messages and maxTokens are needed, of %d bytes at most", maxTask)
	}
	if in.Tools != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: tools were not offered with sampling")
	}
	r := &model.Request{Model: s.Model, Instructions: in.System, Choice: model.Choice{Mode: model.ChooseNone}, MaxTokens: min(in.MaxTokens, s.MaxTokens)}
	for _, m := range in.Messages {
		role := map[string]model.Role{"user": model.User, "assistant": model.Assistant}[m.Role]
		text, err := sampledText(m.Content)
		if role == "" || err != nil {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: messages are texts of the roles user and assistant here")
		}
		if last := len(r.Messages) - 1; last >= 0 && r.Messages[last].Role == role { // endpoints want them to alternate
			r.Messages[last].Text += "\n\n" + text
			continue
		}
		r.Messages = append(r.Messages, model.Message{Role: role, Text: text})
	}
	return r, nil
}

// sampledText returns the text of the content of a message: one block, or a list of blocks.
func sampledText(content json.RawMessage) (string, error) {
	type block struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	var blocks []block
	if mcp.IsObject(content) {
		blocks = make([]block, 1)
		if err := json.Unmarshal(content, &blocks[0]); err != nil {
			return "", err
		}
	} else if err := json.Unmarshal(content, &blocks); err != nil {
		return "", err
	}
	var texts []string
	for _, b := range blocks {
		if b.Type != "text" || b.Text == "" {
			return "", fmt.Errorf("a block of the type %.20q", b.Type)
		}
		texts = append(texts, b.Text)
	}
	if texts == nil {
		return "", errors.New("no text")
	}
	return strings.Join(texts, "\n\n"), nil
}
