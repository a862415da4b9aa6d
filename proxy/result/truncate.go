package result

import (
	"fmt"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

const (
	// noteReserve is kept free for the note about the omitted parts, and for the link
	// to the whole.
	noteReserve = 1 << 10
	// minText is the shortest beginning of a text that is worth passing on.
	minText = 64
)

// Truncate shortens a tool's result that is too large, as the rules demand, and notes
// what it left out. kept is the stored whole result, nil when it is not stored. The
// error is a refusal of the result.
func (r *Rules) Truncate(tool Tool, whole []byte, kept *Kept, notes *Notes) ([]byte, error) {
	if r.Larger == RefuseLarger {
		return nil, refusal.ResultTooLarge(tool.Exposed, len(whole), fmt.Sprintf("and may have %d (max_bytes under results of the server %s)", r.MaxBytes, tool.Server))
	}
	c := truncation{room: max(r.MaxBytes-noteReserve, 0), raw: whole}
	c.cut()
	notes.bytes, notes.limit, notes.LeftOut = len(whole), r.MaxBytes, c.texts+c.blockBytes+c.structured+c.others
	note := c.note(r.MaxBytes)
	var link []byte
	if r.Larger == KeepLarger {
		if kept != nil {
			notes.uri, link = kept.URI(), kept.link(tool.Exposed)
			note += fmt.Sprintf(" The whole result is kept as the resource %s until %s; only this caller can read it.",
				kept.URI(), kept.Expires.UTC().Format(time.RFC3339))
			if tool.Reader != "" {
				note += fmt.Sprintf(" The tool %s returns parts of it.", tool.Reader)
			}
		} else {
			note += " It is too large to be kept as a resource (limits.kept_results_per_principal)."
		}
	}
	return c.result(note, link, tool.Schema != nil), nil
}

// truncation builds a smaller result. Members other than content and structuredContent
// come first. Then the structured content follows if all of it fits, and then the
// blocks that fit, in their order. The first text that does not fit is cut.
type truncation struct {
	room int
	raw  []byte

	kept    []mcp.Member // without content
	content []byte       // elements of the new content

	// What was left out: bytes and number of texts, other blocks and their bytes, bytes
	// of the structured content and of other members.
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
		if size < minText {
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

// textIn returns the position of the text in a block, or in its resource.
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

// cutString returns the beginning of a JSON string, at most size bytes, at least two.
// It cuts at the end of a line if one is near, else after a character.
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

// characterAt returns the length in bytes of the first character in the text of a
// validated JSON string, including escapes and both halves of a surrogate pair.
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

// result returns the smaller result with the note, and the link if there is one. A tool
// that lists an output schema but lost its structured content is reported as failed,
// because clients would refuse the whole result otherwise.
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
