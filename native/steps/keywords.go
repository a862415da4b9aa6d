package steps

import (
	"fmt"
	"maps"
	"slices"

	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/internal/mcp"
)

// holds is what the value of a keyword has in it.
type holds int

const (
	values     holds = iota // no schema
	oneSchema               // a schema
	schemaList              // a list of schemas
	schemaMap               // schemas by name
)

// schemaKeywords are those of JSON Schema that a condition may have: those that can fail. What
// only describes a value, and format, which is not checked, would always hold.
var schemaKeywords = map[string]holds{
	"type": values, "enum": values, "const": values, "required": values, "dependentRequired": values, "uniqueItems": values,
	"minimum": values, "maximum": values, "exclusiveMinimum": values, "exclusiveMaximum": values, "multipleOf": values,
	"minLength": values, "maxLength": values, "pattern": values, "minItems": values, "maxItems": values,
	"minContains": values, "maxContains": values, "minProperties": values, "maxProperties": values, "$ref": values,
	"not": oneSchema, "if": oneSchema, "then": oneSchema, "else": oneSchema, "items": oneSchema, "contains": oneSchema,
	"additionalProperties": oneSchema, "propertyNames": oneSchema, "unevaluatedItems": oneSchema, "unevaluatedProperties": oneSchema,
	"allOf": schemaList, "anyOf": schemaList, "oneOf": schemaList, "prefixItems": schemaList,
	"properties": schemaMap, "patternProperties": schemaMap, "dependentSchemas": schemaMap, "$defs": schemaMap,
}

// needs are keywords that mean nothing without one of others.
var needs = map[string][]string{
	"minContains": {"contains"}, "maxContains": {"contains"}, "then": {"if"}, "else": {"if"}, "if": {"then", "else"},
}

// keywords checks that the schema of a condition says something, and has no keyword that is
// ignored. Each mistake is at its own keyword.
func (c *compiler) keywords(i int, path []string, raw []byte) bool {
	before := len(c.problems)
	says := false
	for m := range mcp.Members(raw) {
		key, err := mcp.Unquote(m.Key(raw))
		says = says || err != nil || key != "$defs"
	}
	if !says {
		c.wrong(i, path, "write a JSON Schema, such as { minimum: 1 }, or the value itself", "the condition always holds")
	}
	c.known(i, path, raw)
	return len(c.problems) == before
}

func (c *compiler) known(i int, path []string, raw []byte) {
	if len(path) > maxNesting {
		c.wrong(i, path[:2], "write a simpler one", "the condition is too deep")
		return
	}
	below := func(keys ...string) []string { return append(slices.Clone(path), keys...) }
	for m := range mcp.Members(raw) {
		key, err := mcp.Unquote(m.Key(raw))
		if err != nil {
			continue // the schema cannot be compiled
		}
		value := m.Value.Of(raw)
		kind, is := schemaKeywords[key]
		switch {
		case !is:
			hint := "write { const: VALUE } for a value, and { properties: { NAME: ... } } for a member"
			if near := tree.Nearest(key, slices.Sorted(maps.Keys(schemaKeywords))); near != "" {
				hint = "did you mean " + near + "?"
			} else if key == "format" {
				hint = "write a pattern"
			}
			c.wrong(i, below(key), hint, "a condition does not check the keyword %.80q", key)
			continue
		case needs[key] != nil && !slices.ContainsFunc(needs[key], func(other string) bool { return mcp.Lookup(raw, other) != nil }):
			c.wrong(i, below(key), "add "+needs[key][0], "the keyword means nothing without %s", needs[key][0])
			continue
		}
		switch kind {
		case values:
		case oneSchema:
			c.known(i, below(key), value)
		case schemaList:
			n := 0
			for e := range mcp.Elements(value) {
				c.known(i, below(key, fmt.Sprint(n)), e.Of(value))
				n++
			}
		case schemaMap:
			for member := range mcp.Members(value) {
				if name, err := mcp.Unquote(member.Key(value)); err == nil {
					c.known(i, below(key, name), member.Value.Of(value))
				}
			}
		}
	}
}
