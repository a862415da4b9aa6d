package arguments_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
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

// parse reads pairs that are separated by |.
func parse(schema string, object []byte, pairs string) ([]byte, error) {
	var all []string
	if pairs != "" {
		all = strings.Split(pairs, "|")
	}
	typed, err := arguments.Pairs(context.Background(), all, strings.NewReader("from stdin"))
	if err != nil {
		return nil, err
	}
	return arguments.Parse([]byte(schema), object, typed)
}

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
		got, err := parse(tt.schema, nil, tt.pairs)
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
	got, err := parse(needsA, []byte(`{ "b" : 2 }`), "c=3")
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
	f.Add(nested, "filter.owner", "me")
	f.Add(nested, "free..x", "1")
	f.Fuzz(func(t *testing.T, schema, name, value string) {
		if strings.HasPrefix(value, "@") || strings.Contains(name, "=") {
			return // files are not what this is about
		}
		pairs := []arguments.Pair{{Name: name, Value: value}, {Name: name, Value: value}}
		got, err := arguments.Parse([]byte(schema), nil, pairs)
		if err == nil && json.Valid([]byte(schema)) && !json.Valid(got) {
			t.Errorf("%q %q=%q: %s", schema, name, value, got)
		}
	})
}

// nested has objects in every way in which schemas have them.
const nested = `{
	"type": "object",
	"$defs": { "Page": { "type": "object", "properties": { "size": { "type": "integer" } }, "required": ["size"] } },
	"properties": {
		"filter": { "type": "object", "properties": {
			"owner": { "type": "string" }, "tags": { "type": "array", "items": { "type": "string" } },
			"date.from": { "type": "string" }, "range": { "type": "object", "properties": { "low": { "type": "number" } } }
		} },
		"filter.id": { "type": "string" },
		"page": { "$ref": "#/$defs/Page" },
		"maybe": { "anyOf": [{ "$ref": "#/$defs/Page" }, { "type": "null" }] },
		"free": { "type": "object" },
		"counts": { "type": "object", "properties": { "a": { "type": "integer" } }, "additionalProperties": { "type": "integer" } },
		"text": { "type": "string" },
		"rows": { "type": "array", "items": { "type": "object" } }
	}
}`

