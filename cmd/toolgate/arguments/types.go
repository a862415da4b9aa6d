package arguments

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/mcp"
)

// value returns the JSON of a value for an argument of these types. item tells that it is
// one item of a list.
func (t types) value(pair *Pair) (raw []byte, item bool, err error) {
	written := []byte(strings.TrimSpace(pair.Value))
	is := kindOf(written)
	switch {
	case len(t.names) == 0: // anything
		if is == "" {
			return mcp.Quote(pair.Value), false, nil
		}
		return written, false, nil
	case slices.Contains(t.names, is), is == "integer" && slices.Contains(t.names, "number"):
		if is == "string" && slices.Equal(t.names, []string{"string"}) {
			return mcp.Quote(pair.Value), false, nil // quotes are part of the text
		}
		return written, false, nil
	case is == "number" && slices.Contains(t.names, "integer") && whole(written) != nil:
		return whole(written), false, nil
	case slices.Contains(t.names, "array") && t.items != nil:
		raw, _, err := t.items.value(pair)
		return raw, true, err
	case slices.Contains(t.names, "string"):
		return mcp.Quote(pair.Value), false, nil
	case pair.from != "":
		return nil, false, failure.Newf(failure.Usage, "%s: what %s holds is not %s, which the argument %s is", pair.Name, pair.from, described(t.names), pair.Name)
	}
	return nil, false, failure.Newf(failure.Usage, "%s=%s: the argument %s is %s; write %s", pair.Name, pair.Value, pair.Name, described(t.names), t.example(pair.Name))
}

// allows tells whether a value of a type, in the words of JSON Schema, is allowed.
func (t types) allows(name string) bool { return len(t.names) == 0 || slices.Contains(t.names, name) }

// whole returns a number such as 1.0 or 1e3 as a whole one; nil if it is none that keeps
// its value.
func whole(number []byte) []byte {
	const exact = 1 << 53
	f, err := strconv.ParseFloat(string(number), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > exact {
		return nil
	}
	return strconv.AppendFloat(nil, f, 'f', 0, 64)
}

// types are what a schema allows, in the words of JSON Schema.
type types struct {
	names []string // none if it allows anything
	items *types   // of a list; nil unless a list is allowed
}

// String names the types for a person: string | null, list of integer.
func (t types) String() string {
	words := make([]string, 0, len(t.names))
	for _, name := range t.names {
		if name == "array" {
			name = "list"
			if of := t.items.String(); of != "" {
				name += " of " + of
			}
		}
		words = append(words, name)
	}
	return strings.Join(words, " | ")
}

// maxSchemaDepth is how far references, alternatives and lists of a schema are followed.
const maxSchemaDepth = 8

// typesOf returns the types that a part of a schema allows, directly, by a reference within
// the schema, or by one of several alternatives.
func typesOf(root, schema []byte) types {
	var t types
	collect(root, schema, &t, maxSchemaDepth)
	return t
}

// collect adds the types of a part of a schema.
func collect(root, schema []byte, t *types, depth int) {
	if depth == 0 || !mcp.IsObject(schema) {
		return
	}
	add := func(name string) {
		if !slices.Contains(t.names, name) {
			t.names = append(t.names, name)
		}
	}
	if ref, ok := mcp.LookupString(schema, "$ref"); ok {
		if path, local := strings.CutPrefix(ref, "#/"); local {
			collect(root, mcp.Lookup(root, strings.Split(path, "/")...), t, depth-1)
		}
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		list := mcp.Lookup(schema, key)
		for e := range mcp.Elements(list) {
			collect(root, e.Of(list), t, depth-1)
		}
	}
	of := mcp.Lookup(schema, "type")
	if text, ok := mcp.LookupString(schema, "type"); ok {
		add(text)
	}
	for e := range mcp.Elements(of) {
		if text, err := mcp.Unquote(e.Of(of)); err == nil {
			add(text)
		}
	}
	if of == nil && mcp.IsObject(mcp.Lookup(schema, "properties")) {
		add("object")
	}
	if of == nil {
		enum := mcp.Lookup(schema, "enum")
		for e := range mcp.Elements(enum) {
			add(kindOf(e.Of(enum)))
		}
		if only := mcp.Lookup(schema, "const"); only != nil {
			add(kindOf(only))
		}
	}
	if slices.Contains(t.names, "array") && t.items == nil {
		items := &types{}
		collect(root, mcp.Lookup(schema, "items"), items, depth-1)
		t.items = items
	}
}

// kindOf returns the type of a JSON text in the words of JSON Schema; empty if it is none.
func kindOf(text []byte) string {
	if len(text) == 0 || mcp.Validate(text, mcp.Limits{}) != nil {
		return ""
	}
	switch text[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	if bytes.ContainsAny(text, ".eE") {
		return "number"
	}
	return "integer"
}

// described names types for a person.
func described(types []string) string {
	of := map[string]string{
		"integer": "a whole number", "number": "a number", "boolean": "true or false", "object": "an object", "null": "null", "string": "text", "array": "a list",
	}
	words := make([]string, 0, len(types))
	for _, t := range types {
		if word, ok := of[t]; ok {
			words = append(words, word)
		}
	}
	return strings.Join(words, " or ")
}

// is tells whether the values of a type, and null perhaps, are all that is allowed.
func (t types) is(name string) bool {
	return slices.Contains(t.names, name) && !slices.ContainsFunc(t.names, func(n string) bool { return n != name && n != "null" })
}

// example is a value of one of the types, as it is typed.
func (t types) example(name string) string {
	for _, one := range t.names {
		switch one {
		case "string":
			return name + `="text"`
		case "integer":
			return name + "=3"
		case "number":
			return name + "=2.5"
		case "boolean":
			return name + "=true"
		case "object":
			return name + "='{\"key\": \"value\"}'"
		case "array":
			return t.items.example(name)
		case "null":
			return name + "=null"
		}
	}
	return name + `="text"`
}
