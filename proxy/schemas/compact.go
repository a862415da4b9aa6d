package schemas

import (
	"slices"
	"strings"
	"unicode"
)

// Compact returns a schema without what does not help a model: titles that repeat names,
// empty descriptions, comments, defaults that the description says too or that are null,
// keywords that say nothing, definitions that nothing refers to, the dialect where it
// changes nothing, and white space. It accepts exactly the same values, and the order of
// what stays is the same. A schema that cannot be read is returned as it is.
func Compact(schema []byte) []byte {
	if len(schema) > maxBytes {
		return schema
	}
	root := parse(schema, maxDepth)
	if !root.object() {
		return schema
	}
	c := compacter{root: root, exact: true, schemas: map[*value]bool{}, plain: map[string]string{}}
	root.walk(c.look)
	if len(c.schemas) > maxSchemas {
		return schema
	}
	root.walk(c.pin)
	c.definitions()
	c.unevaluated, c.old = false, older(root) // what is gone does not count
	root.walk(c.look)
	c.schema(root, "", "")
	c.dialect()
	out := root.write(make([]byte, 0, len(schema)))
	if len(out) >= len(schema) {
		return schema
	}
	return out
}

// maxSchemas is how many schemas within one are read. The check of arguments has the same
// limit.
const maxSchemas = 1000

// compacter makes one schema compact.
type compacter struct {
	root    *value
	schemas map[*value]bool // itself and everything below
	// exact tells that no reference is by an anchor or a dynamic one, so that it is known
	// what is referred to.
	exact bool
	// unevaluated tells that a schema depends on which others have seen a member or an
	// element, so that even a schema that accepts everything counts.
	unevaluated bool
	plain       map[string]string // the words of names
	old         bool              // maybe a draft in which some of the removed forms are an error
}

// look notes what restricts the changes.
func (c *compacter) look(s *value) {
	c.schemas[s] = true
	keys, values := s.members()
	for i, key := range keys {
		switch key {
		case "unevaluatedProperties", "unevaluatedItems":
			c.unevaluated = true
		case "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "$recursiveAnchor", "$id", "id":
			c.exact = false
		case "$ref":
			c.exact = c.exact && strings.HasPrefix(textIn(values[i]), "#")
		case "$schema":
			c.old = c.old || strings.Contains(values[i].text, "draft-04")
		}
	}
}

// older tells whether a schema without a dialect may be read as one of an older draft,
// for a form that only those have.
func older(v *value) bool {
	for i, e := range v.values {
		if v.kind == '{' {
			switch key := v.keys[i]; key {
			case "exclusiveMinimum", "exclusiveMaximum":
				if e.kind == 't' || e.kind == 'f' {
					return true
				}
			case "items":
				if e.kind == '[' {
					return true
				}
			}
		}
		if older(e) {
			return true
		}
	}
	return false
}

// pin marks what a reference leads to, so that it stays.
func (c *compacter) pin(s *value) {
	if ref, ok := s.get("$ref").string(); ok {
		to := c.root.follow(ref, func(v *value) { v.pinned = true })
		c.exact = c.exact && c.schemas[to]
	}
}

// drop removes a member of a schema unless a reference leads through it.
func (v *value) drop(key string) {
	if i := slices.Index(v.keys, key); i >= 0 && !v.values[i].pinned {
		v.keys, v.values, v.index = slices.Delete(v.keys, i, i+1), slices.Delete(v.values, i, i+1), nil
	}
}

// schema removes what says nothing from a schema and those below. The name is that of the
// property or definition whose schema it is; keyword is where it was found.
func (c *compacter) schema(s *value, keyword, name string) {
	if s.kind != '{' {
		return
	}
	if title, ok := s.get("title").string(); ok && (c.repeats(title, name) || s.get("description").is(title) ||
		keyword == "" && !strings.ContainsFunc(title, unicode.IsSpace)) { // the name of a type
		s.drop("title")
	}
	if d := s.get("description"); d != nil && d.kind == '"' {
		text := strings.TrimSpace(d.text)
		switch {
		case text == "" || c.repeats(text, name):
			s.drop("description")
		case text != d.text && !d.pinned:
			s.set("description", textOf(text))
		}
	}
	s.drop("$comment")
	if d := s.get("default"); d != nil && (d.kind == 'n' || says(textIn(s.get("description")), d)) {
		s.drop("default")
	}
	c.trivial(s)
	s.below(func(p place) {
		inner := p.name
		if p.keyword != "properties" && p.keyword != "$defs" && p.keyword != "definitions" {
			inner = ""
		}
		if inner == "" && keyword == "properties" && (listKeywords[p.keyword] || p.keyword == "items") {
			inner = name // an alternative, or an element, of what has this name
		}
		c.schema(p.schema, p.keyword, inner)
	})
}

// trivial removes keywords that accept everything.
func (c *compacter) trivial(s *value) {
	if c.old {
		return
	}
	if list := s.get("required"); list != nil && list.kind == '[' && len(list.values) == 0 {
		s.drop("required")
	}
	if names := s.get("propertyNames"); names != nil && anyNames("propertyNames", names) {
		s.drop("propertyNames")
	}
	if rest := s.get("additionalProperties"); rest != nil && !c.unevaluated && (rest.kind == 't' || rest.kind == '{' && len(rest.keys) == 0) {
		s.drop("additionalProperties")
	}
}

