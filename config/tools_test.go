package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func toolsOf(t *testing.T, dir, section string) (*Config, error) {
	t.Helper()
	path := filepath.Join(dir, "toolgate.yaml")
	if err := os.WriteFile(path, []byte("mcpServers: { a: { command: x } }\ntoolgate:\n"+section), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(path, Options{LookupEnv: func(name string) (string, bool) { return "value of " + name, name == "TOKEN" }})
}

func TestDeclaredTools(t *testing.T) {
	dir := t.TempDir()
	inner := filepath.Join(dir, "inner")
	if err := os.Mkdir(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(inner, "more.json"), []byte(`{"tools":[{"name":"two","type":"command","args":["ls","$HOME"],"cwd":"here","env":{"T":"${TOKEN}"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := toolsOf(t, dir, `  tools: [{ name: one, type: http, url: "https://a.example/${TOKEN}", headers: { H: "Bearer ${TOKEN}" } }]
  tool_files: [inner/more.json]
`)
	if err != nil {
		t.Fatal(err)
	}
	one, two := c.Toolgate.Tools[0], c.Toolgate.Tools[1]
	if one.Namespace != "tools" || one.Headers["H"].Reveal() != "Bearer value of TOKEN" || one.URL != "https://a.example/${TOKEN}" {
		t.Errorf("%+v", one)
	}
	if two.Name != "two" || two.Namespace != "tools" || two.Args[1] != "$HOME" || two.Cwd != filepath.Join(inner, "here") || two.Env["T"].Reveal() != "value of TOKEN" {
		t.Errorf("%+v", two)
	}
	if got := strings.Join(c.Files, " "); !strings.Contains(got, filepath.Join(inner, "more.json")) {
		t.Errorf("the file is not watched: %s", got)
	}
	other, err := toolsOf(t, dir, "  tool_files: [inner/more.json]\n")
	if err != nil {
		t.Fatal(err)
	}
	kept, pending := Merge(c, other)
	if len(pending) == 0 || len(kept.Toolgate.Tools) != 2 {
		t.Errorf("a reload that nobody asked for changes tools: %v", pending)
	}
}

func TestDeclaredToolsThatAreWrong(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"list.yaml": "[]", "none.yaml": "tool: []", "same.yaml": "tools: [{ name: x, type: command, args: [ls] }]"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for section, want := range map[string]string{
		"  tools: [{ name: x, type: http }]":                                                       "tools[0].url: is required and missing",
		"  tools: [{ name: x, type: command }]":                                                    "tools[0].args: is required and missing",
		"  tools: [{ name: x, type: shell, args: [ls] }]":                                          "is not one of http, command",
		"  tools: [{ name: x, type: command, args: [ls], url: 'https://a.example' }]":              "tools[0].url: it is of tools with type: http",
		"  tools: [{ name: x, type: http, url: 'https://a.example', args: [ls] }]":                 "tools[0].args: it is of tools with type: command",
		"  tools: [{ name: x, type: command, args: [ls], namespace: a }]":                          "is that of the server a",
		"  tools: [{ name: x, type: command, args: [ls], namespace: toolgate }]":                   "the gateway's own",
		"  tools: [{ name: x, type: command, args: [ls], namespace: '' }]":                         "need a namespace",
		"  tools: [{ name: " + strings.Repeat("x", 39) + ", type: command, args: [ls] }]":          "more than 45 characters",
		"  tools: [{ name: x, type: command, args: [ls] }, { name: x, type: command, args: [w] }]": "there are two tools x",
		"  tools: [{ name: x, type: command, args: [ls] }]\n  tool_files: [same.yaml]":             "there are two tools x",
		"  tool_files: [missing.yaml]":                                                             "tool_files[0]: it cannot be read",
		"  tool_files: [list.yaml]":                                                                "expected a map",
		"  tool_files: [none.yaml]":                                                                "write tools instead",
		"  tools: [{ name: x, type: http, url: 'https://a.example', headers: { A: '${NONE}' } }]":  "NONE",
		"  tools: [{ name: x, type: command, args: [ls], input_schema: [] }]":                      "expected a map",
		"  queue: { workers: 0 }":                                                                  "queue.workers",
	} {
		if _, err := toolsOf(t, dir, section+"\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", section, err, want)
		}
	}
}
