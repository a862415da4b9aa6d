package schema

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// maxEcho is how many characters of a value a message quotes.
const maxEcho = 100

// quote returns text in quotes, cut, with all invisible characters escaped.
func quote(text string) string {
	return strconv.Quote(cut(text))
}

// clip is like quote, but adds no quotes.
func clip(text string) string {
	quoted := strconv.Quote(cut(text))
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// cut shortens text to maxEcho characters.
func cut(text string) string {
	if len(text) <= maxEcho {
		return text
	}
	n := 0
	for i := range text {
		if n == maxEcho {
			return text[:i] + "…"
		}
		n++
	}
	return text
}

// quotePointer formats a pointer, without quotes where that is unambiguous.
func quotePointer(pointer string) string {
	if shown := clip(pointer); shown == pointer && !strings.ContainsAny(pointer, " :\"") {
		return pointer
	}
	return quote(pointer)
}

// show writes a decoded value as JSON, cut.
func show(value any) string {
	switch value := value.(type) {
	case string:
		return quote(value)
	case json.Number:
		return cut(string(value))
	case map[string]any:
		return "an object"
	case []any:
		return "an array"
	case bool:
		return strconv.FormatBool(value)
	}
	return "null"
}

// typeOf returns the JSON type of a decoded value.
func typeOf(value any) string {
	switch value.(type) {
	case string:
		return "string"
	case json.Number:
		return "number"
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case bool:
		return "boolean"
	}
	return "null"
}

// article returns the name of a type with its article.
func article(name string) string {
	switch name {
	case "null":
		return name
	case "integer", "object", "array":
		return "an " + name
	}
	return "a " + name
}

// parsed parses a text as JSON; nil when it is none.
func parsed(text string) any {
	raw := []byte(strings.TrimSpace(text))
	if len(raw) > 1<<16 || mcp.Validate(raw, mcp.Limits{Depth: MaxDepth}) != nil {
		return nil
	}
	value, _, err := decode(raw, 10_000, nil)
	if err != nil {
		return nil
	}
	return value
}
