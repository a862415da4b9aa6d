package result

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/result/jq"
)

// Shaping says which parts of the results of a tool are passed on, and in which form.
// The zero value changes nothing.
type Shaping struct {
	Drop   []Path      // members to leave out
	Select *jq.Program // what is passed on; nil for all of it
	Rows   bool        // lists of equal objects become tables in texts
	Dedupe bool        // structured content goes where a text says the same
	Own    bool        // models may give a program of their own, see [OwnSelect]
}

// Active reports whether anything may be changed.
func (s *Shaping) Active() bool { return s.Reshapes() || s.Dedupe }

// Reshapes reports whether results may no longer have the form that the server says.
func (s *Shaping) Reshapes() bool { return len(s.Drop) > 0 || s.Select != nil || s.Rows || s.Own }

// Call is what shaping knows of a call beside its result.
type Call struct {
	Own     *jq.Program // that the model gave; nil without one
	Client  string      // name of the client's program, as it says
	Schema  bool        // clients are told an output schema
	Visible bool        // a user interface of the tool reads the structured content
}

// Shape returns a tool's result in the form that the operator and the model ask for, and
// notes what was done. A result that reports an error stays as it is. So does one to
// which a program cannot be applied, with a note.
func (s *Shaping) Shape(ctx context.Context, c *Call, whole []byte, notes *Notes) []byte {
	if isError(whole) {
		return whole
	}
	p := read(whole)
	p.drop(s.Drop, notes)
	p.apply(ctx, s.Select, "select", s.Rows && c.Own == nil, notes)
	if notes.failed == "" {
		p.apply(ctx, c.Own, OwnSelect, s.Rows, notes)
	}
	if s.Rows {
		p.rows(notes)
	}
	if s.Dedupe && !c.Schema && !c.Visible && p.structured != nil && readsTexts(c.Client) {
		p.dedupe(notes)
	}
	if notes.failed != "" {
		p.note = "[toolgate: " + notes.failed + " The result is not selected from.]"
	}
	if len(notes.shaped) == 0 && notes.failed == "" {
		return whole
	}
	out := p.result()
	notes.from = len(whole)
	return out
}

// parts are those of a result that are shaped.
type parts struct {
	whole      []byte
	structured []byte // nil for none
	blocks     []block
	note       string // a last text; empty for none
}

// block is a block of the content.
type block struct {
	raw  []byte
	text mcp.Span // of its text, in raw; absent in blocks of other types
	json []byte   // the text, if that is an object or array of JSON; else nil
	twin bool     // the text says what the structured content says

	lines bool // the text has the elements of json on lines
}

// read finds the parts of a result.
func read(whole []byte) *parts {
	p := &parts{whole: whole, structured: mcp.Lookup(whole, "structuredContent")}
	content := mcp.Lookup(whole, "content")
	for e := range mcp.Elements(content) {
		b := block{raw: e.Of(content)}
		if string(mcp.BlockType(b.raw)) == "text" {
			b.text = textIn(b.raw)
		}
		if !b.text.Absent() {
			b.json = jsonIn(b.text.Of(b.raw))
		}
		b.twin = b.json != nil && p.structured != nil && mcp.Hash(b.json) == mcp.Hash(p.structured)
		p.blocks = append(p.blocks, b)
	}
	return p
}

// jsonIn returns the JSON that a text is; nil when it is none, or a single value.
func jsonIn(token []byte) []byte {
	text, err := mcp.Unquote(token)
	if err != nil {
		return nil
	}
	value := bytes.TrimSpace([]byte(text))
	if !mcp.IsObject(value) && !mcp.IsArray(value) || mcp.Validate(value, mcp.Limits{LoneSurrogates: true}) != nil {
		return nil
	}
	return value
}

// set replaces the text of a block.
func (b *block) set(text []byte) {
	b.raw = mcp.Splice(b.raw, mcp.Edit{Span: b.text, New: mcp.Quote(string(text))})
	b.text, b.json = textIn(b.raw), text
}

// drop leaves out members.
func (p *parts) drop(paths []Path, notes *Notes) {
	if len(paths) == 0 {
		return
	}
	changed := false
	if value, some := without(p.structured, paths); some {
		p.structured, changed = value, true
	}
	for i := range p.blocks {
		if value, some := without(p.blocks[i].json, paths); some {
			p.blocks[i].set(value)
			changed = true
		}
	}
	if changed {
		notes.shaped = append(notes.shaped, "drop")
	}
}

