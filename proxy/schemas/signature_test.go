package schemas_test

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/schemas"
)

func TestSignature(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, schema, want string
		shortened          bool
	}{
		{
			"scalars", `{"type":"object","properties":{"labels":{"type":"array","items":{"type":"string"}},"title":{"type":"string"},"state":{"enum":["open","closed"]}},"required":["title"]}`,
			`f(title: string, labels?: string[], state?: "open"|"closed")`, false,
		},
		{"no arguments", `{"type":"object"}`, `f()`, false},
		{"no properties", `{"type":"object","properties":{},"additionalProperties":false}`, `f()`, false},
		{"absent", ``, `f([key: string]: any)`, false},
		{"null", `null`, `f([key: string]: any)`, false},
		{"true", `true`, `f([key: string]: any)`, false},
		{"empty", `{}`, `f([key: string]: any)`, false},
		{"false", `false`, `f(...)`, true},
		{"no schema", `[1]`, `f(...)`, true},
		{"no JSON", `{"type":`, `f(...)`, true},
		{"others", `{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"number"}}`, `f(a?: integer, [key: string]: number)`, false},
		{"nested", `{"type":"object","properties":{"a":{"type":"object","properties":{"c":{"type":"boolean"},"b":{"type":"string"}},"required":["b"]}}}`, `f(a?: {b: string, c?: boolean})`, false},
		{
			"free objects", `{"type":"object","properties":{"a":{"type":"object"},"b":{"type":"object","additionalProperties":{"type":"string"}},"c":{"type":"array"},"d":{},"e":true}}`,
			`f(a?: object, b?: {[key: string]: string}, c?: any[], d?: any, e?: any)`, false,
		},
		{
			"unions", `{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"array","items":{"type":["string","null"]}}]},"b":{"oneOf":[{"const":1},{"enum":["x",null]}]}}}`,
			`f(a?: string|(string|null)[], b?: 1|"x"|null)`, false,
		},
		{
			"null as the default", `{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null},"b":{"type":["integer","null"],"default":null}},"required":["b"]}`,
			`f(b: integer|null, a?: string)`, false,
		},
		{"equal alternatives", `{"type":"object","properties":{"a":{"anyOf":[{"type":"string","format":"date"},{"type":"string"}]}}}`, `f(a?: string)`, false},
		{"tuple", `{"type":"object","properties":{"a":{"type":"array","prefixItems":[{"type":"string"},{"type":"number"}]},"b":{"items":[{"type":"null"}]}}}`, `f(a?: [string, number], b?: [null])`, false},
		{
			"together", `{"type":"object","properties":{"a":{"allOf":[{"$ref":"#/$defs/x"},{"type":"object","properties":{"c":{}}}]}},"$defs":{"x":{"type":"object","properties":{"b":{"type":"string"}}}}}`,
			`f(a?: {b?: string}&{c?: any})`, false,
		},
		{"reference", `{"properties":{"a":{"$ref":"#/definitions/x"}},"definitions":{"x":{"type":"string"}}}`, `f(a?: string)`, false},
		{"reference out of the document", `{"properties":{"a":{"$ref":"https://example.com/x"},"b":{"$ref":"#/no"}}}`, `f(a?: any, b?: any)`, false},
		{"recursive", `{"properties":{"a":{"$ref":"#/$defs/Node"}},"$defs":{"Node":{"type":"object","properties":{"next":{"$ref":"#/$defs/Node"}}}}}`, `f(a?: {next?: Node...})`, true},
		{
			"odd names", `{"properties":{"a b":{"type":"string"},"":{"type":"null"},"größe":{"type":"string"},"x-y.z":{"type":"string"},"q\"\n":{"type":"string"}}}`,
			`f("a b"?: string, ""?: null, größe?: string, x-y.z?: string, "q\"\n"?: string)`, false,
		},
		{"required without a schema", `{"type":"object","required":["a"]}`, `f(a: any)`, false},
		{"root reference", `{"$ref":"#/$defs/in","$defs":{"in":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}}}`, `f(a: string)`, false},
		{"root allOf", `{"allOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":{"type":"string"}}}]}`, `f(a: string, b?: string)`, false},
		{
			"one of several", `{"type":"object","properties":{"id":{"type":"string"},"owner":{"type":"string"},"repo":{"type":"string"}},"anyOf":[{"required":["id"]},{"required":["owner","repo"]}]}`,
			`f(id?: string, owner?: string, repo?: string) with id | owner, repo`, false,
		},
		{
			"alternatives with their own arguments", `{"oneOf":[{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]},{"$ref":"#/$defs/n"}],"$defs":{"n":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}`,
			`f(id?: string, name?: string) with id | name`, false,
		},
		{"hidden conditions", `{"type":"object","properties":{"a":{"type":"string"}},"dependentRequired":{"a":["b"]}}`, `f(a?: string, ...)`, true},
		{"long words", `{"properties":{"a":{"enum":["` + strings.Repeat("ä", 100) + `",{"b":1}]}}}`, `f(a?: "` + strings.Repeat("ä", 28) + `..."|...)`, true},
		{"impossible argument", `{"properties":{"a":false,"b":{"type":"string"}}}`, `f(b?: string)`, false},
	} {
		got, shortened := schemas.Signature("f", []byte(tt.schema), 1000)
		if got != tt.want || shortened != tt.shortened {
			t.Errorf("%s: %s %v\nwant %s %v", tt.name, got, shortened, tt.want, tt.shortened)
		}
	}
}

