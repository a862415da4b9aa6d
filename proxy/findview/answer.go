package findview

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/schemas"
)

// Found is one thing that a search has found.
type Found struct {
	Name       string // that clients use
	Server     string
	Definition []byte // as clients see it
	Kind       mcp.Kind
	Approval   bool   // people are asked before a call of it
	Refused    string // why the caller may not call it; empty where it may
}

// Limits of an answer.
const (
	// maxSummary bounds the description of one tool, and maxSignature its signature.
	maxSummary   = 200
	maxSignature = 600
	maxNotes     = 5
)

// Answer is what a search answers.
type Answer struct {
	Found []Found // best first
	More  int     // further matches
	Notes []string
}

// part is one thing found and what is said of it so far.
type part struct {
	of        *Found
	base      []byte // members that are always there
	arguments []byte // the member with its signature or schema; nil for none
}

func (p *part) size() int { return len(p.base) + len(p.arguments) + len("{},") }

// Render returns the structured content of the answer, in at most about the given
// number of tokens, and the names that it shows. The best are described by their schema
// as long as that fits, the rest by a signature, and what does not fit at all is
// counted.
func (a *Answer) Render(detail Detail, tokens int) (structured []byte, shown []string) {
	most := schemas.Bytes(tokens)
	notes := a.Notes[:min(len(a.Notes), maxNotes)]
	used := len(`{"tools":[],"more":0000}`)
	for _, n := range notes {
		used += len(n) + len(`"",`)
	}
	parts := make([]part, 0, len(a.Found))
	for i := range a.Found {
		p := part{of: &a.Found[i], base: a.Found[i].base()}
		if len(a.Found[i].Name) > maxName { // a URI
			continue
		}
		if used+p.size() > most && len(parts) > 0 {
			break
		}
		used += p.size()
		parts = append(parts, p)
	}
	if detail != Names {
		used = addSignatures(parts, used, most)
	}
	if detail == Fitting || detail == Schemas {
		used = addSchemas(parts, used, most, detail == Schemas)
	}
	out := append(make([]byte, 0, used+used/8), `{"tools":[`...)
	shown = slices.Grow(shown, len(parts))
	for i, p := range parts {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(append(out, '{'), p.base...), p.arguments...), '}')
		shown = append(shown, p.of.Name)
	}
	out = strconv.AppendInt(append(out, `],"more":`...), int64(a.More+len(a.Found)-len(parts)), 10)
	return append(appendNotes(out, notes), '}'), shown
}

// addSignatures gives each part its signature as long as there is room, and returns the
// bytes used.
func addSignatures(parts []part, used, most int) int {
	for i := range parts {
		text, ok := parts[i].of.signature(min(maxSignature, most-used))
		if !ok {
			continue
		}
		const member = `,"signature":`
		parts[i].arguments = mcp.AppendQuote(append(make([]byte, 0, len(member)+len(text)+len(`""`)), member...), text)
		used += len(parts[i].arguments)
	}
	return used
}

// addSchemas gives the best parts their schema in place of the signature, as long as
// there is room, and returns the bytes used. With all, one that does not fit does not end
// this.
func addSchemas(parts []part, used, most int, all bool) int {
	for i := range parts {
		schema := parts[i].of.schema()
		if schema == nil || len(schema) > 8*(most-used+len(parts[i].arguments)) { // no form of it is that much smaller
			continue
		}
		const member = `,"inputSchema":`
		compact := schemas.Compact(schema)
		more := len(member) + len(compact) - len(parts[i].arguments)
		switch {
		case used+more <= most:
			parts[i].arguments, used = append(append(make([]byte, 0, len(member)+len(compact)), member...), compact...), used+more
		case !all:
			return used
		}
	}
	return used
}

