package form_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/console/form"
)

// all returns the fields of a form by the names of their inputs.
func all(fields []form.Field) map[string]*form.Field {
	found := map[string]*form.Field{}
	for i := range fields {
		f := &fields[i]
		found[f.Name] = f
		maps.Copy(found, all(f.Fields))
	}
	return found
}

// object is a schema with one member f.
func object(f string) []byte {
	return []byte(`{"type":"object","$defs":{"day":{"type":"string","format":"date"},"loop":{"type":"object","properties":{"next":{"$ref":"#/$defs/loop"}}}},"properties":{"f":` + f + `}}`)
}

// Each schema is asked for in a way that fits it, and what is written becomes its JSON.
func TestFields(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		schema, written string
		kind            form.Kind
		want            string // JSON of the member; empty for none
	}{
		{`{"type":"string"}`, "a\r\nb", form.Long, `"a\nb"`},
		{`{"type":"string"}`, "", form.Long, ""},
		{`{"type":"string","format":"date"}`, `"`, form.Text, `"\""`},
		{`{"type":["string","null"],"maxLength":5}`, "x", form.Text, `"x"`},
		{`{"$ref":"#/$defs/day"}`, "x", form.Text, `"x"`},
		{`{"allOf":[{"$ref":"#/$defs/day"}]}`, "x", form.Text, `"x"`},
		{`{"anyOf":[{"type":"integer"},{"type":"null"}]}`, " 12345678901234567890 ", form.Number, `12345678901234567890`},
		{`{"type":"number"}`, "1e2", form.Number, `1e2`},
		{`{"type":"boolean"}`, "1", form.Choice, `false`},
		{`{"type":"boolean"}`, "", form.Choice, ""},
		{`{"enum":["a",1,null,{"x":[1]}]}`, "3", form.Choice, `{"x":[1]}`},
		{`{"anyOf":[{"enum":["a","b"]},{"type":"null"}]}`, "1", form.Choice, `"b"`},
		{`{"enum":["a"]}`, "7", form.Choice, ""},
		{`{"const":"k"}`, "0", form.Choice, `"k"`},
		{`{"oneOf":[{"const":"r","title":"Red"},{"const":"g"}]}`, "1", form.Choice, `"g"`},
		{`{"type":"array","items":{"enum":["a","b"]}}`, "1", form.Choices, `["b"]`},
		{`{"type":"array","items":{"anyOf":[{"const":"a"},{"const":"b"}]}}`, "0", form.Choices, `["a"]`},
		{`{"type":"string","contentEncoding":"base64"}`, "AAAA", form.File, `"AAAA"`},
		{`{"type":"object"}`, `{"a": 1}`, form.JSON, `{"a": 1}`},
		{`{"type":["string","integer"]}`, `3`, form.JSON, `3`},
		{`{"oneOf":[{"type":"string"},{"type":"integer"}]}`, `"x"`, form.JSON, `"x"`},
		{`{}`, `null`, form.JSON, `null`},
		{`true`, `[]`, form.JSON, `[]`},
		{`{"$ref":"http://elsewhere.example/s"}`, `1`, form.JSON, `1`},
		{`{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"string"}}`, `["a"]`, form.JSON, `["a"]`},
	} {
		f := form.New(object(tt.schema), "v", url.Values{"v/f": {tt.written}}, nil)
		got, ok := f.JSON()
		want := `{"f":` + tt.want + `}`
		if tt.want == "" {
			want = "{}"
		}
		if f.Fields[0].Kind != tt.kind || !ok || string(got) != want {
			t.Errorf("%s with %q: %s, %s %v, want %s", tt.schema, tt.written, f.Fields[0].Kind, got, ok, want)
		}
	}
}

