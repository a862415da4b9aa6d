package schemas

import (
	"errors"
	"fmt"
)

// Rewritten is a schema in the form for clients that refuse parts of JSON Schema, with what
// turns arguments of it into arguments of the original. It is immutable and safe for
// concurrent use. The zero value changes no arguments.
type Rewritten struct {
	// Schema is the rewritten schema, or the original where it is fine or Why says
	// something.
	Schema []byte
	// Why says where and why the schema stays as it was although a client may refuse it;
	// empty if no client should.
	Why string

	translator *translator
}

// Translate turns arguments of the rewritten schema into arguments of the original. It
// changes only what the rewritten schema says differently, so arguments that were made for
// the original mostly stay as they are. The error is for arguments that are no strict JSON,
// and for those without any of several arguments of which the original needs one.
func (r *Rewritten) Translate(arguments []byte) ([]byte, error) {
	if r.translator == nil {
		return arguments, nil
	}
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	v := parse(arguments, mostNesting)
	if v == nil {
		return nil, errors.New("the arguments are not valid JSON; send one JSON object")
	}
	out, err := r.translator.apply(v)
	if err != nil {
		return nil, err
	}
	return out.write(make([]byte, 0, len(arguments))), nil
}

// Translates tells whether [Rewritten.Translate] may change arguments.
func (r *Rewritten) Translates() bool { return r.translator != nil }

// mostNesting is the deepest nesting of arguments.
const mostNesting = 256

// Strict rewrites a schema for clients that refuse anyOf, oneOf, allOf, const, references,
// lists of types, objects without properties or arrays without items:
//
//   - References are replaced by what they lead to. One that leads to itself is followed
//     three times at most.
//   - Schemas that apply together become one.
//   - An argument that may be null is left out instead, where that means the same.
//     [Rewritten.Translate] adds the null to required ones.
//   - Other alternatives become an object with one property for each, of which the caller
//     gives one. Translate puts its value in the place of the object.
//
// Every value that the rewritten schema accepts is accepted by the original after
// Translate, unless that returns an error. A schema that cannot be rewritten like this, or
// would become too large, stays as it is, and Why says so. An absent schema becomes one of
// any object.
func Strict(schema []byte) Rewritten {
	if len(schema) == 0 || string(schema) == "null" {
		return Rewritten{Schema: []byte(`{"type":"object","properties":{}}`)}
	}
	root := &value{}
	if len(schema) <= maxBytes {
		root = parse(schema, maxDepth)
	}
	if root == nil || root.kind != '{' && root.kind != 't' {
		return Rewritten{Schema: schema, Why: fmt.Sprintf("it is not a schema of objects, in strict JSON of at most %d bytes and %d levels", maxBytes, maxDepth)}
	}
	fine := map[*value]bool{}
	if root.get("type").is("object") && conforms(root, fine) {
		return Rewritten{Schema: schema}
	}
	err := foreign(root)
	for unroll := 3; unroll > 0 && err == nil; unroll-- {
		b := newBuilder(root, fine, unroll)
		out, failed := b.build(spec{root, anyObject}, nil)
		if failed == nil && out.schema == nil {
			err = errors.New("no object is accepted by it")
			break
		}
		if failed == nil && out.schema.room(maxBytes) >= 0 {
			if text := out.schema.write(nil); len(text) <= maxBytes {
				return Rewritten{Schema: text, translator: out.translator}
			}
		}
		if failed == nil {
			failed = errTooLarge
		}
		if errors.Is(failed, errTooLarge) && unroll > 1 {
			continue
		}
		err = failed
	}
	return Rewritten{Schema: schema, Why: err.Error()}
}

// mostNodes is how many schemas a rewritten one may have. The check of arguments has the
// same limit for one that it reads.
const mostNodes = maxSchemas

// mostSteps bounds the work on one schema, whatever it says: some tenths of a second.
const mostSteps = 500_000

var (
	errTooLarge = errors.New("it would become too large")
	anyObject   = &value{kind: '{', keys: []string{"type"}, values: []*value{textOf("object")}}
)

// foreign tells why the references of a schema cannot be followed.
func foreign(root *value) (err error) {
	n := 0
	root.walk(func(s *value) {
		if n++; n > maxSchemas {
			err = errTooLarge
		}
		if s != root && (s.get("$id") != nil || s.get("id") != nil) {
			err = errors.New("an identifier inside of it changes what its references mean")
		}
	})
	return err
}

// accepted are the keywords that clients accept, or ignore.
var accepted = setOf("type", "enum", "properties", "required", "additionalProperties", "items", "minItems", "maxItems", "uniqueItems",
	"minProperties", "maxProperties", "minLength", "maxLength", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")

// conforms tells whether no client should refuse a schema. It keeps in fine what it found.
func conforms(s *value, fine map[*value]bool) bool {
	ok, known := fine[s]
	if !known {
		ok = conform(s, fine)
		fine[s] = ok
	}
	return ok
}

func conform(s *value, fine map[*value]bool) bool {
	if s.kind != '{' {
		return false
	}
	kind := s.get("type")
	if kind != nil && kind.kind != '"' {
		return false
	}
	for i, key := range s.keys {
		v := s.values[i]
		switch {
		case key == "properties", key == "items":
		case key == "additionalProperties":
			if v.kind == '{' && len(v.keys) > 0 && !conforms(v, fine) {
				return false
			}
		case key == "exclusiveMinimum" || key == "exclusiveMaximum":
			if v.kind != '0' {
				return false
			}
		case accepted[key] && kind == nil, !accepted[key] && (alike[key] || known[key]) && key != "$schema" && key != "$id":
			return false
		}
	}
	switch {
	case kind.is("object"):
		if !s.get("properties").object() {
			return false
		}
	case kind.is("array"):
		if items := s.get("items"); items == nil || !conforms(items, fine) {
			return false
		}
	case s.get("properties") != nil || s.get("items") != nil:
		return false
	}
	_, schemas := s.get("properties").members()
	for _, p := range schemas {
		if !conforms(p, fine) {
			return false
		}
	}
	return true
}
