package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config"
)

// TestLoadSeveral reads one configuration from several files.
func TestLoadSeveral(t *testing.T) {
	const one, clock = `{"mcpServers": {"notes": {"command": "notes"}}}`, `{"mcpServers": {"time": {"command": "clock", "args": ["-u"]}}}`
	tests := []struct {
		name    string
		files   map[string]string // the first one is a.*
		with    []string
		servers string
		want    []string // each in the error; none for no error
	}{
		{"two clients", map[string]string{"a.json": one, "b.json": clock}, []string{"b.json"}, "notes time", nil},
		{"the same server", map[string]string{"a.json": one, "b.json": `{"servers": {"notes": {"type": "stdio", "command": "notes"}}}`}, []string{"b.json"}, "notes", nil},
		{
			"a server that differs",
			map[string]string{"a.json": one, "b.json": "{\"mcpServers\": {\n\"notes\": {\"command\": \"notes\", \"args\": [\"-x\"]}}}"},
			[]string{"b.json"},
			"",
			[]string{"b.json:2: mcpServers.notes: ", "a.json:1 has another server named \"notes\"", "rename or remove one of the two"},
		},
		{
			"the same server, which lacks a variable",
			map[string]string{"a.json": `{"mcpServers": {"x": {"command": "${NOT_SET}"}}}`, "b.json": `{"mcpServers": {"x": {"command": "${NOT_SET}"}}}`},
			[]string{"b.json"},
			"x", nil,
		},
		{
			"one lacks a variable",
			map[string]string{"a.json": `{"mcpServers": {"x": {"command": "${NOT_SET}"}}}`, "b.json": `{"mcpServers": {"x": {"command": "x"}}}`},
			[]string{"b.json"},
			"",
			[]string{"b.json:1: mcpServers.x: a.json:1 has another server"},
		},
		{
			"names that become the same",
			map[string]string{"a.json": `{"mcpServers": {"my.notes": {"command": "notes"}}}`, "b.json": "{\"mcpServers\":\n {\"my notes\": {\"command\": \"notes\"}}}"},
			[]string{"b.json"},
			"",
			[]string{"the servers \"my.notes\" (a.json:1) and \"my notes\" (line 2) both have the namespace"},
		},
		{
			"settings for a server of another file",
			map[string]string{"a.yaml": "toolgate:\n  servers:\n    time: { namespace: clock }\n", "b.json": clock},
			[]string{"b.json"},
			"time=clock", nil,
		},
		{
			"settings in the second file",
			map[string]string{"a.json": one, "b.yaml": "toolgate:\n  gate: { open: true }\n"},
			[]string{"b.yaml"},
			"",
			[]string{"b.yaml:1: toolgate: only the first file may have settings; name this file first, as in `toolgate up b.yaml a.json`"},
		},
		{
			"settings in both",
			map[string]string{"a.yaml": "mcpServers:\n  x: { command: x }\ntoolgate:\n  gate: { open: true }\n", "b.yaml": "toolgate:\n  gate: { open: true }\n"},
			[]string{"b.yaml"},
			"",
			[]string{"b.yaml:1: toolgate: only the first file may have settings, and a.yaml:4 has some; move these settings there"},
		},
		{"a native tool and a server", map[string]string{"a.yaml": "toolgate:\n  native:\n    system: {}\n", "b.json": `{"mcpServers": {"system": {"command": "x"}}}`}, []string{"b.json"}, "", []string{`the server "system" (b.json:1) has the same name`}},
		{"the reserved name", map[string]string{"a.json": one, "b.json": `{"mcpServers": {"toolgate": {"command": "x"}}}`}, []string{"b.json"}, "", []string{"b.json:1: servers.toolgate: the name toolgate is that of toolgate's own tools"}},
		{"a file that is not there", map[string]string{"a.json": one}, []string{"b.json"}, "", []string{"b.json: there is no such file"}},
		{"a file twice", map[string]string{"a.json": one}, []string{"./a.json"}, "", []string{"./a.json: the file is named twice; name each file once"}},
		{"a list", map[string]string{"a.json": one, "b.json": "[]"}, []string{"b.json"}, "", []string{"b.json:1: the document is a list, not a map"}},
		{"faults in each", map[string]string{"a.json": `{"mcpServers": {"": {}}}`, "b.json": `{"mcpServers": {"": {}}}`}, []string{"b.json"}, "", []string{"a.json:1: ", "b.json:1: "}},
		{"too many", map[string]string{"a.json": one, "b.json": clock}, slices.Repeat([]string{"b.json"}, config.MaxFiles), "", []string{"at most 32 files"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			first := "a.json"
			for name, text := range tt.files {
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				if strings.HasPrefix(name, "a.") {
					first = name
				}
			}
			opts := config.Options{}
			for _, path := range tt.with {
				opts.With = append(opts.With, config.Further{Path: path})
			}
			c, err := config.Load(first, opts)
			if (err != nil) != (len(tt.want) > 0) {
				t.Fatalf("%v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\ndoes not contain %s", err, want)
				}
			}
			if err != nil {
				return
			}
			var got []string
			for _, s := range c.Servers {
				name := s.Key
				if s.Namespace != s.Key {
					name += "=" + s.Namespace
				}
				got = append(got, name)
			}
			if strings.Join(got, " ") != tt.servers {
				t.Errorf("servers %v, want %s", got, tt.servers)
			}
		})
	}
}

// TestLoadSeveralKeepsFilesApart looks variables, sums and watched files up for each file.
func TestLoadSeveralKeepsFilesApart(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.json"), filepath.Join(dir, "b.json")
	text := map[string]string{
		a: `{"mcpServers": {"one": {"command": "${WHO}"}, "toolgate": {"command": "toolgate", "args": ["stdio"]}}}`,
		b: `{"mcpServers": {"two": {"command": "${WHO}", "agrs": []}}}`,
	}
	for path, s := range text {
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	is := func(who string) func(string) (string, bool) {
		return func(name string) (string, bool) { return who, name == "WHO" }
	}
	c, err := config.Load(a, config.Options{LookupEnv: is("alice"), With: []config.Further{{Path: b, LookupEnv: is("bob")}}})
	if err != nil {
		t.Fatal(err)
	}
	one, _ := c.Server("one")
	two, _ := c.Server("two")
	if one.Command != "alice" || two.Command != "bob" || one.File != a || two.File != b {
		t.Errorf("one runs %q of %s, two runs %q of %s", one.Command, one.File, two.Command, two.File)
	}
	if !slices.Equal(c.Files, []string{a, b}) {
		t.Errorf("files %v", c.Files)
	}
	if c.Sum != config.Sum([]byte(text[a])) || !slices.Equal(c.With, []config.Source{{Path: b, Sum: config.Sum([]byte(text[b]))}}) {
		t.Errorf("sum %s, with %v", c.Sum, c.With)
	}
	if len(c.Skipped) != 1 || c.Skipped[0].File != a {
		t.Errorf("skipped %v", c.Skipped)
	}
	if len(c.Warnings) != 1 || c.Warnings[0].File != b {
		t.Errorf("warnings %v", c.Warnings)
	}
	if got := c.Origin("servers.two.command"); got.File != b {
		t.Errorf("the origin of the command is %s", got)
	}
}
