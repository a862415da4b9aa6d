package schema_test

import (
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate/schema"
)

const issueSchema = `{
  "type": "object",
  "properties": {
    "owner": {"type": "string", "description": "Owner of the repository", "minLength": 1, "maxLength": 39},
    "repo": {"type": "string", "description": "Name of the repository", "pattern": "^[A-Za-z0-9_.-]+$"},
    "title": {"type": "string", "description": "Title of the issue", "maxLength": 256},
    "body": {"type": "string", "description": "Body of the issue"},
    "state": {"type": "string", "enum": ["open", "closed", "all"], "default": "open"},
    "labels": {"type": "array", "items": {"type": "string"}, "maxItems": 100},
    "milestone": {"type": "integer", "minimum": 1},
    "notify": {"type": "boolean"}
  },
  "required": ["owner", "repo", "title"],
  "additionalProperties": false
}`

const issueArguments = `{"owner":"toolgate","repo":"toolgate","title":"A list is late","body":"It comes after 3 s.","state":"open","labels":["bug","lists"],"milestone":3,"notify":true}`

func BenchmarkCheckWarm(b *testing.B) {
	c := schema.New(patient)
	text, arguments := []byte(issueSchema), []byte(issueArguments)
	if r, err := c.Check(text, arguments); err != nil || !r.Valid {
		b.Fatal(r, err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if r, err := c.Check(text, arguments); err != nil || !r.Valid {
			b.Fatal(r, err)
		}
	}
}

// BenchmarkCheckPlain is a schema without anything that needs the library.
func BenchmarkCheckPlain(b *testing.B) {
	s, err := schema.New(patient).Compile([]byte(strings.ReplaceAll(issueSchema, `, "pattern": "^[A-Za-z0-9_.-]+$"`, "")))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if r := s.Check(schema.ReadArguments([]byte(issueArguments))); !r.Valid {
			b.Fatal(r)
		}
	}
}

// BenchmarkCheckBad is a schema and arguments that use up most of the budget;
// one level more is refused.
func BenchmarkCheckBad(b *testing.B) {
	c := schema.New(patient)
	text := []byte(`{"$defs":{"n":{"allOf":[{"items":{"$ref":"#/$defs/n"}},{"items":{"$ref":"#/$defs/n"}}]}},"$ref":"#/$defs/n"}`)
	nested := func(n int) []byte { return []byte(strings.Repeat("[", n) + "1" + strings.Repeat("]", n)) }
	depth := 1
	for ; depth < 100; depth++ {
		if r, err := c.Check(text, nested(depth+1)); err != nil || !r.Valid {
			break
		}
	}
	arguments := nested(depth)
	b.ReportAllocs()
	for b.Loop() {
		if r, err := c.Check(text, arguments); err != nil || !r.Valid {
			b.Fatal(r, err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := schema.New(patient).Compile([]byte(issueSchema)); err != nil {
			b.Fatal(err)
		}
	}
}
