// Package arguments reads the arguments of a tool as a person types them: NAME=VALUE, with
// the types of the tool's input schema.
package arguments

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/mcp"
)

// Parse returns the arguments that pairs of NAME=VALUE set, as a JSON object, over those of
// object. schema is the input schema of the tool; nil if it is not known, and then a value
// that is JSON counts as JSON and any other as text. With a schema, a value becomes what
// the argument's type says: text stays text whatever it looks like, numbers keep all their
// digits, and a list may be written as JSON or by repeating its name. What the schema
// requires must be there, unless object is given. The error is one of usage, and says what
// to write.
func Parse(schema, object []byte, pairs []string) ([]byte, error) {
	out := []byte("{}")
	if object != nil {
		if mcp.Validate(object, mcp.Limits{}) != nil || !mcp.IsObject(object) {
			return nil, failure.Newf(failure.Usage, "--json must be a JSON object, such as --json '{\"a\": 2}'")
		}
		out = object
	}
	given := map[string]bool{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, failure.Newf(failure.Usage, "%q is not NAME=VALUE; write each argument of the tool in this form, or all of them with --json", pair)
		}
		// The gate and the tool judge names that the schema does not have.
		types := typesOf(schema, mcp.Lookup(schema, "properties", name))
		raw, item, err := types.value(name, value)
		if err != nil {
			return nil, err
		}
		if item {
			raw = append(append([]byte("["), raw...), ']')
		}
		if given[name] {
			if raw, err = joined(name, mcp.Lookup(out, name), raw); err != nil {
				return nil, err
			}
		}
		given[name] = true
		out = mcp.SetMember(out, name, raw)
	}
	if object != nil {
		return out, nil // somebody wants exactly these
	}
	return out, complete(schema, out)
}

// names returns the names of an object's members.
func names(object []byte) []string {
	var all []string
	for m := range mcp.Members(object) {
		if name, err := mcp.Unquote([]byte(`"` + string(m.KeyText.Of(object)) + `"`)); err == nil {
			all = append(all, name)
		}
	}
	return all
}

// joined returns the items of two lists that were typed for one argument.
func joined(name string, before, more []byte) ([]byte, error) {
	if kindOf(before) != "array" || kindOf(more) != "array" {
		return nil, failure.Newf(failure.Usage, "%s is given twice, and is not a list; write it once", name)
	}
	items := func(list []byte) []byte { return bytes.TrimSpace(list[1 : len(list)-1]) }
	first, second := items(before), items(more)
	switch {
	case len(first) == 0:
		return more, nil
	case len(second) == 0:
		return before, nil
	}
	return slices.Concat([]byte("["), first, []byte(","), second, []byte("]")), nil
}

// value returns the JSON of a value for an argument of these types. item tells that it is
// one item of a list.
func (t types) value(name, value string) (raw []byte, item bool, err error) {
	written := []byte(strings.TrimSpace(value))
	is := kindOf(written)
	switch {
	case len(t.names) == 0: // anything
		if is == "" {
			return mcp.Quote(value), false, nil
		}
		return written, false, nil
	case slices.Contains(t.names, is), is == "integer" && slices.Contains(t.names, "number"):
		if is == "string" && slices.Equal(t.names, []string{"string"}) {
			return mcp.Quote(value), false, nil // quotes are part of the text
		}
		return written, false, nil
	case is == "number" && slices.Contains(t.names, "integer") && whole(written) != nil:
		return whole(written), false, nil
	case slices.Contains(t.names, "array") && t.items != nil:
		raw, _, err := t.items.value(name, value)
		return raw, true, err
	case slices.Contains(t.names, "string"):
		return mcp.Quote(value), false, nil
	}
	return nil, false, failure.Newf(failure.Usage, "%s=%s: the argument %s is %s; write %s", name, value, name, described(t.names), t.example(name))
}

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
		"integer": "a whole number", "number": "a number", "boolean": "true or false", "object": "an object", "null": "null",
	}
	words := make([]string, 0, len(types))
	for _, t := range types {
		if word, ok := of[t]; ok {
			words = append(words, word)
		}
	}
	return strings.Join(words, " or ")
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

// complete checks that all arguments are there that the schema requires, unless one has a
// name that the schema does not have.
func complete(schema, arguments []byte) error {
	required := mcp.Lookup(schema, "required")
	var missing []string
	for e := range mcp.Elements(required) {
		name, err := mcp.Unquote(e.Of(required))
		if err == nil && mcp.Lookup(arguments, name) == nil {
			missing = append(missing, name)
		}
	}
	for _, name := range names(arguments) {
		if mcp.Lookup(schema, "properties", name) == nil {
			return nil // perhaps a missing one, misspelt: the gate and the tool say more
		}
	}
	if len(missing) == 0 {
		return nil
	}
	how := typesOf(schema, mcp.Lookup(schema, "properties", missing[0])).example(missing[0])
	noun := "argument"
	if len(missing) > 1 {
		noun = "arguments"
	}
	return failure.Newf(failure.Usage, "%s", fmt.Sprintf("the %s %s must be given; write %s", noun, strings.Join(missing, ", "), how))
}
