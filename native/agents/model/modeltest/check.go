package modeltest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/native/agents/model"
)

// asked is a request, whatever its format.
type asked struct {
	model    string
	stream   bool
	usage    bool // is to be in the stream
	thinking bool // can be given back
	limit    int  // bytes of the name of a tool
	tools    []string
	choice   string // auto, required, none or tool
	tool     string // of the choice
	turns    int    // of the model so far
	last     string // the last message
	said     []said
}

// said is one message of a conversation.
type said struct {
	role    string // user, assistant or tools
	text    string
	calls   []string // ids
	names   []string // of the tools that are called
	results []string // ids
}

// check refuses what no format takes.
func (a *asked) check() *fault {
	name := regexp.MustCompile(fmt.Sprintf(`^[a-zA-Z0-9_-]{1,%d}$`, a.limit))
	switch {
	case a.model == "":
		return bad("model: field required")
	case len(a.said) == 0:
		return bad("messages: at least one message is required")
	case len(a.tools) == 0 && a.choice != "auto":
		return bad("tool_choice is only allowed when tools are specified")
	case a.choice == "tool" && !slices.Contains(a.tools, a.tool):
		return bad("tool_choice: there is no tool " + a.tool)
	}
	for i, tool := range a.tools {
		if !name.MatchString(tool) {
			return bad("tools: the name " + tool + " does not match " + name.String())
		}
		if slices.Contains(a.tools[:i], tool) {
			return bad("tools: tool names must be unique: " + tool)
		}
	}
	var open []string
	for i, m := range a.said {
		for _, tool := range m.names {
			if !name.MatchString(tool) {
				return bad(fmt.Sprintf("messages.%d: the name of a tool does not match %s", i, name))
			}
		}
		for _, id := range m.results {
			at := slices.Index(open, id)
			if at < 0 {
				return bad(fmt.Sprintf("messages.%d: a result for %q, which was not called in the previous message or is answered twice", i, id))
			}
			open = slices.Delete(open, at, at+1)
		}
		if m.role != "tools" && len(open) > 0 {
			return bad(fmt.Sprintf("messages.%d: these calls have no results: %s", i, strings.Join(open, ", ")))
		}
		for k, id := range m.calls {
			if id == "" || slices.Contains(m.calls[:k], id) {
				return bad(fmt.Sprintf("messages.%d: the ids of calls must be unique and not empty", i))
			}
		}
		if m.role == "assistant" {
			open = slices.Clone(m.calls)
			if i == 0 || a.said[i-1].role != "assistant" {
				a.turns++
			}
		}
		a.last = m.text
	}
	if len(open) > 0 {
		return bad("these calls have no results: " + strings.Join(open, ", "))
	}
	return nil
}

// strict decodes a request, and refuses members that its format does not have.
func strict(body []byte, into any) *fault {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return bad("the request is not as the format has it: " + err.Error())
	}
	if dec.More() {
		return bad("there is more than one document")
	}
	return nil
}

// object refuses schemas and arguments that are no objects.
func object(data []byte, schema bool) *fault {
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil || members == nil {
		return bad("not a JSON object: " + string(data))
	}
	if schema && string(members["type"]) != `"object"` {
		return bad(`a schema of arguments has "type": "object"`)
	}
	return nil
}

// wireName returns how a request calls a tool.
func (a *asked) wireName(tool string) string {
	if slices.Contains(a.tools, tool) {
		return tool
	}
	if wire := model.NewNames([]model.Tool{{Name: tool}}, a.limit).Wire(tool); slices.Contains(a.tools, wire) {
		return wire
	}
	return tool
}

// callID returns the id of a call.
func (a *asked) callID(prefix string, t *Turn, i int) string {
	if t.Calls[i].ID != "" {
		return t.Calls[i].ID
	}
	return fmt.Sprintf("%s%d_%d", prefix, a.turns, i)
}

// sign returns what proves that a text was thought here.
func sign(text string) string {
	sum := sha256.Sum256([]byte("thought " + text))
	return hex.EncodeToString(sum[:12])
}

// pieces cuts a text as a stream does.
func pieces(text string) []string {
	var out []string
	for len(text) > 0 {
		n := min(len(text), 12)
		for n < len(text) && text[n]&0xC0 == 0x80 {
			n++
		}
		out = append(out, text[:n])
		text = text[n:]
	}
	return out
}

func usageOf(t *Turn) model.Usage {
	if t.Usage != nil {
		return *t.Usage
	}
	return model.Usage{Input: 100, Output: 10}
}
