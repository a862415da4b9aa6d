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

const (
	// maxDescribed is how deep the members of objects are described as arguments.
	maxDescribed = 3
	// maxArguments bounds how many arguments are described.
	maxArguments = 500
)

// Describe returns the arguments of a schema: those that are required first, and each group
// in the order of the schema. The members of an object follow it, with its name and a dot
// before theirs.
func Describe(schema []byte) []Argument {
	all := describe(schema, schema, "", maxDescribed)
	return all[:min(len(all), maxArguments)]
}

func describe(root, schema []byte, prefix string, depth int) []Argument {
	must := required(root, schema)
	var first, rest []Argument
	known := map[string]bool{}
	each(root, schema, maxSchemaDepth, func(part []byte) bool {
		properties := mcp.Lookup(part, "properties")
		for _, name := range names(properties) {
			if known[name] || len(first)+len(rest) > maxArguments {
				continue
			}
			known[name] = true
			property := mcp.Lookup(properties, name)
			a := Argument{Name: prefix + name, Type: typeText(root, property), Required: slices.Contains(must, name), Default: string(mcp.Lookup(property, "default"))}
			a.Description, _ = mcp.LookupString(property, "description")
			group := []Argument{a}
			if depth > 1 && typesOf(root, property).is("object") {
				group = append(group, describe(root, property, a.Name+".", depth-1)...)
			}
			if a.Required {
				first = append(first, group...)
			} else {
				rest = append(rest, group...)
			}
		}
		return true
	})
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
	return strings.Join(append([]string{"toolgate call", tool}, examples(schema, schema, "", maxDescribed)...), " ")
}

// examples are values for the members that a part of a schema requires, and for those of
// the objects among them.
func examples(root, schema []byte, prefix string, depth int) []string {
	var words []string
	for _, a := range describe(root, schema, prefix, 1) {
		if !a.Required {
			continue
		}
		property := member(root, schema, strings.TrimPrefix(a.Name, prefix))
		t := typesOf(root, property)
		if depth > 1 && t.is("object") {
			if inner := examples(root, property, a.Name+".", depth-1); len(inner) > 0 {
				words = append(words, inner...)
				continue
			}
		}
		word := a.Name + "=..."
		if len(t.names) > 0 && !slices.Contains(t.names, "string") && !slices.Contains(t.names, "array") {
			word = t.example(a.Name)
		}
		values := mcp.Lookup(property, "enum")
		for e := range mcp.Elements(values) {
			if text, err := mcp.Unquote(e.Of(values)); err == nil && !strings.ContainsAny(text, " '\"$`\\") {
				word = a.Name + "=" + text
				break
			}
		}
		words = append(words, word)
	}
	return words
}
