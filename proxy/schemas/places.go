package schemas

import (
	"net/url"
	"strconv"
	"strings"
)

// The keywords of JSON Schema, draft 4 to 2020-12, by what their values are.
var (
	// schemaKeywords have a schema.
	schemaKeywords = setOf("not", "if", "then", "else", "additionalProperties", "unevaluatedProperties", "propertyNames",
		"additionalItems", "unevaluatedItems", "contains", "contentSchema")
	// listKeywords have a list of schemas.
	listKeywords = setOf("allOf", "anyOf", "oneOf", "prefixItems")
	// mapKeywords have schemas by names that are not keywords.
	mapKeywords = setOf("properties", "patternProperties", "dependentSchemas", "$defs", "definitions", "dependencies")
	// annotations do not affect which values are valid.
	annotations = setOf("title", "description", "default", "examples", "example", "$comment", "deprecated", "readOnly", "writeOnly",
		"contentMediaType", "contentEncoding", "contentSchema", "format")
)

type set map[string]bool

func setOf(words ...string) set {
	s := make(set, len(words))
	for _, w := range words {
		s[w] = true
	}
	return s
}

// place is where a schema is found in another one.
type place struct {
	keyword string
	name    string // below a keyword of mapKeywords
	schema  *value
}

// below calls a function for each schema directly below a schema, in order.
func (v *value) below(yield func(place)) {
	keys, values := v.members()
	for i, key := range keys {
		child := values[i]
		switch {
		case schemaKeywords[key], key == "items" && child.kind != '[':
			yield(place{key, "", child})
		case listKeywords[key], key == "items":
			for _, e := range child.elements() {
				yield(place{key, "", e})
			}
		case mapKeywords[key]:
			names, schemas := child.members()
			for j, name := range names {
				if schemas[j].kind != '[' { // a list of names in dependencies
					yield(place{key, name, schemas[j]})
				}
			}
		}
	}
}

// walk calls a function for a schema and everything below it.
func (v *value) walk(visit func(*value)) {
	visit(v)
	v.below(func(p place) { p.schema.walk(visit) })
}

// targets are what the references in a document lead to, each looked up once.
type targets struct {
	root  *value
	found map[string]*value
}

func (t *targets) follow(ref string) *value {
	to, ok := t.found[ref]
	if !ok {
		if to = t.root.follow(ref, nil); t.found == nil {
			t.found = map[string]*value{}
		}
		t.found[ref] = to
	}
	return to
}

// follow returns the schema that a reference leads to, nil when it leads nowhere or out of
// the document. Values on the way are passed to a function, unless it is nil.
func (v *value) follow(ref string, visit func(*value)) *value {
	fragment, ok := strings.CutPrefix(ref, "#")
	if !ok || fragment != "" && fragment[0] != '/' {
		return nil
	}
	fragment, err := url.PathUnescape(fragment)
	if err != nil {
		return nil
	}
	at := v
	for i, token := range strings.Split(fragment, "/") {
		if i > 0 {
			token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
			if n, err := strconv.Atoi(token); err == nil && at.kind == '[' && n >= 0 && n < len(at.values) {
				at = at.values[n]
			} else {
				at = at.get(token)
			}
		}
		if at == nil {
			return nil
		}
		if visit != nil {
			visit(at)
		}
	}
	return at
}
