package schemas_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate/schema"
	"github.com/toolgate/toolgate/internal/retrieval"
)

type object = map[string]any

// maker makes random schemas and instances.
type maker struct {
	*rand.Rand
	defs  []string
	plain bool // only keywords that every reader knows
}

var words = []string{"a", "page_size", "name", "$ref", "items", "title", "x y"}

func (m *maker) pick(list ...any) any { return list[m.IntN(len(list))] }

// root makes a schema of arguments.
func (m *maker) root() object {
	m.defs = []string{"Node", "Other", "Unused"}[:m.IntN(4)]
	s := m.objectSchema(3)
	switch m.IntN(12) {
	case 0:
		s["anyOf"] = []any{object{"required": []any{m.word()}}, object{"required": []any{m.word(), m.word()}}}
	case 1:
		s = object{"oneOf": []any{m.objectSchema(2), m.objectSchema(2)}}
	case 2:
		s = object{"allOf": []any{s, m.objectSchema(2)}}
	}
	if len(m.defs) > 0 {
		defs := object{}
		for _, name := range m.defs {
			defs[name] = m.schema(2)
		}
		s["$defs"] = defs
	}
	if m.IntN(2) == 0 {
		s["$schema"] = m.pick("http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-06/schema#", "http://json-schema.org/draft-04/schema#")
	}
	return s
}

func (m *maker) word() string { return words[m.IntN(len(words))] }

// schema makes one of any kind.
func (m *maker) schema(depth int) any {
	if m.IntN(25) == 0 {
		return m.pick(true, false, object{})
	}
	n := 12
	if depth <= 0 {
		n = 5
	}
	var s object
	switch m.IntN(n) {
	case 0:
		s = object{"type": "string"}
		m.maybe(s, "minLength", m.IntN(3))
		m.maybe(s, "pattern", "^[a-z]*$")
		m.maybe(s, "format", "date")
	case 1:
		s = object{"type": m.pick("integer", "number")}
		m.maybe(s, "minimum", m.IntN(5))
		m.maybe(s, "exclusiveMaximum", 5+m.IntN(5))
		m.maybe(s, "multipleOf", 1+m.IntN(2))
	case 2:
		s = object{"type": m.pick("boolean", "null")}
	case 3:
		s = object{"enum": []any{"a", m.word(), 1, json.Number("2.0"), nil, true}[m.IntN(4):]}
		m.maybe(s, "type", m.pick("string", "integer", []any{"string", "null"}))
	case 4:
		s = object{"const": m.pick("a", 1, nil, "b")}
	case 5, 6:
		s = m.objectSchema(depth - 1)
	case 7:
		s = object{"type": "array", "items": m.schema(depth - 1)}
		m.maybe(s, "minItems", m.IntN(2))
		m.maybe(s, "maxItems", 1+m.IntN(3))
		m.maybe(s, "uniqueItems", m.IntN(2) == 0)
	case 8:
		s = object{string(m.pick("anyOf", "oneOf").(string)): []any{m.schema(depth - 1), m.schema(depth - 1), object{"type": "null"}}[m.IntN(2):]}
		m.maybe(s, "type", m.pick("string", "object"))
	case 9:
		s = object{"allOf": []any{m.schema(depth - 1), m.schema(depth - 1)}[m.IntN(2):]}
	case 10:
		s = object{"type": []any{m.pick("string", "object", "array"), m.pick("null", "integer")}, "properties": object{"a": m.schema(depth - 1)}, "items": m.schema(depth - 1)}
	default:
		if len(m.defs) == 0 {
			return m.schema(depth)
		}
		s = object{"$ref": "#/$defs/" + m.defs[m.IntN(len(m.defs))]}
		if m.IntN(6) == 0 {
			s["$ref"] = "#"
		}
	}
	if !m.plain {
		m.odd(s, depth)
	}
	m.annotate(s)
	return s
}

// odd adds keywords that few schemas have.
func (m *maker) odd(s object, depth int) {
	switch m.IntN(30) {
	case 0:
		s["not"] = m.schema(0)
	case 1:
		s["if"], s["then"] = m.schema(0), m.schema(depth-1)
	case 2:
		s["dependentRequired"] = object{"a": []any{"name"}}
	case 3:
		s["patternProperties"] = object{"^a": m.schema(0)}
	case 4:
		s["unevaluatedProperties"] = false
	case 5:
		s["contains"] = m.schema(0)
	case 6:
		s["prefixItems"] = []any{m.schema(0)}
	case 7:
		s["propertyNames"] = object{"maxLength": 3}
	}
}

func (m *maker) maybe(s object, key string, value any) {
	if m.IntN(4) == 0 {
		s[key] = value
	}
}

func (m *maker) annotate(s object) {
	m.maybe(s, "title", m.pick("Page Size", "Name", "", "A", "Weather in Fahrenheit", "items"))
	m.maybe(s, "description", m.pick("", "  the name \n", "Page size", "How many (default: 10)", "Defaults to \"a\".", "a default of 1.5", "about default things 100"))
	m.maybe(s, "default", m.pick(nil, 10, "a", 1, true, object{"title": "x"}, []any{}))
	m.maybe(s, "$comment", "for people")
	m.maybe(s, "examples", []any{object{"title": "x", "$comment": 1}})
}

