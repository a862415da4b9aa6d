package schemas_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/schemas"
)

// strictCase is a schema with its rewritten form, and arguments with their translations.
type strictCase struct {
	name, schema, want string
	calls              []string // arguments, and what they become
}

var strictCases = []strictCase{
	{"absent", ``, `{"type":"object","properties":{}}`, nil},
	{"null", `null`, `{"type":"object","properties":{}}`, nil},
	{"true", `true`, `{"type":"object","properties":{}}`, nil},
	{"empty", `{}`, `{"type":"object","properties":{}}`, nil},
	{"an object without properties", `{"type":"object"}`, `{"type":"object","properties":{}}`, nil},
	{"fine as it is", `{"$schema":"x","type":"object","properties":{"a":{"type":"string","x":{"anyOf":1}},"anyOf":{"type":"null"}},"title":"T"}`, "", nil},
	{
		"objects and arrays inside", `{"type":"object","properties":{"a":{"type":"object"},"b":{"type":"array"},"c":{"type":"array","items":{"type":"object","additionalProperties":false}}}}`,
		`{"type":"object","properties":{"a":{"type":"object","properties":{}},"b":{"type":"array","items":{}},"c":{"type":"array","items":{"type":"object","properties":{},"additionalProperties":false}}}}`, nil,
	},
	{
		"null as the default", `{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null,"title":"A","description":"d"}}}`,
		`{"type":"object","properties":{"a":{"type":"string","description":"d"}}}`,
		[]string{`{"a":"x"}`, `{"a":"x"}`, `{"a":null}`, `{"a":null}`},
	},
	{
		"null that is required", `{"type":"object","properties":{"a":{"type":["string","null"]},"b":{"type":"integer"}},"required":["a","b"]}`,
		`{"type":"object","properties":{"a":{"type":"string","description":"Leave it out for null."},"b":{"type":"integer"}},"required":["b"]}`,
		[]string{`{"b":1}`, `{"b":1,"a":null}`, `{"a":"x","b":1}`, `{"a":"x","b":1}`, `{"a":null,"b":1}`, `{"a":null,"b":1}`, ``, `{"a":null}`},
	},
	{
		"null that means something else", `{"type":"object","properties":{"a":{"type":["string","null"],"minLength":1}}}`,
		`{"type":"object","properties":{"a":{"type":"object","description":"Give exactly one of the properties.","properties":{"string":{"type":"string","minLength":1},"null":{"type":"string","enum":["null"]}},"minProperties":1,"maxProperties":1,"additionalProperties":false}}}`,
		[]string{`{"a":{"null":"null"}}`, `{"a":null}`, `{"a":{"string":"x"}}`, `{"a":"x"}`, `{"a":"x"}`, `{"a":"x"}`, `{"a":{"string":"x","null":"null"}}`, `{"a":{"string":"x","null":"null"}}`, `{}`, `{}`},
	},
	{"only null", `{"type":"object","properties":{"a":{"const":null}}}`, `{"type":"object","properties":{"a":{"type":"string","enum":["null"]}}}`, []string{`{"a":"null"}`, `{"a":null}`}},
	{
		"words", `{"type":"object","properties":{"a":{"const":"x"},"b":{"anyOf":[{"const":"x","description":"one"},{"enum":["y",1]}]},"c":{"anyOf":[{"type":"string"},{"const":"x"}]},"d":{"type":["integer","number"]}}}`,
		`{"type":"object","properties":{"a":{"type":"string","enum":["x"]},"b":{"type":"object","description":"Give exactly one of the properties.","properties":{"string":{"type":"string","description":"x: one","enum":["x","y"]},"integer":{"type":"integer","enum":[1]}},"minProperties":1,"maxProperties":1,"additionalProperties":false},"c":{"type":"string"},"d":{"type":"number"}}}`,
		[]string{`{"b":{"integer":1.0}}`, `{"b":1.0}`},
	},
	{
		"references and schemas together", `{"type":"object","properties":{"a":{"allOf":[{"$ref":"#/$defs/x"},{"maxLength":5}],"default":"q"},"b":{"$ref":"#/$defs/x","minLength":3}},"$defs":{"x":{"type":"string","minLength":2,"maxLength":9,"description":"text"}}}`,
		`{"type":"object","properties":{"a":{"type":"string","description":"text","minLength":2,"maxLength":5,"default":"q"},"b":{"type":"string","description":"text","minLength":3,"maxLength":9}}}`, nil,
	},
	{
		"a tree", `{"$ref":"#/$defs/N","$defs":{"N":{"type":"object","properties":{"next":{"$ref":"#/$defs/N"}},"required":["v"]}}}`,
		`{"type":"object","properties":{"next":{"type":"object","properties":{"next":{"type":"object","properties":{"v":{}},"required":["v"],"additionalProperties":false},"v":{}},"required":["v"]},"v":{}},"required":["v"]}`, nil,
	},
	{
		"a list of itself", `{"type":"object","properties":{"a":{"$ref":"#/$defs/L"}},"$defs":{"L":{"type":"array","items":{"$ref":"#/$defs/L"}}}}`,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"array","items":{"type":"array","items":{},"maxItems":0}}}}}`, nil,
	},
	{
		"needs", `{"type":"object","description":"d.","properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"string"}},"anyOf":[{"required":["a"]},{"required":["b","c"]}]}`,
		`{"type":"object","description":"d. Give at least one of: a; b and c.","properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"string"}}}`,
		[]string{`{"a":"1"}`, `{"a":"1"}`, `{"b":"1","c":"2"}`, `{"b":"1","c":"2"}`, `{"b":"1"}`, `! Give at least one of: a; b and c.`},
	},
	{
		"exactly one", `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"oneOf":[{"required":["a"]},{"required":["b"]}]}`,
		`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"description":"Give exactly one of: a; b."}`,
		[]string{`{"a":"1","b":"2"}`, `! Give exactly one of: a; b.`},
	},
	{
		"alternatives told apart by a word", `{"type":"object","properties":{"at":{"oneOf":[{"title":"By page","type":"object","properties":{"kind":{"const":"page"},"n":{"type":"integer"}},"required":["kind","n"]},{"$ref":"#/$defs/End"}]}},"required":["at"],"$defs":{"End":{"type":"object","properties":{"kind":{"const":"end"}},"required":["kind"]}}}`,
		`{"type":"object","properties":{"at":{"type":"object","description":"Give exactly one of the properties.","properties":{"By_page":{"type":"object","properties":{"kind":{"type":"string","enum":["page"]},"n":{"type":"integer"}},"required":["kind","n"]},"End":{"type":"object","properties":{"kind":{"type":"string","enum":["end"]}},"required":["kind"]}},"minProperties":1,"maxProperties":1,"additionalProperties":false}},"required":["at"]}`,
		[]string{`{"at":{"By_page":{"kind":"page","n":1}}}`, `{"at":{"kind":"page","n":1}}`},
	},
	{
		"alternatives made apart", `{"type":"object","properties":{"at":{"oneOf":[{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]},{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}]}}}`,
		`{"type":"object","properties":{"at":{"type":"object","description":"Give exactly one of the properties.","properties":{"object":{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":false},"object_2":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}},"minProperties":1,"maxProperties":1,"additionalProperties":false}}}`,
		[]string{`{"at":{"object_2":{"name":"x"}}}`, `{"at":{"name":"x"}}`},
	},
	{
		"alternatives of the root", `{"anyOf":[{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]},{"type":"object","properties":{"names":{"type":"array","items":{"type":["string","integer"]}}}}]}`,
		`{"type":"object","description":"Give exactly one of the properties.","properties":{"object":{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]},"object_2":{"type":"object","properties":{"names":{"type":"array","items":{"type":"object","description":"Give exactly one of the properties.","properties":{"string":{"type":"string"},"integer":{"type":"integer"}},"minProperties":1,"maxProperties":1,"additionalProperties":false}}}}},"minProperties":1,"maxProperties":1,"additionalProperties":false}`,
		[]string{`{"object":{"id":9007199254740993}}`, `{"id":9007199254740993}`, `{"object_2":{"names":[{"string":"a"},{"integer":1}],"x":1.0}}`, `{"names":["a",1],"x":1.0}`},
	},
	{
		"other members", `{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":{"type":["string","null"]},"maxProperties":3}`,
		`{"type":"object","maxProperties":3,"properties":{"a":{"type":"string"}},"additionalProperties":{"type":"object","description":"Give exactly one of the properties.","properties":{"string":{"type":"string"},"null":{"type":"string","enum":["null"]}},"minProperties":1,"maxProperties":1,"additionalProperties":false}}`,
		[]string{`{"a":"x","b":{"null":"null"},"c":{"string":"y"}}`, `{"a":"x","b":null,"c":"y"}`},
	},
	{
		"a header", `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"const":1}}}`,
		`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"integer","enum":[1]}}}`, nil,
	},
	{
		"equal numbers", `{"type":"object","properties":{"a":{"allOf":[{"enum":[1,2.0,30,-0.0,"1"]},{"enum":[3e1,10e-1,0,"1",-2]}]},"b":{"anyOf":[{"const":1},{"enum":[1.0,2]},{"const":20e-1}]},"c":{"const":1.0,"enum":[1]}}}`,
		`{"type":"object","properties":{"a":{"type":"object","description":"Give exactly one of the properties.","properties":{"integer":{"type":"integer","enum":[1,30,-0.0]},"string":{"type":"string","enum":["1"]}},"minProperties":1,"maxProperties":1,"additionalProperties":false},"b":{"type":"integer","enum":[1,2]},"c":{"type":"integer","enum":[1.0]}}}`, nil,
	},
	{"flags of draft 4", `{"type":"object","properties":{"a":{"type":"integer","minimum":0,"exclusiveMinimum":true}}}`, `{"type":"object","properties":{"a":{"type":"integer","minimum":0,"exclusiveMinimum":0}}}`, nil},
	{"what can never be", `{"type":"object","properties":{"a":{"anyOf":[{"not":{}},{"type":"string"}]},"b":false}}`, `{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`, nil},
}