// What cannot be read is said beside its field, and the rest is kept as it was written.
func TestProblems(t *testing.T) {
	t.Parallel()
	schema := []byte(`{"type":"object","required":["s","o"],"properties":{"s":{"type":"string"},"n":{"type":"integer"},"j":{},"o":{"type":"object","required":["in"],"properties":{"in":{"type":"number"}}},"free":{"type":"object","required":["x"],"properties":{"x":{"type":"string"}}}}}`)
	f := form.New(schema, "v", url.Values{"v/n": {"three"}, "v/j": {"{"}}, nil)
	if _, ok := f.JSON(); ok {
		t.Fatal("it can be read")
	}
	fields := all(f.Fields)
	for name, want := range map[string]string{"v/s": "this has to be filled in", "v/o/in": "this has to be filled in", "v/n": "write a number", "v/j": "write JSON", "v/o": "", "v/free": "", "v/free/x": ""} {
		if got := strings.Join(fields[name].Problems, "; "); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if fields["v/n"].Text != "three" || fields["v/j"].Text != "{" {
		t.Errorf("%q %q", fields["v/n"].Text, fields["v/j"].Text)
	}
}

// Rows that are left empty are not sent, and a problem with what was sent is put beside the
// row that it came from.
func TestRows(t *testing.T) {
	t.Parallel()
	schema := object(`{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"},"l":{"type":"array","items":{"type":"integer"}}}}}`)
	sent := url.Values{"v#/f": {"3"}, "v/f/0/a": {""}, "v/f/1/a": {"one"}, "v#/f/1/l": {"2"}, "v/f/1/l/1": {"7"}, "v/f/2/a": {"two"}}
	f := form.New(schema, "v", sent, nil)
	got, ok := f.JSON()
	if want := `{"f":[{"a":"one","l":[7]},{"a":"two"}]}`; !ok || string(got) != want {
		t.Fatalf("%s, want %s", got, want)
	}
	f.Mark("/f/0/l/0", "seven")
	f.Mark("/f/1/a", "two")
	f.Mark("/f/0", "whole")
	f.Mark("/other", "none")
	fields := all(f.Fields)
	for name, want := range map[string]string{"v/f/1/l/1": "seven", "v/f/2/a": "two", "v/f/1": "whole"} {
		if p := fields[name].Problems; len(p) != 1 || p[0] != want {
			t.Errorf("%s: %q", name, p)
		}
	}
	if len(f.Problems) != 1 || f.Problems[0] != "none" {
		t.Errorf("%q", f.Problems)
	}
}

// A form is filled from JSON, and gives the same JSON back.
func TestFill(t *testing.T) {
	t.Parallel()
	schema := []byte(`{"properties":{"s":{"type":"string","default":"d"},"n":{"type":"integer"},"e":{"enum":["a",{"k":1}]},"m":{"type":"array","items":{"enum":["x","y"]}},"b":{"type":"boolean"},"o":{"type":"object","properties":{"a/b~":{"type":"array","items":{"type":"number"}}}},"j":{}}}`)
	for _, text := range []string{
		`{"s":"x","n":9007199254740993,"e":{"k":1},"m":["y"],"b":false,"o":{"a/b~":[1,2.5]},"j":{"z":[null]}}`, `{"s":"d"}`, `{"s":"l1\nl2 \u202e"}`,
	} {
		f := form.New(schema, "v", nil, []byte(text))
		got, ok := f.JSON()
		var have, want any
		if err := json.Unmarshal(got, &have); err != nil || !ok {
			t.Fatal(err, f.Fields)
		}
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(have) != fmt.Sprint(want) {
			t.Errorf("%s became %s", text, got)
		}
	}
}

// A schema without an end, or of a great size, makes a form that has both.
func TestBounds(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 5000 {
		many = append(many, fmt.Sprintf(`"p%d":{"type":"string"}`, i))
	}
	var values []string
	for i := range 5000 {
		values = append(values, fmt.Sprint(i))
	}
	for name, tt := range map[string]struct {
		schema string
		left   bool
	}{
		"a loop":            {string(object(`{"$ref":"#/$defs/loop"}`)), false},
		"a loop of itself":  {`{"$ref":"#","properties":{"f":{"$ref":"#"}}}`, false},
		"many members":      {`{"properties":{` + strings.Join(many, ",") + `}}`, true},
		"many values":       {string(object(`{"enum":[` + strings.Join(values, ",") + `]}`)), false},
		"a long name":       {`{"properties":{"` + strings.Repeat("n", 1<<20) + `":{}}}`, true},
		"a long suggestion": {string(object(`{"default":"` + strings.Repeat("d", 1<<20) + `"}`)), false},
		"a wide tree":       {`{"$defs":{"t":{"properties":{"a":{"$ref":"#/$defs/t"},"b":{"$ref":"#/$defs/t"},"c":{"$ref":"#/$defs/t"},"d":{"$ref":"#/$defs/t"}}}},"$ref":"#/$defs/t"}`, true},
	} {
		f := form.New([]byte(tt.schema), "v", nil, nil)
		size := 0
		for name, field := range all(f.Fields) {
			size += len(name) + len(field.Text) + len(field.Options)
		}
		if fields := len(all(f.Fields)); fields > 200 || size > 100<<10 || (f.Left > 0) != tt.left {
			t.Errorf("%s: %d fields with %d bytes, %d left out", name, fields, size, f.Left)
		}
	}
	rows := form.New(object(`{"type":"array","items":{"type":"string"}}`), "v", url.Values{"v#/f": {"100000000"}}, nil)
	if n := len(rows.Fields[0].Fields); n != 50 {
		t.Errorf("%d rows", n)
	}
}

// What a file holds is sent as its schema wants it.
func TestFiles(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{"type":"string","contentEncoding":"base64"}`: `{"f":"AP8="}`, `{"type":"string","contentMediaType":"text/csv"}`: "{\"f\":\"\\u0000\uFFFD\"}",
	} {
		f := form.New(object(schema), "v", url.Values{}, nil)
		up := f.Uploads()
		if len(up) != 1 || up[0].Upload != "v@/f" {
			t.Fatalf("%+v", up)
		}
		up[0].SetFile([]byte{0, 0xff})
		if got, ok := f.JSON(); !ok || string(got) != want {
			t.Errorf("%s: %s", schema, got)
		}
	}
}

func FuzzForm(f *testing.F) {
	f.Add(`{"properties":{"f":{"type":"array","items":{"type":"integer"}}}}`, "v#/f=2&v/f/0=1")
	f.Add(`{"$ref":"#/$defs/%zz","$defs":{"a":{"allOf":[{"$ref":"#"}]}}}`, "")
	f.Fuzz(func(t *testing.T, schema, sent string) {
		values, err := url.ParseQuery(sent)
		if !json.Valid([]byte(schema)) || err != nil {
			return
		}
		for _, v := range []url.Values{values, nil} {
			one := form.New([]byte(schema), "v", v, nil)
			if got, ok := one.JSON(); ok && !json.Valid(got) {
				t.Errorf("%s with %s: %s", schema, sent, got)
			}
			one.Mark("/f", "x")
		}
	})
}

// What is optional and null is left out, a value of another type is written as JSON, and a form
// that cannot have all of a value says so.
func TestFormKeepsTypes(t *testing.T) {
	const schema = `{"type":"object","properties":{
		"q":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null},
		"n":{"anyOf":[{"type":"integer"},{"type":"null"}],"default":null},
		"inner":{"type":"object","properties":{"level":{"type":"string","default":"high"}}},
		"list":{"type":"array","items":{"type":"string"}}}}`
	made := func(object string) string {
		t.Helper()
		var raw []byte
		if object != "" {
			raw = []byte(object)
		}
		got, ok := form.New([]byte(schema), "v", nil, raw).JSON()
		if !ok {
			t.Errorf("%s cannot be sent", object)
		}
		return string(got)
	}
	if got := made(""); got != "{}" {
		t.Errorf("nothing written: %s", got)
	}
	for object, holds := range map[string]bool{
		`{"q":"x","n":3,"list":["a"]}`: true, `{"q":5}`: true, `{"q":{"a":1},"n":"three"}`: true, `{}`: true,
		`{"q":""}`: false, `{"q":null}`: false, `{"other":1}`: false, `{"inner":{}}`: false, `{"list":["","a"]}`: false,
	} {
		if got := made(object); (got == object) != holds || form.Holds([]byte(schema), []byte(object)) != holds {
			t.Errorf("%s becomes %s, holds %v", object, got, form.Holds([]byte(schema), []byte(object)))
		}
	}
}

// Schemas that are made to be slow are looked at for a bounded time, and the rest is JSON.
func TestFormIsBounded(t *testing.T) {
	many := func(n int, text string) string { return strings.TrimSuffix(strings.Repeat(text+",", n), ",") }
	var properties []string
	for i := range 200 {
		properties = append(properties, fmt.Sprintf(`"p%d":{"$ref":"#/$defs/a"}`, i))
	}
	all := `"properties":{` + strings.Join(properties, ",") + "}"
	for name, schema := range map[string]string{
		"references to itself":   `{"$defs":{"a":{"allOf":[` + many(2000, `{"$ref":"#/$defs/a"}`) + `]}},` + all + `}`,
		"options of a long list": `{"$defs":{"a":{"type":"array","items":{"enum":[` + many(500, "1") + `]},"default":[` + many(30_000, "0") + `]}},` + all + `}`,
	} {
		f := form.New([]byte(schema), "v", nil, nil)
		if len(f.Fields) != 200 || f.Fields[199].Kind != form.JSON {
			t.Errorf("%s: %d fields, the last is %s", name, len(f.Fields), f.Fields[len(f.Fields)-1].Kind)
		}
	}
}