func (m *maker) objectSchema(depth int) object {
	s, properties, required := object{"type": "object"}, object{}, []any{}
	for range m.IntN(4) {
		name := m.word()
		if _, twice := properties[name]; twice {
			continue
		}
		if properties[name] = m.schema(depth); m.IntN(2) == 0 {
			required = append(required, name)
		}
	}
	if len(properties) > 0 || m.IntN(2) == 0 {
		s["properties"] = properties
	}
	if len(required) > 0 || m.IntN(3) == 0 {
		s["required"] = required
	}
	switch m.IntN(6) {
	case 0, 1:
		s["additionalProperties"] = false
	case 2:
		s["additionalProperties"] = m.pick(true, object{}, m.schema(0))
	}
	m.maybe(s, "minProperties", 1)
	m.maybe(s, "maxProperties", 2)
	m.annotate(s)
	return s
}

// instance makes a value, mostly one that a schema may accept.
func (m *maker) instance(root object, of any, depth int) any {
	s, ok := of.(object)
	if !ok || m.IntN(12) == 0 || depth <= 0 {
		return m.any(depth)
	}
	if v, ok := s["const"]; ok {
		return v
	}
	if list, ok := s["enum"].([]any); ok {
		return list[m.IntN(len(list))]
	}
	if ref, ok := s["$ref"].(string); ok {
		defs, _ := root["$defs"].(object)
		if name, ok := strings.CutPrefix(ref, "#/$defs/"); ok {
			return m.instance(root, defs[name], depth-1)
		}
		return m.instance(root, root, depth-1)
	}
	for _, keyword := range []string{"anyOf", "oneOf", "allOf"} {
		if list, ok := s[keyword].([]any); ok && s["properties"] == nil {
			if keyword == "allOf" {
				both := object{}
				for _, part := range list {
					value := m.instance(root, part, depth-1)
					if o, ok := value.(object); ok {
						maps.Copy(both, o)
						continue
					}
					return value
				}
				return both
			}
			return m.instance(root, list[m.IntN(len(list))], depth-1)
		}
	}
	kind := s["type"]
	if list, ok := kind.([]any); ok {
		kind = list[m.IntN(len(list))]
	}
	switch kind {
	case "string":
		return m.pick("", "a", "abc", "name", "Z")
	case "integer":
		return m.IntN(10)
	case "number":
		return m.pick(0.5, m.IntN(9), 1)
	case "boolean":
		return m.IntN(2) == 0
	case "null":
		return nil
	case "array":
		list := []any{}
		for range m.IntN(3) {
			list = append(list, m.instance(root, s["items"], depth-1))
		}
		return list
	case "object":
		return m.objectInstance(root, s, depth)
	}
	return m.any(depth)
}

func (m *maker) objectInstance(root, s object, depth int) any {
	out := object{}
	properties, _ := s["properties"].(object)
	required, _ := s["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if slices.Contains(required, any(name)) || m.IntN(2) == 0 {
			out[name] = m.instance(root, properties[name], depth-1)
		}
	}
	if s["additionalProperties"] != false && m.IntN(5) == 0 {
		out[m.word()] = m.any(1)
	}
	if min, ok := s["minProperties"].(int); ok && len(out) < min {
		out[m.word()] = m.any(1)
	}
	return out
}

// any makes a value of any type.
func (m *maker) any(depth int) any {
	n := 7
	if depth > 0 {
		n = 9
	}
	switch m.IntN(n) {
	case 0:
		return m.pick("", "a", "null", "1", "{}")
	case 1, 2:
		return m.IntN(12)
	case 3:
		return 1.5
	case 4:
		return nil
	case 5, 6:
		return m.IntN(2) == 0
	case 7:
		return []any{m.any(depth - 1)}
	default:
		return object{m.word(): m.any(depth - 1)}
	}
}

func text(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// compile returns a schema as the check of arguments reads it; nil for one that it
// refuses.
func compile(c *schema.Checker, raw []byte) *schema.Schema {
	s, err := c.Compile(raw)
	if err != nil {
		return nil
	}
	return s
}

func newChecker() *schema.Checker { return schema.New(schema.Options{Wait: time.Minute, Entries: 16}) }

func accepts(s *schema.Schema, raw []byte) bool { return s.Check(schema.ReadArguments(raw)).Valid }

// catalog returns the tools of real servers: those of a file that TOOLGATE_CATALOG names,
// one tool a line, or the set that this repository has.
func catalog(t testing.TB) []retrieval.Tool {
	t.Helper()
	path := os.Getenv("TOOLGATE_CATALOG")
	if path == "" {
		path = "../../internal/retrieval/testdata/real/tools.jsonl"
	}
	tools, err := retrieval.ReadCatalog(path)
	if err != nil || len(tools) == 0 {
		t.Fatal(len(tools), err)
	}
	return tools
}

func decoded(t testing.TB, raw []byte) object {
	t.Helper()
	var out object
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