func TestStrict(t *testing.T) {
	t.Parallel()
	for _, tt := range strictCases {
		strict := schemas.Strict([]byte(tt.schema))
		want := tt.want
		if want == "" {
			want = tt.schema
		}
		if string(strict.Schema) != want || strict.Why != "" {
			t.Errorf("%s: %s %s\nwant %s", tt.name, strict.Schema, strict.Why, want)
		}
		for i := 0; i+1 < len(tt.calls); i += 2 {
			got, err := strict.Translate([]byte(tt.calls[i]))
			if message, bad := strings.CutPrefix(tt.calls[i+1], "! "); bad {
				if err == nil || err.Error() != message {
					t.Errorf("%s: %s becomes %s, %v", tt.name, tt.calls[i], got, err)
				}
			} else if err != nil || string(got) != tt.calls[i+1] {
				t.Errorf("%s: %s becomes %s, want %s (%v)", tt.name, tt.calls[i], got, tt.calls[i+1], err)
			}
		}
	}
}

func TestWhyAStrictSchemaStays(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ schema, why string }{
		{`{"type":"array"}`, "no object is accepted by it"},
		{`false`, "it is not a schema of objects, in strict JSON of at most 262144 bytes and 64 levels"},
		{`{"type"`, "it is not a schema of objects, in strict JSON of at most 262144 bytes and 64 levels"},
		{`{"$ref":"#"}`, "no object is accepted by it"},
		{`{"$ref":"other.json"}`, `the reference to "other.json" leads nowhere`},
		{`{"$ref":"#x","$defs":{"a":{"$anchor":"x"}}}`, `the reference to "#x" leads nowhere`},
		{`{"anyOf":[{"type":"object"}],"$defs":{"a":{"$id":"x"}}}`, "an identifier inside of it changes what its references mean"},
		{`{"properties":{"a":{"anyOf":[{"not":{"type":"string"}}]}}}`, "not cannot be said in another way"},
		{`{"properties":{"a":{"enum":[{"b":1}]}}}`, "an enum of objects or lists cannot be said in another way"},
		{`{"properties":{"a":{"items":[{}]}}}`, "a list of items cannot be said in another way"},
		{`{"properties":{"a":{"oneOf":[{"type":"string"},{"type":"string","maxLength":3}]}}}`, "two alternatives of a oneOf may accept the same value"},
		{`{"properties":{"a":{"oneOf":[{"type":"number"},{"type":"integer"}]}}}`, "two alternatives of a oneOf may accept the same value"},
		{`{"properties":{"a":{"allOf":[{"pattern":"a"},{"pattern":"b"}]}}}`, "two values of pattern apply to the same value"},
		{`{"properties":{"a":{"type":"array","uniqueItems":true,"items":{"type":["string","null"]}}}}`, "unique elements with alternatives cannot be said in another way"},
		{`{"properties":{"a":{"anyOf":[{"type":"object","properties":{"b":{"type":"string","x-mcp-header":"B"}}},{"type":"null"}]}}}`, "an argument that is sent as a header has alternatives"},
		{`{"properties":{"a":{"allOf":[{"enum":[` + repeated(1990, `1`) + `]},{"enum":[` + repeated(2010, `1`) + `]}]}}}`, "an enum has more than 1000 values"},
		{`{"properties":{"a":{"type":["string","null","null","null","null","null","null","null"]}}}`, "a list of types has more than 7"},
		{hostile()["references to a default"], "it would become too large"},
		{hostile()["exponential references"], "it would become too large"},
	} {
		strict := schemas.Strict([]byte(tt.schema))
		if strict.Why != tt.why || string(strict.Schema) != tt.schema || strict.Translates() {
			t.Errorf("%.200s: %s, want %s; %.300s", tt.schema, strict.Why, tt.why, strict.Schema)
		}
	}
}

