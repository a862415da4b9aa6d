package revision

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Message returns a result, or the params of a sampling request, as a client of a
// revision can take it. Older revisions have a closed set of content blocks, and strict
// clients refuse a whole message for one unknown block. Unknown members do no harm,
// because every schema is open. So
//
//   - a content block of a later revision (audio before 2025-03-26,
//     resource_link before 2025-06-18, tool_use and tool_result before
//     2025-11-25) becomes a text block that describes it;
//   - structuredContent, which older revisions do not have, and which is an
//     object in every legacy one, becomes text;
//   - a sampling message of several blocks, before 2025-11-25, becomes several
//     messages.
//
// The object is valid and its URIs are exposed already. It is not modified; if nothing
// changes, and for modern clients, the same bytes are returned. Message is idempotent.
func Message(version mcp.Version, method string, object []byte) []byte {
	if version.Era() == mcp.Modern || !mayNeedDowngrade(version, method, object) {
		return object
	}
	w := blockWalk{version: version, raw: object}
	switch method {
	case mcp.MethodToolsCall:
		w.raw = withoutStructure(version, object)
		if version < mcp.V20250618 {
			w.content(mcp.LookupSpan(w.raw, "content"))
		}
	case mcp.MethodPromptsGet, mcp.MethodSampling:
		w.messages()
	}
	if len(w.edits) == 0 {
		return w.raw
	}
	return mcp.Splice(w.raw, w.edits...)
}

// mayNeedDowngrade is a cheap check that mostly suffices. It may return true in vain,
// but never false where there is something to do.
func mayNeedDowngrade(version mcp.Version, method string, object []byte) bool {
	switch method {
	case mcp.MethodToolsCall:
		return mayHaveStructure(version, object) ||
			version < mcp.V20250618 && mentions(object, blockNames(version))
	case mcp.MethodPromptsGet:
		return version < mcp.V20250618 && mentions(object, blockNames(version))
	case mcp.MethodSampling:
		return version < mcp.V20251125 // rare, and a message of several blocks has no name to search for
	}
	return false
}

var (
	structureKey = []byte(`"structuredContent"`)
	lateBlocks   = [][]byte{[]byte(`"resource_link"`), []byte(`"audio"`)}
	// escapedLetter begins the escape of an ASCII letter, which could spell a name in
	// another way.
	escapedLetter = []byte(`\u00`)
)

// blockNames are the content blocks of tools and prompts that a revision older than
// 2025-06-18 does not have.
func blockNames(version mcp.Version) [][]byte {
	if version < mcp.V20250326 {
		return lateBlocks
	}
	return lateBlocks[:1]
}

// mentions reports whether any of the names may occur in the object.
func mentions(object []byte, names [][]byte) bool {
	for _, name := range names {
		if bytes.Contains(object, name) {
			return true
		}
	}
	return bytes.Contains(object, escapedLetter)
}

// mayHaveStructure reports whether there may be a structuredContent that a revision does not
// have: any at all, also within a block of the content, or one that is not an object.
func mayHaveStructure(version mcp.Version, object []byte) bool {
	if version < mcp.V20250618 {
		return bytes.Contains(object, structureKey) || bytes.Contains(object, escapedLetter)
	}
	value := mcp.Lookup(object, "structuredContent")
	return value != nil && !mcp.IsObject(value)
}

// withoutStructure removes a structuredContent that the revision does not have from the
// result of a tool. Its JSON becomes a text block, unless the content has it already.
// For an object any text counts, because servers must repeat an object as text
// (2025-06-18 server/tools, Structured Content). For other values the text must be
// equal.
func withoutStructure(version mcp.Version, result []byte) []byte {
	value := mcp.Lookup(result, "structuredContent")
	if value == nil || version >= mcp.V20250618 && mcp.IsObject(value) {
		return result
	}
	content := mcp.Lookup(result, "content")
	said := string(value) == "null" // null needs no text
	for e := range mcp.Elements(content) {
		text, ok := blockText(e.Of(content))
		said = said || ok && text != "" && (mcp.IsObject(value) || sameValue(text, value))
	}
	result = mcp.RemoveMember(result, "structuredContent")
	if said {
		return result
	}
	return mcp.SetMember(result, "content", appendElement(content, textBlock(string(value))))
}

// blockText returns the text of a text block.
func blockText(block []byte) (text string, ok bool) {
	if string(blockType(block)) != "text" {
		return "", false
	}
	return mcp.LookupString(block, "text")
}

// sameValue reports whether a text is the JSON of a value in any layout, or the text
// that the value holds.
func sameValue(text string, value []byte) bool {
	if plain, err := mcp.Unquote(value); err == nil && plain == text {
		return true
	}
	raw := []byte(text)
	return mcp.Validate(raw, mcp.Limits{LoneSurrogates: true}) == nil &&
		bytes.Equal(mcp.AppendCanonical(nil, raw), mcp.AppendCanonical(nil, value))
}

// appendElement appends an element to an array. Anything else counts as an empty array.
func appendElement(array, element []byte) []byte {
	if !mcp.IsArray(array) {
		array = []byte("[]")
	}
	out := append(make([]byte, 0, len(array)+len(element)+1), array[:len(array)-1]...)
	for range mcp.Elements(array) {
		out = append(out, ',')
		break
	}
	return append(append(out, element...), ']')
}

