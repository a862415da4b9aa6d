package arguments_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/cmd/toolgate/arguments"
	"github.com/toolgate/toolgate/internal/failure"
)

const schema = `{
	"type": "object",
	"properties": {
		"text": { "type": "string" }, "n": { "type": "integer" }, "x": { "type": "number" }, "yes": { "type": "boolean" },
		"tags": { "type": "array", "items": { "type": "string" } }, "where": { "type": "object" },
		"either": { "type": ["integer", "string"] }, "maybe": { "type": ["string", "null"] }, "any": {}
	},
	"additionalProperties": false
}`

// pydantic is what Python servers write for optional, named and listed values.
const pydantic = `{
	"$defs": { "Color": { "enum": ["red", "1"], "type": "string" }, "Loop": { "$ref": "#/$defs/Loop" } },
	"properties": {
		"maybe": { "anyOf": [{ "type": "string" }, { "type": "null" }], "default": null },
		"color": { "$ref": "#/$defs/Color" },
		"sizes": { "anyOf": [{ "type": "array", "items": { "type": "integer" } }, { "type": "null" }] },
		"level": { "enum": [1, 2] },
		"self": { "$ref": "#/$defs/Loop" }
	}
}`

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		schema string
		pairs  string // separated by |
		want   string // JSON, or a part of the error
	}{
		{schema, "", `{}`},
		{schema, "text=1", `{"text":"1"}`},
		{schema, "text=true|n=9007199254740993", `{"text":"true","n":9007199254740993}`},
		{schema, `text="quoted"`, `{"text":"\"quoted\""}`},
		{schema, "text=", `{"text":""}`},
		{schema, "text= two words =", `{"text":" two words ="}`},
		{schema, "x=3", `{"x":3}`},
		{schema, "x=1e3", `{"x":1e3}`},
		{schema, "yes=true", `{"yes":true}`},
		{schema, "tags=a", `{"tags":["a"]}`},
		{schema, "tags=a|tags=1", `{"tags":["a","1"]}`},
		{schema, `tags=["a","b"]`, `{"tags":["a","b"]}`},
		{schema, `where={"a":1}`, `{"where":{"a":1}}`},
		{schema, "either=5", `{"either":5}`},
		{schema, "either=five", `{"either":"five"}`},
		{schema, "maybe=null", `{"maybe":null}`},
		{schema, "any=5|any=x", "any is given twice, and is not a list"},
		{schema, "n=1|n=2", "n is given twice"},
		{schema, `tags=["a","b"]|tags=c`, `{"tags":["a","b","c"]}`},
		{schema, `tags=c|tags=["a"]|tags=[]`, `{"tags":["c","a"]}`},
		{schema, "n=1.0", `{"n":1}`},
		{schema, "n=1e3", `{"n":1000}`},
		{schema, "n=1e300", "a whole number"},
		{pydantic, "maybe=5", `{"maybe":"5"}`},
		{pydantic, "maybe=null", `{"maybe":null}`},
		{pydantic, "color=red", `{"color":"red"}`},
		{pydantic, "sizes=3|sizes=4", `{"sizes":[3,4]}`},
		{pydantic, "sizes=x", "the argument sizes is a whole number; write sizes=3"},
		{pydantic, "level=2", `{"level":2}`},
		{pydantic, "self=1", `{"self":1}`},
		{`{"properties":{"ids":{"type":"array","items":{"type":"integer"}}},"required":["ids"]}`, "", "the argument ids must be given; write ids=3"},
		{schema, "n=abc", "the argument n is a whole number; write n=3"},
		{schema, "n=1.5", "a whole number"},
		{schema, "yes=1", "the argument yes is true or false; write yes=true"},
		{schema, "where=x", `the argument where is an object; write where='{"key": "value"}'`},
		{schema, "txt=1", `{"txt":1}`},
		{schema, "a", `"a" is not NAME=VALUE`},
		{schema, "=a", "is not NAME=VALUE"},
		{`{"properties":{"a":{"type":"integer"}},"required":["a","b"]}`, "", "the arguments a, b must be given; write a=3"},
		{`{"properties":{"a":{"type":"string"}},"required":["a"]}`, "", `the argument a must be given; write a="text"`},
		{`{"properties":{"a":{"type":"string"}},"required":["a"]}`, "aa=1", `{"aa":1}`},
		{`{"properties":{"a":{"type":"string"}},"required":["a"]}`, "a=1|b=2", `{"a":"1","b":2}`},
		{"", "x= 1 |y=\"|z=nul", `{"x":1,"y":"\"","z":"nul"}`},
		{`"not a schema"`, "a=1", `{"a":1}`},
		{`{"properties":{"a":{"type":7}},"required":"a"}`, "a=1", `{"a":1}`},
	} {
		var pairs []string
		if tt.pairs != "" {
			pairs = strings.Split(tt.pairs, "|")
		}
		got, err := arguments.Parse([]byte(tt.schema), nil, pairs)
		if !strings.HasPrefix(tt.want, "{") {
			coded, ok := errors.AsType[*failure.Error](err)
			if !ok || coded.Kind != failure.Usage || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v, want %s", tt.pairs, err, tt.want)
			}
			continue
		}
		if err != nil || compact(t, got) != compact(t, []byte(tt.want)) {
			t.Errorf("%s: %s, %v; want %s", tt.pairs, got, err, tt.want)
		}
	}
}

