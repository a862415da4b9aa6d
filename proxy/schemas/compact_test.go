package schemas_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/schemas"
)

func TestCompact(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, schema, want string }{
		{
			"as pydantic writes it",
			`{"type": "object", "title": "search_booksArguments", "properties": {"page_size": {"type": "integer", "title": "Page Size", "default": 10},
			  "author": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null, "title": "Author", "description": "Who wrote it"}}, "required": []}`,
			`{"type":"object","properties":{"page_size":{"type":"integer","default":10},"author":{"anyOf":[{"type":"string"},{"type":"null"}],"description":"Who wrote it"}}}`,
		},
		{
			"as zod writes it",
			`{"type":"object","properties":{"n":{"type":"number","default":5,"description":"How many, 5 by default (default: 5)"},"m":{"type":"number","default":5,"description":"Default: 50"}},"additionalProperties":false,"$schema":"http://json-schema.org/draft-07/schema#"}`,
			`{"type":"object","properties":{"n":{"type":"number","description":"How many, 5 by default (default: 5)"},"m":{"type":"number","default":5,"description":"Default: 50"}},"additionalProperties":false}`,
		},
		{"titles that say more", `{"properties":{"q":{"title":"Search words","type":"string"}},"title":"Search in all books"}`, ``},
		{"an argument called title", `{"properties":{"title":{"type":"string"},"$comment":{"type":"string"},"default":{"default":1}}}`, ``},
		{"data", `{"properties":{"q":{"default":{"title":"","description":""},"enum":[{"$comment":""}],"const":{"title":""},"examples":[{"title":""}]}}}`, ``},
		{"empty descriptions", `{"description":" ","properties":{"page_size":{"description":"page size"},"a":{"description":" b\n"}}}`, `{"properties":{"page_size":{},"a":{"description":"b"}}}`},
		{"the same text twice", `{"properties":{"q":{"title":"Words to search","description":"Words to search"}}}`, `{"properties":{"q":{"description":"Words to search"}}}`},
		{"open", `{"properties":{"a":{"additionalProperties":true},"b":{"additionalProperties":{}}}}`, `{"properties":{"a":{},"b":{}}}`},
		{"open where it counts", `{"properties":{"a":{"additionalProperties":true}},"unevaluatedProperties":false}`, ``},
		{
			"unused definitions", `{"$ref":"#/$defs/a","$defs":{"a":{"items":{"$ref":"#/$defs/b/items"}},"b":{"items":{"title":"b"}},"c":{"$ref":"#/$defs/d"},"d":{"$ref":"#/$defs/c"}}}`,
			`{"$ref":"#/$defs/a","$defs":{"a":{"items":{"$ref":"#/$defs/b/items"}},"b":{"items":{"title":"b"}}}}`,
		},
		{"no definition is used", `{"definitions":{"a":{}},"type":"object"}`, `{"type":"object"}`},
		{"anchors", `{"$ref":"#x","$defs":{"a":{"$anchor":"x"}}}`, ``},
		{"references into what would go", `{"properties":{"a":{"additionalProperties":true},"b":{"$ref":"#/properties/a/additionalProperties"},"c":{"$ref":"#/properties/d/default"},"d":{"default":null}}}`, ``},
		{"a dialect that matters", `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"$ref":"#/properties/b","minLength":3},"b":{}}}`, ``},
		{"a tuple of draft 7", `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}]}`, ``},
		{"draft 4", `{"$schema":"http://json-schema.org/draft-04/schema#","required":[]}`, ``},
		{"numbers and escapes stay", `{ "maximum": 1.0e2, "enum": [9007199254740993, "\u00e9\u0000"] }`, `{"maximum":1.0e2,"enum":[9007199254740993,"\u00e9\u0000"]}`},
		{"header annotations stay", `{"properties":{"a":{"type":"string","x-mcp-header":"A","x-other":{"title":""}}}}`, ``},
		{"no object", `true`, ``},
		{"absent", ``, ``},
		{"no JSON", `{"title":}`, ``},
	} {
		want := tt.want
		if want == "" {
			want = tt.schema
		}
		if got := schemas.Compact([]byte(tt.schema)); string(got) != want {
			t.Errorf("%s: %s\nwant %s", tt.name, got, want)
		}
	}
}

func TestCompactOfHostileSchemas(t *testing.T) {
	t.Parallel()
	for name, schema := range hostile() {
		got := schemas.Compact([]byte(schema))
		if len(got) > len(schema) || mcp.Validate([]byte(schema), mcp.Limits{}) == nil && mcp.Validate(got, mcp.Limits{}) != nil {
			t.Errorf("%s: %.200s", name, got)
		}
	}
}

// A compact schema accepts what the original accepts, and nothing else.
func FuzzCompact(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed)
	}
	c := newChecker()
	f.Fuzz(func(t *testing.T, seed uint64) {
		m := &maker{Rand: rand.New(rand.NewPCG(seed, 2))}
		s := m.root()
		raw := text(t, s)
		compact := schemas.Compact(raw)
		if again := schemas.Compact(compact); !bytes.Equal(again, compact) {
			t.Fatalf("%s\nand again %s", compact, again)
		}
		before := compile(c, raw)
		if before == nil {
			return // nobody's arguments are accepted
		}
		after := compile(c, compact)
		if after == nil {
			t.Fatalf("%s\nis refused, and was %s", compact, raw)
		}
		for range 40 {
			if v := text(t, m.instance(s, s, 5)); accepts(before, v) != accepts(after, v) {
				t.Fatalf("%s\nbefore %v: %s\nafter: %s", v, accepts(before, v), raw, compact)
			}
		}
	})
}

// The same over the schemas of real servers, with the tokens that are saved.
func TestCompactOfRealSchemas(t *testing.T) {
	t.Parallel()
	c := newChecker()
	m := &maker{Rand: rand.New(rand.NewPCG(1, 2))}
	before, after, changed := 0, 0, 0
	for _, tool := range catalog(t) {
		compact := schemas.Compact(tool.InputSchema)
		before, after = before+len(tool.InputSchema), after+len(compact)
		if bytes.Equal(compact, tool.InputSchema) {
			continue
		}
		changed++
		was, is := compile(c, tool.InputSchema), compile(c, compact)
		if was == nil || is == nil {
			t.Errorf("%s/%s is refused", tool.Server, tool.Name)
			continue
		}
		root := decoded(t, tool.InputSchema)
		for range 50 {
			if v := text(t, m.instance(root, root, 6)); accepts(was, v) != accepts(is, v) {
				t.Errorf("%s/%s: %s: before %v", tool.Server, tool.Name, v, accepts(was, v))
			}
		}
	}
	t.Logf("%d schemas changed: %d tokens before, %d after (%.1f %% less)", changed, schemas.Tokens(before), schemas.Tokens(after), 100-100*float64(after)/float64(before))
	if changed == 0 || after >= before {
		t.Error("nothing was saved")
	}
}