// A rewritten schema accepts nothing that the original refuses after the translation, and
// has nothing that clients refuse.
func FuzzStrict(f *testing.F) {
	for seed := range uint64(400) {
		f.Add(seed)
	}
	c := newChecker()
	var rewrittenSchemas, tried atomic.Int64
	f.Cleanup(func() { f.Logf("%d schemas rewritten, %d calls tried", rewrittenSchemas.Load(), tried.Load()) })
	f.Fuzz(func(t *testing.T, seed uint64) {
		m := &maker{Rand: rand.New(rand.NewPCG(seed, 3)), plain: seed%4 > 0}
		s := m.root()
		raw := text(t, s)
		original := compile(c, raw)
		if original == nil {
			return
		}
		strict := schemas.Strict(raw)
		if again := schemas.Strict(raw); !bytes.Equal(again.Schema, strict.Schema) || again.Why != strict.Why {
			t.Fatalf("%s\nthen %s", strict.Schema, again.Schema)
		}
		if strict.Why != "" {
			if !bytes.Equal(strict.Schema, raw) || strict.Translates() {
				t.Fatalf("%s\nwas %s\nbut stays: %s", strict.Schema, raw, strict.Why)
			}
			return
		}
		noneRefused(t, strict.Schema)
		if again := schemas.Strict(strict.Schema); again.Why != "" || !bytes.Equal(again.Schema, strict.Schema) {
			t.Fatalf("%s\nagain: %s %s", strict.Schema, again.Schema, again.Why)
		}
		rewritten := compile(c, strict.Schema)
		if rewritten == nil {
			t.Fatalf("%s\nis refused, and was %s", strict.Schema, raw)
		}
		root := decoded(t, strict.Schema)
		rewrittenSchemas.Add(1)
		for range 40 {
			v := text(t, m.instance(root, root, 8))
			if !accepts(rewritten, v) {
				continue
			}
			tried.Add(1)
			translated, err := strict.Translate(v)
			if err == nil && !accepts(original, translated) {
				t.Fatalf("%s\naccepts %s\nwhich becomes %s\nand is refused by %s", strict.Schema, v, translated, raw)
			}
		}
	})
}