// compact returns JSON with sorted keys, and all digits of its numbers.
func compact(t *testing.T, text []byte) string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Errorf("%s: %v", text, err)
	}
	out, _ := json.Marshal(v)
	return string(out)
}

// Arguments that are given as an object are sent as they are.
func TestParseObject(t *testing.T) {
	const needsA = `{"properties":{"a":{"type":"string"}},"required":["a"]}`
	got, err := arguments.Parse([]byte(needsA), []byte(`{ "b" : 2 }`), []string{"c=3"})
	if err != nil || compact(t, got) != `{"b":2,"c":3}` {
		t.Errorf("%s, %v", got, err)
	}
	for _, bad := range []string{"[]", "{", "1", `{"a":1}{}`} {
		if _, err := arguments.Parse(nil, []byte(bad), nil); err == nil {
			t.Errorf("%s passes", bad)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(schema, "tags", "a")
	f.Add(`{"properties":{"a":{"type":["null"]}}}`, "a", "null")
	f.Fuzz(func(t *testing.T, schema, name, value string) {
		got, err := arguments.Parse([]byte(schema), nil, []string{name + "=" + value, name + "=" + value})
		if err == nil && json.Valid([]byte(schema)) && !json.Valid(got) {
			t.Errorf("%q %q=%q: %s", schema, name, value, got)
		}
	})
}

func TestDescribe(t *testing.T) {
	const schema = `{"type":"object","properties":{
		"path":{"type":"string","description":"where"},
		"mode":{"enum":["fast","slow"],"default":"fast"},
		"tags":{"type":"array","items":{"type":"string"}},
		"n":{"type":"integer"}
	},"required":["n","mode"]}`
	got, err := json.Marshal(arguments.Describe([]byte(schema)))
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"name":"mode","type":"fast | slow","required":true,"default":"\"fast\""},{"name":"n","type":"integer","required":true},` +
		`{"name":"path","type":"string","required":false,"description":"where"},{"name":"tags","type":"list of string","required":false}]`
	if string(got) != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got, want := arguments.Example("a__b", []byte(schema)), "toolgate call a__b mode=fast n=3"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, odd := range []string{"", "[]", `{"properties":7}`, `{"properties":{"a":true},"required":[1]}`} {
		_ = arguments.Example("t", []byte(odd)) // does not panic
		if len(arguments.Describe([]byte(odd))) > 1 {
			t.Errorf("%s has arguments", odd)
		}
	}
}
