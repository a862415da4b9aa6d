package find

import "github.com/toolgate/toolgate/internal/mcp"

// The bounds of what is read of one schema.
const (
	maxSchema      = 256 << 10
	maxSchemaDepth = 6
	maxSchemaTexts = 400
)

// arguments walks a JSON Schema and reports the names of properties, their descriptions
// and the values of enums.
type arguments struct {
	report func(f field, text string)
	left   int
}

// read reports what a schema holds. Invalid JSON holds nothing.
func (a *arguments) read(schema []byte) {
	if len(schema) == 0 || len(schema) > maxSchema || mcp.Validate(schema, mcp.Limits{Depth: 64, Values: 20_000, LoneSurrogates: true}) != nil {
		return
	}
	a.left = maxSchemaTexts
	a.walk(schema, 0)
}

// walk reads one schema. Unknown keywords are skipped.
func (a *arguments) walk(schema []byte, depth int) {
	if depth > maxSchemaDepth {
		return
	}
	for m := range mcp.Members(schema) {
		value := m.Value.Of(schema)
		switch string(m.KeyText.Of(schema)) {
		case "properties":
			for p := range mcp.Members(value) {
				name, err := mcp.Unquote(p.Key(value))
				if err != nil || !a.spend() {
					return
				}
				a.report(fieldArgument, name)
				property := p.Value.Of(value)
				if text, ok := mcp.LookupString(property, "description"); ok && a.spend() {
					a.report(fieldArgumentText, text)
				}
				a.walk(property, depth+1)
			}
		case "enum":
			for e := range mcp.Elements(value) {
				if text, err := mcp.Unquote(e.Of(value)); err == nil {
					if !a.spend() {
						return
					}
					a.report(fieldEnum, text)
				}
			}
		case "items", "additionalProperties":
			a.walk(value, depth+1)
		case "anyOf", "oneOf", "allOf":
			for e := range mcp.Elements(value) {
				a.walk(e.Of(value), depth+1)
			}
		case "$defs", "definitions":
			for d := range mcp.Members(value) {
				a.walk(d.Value.Of(value), depth+1)
			}
		}
	}
}

// spend takes one of the texts that may still be read.
func (a *arguments) spend() bool {
	a.left--
	return a.left >= 0
}