// noneRefused fails where a rewritten schema has something that clients refuse.
func noneRefused(t *testing.T, raw []byte) {
	t.Helper()
	var look func(s any)
	look = func(s any) {
		o, ok := s.(object)
		if !ok {
			t.Fatalf("a schema that is %v in %s", s, raw)
		}
		for _, keyword := range []string{"anyOf", "oneOf", "allOf", "$ref", "$defs", "definitions", "const", "not", "if"} {
			if _, has := o[keyword]; has {
				t.Fatalf("%s in %s", keyword, raw)
			}
		}
		properties, has := o["properties"].(object)
		if _, list := o["type"].([]any); list || o["type"] == "object" && !has || o["type"] == "array" && o["items"] == nil {
			t.Fatalf("%v in %s", o, raw)
		}
		for _, p := range properties {
			look(p)
		}
		if items := o["items"]; items != nil {
			look(items)
		}
		if rest, ok := o["additionalProperties"].(object); ok && len(rest) > 0 {
			look(rest)
		}
	}
	root := decoded(t, raw)
	if root["type"] != "object" {
		t.Fatalf("the root of %s", raw)
	}
	look(root)
}

// The same over the schemas of real servers.
func TestStrictOfRealSchemas(t *testing.T) {
	t.Parallel()
	c := newChecker()
	m := &maker{Rand: rand.New(rand.NewPCG(1, 3))}
	tools := catalog(t)
	before, after, changed, stay, valid := 0, 0, 0, 0, 0
	for i := range tools {
		one := &tools[i]
		strict := schemas.Strict(one.InputSchema)
		before, after = before+len(one.InputSchema), after+len(schemas.Compact(strict.Schema))
		if strict.Why != "" {
			stay++
			t.Logf("%s stays: %s", one.Key(), strict.Why)
			continue
		}
		noneRefused(t, strict.Schema)
		if bytes.Equal(strict.Schema, one.InputSchema) {
			continue
		}
		changed++
		original, rewritten := compile(c, one.InputSchema), compile(c, strict.Schema)
		if original == nil || rewritten == nil {
			t.Errorf("%s is refused: %s", one.Key(), strict.Schema)
			continue
		}
		root := decoded(t, strict.Schema)
		for range 100 {
			v := text(t, m.instance(root, root, 12))
			if !accepts(rewritten, v) {
				continue
			}
			valid++
			translated, err := strict.Translate(v)
			if err == nil && !accepts(original, translated) {
				t.Errorf("%s: %s\nbecomes %s %v\nrefused by %s", one.Key(), v, translated, err, one.InputSchema)
			}
		}
	}
	t.Logf("%d of %d schemas changed, %d stay; %d tokens before, %d after; %d calls tried", changed, len(tools), stay, schemas.Tokens(before), schemas.Tokens(after), valid)
	if changed == 0 || valid < 10*changed {
		t.Error("too little was tried")
	}
}

func TestStrictOfHostileSchemas(t *testing.T) {
	t.Parallel()
	for name, schema := range hostile() {
		strict := schemas.Strict([]byte(schema))
		if strict.Why != "" && string(strict.Schema) != schema || strict.Why == "" && mcp.Validate(strict.Schema, mcp.Limits{}) != nil || len(strict.Why) > 300 {
			t.Errorf("%s: %.200s %s", name, strict.Schema, strict.Why)
		}
		if got, err := strict.Translate([]byte(strings.Repeat(`{"a":`, 300) + `1` + strings.Repeat(`}`, 300))); (err != nil) != strict.Translates() {
			t.Errorf("%s: %.100s %v", name, got, err)
		}
	}
}
