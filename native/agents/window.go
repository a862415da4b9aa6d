package agents

import (
	"fmt"
	"strings"

	"github.com/toolgate/toolgate/native/agents/model"
)

const (
	// bytesPerToken is how many bytes a token stands for, as far as is guessed. What is
	// reserved for an inference counts with leastBytes, which few texts have.
	bytesPerToken, leastBytes = 3, 2
	// promptTokens is what each request has besides what is said in it.
	promptTokens = 64
	// share is the part of the window that one result may fill: 1/share.
	share = 8
	// messageTokens is what each message and each tool has besides its text.
	messageTokens = 8
)

// tokens is how many tokens some bytes have, as far as is guessed.
func tokens(bytes int) int { return (bytes + bytesPerToken - 1) / bytesPerToken }

func sizeOf(m *model.Message) int {
	n := messageTokens + tokens(len(m.Text)+len(m.Opaque))
	for i := range m.Calls {
		n += messageTokens + tokens(len(m.Calls[i].Tool)+len(m.Calls[i].Args)+len(m.Calls[i].Raw))
	}
	for i := range m.Results {
		n += messageTokens + tokens(len(m.Results[i].Text))
	}
	return n
}

// size is how many tokens the model reads in the next turn.
func (r *Run) size() int {
	n := tokens(len(r.Settings.Instructions) + len(r.Settings.Parameters))
	for i := range r.messages {
		n += sizeOf(&r.messages[i])
	}
	if r.Task.Choice.Mode != model.ChooseNone {
		for i := range r.offered.list {
			t := &r.offered.list[i]
			n += messageTokens + tokens(len(t.Name)+len(t.Description)+len(t.Schema))
		}
	}
	return n
}

// leftOut takes the place of a result that the model has had.
const leftOut = "[left out to make room: %d bytes; call the tool again if you need them]"

// request returns what the model is asked next. Where its window is full, the oldest
// results are left out.
func (r *Run) request() (*model.Request, error) {
	room := r.window - r.Settings.MaxTokens - promptTokens
	over := r.size() - room
	for i := 0; over > 0 && i < len(r.messages); i++ {
		for j := range r.messages[i].Results {
			result := &r.messages[i].Results[j]
			short := fmt.Sprintf(leftOut, len(result.Text))
			if saved := tokens(len(result.Text)) - tokens(len(short)); saved > 0 && over > 0 {
				over -= saved
				result.Text = short
			}
		}
	}
	if over > 0 {
		return nil, limited(LimitContext, "The conversation needs about %d tokens more than the model can read (context of the agent, less max_tokens).", over)
	}
	q := &model.Request{
		Model: r.Settings.Model, Instructions: r.Settings.Instructions, Messages: r.messages, Choice: r.choice(), MaxTokens: r.Settings.MaxTokens,
	}
	if r.Task.Choice.Mode != model.ChooseNone {
		q.Tools = r.offered.list
	}
	if len(q.Tools) == 0 {
		q.Choice = model.Choice{}
	}
	return q, nil
}

// cut cuts a result that would fill too much of the window.
func (r *Run) cut(text string) string {
	most := r.Settings.Context / share * bytesPerToken
	if len(text) <= most {
		return text
	}
	const note = "\n[cut: %d of %d bytes are here. Ask the tool for less, or for the rest where the result says how.]"
	return strings.ToValidUTF8(text[:most], "") + fmt.Sprintf(note, most, len(text))
}
