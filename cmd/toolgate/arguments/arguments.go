// Package arguments reads the arguments of a tool as a person types them: NAME=VALUE, with
// the types of the tool's input schema.
package arguments

import (
	"bytes"
	"fmt"
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
	lists := map[string]int{} // values so far of each list
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, failure.Newf(failure.Usage, "%q is not NAME=VALUE; write each argument of the tool in this form, or all of them with --json", pair)
		}
		// The gate and the tool judge names that the schema does not have.
		raw, list, err := valueOf(name, value, mcp.Lookup(schema, "properties", name))
		if err != nil {
			return nil, err
		}
		if list {
			before := mcp.Lookup(out, name)
			if lists[name]++; lists[name] > 1 {
				raw = append(append(append(bytes.TrimSuffix(bytes.Clone(before), []byte("]")), ','), raw...), ']')
			} else {
				raw = append(append([]byte("["), raw...), ']')
			}
		}
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

// valueOf returns the JSON of a value. list tells that it is one item of a list.
func valueOf(name, value string, property []byte) (raw []byte, list bool, err error) {
	types := typesOf(property)
	written := []byte(strings.TrimSpace(value))
	is := kindOf(written)
	switch {
	case len(types) == 0: // anything
		if is == "" {
			return mcp.Quote(value), false, nil
		}
		return written, false, nil
	case slices.Contains(types, is), is == "integer" && slices.Contains(types, "number"):
		if is == "string" && slices.Equal(types, []string{"string"}) {
			return mcp.Quote(value), false, nil // quotes are part of the text
		}
		return written, false, nil
	case slices.Contains(types, "array"):
		raw, _, err := valueOf(name, value, mcp.Lookup(property, "items"))
		return raw, true, err
	case slices.Contains(types, "string"):
		return mcp.Quote(value), false, nil
	}
	return nil, false, failure.Newf(failure.Usage, "%s=%s: the argument %s is %s; write %s", name, value, name, described(types), example(name, types))
}

// typesOf returns the types that a schema allows by name; none if it allows any.
func typesOf(schema []byte) []string {
	of := mcp.Lookup(schema, "type")
	if text, ok := mcp.LookupString(schema, "type"); ok {
		return []string{text}
	}
	var all []string
	for e := range mcp.Elements(of) {
		if text, err := mcp.Unquote(e.Of(of)); err == nil {
			all = append(all, text)
		}
	}
	return all
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
func example(name string, types []string) string {
	for _, t := range types {
		switch t {
		case "integer":
			return name + "=3"
		case "number":
			return name + "=2.5"
		case "boolean":
			return name + "=true"
		case "object":
			return name + "='{\"key\": \"value\"}'"
		}
	}
	return name + "=null"
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
	types := typesOf(mcp.Lookup(schema, "properties", missing[0]))
	how := missing[0] + "=" + strconv.Quote("text")
	if len(types) > 0 && !slices.Contains(types, "string") && !slices.Contains(types, "array") {
		how = example(missing[0], types)
	}
	noun := "argument"
	if len(missing) > 1 {
		noun = "arguments"
	}
	return failure.Newf(failure.Usage, "%s", fmt.Sprintf("the %s %s must be given; write %s", noun, strings.Join(missing, ", "), how))
}
