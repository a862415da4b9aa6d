// Package arguments reads the arguments of a tool as a person types them: NAME=VALUE, with
// the types of the tool's input schema.
package arguments

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/mcp"
)

// Parse returns the arguments that pairs set, as a JSON object, over those of object.
// schema is the input schema of the tool; nil if it is not known, and then a value that is
// JSON counts as JSON and any other as text. With a schema, a value becomes what the
// argument's type says: text stays text whatever it looks like, numbers keep all their
// digits, and a list may be written as JSON or by repeating its name. A name with dots is
// that of a member of an object, unless the schema has the whole name. What the schema
// requires must be there, unless object is given. The error is one of usage, and says what
// to write.
func Parse(schema, object []byte, pairs []Pair) ([]byte, error) {
	out := []byte("{}")
	if object != nil {
		if mcp.Validate(object, mcp.Limits{}) != nil || !mcp.IsObject(object) {
			return nil, failure.Newf(failure.Usage, "--json must be a JSON object, such as --json '{\"a\": 2}'")
		}
		out = object
	}
	given := map[string]bool{}
	for _, pair := range pairs {
		path, property, err := find(schema, pair.Name)
		if err != nil {
			return nil, err
		}
		types := typesOf(schema, property)
		raw, item, err := types.value(&pair)
		if err != nil {
			return nil, err
		}
		if item {
			raw = append(append([]byte("["), raw...), ']')
		}
		if given[pair.Name] {
			if raw, err = joined(pair.Name, mcp.Lookup(out, path...), raw); err != nil {
				return nil, err
			}
		} else if err := mayHold(pair.Name, out, path, given); err != nil {
			return nil, err
		}
		given[pair.Name] = true
		out = set(out, path, raw)
	}
	if object != nil {
		return out, nil // somebody wants exactly these
	}
	return out, complete(schema, out, pairs)
}

// set returns an object with the value at a path. It makes the objects on the way.
func set(object []byte, path []string, value []byte) []byte {
	if len(path) > 1 {
		within := mcp.Lookup(object, path[0])
		if within == nil {
			within = []byte("{}")
		}
		value = set(within, path[1:], value)
	}
	return mcp.SetMember(object, path[0], value)
}

// mayHold returns an error if a value at a path would replace what other pairs have set, or
// would be inside something that is no object.
func mayHold(name string, object []byte, path []string, given map[string]bool) error {
	for i := 1; i < len(path); i++ {
		if outer := mcp.Lookup(object, path[:i]...); outer != nil && !mcp.IsObject(outer) {
			of := strings.Join(path[:i], ".")
			return failure.Newf(failure.Usage, "%s is inside of %s, which is set to something that is no object; leave out one of them", name, of)
		}
	}
	for other := range given {
		if strings.HasPrefix(other, name+".") && mcp.Lookup(object, path...) != nil {
			return failure.Newf(failure.Usage, "%s replaces %s; write %s first, or leave out one of them", name, other, name)
		}
	}
	return nil
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

// complete checks that all arguments are there that the schema requires, also inside of the
// objects that pairs fill. It does not if a name is none of the schema.
func complete(schema, arguments []byte, pairs []Pair) error {
	for _, name := range names(arguments) {
		if member(schema, schema, name) == nil {
			return nil // perhaps a missing one, misspelt: the gate and the tool say more
		}
	}
	missing := missingIn(schema, schema, arguments, "")
	for _, pair := range pairs {
		path, _, err := find(schema, pair.Name)
		for i := 1; err == nil && i < len(path); i++ {
			of := strings.Join(path[:i], ".")
			_, property, err := find(schema, of)
			if err != nil {
				break
			}
			for _, name := range missingIn(schema, property, mcp.Lookup(arguments, path[:i]...), of+".") {
				if !slices.Contains(missing, name) {
					missing = append(missing, name)
				}
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	noun := "argument"
	if len(missing) > 1 {
		noun = "arguments"
	}
	return failure.Newf(failure.Usage, "%s", fmt.Sprintf("the %s %s must be given; write %s", noun, strings.Join(missing, ", "), typed(schema, missing[0])))
}

// missingIn lists what a part of a schema requires and an object lacks.
func missingIn(root, schema, object []byte, prefix string) []string {
	var missing []string
	for _, name := range required(root, schema) {
		if mcp.Lookup(object, name) == nil {
			missing = append(missing, prefix+name)
		}
	}
	return missing
}

// typed is how a value of an argument is typed, by way of example.
func typed(schema []byte, name string) string {
	path, property, err := find(schema, name)
	if err != nil {
		return name + "=..."
	}
	if inner := required(schema, property); len(inner) > 0 && len(path) < maxDescribed && typesOf(schema, property).is("object") {
		return typed(schema, name+"."+inner[0])
	}
	return typesOf(schema, property).example(name)
}
