package schema_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate/schema"
	"github.com/toolgate/toolgate/internal/raced"
)

// anySchema makes a schema of the words that plain schemas have, and a few more.
func anySchema(r *rand.Rand, depth int) any {
	if depth > 0 && r.IntN(12) == 0 {
		return true
	}
	s := object{}
	all := []string{"string", "integer", "number", "boolean", "null", "array", "object"}
	switch r.IntN(4) {
	case 0:
		s["type"] = []any{all[r.IntN(3)], all[3+r.IntN(4)]}
	case 1, 2:
		s["type"] = all[r.IntN(len(all))]
	}
	if r.IntN(4) == 0 {
		s["minLength"], s["maxItems"] = r.IntN(3), r.IntN(3)
	}
	if r.IntN(4) == 0 {
		s["maxLength"], s["minItems"] = r.IntN(4), r.IntN(2)
	}
	if r.IntN(6) == 0 {
		s["enum"] = []any{"a", "é", "ab"}
	}
	if r.IntN(5) == 0 {
		s["minimum"] = []any{0, -1, json.Number("1.0"), json.Number("0.5"), json.Number("9007199254740993")}[r.IntN(5)]
	}
	if r.IntN(5) == 0 {
		s["maximum"] = []any{1, 2, json.Number("1e2"), json.Number("18446744073709551616")}[r.IntN(4)]
	}
	if r.IntN(20) == 0 {
		s["pattern"] = "^a"
	}
	if depth > 0 {
		if r.IntN(2) == 0 {
			s["items"] = anySchema(r, depth-1)
		}
		properties := object{}
		for _, name := range []string{"a", "b"} {
			if r.IntN(2) == 0 {
				properties[name] = anySchema(r, depth-1)
			}
		}
		s["properties"] = properties
		if r.IntN(3) == 0 {
			s["required"] = []any{"a"}
		}
		switch r.IntN(4) {
		case 0:
			s["additionalProperties"] = false
		case 1:
			s["additionalProperties"] = anySchema(r, depth-1)
		}
	}
	return s
}

// anyValue makes a value of the kind that such schemas are about.
func anyValue(r *rand.Rand, depth int) any {
	switch n := r.IntN(8); {
	case n == 0:
		return []any{"", "a", "é", "ab", "abcd"}[r.IntN(5)]
	case n == 1:
		numbers := []string{"0", "1", "-1", "2", "1.0", "1e0", "0.5", "100", "1e2", "9007199254740993", "9007199254740992", "18446744073709551616", "-0"}
		return json.Number(numbers[r.IntN(len(numbers))])
	case n == 2:
		return r.IntN(2) == 0
	case n == 3:
		return nil
	case depth == 0:
		return "a"
	case n == 4:
		list := []any{}
		for range r.IntN(4) {
			list = append(list, anyValue(r, depth-1))
		}
		return list
	default:
		o := object{}
		for _, name := range []string{"a", "b", "c"} {
			if r.IntN(2) == 0 {
				o[name] = anyValue(r, depth-1)
			}
		}
		return o
	}
}

// A plain schema finds valid just what the library does.
func TestPlainAgreesWithTheLibrary(t *testing.T) {
	t.Parallel()
	c := schema.New(patient)
	var plain, valid int
	for seed := range uint64(raced.Times(4000, 1500)) {
		r := rand.New(rand.NewPCG(seed, 7))
		text, err := json.Marshal(anySchema(r, 2))
		if err != nil {
			t.Fatal(err)
		}
		s := compile(t, c, text)
		library, was := schema.ByLibrary(s)
		if !was {
			continue
		}
		plain++
		for range 20 {
			raw, err := json.Marshal(anyValue(r, 3))
			if err != nil {
				t.Fatal(err)
			}
			got, want := s.Check(schema.ReadArguments(raw)), library.Check(schema.ReadArguments(raw))
			if got.Valid != want.Valid || got.Text() != want.Text() {
				t.Fatalf("%s\nunder %s\nis valid: %v; for the library: %v", raw, text, got.Valid, want.Valid)
			}
			if got.Valid {
				valid++
			}
		}
	}
	if least := raced.Times(1000, 400); plain < least || valid < least {
		t.Errorf("%d plain schemas and %d valid values show little", plain, valid)
	}
}

// A schema that says more than a plain one is the library's.
func TestNotPlain(t *testing.T) {
	t.Parallel()
	for _, more := range []string{
		`"pattern":"a"`, `"const":1`, `"not":{"type":"null"}`, `"allOf":[true]`, `"anyOf":[true]`, `"oneOf":[true]`, `"if":true,"then":false`, `"$ref":"#/$defs/a"`,
		`"minProperties":1`, `"maxProperties":1`, `"propertyNames":{"maxLength":1}`, `"patternProperties":{"a":false}`, `"dependentRequired":{"a":["b"]}`,
		`"dependentSchemas":{"a":false}`, `"unevaluatedProperties":false`, `"uniqueItems":true`, `"contains":true`, `"prefixItems":[false]`, `"unevaluatedItems":false`,
		`"exclusiveMinimum":1`, `"exclusiveMaximum":1`, `"multipleOf":2`, `"minimum":0.5`, `"maximum":1e30`, `"enum":[1]`, `"additionalProperties":{"pattern":"a"}`,
		`"items":{"const":1}`, `"properties":{"x":false}`,
	} {
		text := fmt.Sprintf(`{"$defs":{"a":{"type":"string"}},%s}`, more)
		if _, plain := schema.ByLibrary(compile(t, schema.New(patient), []byte(text))); plain {
			t.Errorf("%s is taken for plain", text)
		}
	}
	s := compile(t, schema.New(patient), []byte(strings.ReplaceAll(issueSchema, `, "pattern": "^[A-Za-z0-9_.-]+$"`, "")))
	if _, plain := schema.ByLibrary(s); !plain {
		t.Error("an ordinary schema is not taken for plain")
	}
}
