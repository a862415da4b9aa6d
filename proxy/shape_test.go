package proxy

import (
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

func raw(s string) []byte { return []byte(s) }

func TestShapeRender(t *testing.T) {
	const in = `{"x":9007199254740993,"name":"t","description":"old","inputSchema":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer","default":1},"c":{}},"required":["c","a","b"]},"annotations":{"readOnlyHint":true,"title":"T"}}`
	tests := []struct {
		name  string
		shape *ToolShape
		want  string // replaces old with new in the tool
	}{
		{"none", nil, `"name":"t"=>"name":"n"`},
		{"described", &ToolShape{Description: "new \"one\""}, `"name":"t"=>"name":"n"; "old"=>"new \"one\""`},
		{"annotated", &ToolShape{Annotations: raw(`{"destructiveHint":false,"readOnlyHint":false}`)}, `"name":"t"=>"name":"n"; {"readOnlyHint":true=>{"destructiveHint":false,"readOnlyHint":false`},
		{"fixed", &ToolShape{Args: map[string]ArgumentShape{"a": {Fixed: raw(`"v"`)}}}, `"name":"t"=>"name":"n"; "a":{"type":"string"},=>; "c","a","b"=>"c","b"`},
		{"hidden", &ToolShape{Args: map[string]ArgumentShape{"c": {Hidden: true}}}, `"name":"t"=>"name":"n"; ,"c":{}=>; "c","a","b"=>"a","b"`},
		{"default", &ToolShape{Args: map[string]ArgumentShape{"b": {Default: raw("9007199254740993")}}}, `"name":"t"=>"name":"n"; "default":1=>"default":9007199254740993; "c","a","b"=>"c","a"`},
		{"all", &ToolShape{Args: map[string]ArgumentShape{"a": {Hidden: true}, "b": {Hidden: true}, "c": {Fixed: raw("1")}}}, `"name":"t"=>"name":"n"; "a":{"type":"string"},"b":{"type":"integer","default":1},"c":{}=>; ,"required":["c","a","b"]=>`},
		{"an argument that is not there", &ToolShape{Args: map[string]ArgumentShape{"zz": {Fixed: raw("1")}, "yy": {Default: raw("1")}}}, `"name":"t"=>"name":"n"`},
	}
	for _, tt := range tests {
		want := in
		for edit := range strings.SplitSeq(tt.want, "; ") {
			from, to, _ := strings.Cut(edit, "=>")
			if !strings.Contains(want, from) {
				t.Fatalf("%s: no %q in the tool", tt.name, from)
			}
			want = strings.Replace(want, from, to, 1)
		}
		if got := string(tt.shape.render(raw(in), "n")); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, want)
		}
	}
	// Tools without a schema, or with odd ones, work.
	shape := &ToolShape{Args: map[string]ArgumentShape{"a": {Fixed: raw("1")}}, Annotations: raw(`{"title":"x"}`)}
	for in, want := range map[string]string{
		`{"name":"t"}`: `{"annotations":{"title":"x"},"name":"n"}`,
		`{"name":"t","inputSchema":true,"annotations":null}`:   `{"name":"n","inputSchema":true,"annotations":{"title":"x"}}`,
		`{"name":"t","inputSchema":{"required":["a"]}}`:        `{"annotations":{"title":"x"},"name":"n","inputSchema":{"required":["a"]}}`,
		`{"name":"t","inputSchema":{"properties":{"a":true}}}`: `{"annotations":{"title":"x"},"name":"n","inputSchema":{"properties":{}}}`,
	} {
		if got := string(shape.render(raw(in), "n")); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", in, got, want)
		}
	}
}

