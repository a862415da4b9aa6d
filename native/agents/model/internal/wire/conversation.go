package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolgate/toolgate/native/agents/model"
)

const (
	maxRaw  = 4 << 10 // bytes that are kept of broken arguments
	maxName = 256     // bytes of the name of a tool, and of an id
)

// Check returns what is wrong with a conversation, which no endpoint would take.
func Check(r *model.Request) error {
	var open []model.Call
	for i := range r.Messages {
		m := &r.Messages[i]
		if len(open) > 0 && m.Role != model.Tools {
			return model.Errorf(model.Refused, "message %d stands where results of calls have to be", i)
		}
		switch m.Role {
		case model.User:
			if strings.TrimSpace(m.Text) == "" {
				return model.Errorf(model.Refused, "message %d, by the user, has no text", i)
			}
		case model.Assistant:
			open = m.Calls
		case model.Tools:
			if len(m.Results) == 0 || len(m.Results) != len(open) {
				return model.Errorf(model.Refused, "message %d has %d results for %d calls", i, len(m.Results), len(open))
			}
			for k := range open {
				if open[k].ID != m.Results[k].Call {
					return model.Errorf(model.Refused, "message %d answers other calls than were made", i)
				}
			}
			open = nil
		default:
			return model.Errorf(model.Refused, "message %d has no role that exists", i)
		}
	}
	switch {
	case len(open) > 0:
		return model.Errorf(model.Refused, "the last message has calls without results")
	case len(r.Messages) == 0:
		return model.Errorf(model.Refused, "there is nothing to answer")
	}
	return nil
}

// Call returns a call as a model has written it. tool is the name on the wire.
func Call(names *model.Names, id, tool, args string) model.Call {
	c := model.Call{ID: id, Tool: names.Tool(tool)}
	trimmed := strings.TrimSpace(args)
	switch {
	case tool == "":
		c.Broken = "the call names no tool"
	case len(tool) > maxName || !utf8.ValidString(tool):
		c.Tool, c.Broken = Cut(strings.ToValidUTF8(tool, "?"), maxName), "the name of the tool is none"
	case trimmed == "":
		c.Args = json.RawMessage("{}") // as models write it for a tool without arguments
		return c
	case !utf8.ValidString(args):
		c.Broken = "the arguments are not UTF-8"
	case !json.Valid([]byte(trimmed)):
		c.Broken = "the arguments are not JSON"
	case trimmed[0] != '{':
		c.Broken = "the arguments are not a JSON object"
	default:
		c.Args = json.RawMessage(trimmed)
		return c
	}
	c.Raw = Cut(strings.ToValidUTF8(args, "?"), maxRaw)
	return c
}

// Args returns the arguments of an earlier call to be given back. Broken ones are wrapped,
// as Anthropic advises, because endpoints want an object.
func Args(c *model.Call) json.RawMessage {
	if c.Broken == "" {
		if !json.Valid(c.Args) {
			return json.RawMessage("{}")
		}
		return c.Args
	}
	out, _ := JSON(struct { // a string always can be written
		Raw string `json:"INVALID_JSON"`
	}{c.Raw})
	return out
}

// FixIDs gives an id to each call whose own is missing, taken or no text, and reports
// whether there was one.
func FixIDs(r *model.Request, calls []model.Call) bool {
	taken, fixed := make(map[string]bool, len(calls)), false
	for i := range calls {
		id := calls[i].ID
		if id == "" || taken[id] || len(id) > maxName || !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl) {
			sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", r.ID, len(r.Messages), i))
			calls[i].ID, fixed = "call_"+hex.EncodeToString(sum[:8]), true
		}
		taken[calls[i].ID] = true
	}
	return fixed
}

// TooMany is the error of a turn with more calls than are taken.
func TooMany() error {
	return model.Errorf(model.BadAnswer, "its turn has more than %d calls", model.MaxCalls)
}

// Schema returns the schema of a tool's arguments.
func Schema(t *model.Tool) json.RawMessage {
	if len(t.Schema) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return t.Schema
}

// ResultText returns the text of a result, for formats that cannot say that it is an error.
func ResultText(r *model.Result) string {
	if r.IsError && !strings.HasPrefix(strings.ToLower(r.Text), "error") {
		return "Error: " + r.Text
	}
	return r.Text
}

// Opaque is what a message keeps for its wire format.
type Opaque struct {
	Format string          `json:"format"`
	Model  string          `json:"model"`
	Data   json.RawMessage `json:"data"`
}

// Keep returns what a message keeps; nil where it cannot be kept.
func Keep(format, name string, data any) json.RawMessage {
	text, err := JSON(data)
	if err != nil {
		return nil
	}
	out, err := JSON(Opaque{format, name, text})
	if err != nil {
		return nil
	}
	return out
}

// Kept reads what a message keeps of the same format and model.
func Kept(m *model.Message, format, name string, into any) bool {
	var o Opaque
	if len(m.Opaque) == 0 || json.Unmarshal(m.Opaque, &o) != nil || o.Format != format || o.Model != name {
		return false
	}
	return json.Unmarshal(o.Data, into) == nil
}
