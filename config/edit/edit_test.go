package edit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/config/edit"
	"github.com/toolgate/toolgate/config/format"
	"github.com/toolgate/toolgate/config/tree"
)

var entry = edit.Map{
	{Key: "command", Value: "/usr/bin/toolgate"},
	{Key: "args", Value: []string{"stdio", "--config", "/home/a b/c.yaml"}},
	{Key: "env", Value: edit.Map{{Key: "A", Value: "yes"}}},
	{Key: "enabled", Value: true},
	{Key: "timeout", Value: 300},
}

// documents are files as people have them; the entry is added below mcpServers.
var documents = []struct{ name, text string }{
	{"a.json", `{"mcpServers":{"x":{"command":"y"}}}`},
	{"a.json", "{\n  \"mcpServers\": {\n    \"x\": {\n      \"command\": \"y\"\n    }\n  },\n  \"other\": [1, 2.50, 1e3]\n}\n"},
	{"a.json", "{\r\n\t\"mcpServers\": {\r\n\t\t\"x\": {\"command\": \"y\"}\r\n\t}\r\n}"},
	{"a.json", "// first\n{\n  /* servers */ \"mcpServers\": { // these\n    \"x\": { \"command\": \"y\" } // the last\n    // none after\n  }\n}\n// end\n"},
	{"a.json", "{\n    \"mcpServers\": {\n        \"x\": {\"command\": \"a,}{\\\"//\"}, // a comma\n    },\n}\n"},
	{"a.jsonc", "{\n  \"a\": {\"toolgate\": 1},\n  \"mcpServers\": {}\n}\n"},
	{"a.json", "\xef\xbb\xbf{\"mcpServers\": {\"x\": {\"command\": \"y\"}}}"},
	{"a.yaml", "# top\nmcpServers:\n  # the first\n  x:\n    command: y   # here\n    args:\n    - a\n    - b\n\n  # the end\nother: |\n  mcpServers:\n    text\n"},
	{"a.yaml", "mcpServers:\n    x: {command: y}\n    z:\n        url: http://127.0.0.1/\n"},
	{"a.yaml", "toolgate:\n  listen: {http: ''}\nmcpServers: {}\n"},
	{"a.yaml", "mcpServers:\n  x:\n    command: y"},
	{"a.toml", "# top\n[mcp.a]\nx = 1\n\n[mcpServers.x]\ncommand = \"y\" # why\n\n# about the next\n[other]\na = [1,\n 2]\n"},
	{"a.toml", "[mcpServers]\n[mcpServers.x]\ncommand = 'y'\n[mcpServers.x.env]\nA = \"b\"\n"},
}

// What is set can be read, what was there stays as it is, and what is deleted
// again leaves the file as it was.
func TestSetAndDelete(t *testing.T) {
	t.Parallel()
	for _, d := range documents {
		for _, name := range []string{"toolgate", "tool gate.1"} {
			out, err := edit.Set(d.name, []byte(d.text), []string{"mcpServers"}, name, entry)
			if err != nil {
				t.Errorf("%q: %v", d.text, err)
				continue
			}
			root, err := format.ParseDocument(d.name, out)
			if err != nil {
				t.Errorf("%q: %v", out, err)
				continue
			}
			got := root.Get("mcpServers").Get(name)
			text, err := got.JSON()
			if want := `{"command":"/usr/bin/toolgate","args":["stdio","--config","/home/a b/c.yaml"],"env":{"A":"yes"},"enabled":true,"timeout":300}`; err != nil || !sameMembers(t, text, want) {
				t.Errorf("%q has become %s, %v", d.text, text, err)
			}
			back, err := edit.Delete(d.name, out, []string{"mcpServers"}, name)
			if err != nil {
				t.Errorf("%q: delete: %v", out, err)
				continue
			}
			want := d.text
			if !strings.HasSuffix(want, "\n") && !strings.HasSuffix(d.name, "json") {
				want += "\n"
			}
			if diff := cmp.Diff(want, string(back)); diff != "" {
				t.Errorf("deleted again (-before +after):\n%s", diff)
			}
		}
	}
}

