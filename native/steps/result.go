package steps

import (
	"bytes"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// valueOf returns the answer of a call as a JSON value: the structured content of the
// result, or else its text, which is read where it is JSON. failed is what went wrong;
// empty for nothing. The value does not hold on to the result.
func valueOf(a *mcp.NestedAnswer) (value []byte, failed string) {
	if a.Fault != nil {
		return nil, orElse(a.Fault.Message, "the call was refused")
	}
	var texts []string
	content := mcp.Lookup(a.Result, "content")
	for e := range mcp.Elements(content) {
		if text, ok := mcp.LookupString(e.Of(content), "text"); ok {
			texts = append(texts, text)
		}
	}
	text := strings.Join(texts, "\n")
	switch structured := mcp.Lookup(a.Result, "structuredContent"); {
	case string(mcp.Lookup(a.Result, "isError")) == "true":
		return nil, orElse(clip(text), "the tool failed and said nothing")
	case structured != nil:
		return bytes.Clone(structured), ""
	case content == nil:
		return nil, "the call has no result yet"
	case len(texts) == 0:
		return []byte("null"), ""
	}
	if raw := bytes.TrimSpace([]byte(text)); len(raw) > 0 && mcp.Validate(raw, mcp.Limits{}) == nil {
		return raw, ""
	}
	return mcp.Quote(text), ""
}

func orElse(text, other string) string {
	if strings.TrimSpace(text) == "" {
		return other
	}
	return text
}

// maxReason bounds what is repeated of a failure, in bytes.
const maxReason = 2000

func clip(text string) string {
	if len(text) > maxReason {
		return strings.ToValidUTF8(text[:maxReason], "") + "..."
	}
	return text
}
