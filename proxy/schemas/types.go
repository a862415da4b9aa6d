package schemas

import (
	"bytes"
	"slices"
	"strings"
)

// typeOf writes the type that a schema describes. A union inside of another type is put in
// parentheses. depth is how many more levels of objects are written out.
func (w *signer) typeOf(s *value, depth int, inside bool) {
	if w.left--; w.left < 0 || len(w.text) > max(w.limit, mostRequired) {
		w.more()
		return
	}
	if s == nil || s.kind != '{' {
		if s != nil && s.kind == 'f' {
			w.add("never")
			return
		}
		w.add("any")
		return
	}
	if ref, ok := s.get("$ref").string(); ok {
		w.reference(ref, depth, inside)
		return
	}
	if v := s.get("const"); v != nil {
		w.literal(v)
		return
	}
	if enum := s.get("enum").elements(); len(enum) > 0 {
		w.union(len(enum), inside, func(i int) { w.literal(enum[i]) })
		return
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if branches := s.get(keyword).elements(); len(branches) > 0 && !w.parts.typed(branches, s) {
			w.union(len(branches), inside, func(i int) { w.typeOf(branches[i], depth, false) })
			return
		}
	}
	if parts := s.get("allOf").elements(); len(parts) > 0 && s.get("properties") == nil {
		w.all(parts, depth, inside)
		return
	}
	switch kinds := s.get("type"); {
	case kinds.elements() != nil:
		names := namesIn(listOf(kinds.values[:min(len(kinds.values), mostTypes)]...))
		w.union(len(names), inside, func(i int) { w.kind(s, names[i], depth) })
	default:
		name, _ := kinds.string()
		if name == "" {
			name = impliedType(s)
		}
		w.kind(s, name, depth)
	}
}

// impliedType returns the type that the keywords of a schema are about, "" for several.
func impliedType(s *value) string {
	switch {
	case s.get("properties") != nil || s.get("additionalProperties") != nil:
		return "object"
	case s.get("items") != nil || s.get("prefixItems") != nil:
		return "array"
	case s.get("pattern") != nil || s.get("minLength") != nil || s.get("maxLength") != nil:
		return "string"
	case s.get("minimum") != nil || s.get("maximum") != nil || s.get("multipleOf") != nil:
		return "number"
	}
	return ""
}

// kind writes one type of a schema.
func (w *signer) kind(s *value, name string, depth int) {
	switch name {
	case "object":
		w.object(s, depth)
	case "array":
		w.array(s, depth)
	case "string", "number", "integer", "boolean", "null":
		w.add(name)
	default:
		w.add("any")
	}
}

func (w *signer) array(s *value, depth int) {
	items := s.get("items")
	tuple := s.get("prefixItems").elements()
	if tuple == nil {
		tuple = items.elements()
	}
	if len(tuple) == 0 {
		if items == nil || items.kind != '{' {
			w.add("any[]")
			return
		}
		w.typeOf(items, depth, true)
		w.add("[]")
		return
	}
	w.add("[")
	for i, e := range tuple {
		if i > 0 {
			w.add(", ")
		}
		if i >= 2*w.words {
			w.more()
			break
		}
		w.typeOf(e, depth, false)
	}
	w.add("]")
}

func (w *signer) object(s *value, depth int) {
	names, schemas := s.get("properties").members()
	rest := s.get("additionalProperties")
	named := rest.object() && len(rest.keys) > 0
	switch {
	case len(names) == 0 && !named:
		w.add("object")
		return
	case depth <= 0:
		w.add("{")
		w.more()
		w.add("}")
		return
	}
	w.add("{")
	order, required := w.parts.members(s)
	for n, i := range order {
		if w.left < 0 {
			break
		}
		if n > 0 {
			w.add(", ")
		}
		w.name(names[i])
		if n >= required {
			w.add("?")
		}
		w.add(": ")
		w.typeOf(schemas[i], depth-1, false)
	}
	if named {
		if len(order) > 0 {
			w.add(", ")
		}
		w.add("[key: string]: ")
		w.typeOf(rest, depth-1, false)
	}
	w.add("}")
}

// reference writes the target of a reference, and only its name inside of itself.
func (w *signer) reference(ref string, depth int, inside bool) {
	to := w.parts.targets.follow(ref)
	switch {
	case to == nil:
		w.add("any")
	case slices.Contains(w.open, to) || len(w.open) > maxDepth:
		if name, ok := definition(ref); ok && len(name) <= mostLiteral {
			w.name(name)
		} else {
			w.add("object")
		}
		w.more()
	default:
		w.open = append(w.open, to)
		w.typeOf(to, depth, inside)
		w.open = w.open[:len(w.open)-1]
	}
}

// all writes the schemas that apply together, each text once.
func (w *signer) all(parts []*value, depth int, inside bool) {
	w.join(len(parts), "&", inside, func(i int) { w.typeOf(parts[i], depth, true) })
}

// union writes alternatives, each text once.
func (w *signer) union(n int, inside bool, write func(i int)) { w.join(n, "|", inside, write) }

func (w *signer) join(n int, with string, inside bool, write func(i int)) {
	start := len(w.text)
	var had [][]byte
	for i := range n {
		if (len(had) >= w.words || i >= mostTypes) && n-i > 1 {
			w.add(with)
			w.more()
			had = append(had, nil)
			break
		}
		before := len(w.text)
		if len(had) > 0 {
			w.add(with)
		}
		at := len(w.text)
		write(i)
		one := w.text[at:]
		if slices.ContainsFunc(had, func(h []byte) bool { return bytes.Equal(h, one) }) || with == "&" && string(one) == "any" {
			w.text = w.text[:before]
			continue
		}
		had = append(had, bytes.Clone(one))
		if w.left < 0 {
			break
		}
	}
	switch {
	case len(had) == 0:
		w.add("any")
	case len(had) > 1 && inside:
		w.text = append(w.text[:start], append([]byte{'('}, w.text[start:]...)...)
		w.add(")")
	}
}

// definition returns the name of the definition that a reference leads to.
func definition(ref string) (string, bool) {
	for _, prefix := range []string{"#/$defs/", "#/definitions/"} {
		if name, ok := strings.CutPrefix(ref, prefix); ok && name != "" && !strings.Contains(name, "/") {
			return name, true
		}
	}
	return "", false
}

// withoutNull returns an optional argument's schema without null where null is the
// default, so that it means the same as leaving the argument out.
func withoutNull(s *value) *value {
	if d := s.get("default"); d == nil || d.kind != 'n' {
		return s
	}
	for _, keyword := range []string{"anyOf", "oneOf", "type"} {
		var rest []*value
		list := s.get(keyword).elements()
		for _, e := range list {
			if !e.is("null") && !e.get("type").is("null") {
				rest = append(rest, e)
			}
		}
		if len(rest) == 0 || len(rest) == len(list) {
			continue
		}
		out := &value{kind: '{', keys: slices.Clone(s.keys), values: slices.Clone(s.values)}
		out.set(keyword, listOf(rest...))
		return out
	}
	return s
}
