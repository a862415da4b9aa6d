package schema_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/gate/schema"
)

const textSchema = `{
  "type": "object",
  "properties": {
    "where": {"$ref": "#/$defs/place"},
    "many": {"type": "array", "items": {"$ref": "#/$defs/place"}},
    "edits": {"type": "array", "items": {"type": "object", "properties": {"file": {"type": "string"}}}},
    "pair": {"prefixItems": [{"type": "string"}, {"format": "path"}]},
    "open": {"type": "object", "additionalProperties": true},
    "map": {"type": "object", "additionalProperties": {"format": "file-path"}},
    "tree": {"$ref": "#/$defs/tree"}
  },
  "allOf": [{"properties": {"extra": {"type": "string"}}}],
  "$defs": {
    "place": {"anyOf": [{"type": "string", "format": "uri"}, {"type": "null"}]},
    "tree": {"properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/tree"}}}
  }
}`

func TestTextsAreFoundAnywhere(t *testing.T) {
	s := compile(t, schema.New(patient), []byte(textSchema))
	got, err := s.Texts(schema.ReadArguments([]byte(`{"where":"a","many":["b","c"],"edits":[{"file":"d"}],"pair":["e","f"],"map":{"x/y":"g"},"tree":{"next":{"name":"h"}},"n":1,"other":{"deep":[["i"]]}}`)), everything)
	if err != nil {
		t.Fatal(err)
	}
	want := []schema.Text{
		{Pointer: "/edits/0/file", Name: "file", Value: "d"},
		{Pointer: "/many/0", Name: "many", Formats: []string{"uri"}, Value: "b"},
		{Pointer: "/many/1", Name: "many", Formats: []string{"uri"}, Value: "c"},
		{Pointer: "/map/x~1y", Name: "x/y", Formats: []string{"file-path"}, Value: "g"},
		{Pointer: "/other/deep/0/0", Name: "deep", Value: "i"},
		{Pointer: "/pair/0", Name: "pair", Value: "e"},
		{Pointer: "/pair/1", Name: "pair", Formats: []string{"path"}, Value: "f"},
		{Pointer: "/tree/next/name", Name: "name", Value: "h"},
		{Pointer: "/where", Name: "where", Formats: []string{"uri"}, Value: "a"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("texts differ (-want +got):\n%s", d)
	}
	if _, err := s.Texts(schema.ReadArguments([]byte(`{"a":`)), everything); err == nil {
		t.Error("half an object was read")
	}
}

func TestDeclares(t *testing.T) {
	s := compile(t, schema.New(patient), []byte(textSchema))
	for pointer, want := range map[string]bool{
		"": true, "/where": true, "/extra": true, "/many/0": true, "/many/*": true, "/edits/*/file": true, "/edits/7/file": true,
		"/*/*/file": true, "/pair/1": true, "/map/anything": true, "/tree/next/next/next/name": true,
		"where": false, "/path": false, "/many/x": false, "/edits/*/path": false, "/pair/2": false, "/open/x": false,
		"/where/x": false, "/tree/next/other": false, "/~2": false, "/many/-1": false,
	} {
		if got := s.Declares(pointer); got != want {
			t.Errorf("%q is declared: %v, want %v", pointer, got, want)
		}
	}
	if (&schema.Schema{}).Declares("") {
		t.Error("the zero schema declares something")
	}
}

func everything(string) bool { return true }

// What is not wanted by its name or a format of its is left out.
func TestTextsThatAreWanted(t *testing.T) {
	s := compile(t, schema.New(patient), []byte(textSchema))
	args := schema.ReadArguments([]byte(`{"where":"a","pair":["e","f"],"tree":{"name":"h"},"file":"i","n":1}`))
	got, err := s.Texts(args, func(word string) bool { return word == "file" || word == "path" })
	if err != nil {
		t.Fatal(err)
	}
	want := []schema.Text{
		{Pointer: "/file", Name: "file", Value: "i"},
		{Pointer: "/pair/1", Name: "pair", Formats: []string{"path"}, Value: "f"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("texts differ (-want +got):\n%s", d)
	}
}