// What gives way first, as the limit falls.
func TestSignatureLimits(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","required":["query","where"],"properties":{
		"state":{"enum":["open","closed","merged","draft","locked","stale","hidden"]},
		"query":{"type":"string"},
		"where":{"type":"object","properties":{"repo":{"type":"object","properties":{"owner":{"type":"string"},"name":{"type":"string"}},"required":["owner","name"]}}},
		"page":{"type":"integer"},"per_page":{"type":"integer"}}}`
	for _, tt := range []struct {
		limit int
		want  string
	}{
		{300, `f(query: string, where: {repo?: {owner: string, name: string}}, state?: "open"|"closed"|"merged"|"draft"|"locked"|"stale"|"hidden", page?: integer, per_page?: integer)`},
		{160, `f(query: string, where: {repo?: {...}}, state?: "open"|"closed"|"merged"|"draft"|"locked"|"stale"|"hidden", page?: integer, per_page?: integer)`},
		{120, `f(query: string, where: {...}, state?: "open"|"closed"|"merged"|..., page?: integer, per_page?: integer)`},
		{80, `f(query: string, where: {...}, state?..., page?..., per_page?...)`},
		{60, `f(query: string, where: {...}, state?..., page?..., ...)`},
		{50, `f(query: string, where: {...}, state?..., ...)`},
		{40, `f(query: string, where: {...}, ...)`},
		{30, `f(query, where, ...)`},
		{1, `f(query, where, ...)`},
		{-1, `f(query, where, ...)`},
	} {
		got, shortened := schemas.Signature("f", []byte(schema), tt.limit)
		if got != tt.want || shortened != (tt.limit < 300) {
			t.Errorf("limit %d: %s %v\nwant %s", tt.limit, got, shortened, tt.want)
		}
	}
}

// hostile are schemas that try to be expensive or to break the form. They are made once.
var hostile = sync.OnceValue(func() map[string]string {
	wide := func(n int, member string) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, member, i)
		}
		return b.String()
	}
	var chain strings.Builder
	for i := range 40 {
		fmt.Fprintf(&chain, `"d%d":{"type":"object","properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#/$defs/d%d"}}},`, i, i+1, i+1)
	}
	all := map[string]string{
		"exponential references": `{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{` + chain.String() + `"d40":{"type":"string"}}}`,
		"exponential unions":     `{"anyOf":[{"$ref":"#/$defs/d0"},{"$ref":"#/$defs/d0"}],"$defs":{` + strings.ReplaceAll(strings.ReplaceAll(chain.String(), `"properties":{"a":`, `"anyOf":[`), `,"b":`, `,`) + `"d40":{"type":"string"}}}`,
		"deep":                   `{"type":"object","properties":` + strings.Repeat(`{"a":{"properties":`, 28) + `{}` + strings.Repeat(`}}`, 28) + `}`,
		"too deep":               strings.Repeat(`{"not":`, 70) + `{}` + strings.Repeat(`}`, 70),
		"itself":                 `{"$ref":"#"}`,
		"itself in place":        `{"allOf":[{"$ref":"#"},{"$ref":"#/allOf/0"}],"anyOf":[{"$ref":"#/anyOf/0"}]}`,
		"many required":          `{"type":"object","required":[` + wide(9000, `"argument_number_%d"`) + `]}`,
		"many properties":        `{"type":"object","properties":{` + wide(9000, `"p%d":{"type":"string"}`) + `},"required":[` + wide(9000, `"p%d"`) + `]}`,
		"many words":             `{"type":"object","properties":{"a":{"enum":[` + wide(20000, `"w%d"`) + `]}},"required":["a"]}`,
		"many definitions":       `{"$defs":{` + wide(5000, `"d%d":{"$ref":"#/$defs/d0"}`) + `}}`,
		"a chain of definitions": `{"$ref":"#/$defs/d0","$defs":{"d900":{},` + wide(900, `"d%d":{"$ref":"#/$defs/d900"}`) + `}}`,
		"a long name":            `{"required":["` + strings.Repeat("€", 60000) + `"]}`,
		"wrong types":            `{"type":7,"properties":[1],"required":"a","enum":{},"anyOf":1,"allOf":{"a":1},"items":"x","$ref":[],"additionalProperties":"no","$defs":[[]],"description":1,"title":[],"default":{}}`,
		"a wrong pointer":        `{"properties":{"a":{"$ref":"#/properties/%zz"},"b":{"$ref":"#/~2"},"c":{"$ref":""},"d":{"$ref":"#x"}}}`,
		"half a character":       `{"properties":{"\ud800":{"type":"string"}}}`,
		"too large":              `{"description":"` + strings.Repeat("x", 300_000) + `"}`,
	}
	maps.Copy(all, largest())
	return all
})

func TestSignatureOfHostileSchemas(t *testing.T) {
	t.Parallel()
	for name, schema := range hostile() {
		for _, limit := range []int{0, 200, 1 << 20} {
			got, _ := schemas.Signature("f", []byte(schema), limit)
			if again, _ := schemas.Signature("f", []byte(schema), limit); again != got {
				t.Errorf("%s: %.200s, then %.200s", name, got, again)
			}
			if len(got) > max(limit, 16<<10) && len(got) > 64<<10 || !strings.HasPrefix(got, "f(") {
				t.Errorf("%s, limit %d: %d bytes: %.200s", name, limit, len(got), got)
			}
		}
	}
}

// FuzzSignature writes signatures of any bytes: bounded, the same twice, of valid text,
// and with every required argument.
func FuzzSignature(f *testing.F) {
	for _, shapes := range []map[string]string{crossed(2 << 10), hostile()} {
		for _, schema := range shapes {
			if len(schema) < 4096 {
				f.Add([]byte(schema), 100)
			}
		}
	}
	f.Fuzz(func(t *testing.T, schema []byte, limit int) {
		limit %= 5000
		got, shortened := schemas.Signature("f", schema, limit)
		if again, also := schemas.Signature("f", schema, limit); again != got || also != shortened {
			t.Fatalf("%q, then %q", got, again)
		}
		if strings.ToValidUTF8(got, "") != got || len(got) > 64<<10 {
			t.Fatalf("%d bytes: %.300q", len(got), got)
		}
		if strings.Contains(got, "...") != shortened && !strings.Contains(string(schema), ".") && !strings.Contains(string(schema), `\`) {
			t.Fatalf("shortened %v: %.300q", shortened, got)
		}
		if mcp.Validate(schema, mcp.Limits{Depth: 64}) != nil || len(got) > 8<<10 || got == "f(...)" {
			return
		}
		required := mcp.Lookup(schema, "required")
		if !mcp.IsObject(schema) || !mcp.IsArray(required) {
			return
		}
		for e := range mcp.Elements(required) {
			name, err := mcp.Unquote(e.Of(required))
			if err == nil && !strings.Contains(got, name) && !strings.Contains(got, string(mcp.Quote(name))) {
				t.Fatalf("%q is not in %.300q", name, got)
			}
		}
	})
}

// Signatures of real tools, with what they cost beside the schemas.
func TestSignatureOfRealTools(t *testing.T) {
	t.Parallel()
	before, after, cut := 0, 0, 0
	tools := catalog(t)
	for i := range tools {
		one := &tools[i]
		got, shortened := schemas.Signature(one.Name, one.InputSchema, 400)
		before, after = before+len(one.Name)+len(one.InputSchema), after+len(got)
		if shortened {
			cut++
		}
		required := mcp.Lookup(one.InputSchema, "required")
		for e := range mcp.Elements(required) {
			name, _ := mcp.Unquote(e.Of(required))
			if !strings.Contains(got, name+": ") && !strings.Contains(got, `"`+name+`": `) {
				t.Errorf("%s: %s is not in %s", one.Key(), name, got)
			}
		}
	}
	t.Logf("%d tools: %d tokens with schemas, %d as signatures (%.1f %% less), %d shortened", len(tools), schemas.Tokens(before), schemas.Tokens(after), 100-100*float64(after)/float64(before), cut)
}