func TestShapeArguments(t *testing.T) {
	shape := &ToolShape{Args: map[string]ArgumentShape{
		"fixed": {Fixed: raw(`{"n":9007199254740993}`)}, "hidden": {Hidden: true}, "kept": {Hidden: true, Default: raw("true")}, "given": {Default: raw(`"d"`)},
	}}
	tests := []struct{ name, in, want string }{ // an empty want is a refusal
		{"none", ``, `{"kept":true,"given":"d","fixed":{"n":9007199254740993}}`},
		{"others stay", `{ "z" : 1.50, "a":[ ] }`, `{"kept":true,"given":"d","fixed":{"n":9007199254740993}, "z" : 1.50, "a":[ ] }`},
		{"a default is replaced", `{"given":null}`, `{"kept":true,"fixed":{"n":9007199254740993},"given":null}`},
		{"a default in another spelling", `{"giv\u0065n":1}`, `{"kept":true,"fixed":{"n":9007199254740993},"giv\u0065n":1}`},
		{"fixed", `{"fixed":1}`, ``},
		{"fixed to the same", `{"fixed":{"n":9007199254740993}}`, ``},
		{"fixed with escapes", `{"fi\u0078ed":1}`, ``},
		{"fixed in upper case", `{"FIXED":1}`, ``},
		{"fixed in upper case with escapes", `{"\u0046ixed":1}`, ``},
		{"fixed to null", `{"fixed":null}`, ``},
		{"hidden", `{"hidden":1}`, ``},
		{"hidden with a default", `{"Kept":false}`, ``},
		{"hidden further down is another", `{"a":{"hidden":1}}`, `{"kept":true,"given":"d","fixed":{"n":9007199254740993},"a":{"hidden":1}}`},
		{"no object", `[]`, ``},
	}
	for _, tt := range tests {
		var given []byte
		if tt.in != "" {
			given = raw(tt.in)
		}
		got, fault := shape.arguments(given)
		if tt.want == "" {
			if fault == nil {
				t.Errorf("%s: passed as %s", tt.name, got)
			}
			continue
		}
		if fault != nil || string(got) != tt.want {
			t.Errorf("%s: %s, %v\nwant %s", tt.name, got, fault, tt.want)
		}
	}
	var none *ToolShape
	if got, fault := none.arguments(nil); got != nil || fault != nil {
		t.Errorf("no shape: %s, %v", got, fault)
	}
	// U+017F and U+212A fold to s and k: the same name in another spelling.
	sk := &ToolShape{Args: map[string]ArgumentShape{"sk": {Fixed: raw("1")}}}
	for _, in := range []string{`{"ſk":2}`, `{"s\u212a":2}`, `{"SK":2}`} {
		if got, fault := sk.arguments(raw(in)); fault == nil {
			t.Errorf("%s passed as %s", in, got)
		}
	}
}

// The operator's settings of tools apply to lists and calls.
func TestShapedServer(t *testing.T) {
	b := newScript(t, "s", mcp.Modern, tool("kept"), tool("excluded"), tool("hidden"), tool("renamed"), tool("fixed"), tool("left"))
	mounts := mounted(b)
	mounts[0].Include = []string{"kept", "excluded", "hidden", "renamed", "fixed"}
	mounts[0].Exclude = []string{"excluded"}
	mounts[0].Tools = map[string]ToolShape{
		"hidden": {Hidden: true}, "renamed": {Rename: "better"},
		"fixed": {Args: map[string]ArgumentShape{"a": {Fixed: raw("9007199254740993")}}},
	}
	r := newRig(t, mounts)
	names, _ := listed(t, mcp.Tool, r.modern("1", "tools/list", ""))
	if want := []string{"s__better", "s__fixed", "s__kept"}; !slices.Equal(names, want) {
		t.Errorf("listed %v, want %v", names, want)
	}
	for _, gone := range []string{"excluded", "hidden", "renamed", "left"} {
		if w := r.modern("1", "tools/call", `"name":"s__`+gone+`"`); !strings.Contains(w.text(), "Unknown tool: s__"+gone) {
			t.Errorf("%s: %s", gone, w.text())
		}
	}
	r.modern("1", "tools/call", `"name":"s__better"`)
	r.modern("1", "tools/call", `"name":"s__fixed","arguments":{"b":1}`)
	r.modern("1", "tools/call", `"name":"s__fixed"`)
	want := []string{`{"name":"renamed"}`, `{"name":"fixed","arguments":{"a":9007199254740993,"b":1}}`, `{"arguments":{"a":9007199254740993},"name":"fixed"}`}
	for i, call := range b.seen("") {
		if string(call.Params) != want[i] {
			t.Errorf("call %d: %s, want %s", i, call.Params, want[i])
		}
	}
}
