package arguments

import (
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Argument is an argument of a tool, for a person.
type Argument struct {
	Name        string `json:"name"`
	Type        string `json:"type,omitempty"` // empty for any
	Required    bool   `json:"required"`
	Default     string `json:"default,omitempty"` // JSON
	Description string `json:"description,omitempty"`
}

// Describe returns the arguments of an input schema: those that are required first, and
// each group in the order of the schema.
func Describe(schema []byte) []Argument {
	properties, required := mcp.Lookup(schema, "properties"), mcp.Lookup(schema, "required")
	var must []string
	for e := range mcp.Elements(required) {
		if name, err := mcp.Unquote(e.Of(required)); err == nil {
			must = append(must, name)
		}
	}
	var first, rest []Argument
	for _, name := range names(properties) {
		property := mcp.Lookup(properties, name)
		a := Argument{Name: name, Type: typeText(schema, property), Required: slices.Contains(must, name), Default: string(mcp.Lookup(property, "default"))}
		a.Description, _ = mcp.LookupString(property, "description")
		if a.Required {
			first = append(first, a)
		} else {
			rest = append(rest, a)
		}
	}
	return append(first, rest...)
}

// typeText names what a schema allows: its values if they are listed, else its types.
func typeText(root, schema []byte) string {
	if values := mcp.Lookup(schema, "enum"); values != nil {
		var all []string
		for e := range mcp.Elements(values) {
			text, err := mcp.Unquote(e.Of(values))
			if err != nil {
				text = string(e.Of(values))
			}
			all = append(all, text)
		}
		return strings.Join(all, " | ")
	}
	return typesOf(root, schema).String()
}

// Example is how to call a tool by hand, with a value for each argument that is required.
func Example(tool string, schema []byte) string {
	words := []string{"toolgate call", tool}
	properties := mcp.Lookup(schema, "properties")
	for _, a := range Describe(schema) {
		if !a.Required {
			continue
		}
		property := mcp.Lookup(properties, a.Name)
		values := mcp.Lookup(property, "enum")
		word := a.Name + "=..."
		if t := typesOf(schema, property); len(t.names) > 0 && !slices.Contains(t.names, "string") && !slices.Contains(t.names, "array") {
			word = t.example(a.Name)
		}
		for e := range mcp.Elements(values) {
			if text, err := mcp.Unquote(e.Of(values)); err == nil && !strings.ContainsAny(text, " '\"$`\\") {
				word = a.Name + "=" + text
				break
			}
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}