func TestParseNested(t *testing.T) {
	for _, tt := range []struct {
		pairs string
		want  string // JSON, or a part of the error
	}{
		{"filter.owner=me|filter.tags=a|filter.tags=b", `{"filter":{"owner":"me","tags":["a","b"]}}`},
		{"filter.owner=1", `{"filter":{"owner":"1"}}`},
		{"filter.id=7", `{"filter.id":"7"}`},
		{"filter.date.from=x", `{"filter":{"date.from":"x"}}`},
		{"filter.range.low=2.5", `{"filter":{"range":{"low":2.5}}}`},
		{`filter={"owner":"you"}|filter.owner=me|filter.range.low=1`, `{"filter":{"owner":"me","range":{"low":1}}}`},
		{"page.size=3", `{"page":{"size":3}}`},
		{"maybe.size=3", `{"maybe":{"size":3}}`},
		{"free.a.b=1|free.a.c=x", `{"free":{"a":{"b":1,"c":"x"}}}`},
		{"counts.b=3", `{"counts":{"b":3}}`},
		{"filter.ownr=me", "filter.ownr is no argument of the tool; did you mean filter.owner?"},
		{"fitler.owner=me", "did you mean filter.owner?"},
		{"filter.range.lwo=1", "did you mean filter.range.low?"},
		{"txet.a=1", "did you mean text?"},
		{"nothing.like.it=1", "`toolgate tools show` lists the arguments, and --json takes any"},
		{"filter.=1", "filter. is no argument of the tool"},
		{"free..a=1", "free..a is no argument of the tool"},
		{"text.a=1", `text.a: the argument text is text, which has no members; write text="text"`},
		{"rows.0=1", "rows.0: the argument rows is a list, whose items have no names; write rows='[...]'"},
		{"page.size=x", "page.size=x: the argument page.size is a whole number; write page.size=3"},
		{"page.other=1", "page.other is no argument of the tool"},
		{"filter.owner=a|filter.owner=b", "filter.owner is given twice"},
		{`filter.owner=a|filter={"owner":"b"}`, "filter replaces filter.owner; write filter first"},
		{"maybe=null|maybe.size=3", "maybe.size is inside of maybe, which is set to something that is no object"},
	} {
		got, err := parse(nested, nil, tt.pairs)
		if !strings.HasPrefix(tt.want, "{") {
			coded, ok := errors.AsType[*failure.Error](err)
			if !ok || coded.Kind != failure.Usage || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %s, %v, want %s", tt.pairs, got, err, tt.want)
			}
			continue
		}
		if err != nil || compact(t, got) != compact(t, []byte(tt.want)) {
			t.Errorf("%s: %s, %v; want %s", tt.pairs, got, err, tt.want)
		}
	}
	// Without a schema, or with one that allows any name, a name is what it is.
	for _, open := range []string{"", "{}", `{"additionalProperties":true,"properties":{"a":{}}}`} {
		if got, err := parse(open, nil, "x.y=1"); err != nil || string(got) != `{"x.y":1}` {
			t.Errorf("%s: %s, %v", open, got, err)
		}
	}
	const needs = `{"properties":{"to":{"type":"object","properties":{"mail":{"type":"string"},"name":{"type":"string"}},"required":["mail","name"]}},"required":["to"]}`
	if _, err := parse(needs, nil, "to.name=me"); err == nil || !strings.Contains(err.Error(), `the argument to.mail must be given; write to.mail="text"`) {
		t.Errorf("a member is missing: %v", err)
	}
	if _, err := parse(needs, nil, ""); err == nil || !strings.Contains(err.Error(), `the argument to must be given; write to.mail="text"`) {
		t.Errorf("an object is missing: %v", err)
	}
	if got, want := arguments.Example("t", []byte(needs)), "toolgate call t to.mail=... to.name=..."; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	var all []string
	for _, a := range arguments.Describe([]byte(needs)) {
		all = append(all, a.Name+" "+a.Type)
	}
	if got, want := strings.Join(all, ", "), "to object, to.mail string, to.name string"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestPairs(t *testing.T) {
	dir := t.TempDir()
	keep := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	text, object, list := keep("text", "two\nlines\n"), keep("object", ` {"a": 1}`+"\n"), keep("list", `["a","b"]`)
	binary, large := keep("binary", "\xff\xfe"), keep("large", strings.Repeat("x", arguments.MaxFile+1))
	exact := keep("exact", strings.Repeat("x", arguments.MaxFile))
	for _, tt := range []struct {
		pairs, want string // want is JSON, or a part of the error
	}{
		{"text=@" + text, `{"text":"two\nlines\n"}`},
		{"text=@" + object, `{"text":" {\"a\": 1}\n"}`},
		{"where=@" + object, `{"where":{"a":1}}`},
		{"any=@" + object, `{"any":{"a":1}}`},
		{"tags=@" + list, `{"tags":["a","b"]}`},
		{"tags=@" + text + "|tags=@" + list, `{"tags":["two\nlines\n","a","b"]}`},
		{"text=@-", `{"text":"from stdin"}`},
		{"text=@@someone", `{"text":"@someone"}`},
		{"text=@@@x", `{"text":"@@x"}`},
		{"text=a@b", `{"text":"a@b"}`},
		{"where=@" + text, "where: what " + text + " holds is not an object, which the argument where is"},
		{"n=@-", "n: what stdin holds is not a whole number"},
		{"text=@-|where=@-", "text=@- and where=@- both read stdin"},
		{"text=@", "text=@@ for the text @"},
		{"text=@nobody", "there is no file nobody; write text=@@nobody for the text @nobody"},
		{"text=@" + dir, dir + " is a folder, not a file"},
		{"text=@" + binary, "is not text in UTF-8"},
		{"text=@" + large, "has more than 8 MiB"},
	} {
		got, err := parse(schema, nil, tt.pairs)
		if !strings.HasPrefix(tt.want, "{") {
			if coded, ok := errors.AsType[*failure.Error](err); !ok || coded.Kind != failure.Usage || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%.80s: %.80s, %v, want %s", tt.pairs, got, err, tt.want)
			}
			continue
		}
		if err != nil || compact(t, got) != compact(t, []byte(tt.want)) {
			t.Errorf("%s: %s, %v; want %s", tt.pairs, got, err, tt.want)
		}
	}
	if got, err := parse(schema, nil, "text=@"+exact); err != nil || len(got) < arguments.MaxFile {
		t.Errorf("a file of the most: %d bytes, %v", len(got), err)
	}
}

// Input that does not end is given up with its command.
func TestPairsInterrupted(t *testing.T) {
	in, typing := io.Pipe()
	defer typing.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := arguments.Pairs(ctx, []string{"text=@-"}, in); err == nil || !strings.Contains(err.Error(), "was interrupted before its end was read") {
		t.Error(err)
	}
}

func TestDoubt(t *testing.T) {
	for pairs, want := range map[string]string{
		"txt=1": "txt is no argument of the tool; did you mean text?", "text=1": "", "": "",
		"unlike=1":         "unlike is no argument of the tool, which takes text, n, x, yes, tags, where, either, maybe and 1 more",
		"txt=1 text=other": "txt is no argument of the tool, which takes text, n, x, yes, tags, where, either, maybe and 1 more",
	} {
		typed, err := arguments.Pairs(t.Context(), strings.Fields(pairs), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := arguments.Doubt([]byte(schema), typed); got != want {
			t.Errorf("%s: %s, want %s", pairs, got, want)
		}
	}
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