// repeats does what the function does. The words of a name, which may be long and that of
// many schemas, are made once.
func (c *compacter) repeats(text, name string) bool {
	if name == "" {
		return false
	}
	plain, ok := c.plain[name]
	if !ok {
		plain = plainWords(name)
		c.plain[name] = plain
	}
	return plainWords(text) == plain
}

// repeats tells whether a text has the same words as a name.
func repeats(text, name string) bool {
	return name != "" && plainWords(text) == plainWords(name)
}

func plainWords(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '_' || r == '-' || r == '.' {
			return -1
		}
		return unicode.ToLower(r)
	}, text)
}

// nearDefault is how far behind the word "default" a value may stand, in bytes.
const nearDefault = 40

// says tells whether a description names a default: a number, a word, true or false.
func says(description string, d *value) bool {
	if d.kind == '{' || d.kind == '[' {
		return false
	}
	text := string(d.raw)
	if d.kind == '"' {
		text = d.text
	}
	if text == "" || len(text) > nearDefault {
		return false
	}
	low, text := strings.ToLower(description), strings.ToLower(text)
	for _, word := range []string{"default", "默认"} {
		for rest := low; ; {
			_, after, ok := strings.Cut(rest, word)
			if !ok {
				break
			}
			rest = after
			if hasWord(after[:min(len(after), nearDefault+len(text))], text) {
				return true
			}
		}
	}
	return false
}

// hasWord tells whether a text has a word, with no letter, digit or decimals beside it.
func hasWord(text, word string) bool {
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(word)
		if (start == 0 || !wordByte(text[start-1]) && text[start-1] != '.' && text[start-1] != '-') &&
			(end == len(text) || !wordByte(text[end]) && (text[end] != '.' || end+1 == len(text) || !wordByte(text[end+1]))) {
			return true
		}
		from = start + 1
	}
}

func wordByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c == '_'
}

// definitions removes the definitions that nothing refers to.
func (c *compacter) definitions() {
	if !c.exact {
		return
	}
	used := c.used()
	for _, keyword := range []string{"$defs", "definitions"} {
		all := c.root.get(keyword)
		if !all.object() {
			continue
		}
		var keys []string
		var values []*value
		for i, name := range all.keys {
			if used[all.values[i]] {
				keys, values = append(keys, name), append(values, all.values[i])
			}
		}
		if all.keys, all.values, all.index = keys, values, nil; len(keys) == 0 {
			all.pinned = false
			c.root.drop(keyword)
		}
	}
}

// used returns everything that references lead to or through, from the root and from
// definitions that are used themselves.
func (c *compacter) used() map[*value]bool {
	used := map[*value]bool{}
	seen := map[*value]bool{}
	var visit func(s *value)
	visit = func(s *value) {
		if seen[s] {
			return
		}
		seen[s] = true
		if ref, ok := s.get("$ref").string(); ok {
			c.root.follow(ref, func(v *value) {
				used[v] = true
				if v.pinned && v.kind == '{' {
					visit(v)
				}
			})
		}
		s.below(func(p place) {
			if s != c.root || p.keyword != "$defs" && p.keyword != "definitions" {
				visit(p.schema)
			}
		})
	}
	visit(c.root)
	return used
}

// alike are the keywords that mean the same from draft 6 to 2020-12. "items" does where it
// has one schema, and "$ref" where nothing but annotations is beside it.
var alike = setOf("$schema", "type", "enum", "const", "properties", "required", "additionalProperties", "patternProperties", "propertyNames",
	"items", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "minLength", "maxLength", "pattern",
	"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "anyOf", "oneOf", "allOf", "not", "$ref", "$defs", "definitions")

// newest is the dialect of schemas that name none.
const newest = "json-schema.org/draft/2020-12/schema"

// dialect removes $schema where the schema means the same in the dialect that it would be
// read as then.
func (c *compacter) dialect() {
	named := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(textIn(c.root.get("$schema")), "https://"), "http://"), "#")
	switch named {
	case newest:
	case "json-schema.org/draft/2019-09/schema", "json-schema.org/draft-07/schema", "json-schema.org/draft-06/schema":
	default:
		return // none, draft 4, or one that is not known
	}
	stays := c.old
	c.root.walk(func(s *value) {
		keys, _ := s.members()
		for _, key := range keys {
			switch {
			case key == "$ref" && named != newest:
				stays = stays || slices.ContainsFunc(keys, func(k string) bool {
					return k != "$ref" && !annotations[k] && k != "$schema" && k != "$defs" && k != "definitions"
				})
			case key == "$schema":
				stays = stays || s != c.root
			case named != newest && !alike[key] && !annotations[key] && known[key]:
				stays = true
			}
		}
	})
	if !stays {
		c.root.drop("$schema")
	}
}

// known are the other keywords of any draft.
var known = setOf("$id", "id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "$recursiveAnchor", "$vocabulary",
	"prefixItems", "additionalItems", "contains", "minContains", "maxContains", "unevaluatedItems", "unevaluatedProperties",
	"dependencies", "dependentRequired", "dependentSchemas", "if", "then", "else")
