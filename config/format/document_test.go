package format

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/config/tree"
)

// sketch renders a tree in one line, with positions.
func sketch(n *tree.Node) string {
	at := fmt.Sprintf("@%d:%d", n.Line, n.Column)
	switch n.Kind {
	case tree.KindMap:
		var parts []string
		for _, f := range n.Fields {
			parts = append(parts, fmt.Sprintf("%s@%d:%d=%s", f.Key, f.Line, f.Column, sketch(f.Value)))
		}
		return "{" + strings.Join(parts, " ") + "}" + at
	case tree.KindList:
		var parts []string
		for _, i := range n.Items {
			parts = append(parts, sketch(i))
		}
		return "[" + strings.Join(parts, " ") + "]" + at
	case tree.KindNull:
		return "null" + at
	case tree.KindString:
		return fmt.Sprintf("%q%s", n.Value, at)
	default:
		return n.Value + at
	}
}

func TestParseDocument(t *testing.T) {
	tests := map[string]struct{ name, text, want string }{
		"json":               {"a.json", "{\"a\": [1, 9007199254740993.10],\n \"b\": null}", `{a@1:2=[1@1:8 9007199254740993.10@1:11]@1:7 b@2:2=null@2:7}@1:1`},
		"json with comments": {"a.json", "\xef\xbb\xbf// x\n{ /* y */ \"a\": true, }", `{a@2:11=true@2:16}@2:1`},
		"json escapes":       {"a.json", `{"a\u0041": "\ud83d\ude00\n\/"}`, "{aA@1:2=\"😀\\n/\"@1:13}@1:1"},
		"json empty":         {"a.json", " // nothing\n", `{}@1:1`},
		"yaml":               {"a.yaml", "a:\n  - x\n  - 0x1F\nb: ~\nc: yes\nd: True", `{a@1:1=["x"@2:5 0x1F@3:5]@2:3 b@4:1=null@4:4 c@5:1="yes"@5:4 d@6:1=true@6:4}@1:1`},
		"yaml alias":         {"a.yaml", "a: &x {b: 1}\nc: *x", `{a@1:1={b@1:8=1@1:11}@1:4 c@2:1={b@1:8=1@1:11}@2:4}@1:1`},
		"yaml merge":         {"a.yaml", "a: &x {b: 1, c: 2}\nd: {<<: *x, b: 3}", `{a@1:1={b@1:8=1@1:11 c@1:14=2@1:17}@1:4 d@2:1={b@2:13=3@2:16 c@1:14=2@1:17}@2:4}@1:1`},
		"yaml empty":         {"a.yaml", "# nothing\n", `{}@1:1`},
		"yaml date":          {"a.yaml", "a: 2026-11-21", `{a@1:1="2026-11-21"@1:4}@1:1`},
		"toml":               {"a.toml", "a = 1\n[b.\"c.d\"]\ne = [1, \"x\"]\nf.g = true\n[[h]]\ni = {j = 1_000}\n[[h]]", `{a@1:1=1@1:5 b@2:2={c.d@2:4={e@3:1=[1@3:6 "x"@3:9]@3:1 f@4:1={g@4:3=true@4:7}@4:1}@2:4}@2:2 h@5:3=[{i@6:1={j@6:6=1_000@6:10}@6:5}@5:3 {}@7:3]@5:3}@1:1`},
		"sniffed json":       {"config", " \n// x\n{\"a\": 1}", `{a@3:2=1@3:7}@3:1`},
		"sniffed toml":       {"config", "# x\n[a.b]\nc = 1", `{a@2:2={b@2:4={c@3:1=1@3:5}@2:4}@2:2}@1:1`},
		"sniffed toml pair":  {"config", "a = 1", `{a@1:1=1@1:5}@1:1`},
		"sniffed yaml":       {"config", "a: b", `{a@1:1="b"@1:4}@1:1`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			n, err := ParseDocument(tt.name, []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, sketch(n)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDocumentBounds(t *testing.T) {
	deep := func(open, shut string, n int) string { return strings.Repeat(open, n) + strings.Repeat(shut, n) }
	wide := func(sep string) string { return strings.Repeat("1"+sep, MaxNodes+1) }
	tests := map[string]struct{ name, text, want string }{
		"size":            {"a.json", strings.Repeat(" ", MaxFileSize+1), "larger than 4 MiB"},
		"json depth":      {"a.json", deep("[", "]", 2_000_000), "deeper than 100"},
		"yaml depth":      {"a.yaml", deep("[", "]", 200), "deeper than 100"},
		"yaml far depth":  {"a.yaml", deep("[", "]", 2_000_000), "depth"},
		"toml depth":      {"a.toml", "a = " + deep("[", "]", 200), "deeper than 100"},
		"toml far depth":  {"a.toml", "a = " + deep("[", "]", 2_000_000), "nested"},
		"toml key depth":  {"a.toml", strings.Repeat("a.", 200) + "b = 1", "deeper than 100"},
		"toml head depth": {"a.toml", "[" + strings.Repeat("a.", 200) + "b]", "deeper than 100"},
		"json values":     {"a.json", "[" + wide(",") + "]", "more than 200000 values"},
		"yaml values":     {"a.yaml", "a: [" + wide(",") + "]", "more than 200000 values"},
		"toml values":     {"a.toml", "a = [" + wide(",") + "]", "more than 10000 values"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := ParseDocument(tt.name, []byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestNodeJSON(t *testing.T) {
	tests := map[string]string{
		"a: 0x1F":                    `{"a":31}`,
		"a: 1_000":                   `{"a":1000}`,
		"a: +5":                      `{"a":5}`,
		"a: .5":                      `{"a":0.5}`,
		"a: -1.e3":                   `{"a":-1e3}`,
		"a: 9007199254740993":        `{"a":9007199254740993}`,
		"a: 123456789012345678901.5": `{"a":123456789012345678901.5}`,
		"a: 0o17":                    `{"a":15}`,
		`a: "<\n>"`:                  `{"a":"<\n>"}`,
		"a: [x, ~, true, {b: c}]":    `{"a":["x",null,true,{"b":"c"}]}`,
	}
	for text, want := range tests {
		n, err := ParseDocument("a.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		got, err := n.JSON()
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"a: .inf", "a: -.inf", "a: .nan"} {
		n, err := ParseDocument("a.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := n.JSON(); err == nil {
			t.Errorf("%s: got %s, want an error", text, got)
		}
	}
}