// input is what a program selects from: the structured content, or else the text, as the
// value that it is if it is JSON. Several texts are an array. It is nil where there is
// neither.
func (p *parts) input() []byte {
	if p.structured != nil {
		return p.structured
	}
	var texts [][]byte
	for i := range p.blocks {
		switch b := &p.blocks[i]; {
		case b.json != nil:
			texts = append(texts, b.json)
		case !b.text.Absent():
			texts = append(texts, b.text.Of(b.raw))
		}
	}
	switch len(texts) {
	case 0:
		return nil
	case 1:
		return texts[0]
	}
	return array(texts)
}

func array(values [][]byte) []byte {
	return slices.Concat([]byte{'['}, bytes.Join(values, []byte{','}), []byte{']'})
}

// apply replaces the texts by what a program returns, each result on a line. A single
// object is the structured content, too, if there was some.
func (p *parts) apply(ctx context.Context, program *jq.Program, name string, tables bool, notes *Notes) {
	if program == nil {
		return
	}
	input := p.input()
	if input == nil {
		return
	}
	found, err := program.Run(ctx, input)
	if err != nil {
		notes.failed = name + " was not applied: " + err.Error() + "."
		return
	}
	notes.shaped = append(notes.shaped, name)
	b := block{raw: textBlock("")}
	b.text = textIn(b.raw)
	switch lines, table := [][]byte(nil), []byte(nil); {
	case len(found) == 0:
		b.set([]byte("[toolgate: " + name + " returned nothing.]"))
		b.json = nil
	case len(found) == 1:
		b.set(plain(found[0]))
		if b.json = nil; mcp.IsObject(found[0]) || mcp.IsArray(found[0]) {
			b.json = found[0]
		}
	default:
		if tables {
			table, _ = tabled(array(found))
		}
		if mcp.IsObject(table) { // all of them in one
			b.set(table)
			notes.shaped = append(notes.shaped, "rows")
			break
		}
		for _, value := range found {
			lines = append(lines, plain(value))
		}
		b.set(bytes.Join(lines, []byte{'\n'}))
		b.json, b.lines = array(found), true
	}
	p.blocks = append([]block{b}, slices.DeleteFunc(p.blocks, func(b block) bool { return !b.text.Absent() })...)
	if p.structured == nil {
		return
	}
	if p.structured = nil; len(found) == 1 && mcp.IsObject(found[0]) {
		p.structured, p.blocks[0].twin = found[0], true
	}
}

// plain is a value as a text shows it: strings without quotes.
func plain(value []byte) []byte {
	if text, err := mcp.Unquote(value); err == nil {
		return []byte(text)
	}
	return value
}

// rows turns lists of equal objects in the texts into tables. Clients that prefer
// structured content would not show a text that has become a table, so that goes.
func (p *parts) rows(notes *Notes) {
	changed := false
	for i := range p.blocks {
		b := &p.blocks[i]
		if b.lines {
			continue
		}
		if table, some := tabled(b.json); some {
			if b.set(table); b.twin {
				p.structured = nil
			}
			changed = true
		}
	}
	if changed && !slices.Contains(notes.shaped, "rows") {
		notes.shaped = append(notes.shaped, "rows")
	}
}

// dedupe leaves out structured content that a text repeats. The text stays: not every
// client reads the other.
func (p *parts) dedupe(notes *Notes) {
	if slices.ContainsFunc(p.blocks, func(b block) bool { return b.twin }) {
		p.structured = nil
		notes.shaped = append(notes.shaped, "dedupe")
	}
}

// textReaders are clients that give a model the texts of a result without structured
// content, by the beginning of the name that they send in clientInfo. Some of them
// prefer structured content where there is some.
var textReaders = []string{"claude-ai", "claude-code", "codex-mcp-client", "cursor-vscode", "gemini-cli-mcp-client"}

func readsTexts(client string) bool {
	return slices.ContainsFunc(textReaders, func(name string) bool { return strings.HasPrefix(client, name) })
}

// result puts the parts together.
func (p *parts) result() []byte {
	blocks := make([][]byte, 0, len(p.blocks)+1)
	for i := range p.blocks {
		blocks = append(blocks, p.blocks[i].raw)
	}
	if p.note != "" {
		blocks = append(blocks, textBlock(p.note))
	}
	out := mcp.SetMember(p.whole, "content", array(blocks))
	if p.structured == nil {
		return mcp.RemoveMember(out, "structuredContent")
	}
	return mcp.SetMember(out, "structuredContent", p.structured)
}
