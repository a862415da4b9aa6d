package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate/schema"
)

// FuzzSchema holds any bytes as arguments against any bytes as a schema: it
// ends soon, and says the same twice.
func FuzzSchema(f *testing.F) {
	for _, tt := range hostile {
		if len(tt.schema) < 4096 {
			f.Add([]byte(tt.schema), []byte(`{"a":[1,"x",{"b":null}]}`))
		}
	}
	f.Add([]byte(issueSchema), []byte(issueArguments))
	f.Add([]byte(textSchema), []byte(`{"many":["a",1]}`))
	f.Add([]byte(`{"pattern":"(?!a)","oneOf":[{"pattern":"(?=x)"},{"not":{"$ref":"#/oneOf/0"}}]}`), []byte(`"x"`))
	f.Fuzz(func(t *testing.T, text, arguments []byte) {
		began := time.Now()
		c := schema.New(schema.Options{Wait: time.Minute})
		first, err := c.Check(text, arguments)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
		if err != nil {
			q, ok := errors.AsType[*schema.Quarantined](err)
			if !ok || q.Reason == "" || len(err.Error()) > 2000 || first != nil {
				t.Errorf("error %.3000q", err)
			}
			return
		}
		if first.Valid != (len(first.Problems) == 0) || len(first.Problems) > 10 || len(first.Text()) > 200_000 {
			t.Errorf("result %+v", first)
		}
		second, err := c.Check(text, arguments)
		if err != nil || second.Text() != first.Text() {
			t.Errorf("first %s\nthen %s %v", first.Text(), second.Text(), err)
		}
		s, err := c.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = s.Texts(schema.ReadArguments(arguments), everything)
		s.Declares(string(arguments))
	})
}

// made is a schema, an instance that it accepts, and instances that differ
// from it in one thing each, which it refuses.
type made struct {
	schema any
	valid  any
	broken []any
}

type object = map[string]any

// build makes a schema of at most so many levels.
func build(r *rand.Rand, depth int) made {
	if depth == 0 {
		return scalar(r)
	}
	switch r.IntN(5) {
	case 0:
		return arrayOf(r, depth)
	case 1: // one of two shapes that never mix
		return alternative(r, depth)
	case 2:
		m := build(r, depth-1)
		m.schema = object{"allOf": []any{m.schema, true}}
		return m
	default:
		return objectOf(r, depth)
	}
}

func alternative(r *rand.Rand, depth int) made {
	m := objectOf(r, depth)
	m.schema = object{"anyOf": []any{object{"type": "null"}, m.schema}}
	for i, b := range m.broken {
		if b == nil {
			m.broken[i] = 1
		}
	}
	return m
}

func scalar(r *rand.Rand) made {
	switch r.IntN(5) {
	case 0:
		n := r.IntN(50)
		return made{object{"type": "string", "minLength": n, "maxLength": n}, strings.Repeat("é", n), []any{strings.Repeat("é", n+1), 7, nil}}
	case 1:
		low := r.Int64N(1 << 62)
		return made{
			object{"type": "integer", "minimum": low, "maximum": low + 1},
			low,
			[]any{low - 1, low + 2, fmt.Sprint(low), json.Number(fmt.Sprint(low) + ".5")},
		}
	case 2:
		return made{object{"enum": []any{"a", 1, nil, false}}, []any{"a", 1, nil, false}[r.IntN(4)], []any{"b", 2, true, "1", []any{}}}
	case 3:
		return made{object{"type": "boolean"}, r.IntN(2) == 0, []any{"true", 1, nil}}
	default:
		return made{object{"type": "string", "pattern": "^[a-c]+$"}, "abc", []any{"abd", "", 3}}
	}
}

func arrayOf(r *rand.Rand, depth int) made {
	m := build(r, depth-1)
	n := 1 + r.IntN(3)
	valid := make([]any, n)
	for i := range valid {
		valid[i] = m.valid
	}
	out := made{object{"type": "array", "items": m.schema, "minItems": n, "maxItems": n}, valid, []any{valid[1:], append(valid[:n:n], m.valid), object{}}}
	for _, b := range m.broken {
		with := append([]any(nil), valid...)
		with[r.IntN(n)] = b
		out.broken = append(out.broken, with)
	}
	return out
}

func objectOf(r *rand.Rand, depth int) made {
	properties, valid, required := object{}, object{}, []any{}
	out := made{broken: []any{"text", []any{}}}
	with := func(name string, value any) object {
		changed := object{}
		maps.Copy(changed, valid)
		if name != "" {
			changed[name] = value
		}
		return changed
	}
	var members []made
	names := []string{"alpha", "be/ta", "ga~mma", "del ta"}[:1+r.IntN(4)]
	for _, name := range names {
		m := build(r, depth-1)
		members = append(members, m)
		properties[name], valid[name] = m.schema, m.valid
		required = append(required, name)
	}
	for i, name := range names {
		less := with("", nil)
		delete(less, name)
		out.broken = append(out.broken, less)
		for _, b := range members[i].broken {
			out.broken = append(out.broken, with(name, b))
		}
	}
	out.broken = append(out.broken, with("epsilon", 1))
	out.schema = object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
	out.valid = valid
	return out
}

// FuzzConstructed makes schemas with an instance each, and every single change
// that must be found.
func FuzzConstructed(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		m := build(rand.New(rand.NewPCG(seed, 1)), int(seed%4))
		marshal := func(v any) []byte {
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		s := compile(t, schema.New(schema.Options{Wait: time.Minute}), marshal(m.schema))
		if r := s.Check(schema.ReadArguments(marshal(m.valid))); !r.Valid {
			t.Fatalf("%s\nis refused by %s\n%s", marshal(m.valid), marshal(m.schema), r.Text())
		}
		for _, b := range m.broken {
			r := s.Check(schema.ReadArguments(marshal(b)))
			if r.Valid || len(r.Problems) == 0 {
				t.Fatalf("%s\nis accepted by %s", marshal(b), marshal(m.schema))
			}
			for _, p := range r.Problems {
				if p.Problem == "" || p.Fix == "" {
					t.Errorf("%+v has no fix", p)
				}
			}
		}
	})
}
