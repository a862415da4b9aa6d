package arguments

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/spelling"
)

// find returns where a name leads: a path from object to object, and the part of the schema
// about the value there, which is nil if the schema says nothing about it. The longest name
// that the schema has is taken first, so a member called "filter.owner" comes before the
// member owner of filter. Names without dots that the schema does not have are left to the
// gate and to the tool.
func find(schema []byte, name string) (path []string, property []byte, err error) {
	if property = member(schema, schema, name); property != nil || !strings.Contains(name, ".") {
		return []string{name}, property, nil
	}
	for at, outer := range outers(schema, schema, name) {
		if path, property, ok := within(schema, outer, name[at+1:], maxSchemaDepth); ok {
			return append([]string{name[:at]}, path...), property, nil
		}
		switch t := typesOf(schema, outer); {
		case t.allows("object"):
		case t.allows("array"):
			return nil, nil, failure.Newf(failure.Usage, "%s: the argument %s is a list, whose items have no names; write %s='[...]'", name, name[:at], name[:at])
		default:
			return nil, nil, failure.Newf(failure.Usage, "%s: the argument %s is %s, which has no members; write %s", name, name[:at], described(t.names), t.example(name[:at]))
		}
		return nil, nil, failure.Newf(failure.Usage, "%s is no argument of the tool; %s", name, meant(schema, name))
	}
	if closed(schema, schema) {
		return nil, nil, failure.Newf(failure.Usage, "%s is no argument of the tool; %s", name, meant(schema, name))
	}
	return []string{name}, nil, nil
}

// meant says which argument a name may stand for, or how to find out.
func meant(schema []byte, name string) string {
	outer, _, _ := strings.Cut(name, ".")
	for _, word := range []string{name, outer} {
		for _, a := range Describe(schema) {
			if word != a.Name && spelling.Misspelt(word, a.Name) {
				return "did you mean " + a.Name + "?"
			}
		}
	}
	return "`toolgate tools show` lists the arguments, and --json takes any"
}

// outers iterates over what a part of a schema says about the objects that a name with dots
// may be in, the longest name first. at is where that name ends.
func outers(root, schema []byte, name string) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for at := strings.LastIndexByte(name, '.'); at > 0; at = strings.LastIndexByte(name[:at], '.') {
			if outer := member(root, schema, name[:at]); outer != nil && at < len(name)-1 && !yield(at, outer) {
				return
			}
		}
	}
}

// within is find below a part of a schema, for a name that may have dots.
func within(root, schema []byte, name string, depth int) (path []string, property []byte, ok bool) {
	if depth == 0 {
		return nil, nil, false
	}
	if property := member(root, schema, name); property != nil {
		return []string{name}, property, true
	}
	if !typesOf(root, schema).allows("object") {
		return nil, nil, false
	}
	for at, outer := range outers(root, schema, name) {
		if path, property, ok = within(root, outer, name[at+1:], depth-1); ok {
			return append([]string{name[:at]}, path...), property, true
		}
	}
	if closed(root, schema) {
		return nil, nil, false
	}
	// An object of any members.
	path = strings.Split(name, ".")
	if slices.Contains(path, "") {
		return nil, nil, false
	}
	return path, nil, len(path) <= depth
}

// closed tells whether a part of a schema lists the members of its object. A schema that
// lists some and does not say that there may be more counts as one that lists all of them:
// a misspelt name is far more frequent than one that the schema does not know.
func closed(root, schema []byte) bool {
	more := false
	has := false
	each(root, schema, maxSchemaDepth, func(part []byte) bool {
		has = has || mcp.IsObject(mcp.Lookup(part, "properties"))
		if extra := mcp.Lookup(part, "additionalProperties"); mcp.IsObject(extra) || string(extra) == "true" {
			more = true
		}
		if string(mcp.Lookup(part, "additionalProperties")) == "false" {
			has = true
		}
		return true
	})
	return has && !more
}

// member returns what a part of a schema says about one member of its object, directly, by
// a reference or in one of several alternatives; nil if nothing.
func member(root, schema []byte, name string) []byte {
	var found []byte
	each(root, schema, maxSchemaDepth, func(part []byte) bool {
		found = mcp.Lookup(part, "properties", name)
		return found == nil
	})
	return found
}

// required lists the members that a part of a schema requires, in its order. What only one
// of several alternatives requires does not count.
func required(root, schema []byte) []string {
	var all []string
	add := func(part []byte) bool {
		list := mcp.Lookup(part, "required")
		for e := range mcp.Elements(list) {
			if name, err := mcp.Unquote(e.Of(list)); err == nil {
				all = append(all, name)
			}
		}
		return true
	}
	walk(root, schema, maxSchemaDepth, []string{"allOf"}, add)
	return all
}

// each calls use with a part of a schema and with what it refers to, until use returns
// false.
func each(root, schema []byte, depth int, use func(part []byte) bool) bool {
	return walk(root, schema, depth, []string{"anyOf", "oneOf", "allOf"}, use)
}

// walk is each for some of the keywords that combine schemas.
func walk(root, schema []byte, depth int, keywords []string, use func(part []byte) bool) bool {
	if depth == 0 || !mcp.IsObject(schema) {
		return true
	}
	if !use(schema) {
		return false
	}
	if ref, ok := mcp.LookupString(schema, "$ref"); ok {
		if path, local := strings.CutPrefix(ref, "#/"); local && !walk(root, mcp.Lookup(root, strings.Split(path, "/")...), depth-1, keywords, use) {
			return false
		}
	}
	for _, key := range keywords {
		list := mcp.Lookup(schema, key)
		for e := range mcp.Elements(list) {
			if !walk(root, e.Of(list), depth-1, keywords, use) {
				return false
			}
		}
	}
	return true
}

// Doubt says which of these pairs the tool does not have, for a call that has failed, and
// which argument may have been meant; empty if none. A tool that takes what its schema does
// not name is in doubt only where a name is like another one.
func Doubt(schema []byte, pairs []Pair) string {
	for _, pair := range pairs {
		if !mcp.IsObject(mcp.Lookup(schema, "properties")) || member(schema, schema, pair.Name) != nil {
			continue
		}
		known := Describe(schema)
		names := make([]string, 0, len(known))
		for _, a := range known {
			given := slices.ContainsFunc(pairs, func(other Pair) bool { return other.Name == a.Name })
			if !given && spelling.Similar(pair.Name, a.Name) {
				return pair.Name + " is no argument of the tool; did you mean " + a.Name + "?"
			}
			names = append(names, a.Name)
		}
		if string(mcp.Lookup(schema, "additionalProperties")) == "false" {
			return pair.Name + " is no argument of the tool, which takes " + listed(names)
		}
	}
	return ""
}

// maxListed is how many names a sentence lists.
const maxListed = 8

// listed lists names for a sentence.
func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	if more := len(names) - maxListed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxListed], ", "), more)
	}
	return strings.Join(names, ", ")
}