func textBlock(text string) []byte {
	return append(mcp.AppendQuote([]byte(`{"type":"text","text":`), text), '}')
}

// blockWalk collects the edits of one object.
type blockWalk struct {
	version mcp.Version
	raw     []byte
	edits   []mcp.Edit
}

// content visits the blocks of an array.
func (w *blockWalk) content(at mcp.Span) {
	blocks := at.Of(w.raw)
	for e := range mcp.Elements(blocks) {
		w.block(mcp.Span{Start: at.Start + e.Start, End: at.Start + e.End})
	}
}

// messages visits the messages of a prompt or of a sampling request.
func (w *blockWalk) messages() {
	at := mcp.LookupSpan(w.raw, "messages")
	messages := at.Of(w.raw)
	for e := range mcp.Elements(messages) {
		message := mcp.Span{Start: at.Start + e.Start, End: at.Start + e.End}
		content := mcp.LookupSpan(message.Of(w.raw), "content")
		switch {
		case content.Absent():
		case mcp.IsArray(content.Of(message.Of(w.raw))):
			w.edits = append(w.edits, mcp.Edit{Span: message, New: w.single(message.Of(w.raw))})
		default:
			w.block(mcp.Span{Start: message.Start + content.Start, End: message.Start + content.End})
		}
	}
}

// single splits a message of several blocks into messages of one block each.
func (w *blockWalk) single(message []byte) []byte {
	var out []byte
	add := func(block []byte) {
		if out != nil {
			out = append(out, ',')
		}
		out = append(out, mcp.SetMember(message, "content", block)...)
	}
	blocks := mcp.Lookup(message, "content")
	for e := range mcp.Elements(blocks) {
		block := e.Of(blocks)
		if !mcp.IsObject(block) {
			block = textBlock(string(block))
		} else if told := describe(w.version, block); told != nil {
			block = told
		}
		add(block)
	}
	if out == nil {
		add(textBlock(""))
	}
	return out
}

func (w *blockWalk) block(at mcp.Span) {
	if told := describe(w.version, at.Of(w.raw)); told != nil {
		w.edits = append(w.edits, mcp.Edit{Span: at, New: told})
	}
}

// blockSince are the revisions that introduced content blocks, except for the original
// ones. An unknown block is an extension and passes.
var blockSince = map[string]mcp.Version{
	"audio":         mcp.V20250326,
	"resource_link": mcp.V20250618,
	"tool_use":      mcp.V20251125,
	"tool_result":   mcp.V20251125,
}

// describe returns the text block that replaces a block which a revision does not know:
// its type and a description without its data. Its audience and extension members stay.
// It returns nil for a block that the revision knows.
func describe(version mcp.Version, block []byte) []byte {
	kind := blockType(block)
	if version >= blockSince[string(kind)] {
		return nil
	}
	var facts []string
	for _, f := range [...]struct{ member, label string }{
		{"name", "name "}, {"title", "title "}, {"uri", "URI "}, {"mimeType", "type "}, {"id", "id "}, {"toolUseId", "for the use "},
	} {
		if text, ok := mcp.LookupString(block, f.member); ok {
			facts = append(facts, f.label+text)
		}
	}
	if size := blockSize(block); size != "" {
		facts = append(facts, size+" bytes")
	}
	if string(mcp.Lookup(block, "isError")) == "true" {
		facts = append(facts, "failed")
	}
	var text strings.Builder
	text.WriteString("[" + string(kind))
	if len(facts) > 0 {
		text.WriteString(": " + strings.Join(facts, ", "))
	}
	text.WriteString("]")
	if description, ok := mcp.LookupString(block, "description"); ok {
		text.WriteString("\n" + description)
	}
	for _, member := range [...]string{"input", "content", "structuredContent"} {
		if value := mcp.Lookup(block, member); value != nil {
			text.WriteString("\n" + string(value))
		}
	}
	told := textBlock(text.String())
	for _, member := range [...]string{"annotations", "_meta"} {
		if value := mcp.Lookup(block, member); mcp.IsObject(value) {
			told = append(append(mcp.AppendQuote(append(told[:len(told)-1], ','), member), ':'), value...)
			told = append(told, '}')
		}
	}
	return told
}

// blockType returns the type of a block, nil when it has none.
func blockType(block []byte) []byte {
	token := mcp.Lookup(block, "type")
	if !isString(token) {
		return nil
	}
	if bytes.IndexByte(token, '\\') >= 0 {
		text, _ := mcp.Unquote(token)
		return []byte(text)
	}
	return token[1 : len(token)-1]
}

// blockSize returns the size in bytes that a block states, or that its Base64 data has;
// empty without either.
func blockSize(block []byte) string {
	if size := mcp.Lookup(block, "size"); isInteger(size) {
		return string(size)
	}
	data, ok := mcp.LookupString(block, "data")
	if !ok {
		return ""
	}
	return strconv.Itoa(len(strings.TrimRight(data, "=")) * 3 / 4)
}