// sameMembers compares without the order of keys, which TOML gives its tables.
func sameMembers(t *testing.T, got []byte, want string) bool {
	t.Helper()
	var a, b any
	if err := errors.Join(json.Unmarshal(got, &a), json.Unmarshal([]byte(want), &b)); err != nil {
		t.Fatal(err)
	}
	return cmp.Equal(a, b)
}

// An entry that is there is replaced in its place.
func TestReplace(t *testing.T) {
	t.Parallel()
	for _, d := range documents {
		first, err := edit.Set(d.name, []byte(d.text), []string{"mcpServers"}, "x", edit.Map{{Key: "command", Value: "first"}})
		if err != nil {
			t.Errorf("%q: %v", d.text, err)
			continue
		}
		root, err := format.ParseDocument(d.name, first)
		if err != nil || root.Get("mcpServers").Get("x").Get("command").Value != "first" {
			t.Errorf("%q has become %q, %v", d.text, first, err)
		}
	}
}

// Maps on the way that are absent are made, in files that are empty too.
func TestMakesWhatIsAbsent(t *testing.T) {
	t.Parallel()
	for name, texts := range map[string][]string{
		"a.json": {"", "{}", "{\n}\n", "{\n  // nothing\n}\n", "{\"a\": 1}", "{\n  \"a\": 1\n}\n", "{\"p\": {\"b\": 2}}"},
		"a.yaml": {"", "# only this\n", "a: 1\n", "p:\n  b: 2\n", "p:\n", "a: 1\np: {}   # none\n"},
		"a.toml": {"", "a = 1\n", "[p]\nb = 2\n"},
	} {
		for _, text := range texts {
			out, err := edit.Set(name, []byte(text), []string{"p", "q"}, "e", entry)
			if err != nil {
				t.Errorf("%s %q: %v", name, text, err)
				continue
			}
			root, err := format.ParseDocument(name, out)
			if err != nil || root.Get("p").Get("q").Get("e").Get("timeout") == nil {
				t.Errorf("%s %q has become %q, %v", name, text, out, err)
			}
		}
	}
}

// What cannot be changed without touching the rest is left alone.
func TestRefuses(t *testing.T) {
	t.Parallel()
	for _, d := range []struct{ name, text string }{
		{"a.json", `{"mcpServers": []}`},
		{"a.json", `[]`},
		{"a.yaml", "mcpServers: {x: {command: y}}\n"},
		{"a.yaml", "- a\n"},
		{"a.yaml", "mcpServers: &a\n  x: *b\n"},
		{"a.toml", "mcpServers = {x = {command = \"y\"}}\n"},
		{"a.json", `{"mcpServers": `},
	} {
		out, err := edit.Set(d.name, []byte(d.text), []string{"mcpServers"}, "toolgate", entry)
		if err == nil {
			t.Errorf("%s %q has become %q", d.name, d.text, out)
		}
		var fault *tree.Error
		if !errors.Is(err, edit.ErrByHand) && !errors.As(err, &fault) {
			t.Errorf("%s %q: %v", d.name, d.text, err)
		}
	}
	if out, err := edit.Delete("a.json", []byte(`{"a":1}`), []string{"mcpServers"}, "x"); err != nil || string(out) != `{"a":1}` {
		t.Errorf("what is not there: %q, %v", out, err)
	}
}

// Whatever a file is, an edit keeps the rest of it or refuses, and ends.
func FuzzSetAndDelete(f *testing.F) {
	for _, d := range documents {
		f.Add(d.name, []byte(d.text), "toolgate", "mcpServers")
	}
	f.Fuzz(func(t *testing.T, name string, data []byte, key, section string) {
		if len(data) > 1<<12 {
			return
		}
		before := bytes.Clone(data)
		out, err := edit.Set(name, data, []string{section}, key, entry)
		if !bytes.Equal(before, data) {
			t.Fatalf("the input has become %q", data)
		}
		if err != nil {
			return
		}
		if _, err := edit.Delete(name, out, []string{section}, key); err != nil && !errors.Is(err, edit.ErrByHand) {
			t.Fatalf("%q: %v", out, err)
		}
	})
}