// base returns the members that are always there.
func (f *Found) base() []byte {
	const rest = 160 // bytes of the other members, mostly
	b := append(make([]byte, 0, len(f.Name)+len(f.Server)+maxSummary/2+rest), `"name":`...)
	b = mcp.AppendQuote(b, f.Name)
	b = mcp.AppendQuote(append(b, `,"server":`...), f.Server)
	if f.Kind != mcp.Tool {
		b = mcp.AppendQuote(append(b, `,"kind":`...), f.Kind.String())
	}
	if title, ok := mcp.LookupString(f.Definition, "title"); ok && title != "" && len(title) <= maxSummary {
		b = mcp.AppendQuote(append(b, `,"title":`...), title)
	}
	if text, _ := mcp.LookupString(f.Definition, "description"); text != "" {
		b = mcp.AppendQuote(append(b, `,"description":`...), Summary(text))
	}
	switch {
	case f.Refused != "":
		b = mcp.AppendQuote(append(b, `,"refused":`...), f.Refused)
	case f.Kind == mcp.Tool:
		b = mcp.AppendQuote(append(b, `,"call":`...), CallOf(f.Definition))
	}
	if f.Approval {
		b = append(b, `,"approval":true`...)
	}
	return b
}

func (f *Found) schema() []byte {
	if f.Kind != mcp.Tool {
		return nil
	}
	return mcp.Lookup(f.Definition, "inputSchema")
}

// signature returns how the item is called, in at most a number of bytes. ok is false
// where that is no room.
func (f *Found) signature(most int) (text string, ok bool) {
	switch f.Kind {
	case mcp.Tool:
		text, _ = schemas.Signature(f.Name, f.schema(), most)
	case mcp.Prompt:
		text = promptSignature(f.Name, mcp.Lookup(f.Definition, "arguments"))
	default:
		return "", false
	}
	return text, len(text) <= most
}

// promptSignature is the signature of a prompt by its arguments (2026-07-28 schema,
// PromptArgument).
func promptSignature(name string, arguments []byte) string {
	var all []string
	for e := range mcp.Elements(arguments) {
		argument := e.Of(arguments)
		text, _ := mcp.LookupString(argument, "name")
		if string(mcp.Lookup(argument, "required")) != "true" {
			text += "?"
		}
		all = append(all, text)
	}
	return name + "(" + strings.Join(all, ", ") + ")"
}

// Summary returns the first sentence of a text, in one line and cut where it is long.
func Summary(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for i := 0; i < len(text); i++ {
		if c := text[i]; (c == '.' || c == '!' || c == '?') && (i+1 == len(text) || text[i+1] == ' ') && i >= 20 {
			text = text[:i+1]
			break
		}
	}
	if len(text) <= maxSummary {
		return text
	}
	at := maxSummary
	for !utf8.RuneStart(text[at]) {
		at--
	}
	if space := strings.LastIndexByte(text[:at], ' '); space > maxSummary/2 {
		at = space
	}
	return text[:at] + "..."
}

// Unknown is a name that does not exist for the caller.
type Unknown struct {
	Name string
	Near []string // names that may be meant
}

// Describe returns the structured content of a description, and the names that it
// shows. The definitions are whole. Those for which there is no room within about the
// given number of tokens are named, but for the first.
func Describe(found []Found, unknown []Unknown, tokens int) (structured []byte, shown []string) {
	most := schemas.Bytes(tokens)
	out := []byte(`{"tools":[`)
	var notes []string
	for i := range found {
		definition := found[i].Definition
		switch {
		case found[i].Kind != mcp.Tool:
			definition = mcp.SetMember(definition, "kind", mcp.Quote(found[i].Kind.String()))
		case found[i].Refused == "":
			definition = mcp.SetMember(definition, "call", mcp.Quote(CallOf(definition)))
		default:
			definition = mcp.SetMember(definition, "refused", mcp.Quote(found[i].Refused))
		}
		if len(shown) > 0 && len(out)+len(definition) > most {
			notes = append(notes, "There is no room for "+found[i].Name+" here; ask for it alone.")
			continue
		}
		if len(shown) > 0 {
			out = append(out, ',')
		}
		out, shown = append(out, definition...), append(shown, found[i].Name)
	}
	for _, u := range unknown {
		note := strconv.Quote(u.Name) + " does not exist."
		if len(u.Near) > 0 {
			note += " You may mean " + strings.Join(u.Near, ", ") + "."
		}
		notes = append(notes, note)
	}
	out = append(out, ']')
	return append(appendNotes(out, notes), '}'), shown
}

// appendNotes appends the member with the notes, where there are any.
func appendNotes(out []byte, notes []string) []byte {
	if len(notes) == 0 {
		return out
	}
	out = append(out, `,"notes":[`...)
	for i, n := range notes {
		if i > 0 {
			out = append(out, ',')
		}
		out = mcp.AppendQuote(out, n)
	}
	return append(out, ']')
}
