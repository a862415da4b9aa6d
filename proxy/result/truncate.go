package result

import (
	"fmt"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

const (
	// trailerRoom is what is kept free for the note about what was left out, and
	// for the link to the whole.
	trailerRoom = 1 << 10
	// leastText is the least of a text that is worth being passed on.
	leastText = 64
)

// Truncate returns a result of a tool that is larger than it may be in the form
// that the rules want, and notes what it left out. kept is the whole result as a
// store has it; it is nil where the rules keep nothing, and where it was too large
// to be kept. The error is a refusal of the result.
func (r *Rules) Truncate(tool Tool, whole []byte, kept *Kept, notes *Notes) ([]byte, error) {
	if r.Larger == RefuseLarger {
		return nil, refusal.ResultTooLarge(tool.Exposed, len(whole), fmt.Sprintf("and may have %d (max_bytes under results of the server %s)", r.MaxBytes, tool.Server))
	}
	c := truncation{room: max(r.MaxBytes-trailerRoom, 0), raw: whole}
	c.cut()
	notes.bytes, notes.limit, notes.LeftOut = len(whole), r.MaxBytes, c.texts+c.blockBytes+c.structured+c.others
	note := c.note(r.MaxBytes)
	var link []byte
	if r.Larger == KeepLarger {
		if kept != nil {
			notes.uri, link = kept.URI(), kept.link(tool.Exposed)
			note += fmt.Sprintf(" The whole result is kept as the resource %s until %s; only this caller can read it.",
				kept.URI(), kept.Expires.UTC().Format(time.RFC3339))
		} else {
			note += " It is too large to be kept as a resource (limits.kept_results_per_principal)."
		}
	}
	return c.result(note, link, tool.Schema != nil), nil
}

// truncation makes a smaller result of one. Members other than content and
// structuredContent come first, then the structured content, which is passed on
// whole or not at all, then the blocks that fit, in their order; of a text that
// does not fit its beginning.
type truncation struct {
	room int
	raw  []byte

	kept    []mcp.Member // without content
	content []byte       // the elements of the new one

	// What was left out: bytes of texts and how many those were of, other
	// blocks and their bytes, the bytes of the structured content and of other
	// members.
	texts, textCount, blockBytes, blockCount, structured, others int
}

func (c *truncation) cut() {
	var structured *mcp.Member
	for m := range mcp.Members(c.raw) {
		size := m.All.End - m.All.Start + 1
		switch name, _ := mcp.Unquote(m.Key(c.raw)); {
		case name == "content" && mcp.IsArray(m.Value.Of(c.raw)):
		case name == "structuredContent":
			structured = &m
		case name == "isError", name == "resultType", size <= c.room/2:
			c.kept, c.room = append(c.kept, m), c.room-size
		default:
			c.others += size
		}
	}
	if structured != nil {
		if size := structured.All.End - structured.All.Start + 1; size <= c.room {
			c.kept, c.room = append(c.kept, *structured), c.room-size
		} else {
			c.structured = size
		}
	}
	content := mcp.Lookup(c.raw, "content")
	for e := range mcp.Elements(content) {
		c.block(e.Of(content))
	}
}

func (c *truncation) block(block []byte) {
	if len(block)+1 > c.room {
		text := textIn(block)
		if text.Absent() {
			c.blockBytes, c.blockCount = c.blockBytes+len(block), c.blockCount+1
			return
		}
		size := c.room - len(block) + text.End - text.Start - 1
		if size < leastText {
			c.texts, c.textCount = c.texts+len(block), c.textCount+1
			return
		}
		short := cutString(text.Of(block), size)
		c.texts, c.textCount = c.texts+text.End-text.Start-len(short), c.textCount+1
		block = mcp.Splice(block, mcp.Edit{Span: text, New: short})
	}
	if len(c.content) > 0 {
		c.content = append(c.content, ',')
	}
	c.content = append(c.content, block...)
	c.room -= len(block) + 1
}

// textIn returns the place of the text of a block or of the resource in it.
func textIn(block []byte) mcp.Span {
	var at mcp.Span
	switch string(mcp.BlockType(block)) {
	case "text":
		at = mcp.LookupSpan(block, "text")
	case "resource":
		at = mcp.LookupSpan(block, "resource", "text")
	}
	if !isString(at.Of(block)) {
		return mcp.Span{}
	}
	return at
}

// cutString returns a JSON string of at most size bytes, two or more, that is a
// beginning of another: up to the end of a line where one is near, else of a character.
func cutString(token []byte, size int) []byte {
	if len(token) <= size {
		return token
	}
	end, line := 1, 0
	for i := 1; i < len(token)-1; {
		step := characterAt(token[i : len(token)-1])
		if i+step > size-1 {
			break
		}
		if step == 2 && token[i] == '\\' && token[i+1] == 'n' {
			line = i + step
		}
		i += step
		end = i
	}
	if line >= end-end/4 {
		end = line
	}
	return append(append(make([]byte, 0, end+1), token[:end]...), '"')
}

// characterAt returns how many bytes of the text of a validated JSON string its
// first character takes, escapes and both halves of a pair included.
func characterAt(text []byte) int {
	switch c := text[0]; {
	case c == '\\' && text[1] == 'u':
		if text[2]|0x20 == 'd' && strings.IndexByte("89abAB", text[3]) >= 0 && len(text) >= 12 && text[6] == '\\' && text[7] == 'u' {
			return 12
		}
		return 6
	case c == '\\':
		return 2
	case c < 0x80:
		return 1
	case c < 0xE0:
		return 2
	case c < 0xF0:
		return 3
	default:
		return 4
	}
}

// note says what was left out, and what to do.
func (c *truncation) note(limit int) string {
	var parts []string
	add := func(size int, format string, args ...any) {
		if size > 0 {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(c.texts, "%d bytes of %d text(s)", c.texts, c.textCount)
	add(c.blockCount, "%d other block(s) of %d bytes", c.blockCount, c.blockBytes)
	add(c.structured, "the structured content of %d bytes", c.structured)
	add(c.others, "%d bytes of other members", c.others)
	return fmt.Sprintf("[toolgate: this result had %d bytes and may have %d (max_bytes). Left out: %s. To see more, ask for less, for instance by a filter or a page.]",
		len(c.raw), limit, strings.Join(parts, ", "))
}

// result returns the smaller result with the note, and the link if there is one.
// A tool that lists an output schema and has lost its structured content has
// failed, because clients refuse such a result as a whole otherwise.
func (c *truncation) result(note string, link []byte, promised bool) []byte {
	out := []byte{'{'}
	failed := c.structured > 0 && promised
	for _, m := range c.kept {
		if name, _ := mcp.Unquote(m.Key(c.raw)); failed && name == "isError" {
			continue
		}
		out = append(append(out, m.All.Of(c.raw)...), ',')
	}
	if failed {
		out = append(out, `"isError":true,`...)
	}
	out = append(append(out, `"content":[`...), c.content...)
	if len(c.content) > 0 {
		out = append(out, ',')
	}
	out = append(out, textBlock(note)...)
	if link != nil {
		out = append(append(out, ','), link...)
	}
	return append(out, "]}"...)
}

func textBlock(text string) []byte {
	return append(mcp.AppendQuote([]byte(`{"type":"text","text":`), text), '}')
}

func isString(value []byte) bool { return len(value) > 0 && value[0] == '"' }
