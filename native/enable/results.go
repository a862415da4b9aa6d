package enable

import "context"

// ReadResult is the tool by which an agent reads parts of a result that was too large.
const ReadResult = "read_result"

// Results answers a call of read_result for the caller of the context. The error is a
// sentence for the model. It is safe for concurrent use and limits its own waits.
type Results func(ctx context.Context, args []byte) (text string, err error)

// WithResults returns the backend with read_result in the list, too.
func (b *Backend) WithResults(r Results) *Backend {
	out := b.with(ReadResult, resultTool)
	out.results = r
	return out
}

const resultTool = `{"name":"read_result","title":"Read a result","description":"Read a part of a result that was cut because it was too large: by one of select, grep, lines and page; the first page without any.",` +
	`"inputSchema":{"type":"object","properties":{"id":{"type":"string","description":"What follows toolgate://results/ in the note of the result that was cut"},` +
	`"select":{"type":"string","description":"A jq filter, such as .items[] | {id, title}"},` +
	`"grep":{"type":"string","description":"A regular expression (RE2); returns the lines that match, with their numbers"},` +
	`"lines":{"type":"string","description":"A range of lines, such as 10-40"},` +
	`"page":{"type":"integer","minimum":1,"description":"A page of 16 KiB"}},"required":["id"],"additionalProperties":false},` +
	`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`
