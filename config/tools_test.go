package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate/governance"
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

// What is granted by a relative path is beside the file that grants it, wherever the
// gateway is started from.
func TestRelativeGrants(t *testing.T) {
	dir := t.TempDir()
	inner := filepath.Join(dir, "inner")
	if err := os.Mkdir(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	grants := "read: [r], write: [./w], run: [../x]"
	if err := os.WriteFile(filepath.Join(inner, "more.yaml"), []byte("tools: [{ name: two, type: command, args: [ls], "+grants+" }]"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := toolsOf(t, dir, `  tools: [{ name: one, type: command, args: [ls], `+grants+` }]
  tool_files: [inner/more.yaml]
  native: { plugins: { p: { path: bin/p, sha256: `+strings.Repeat("ab", 32)+`, `+grants+` } } }
`)
	if err != nil {
		t.Fatal(err)
	}
	one, two, p := c.Toolgate.Tools[0], c.Toolgate.Tools[1], c.Toolgate.Native.Plugins["p"]
	if want := filepath.Join(dir, "bin", "p"); p.Path != want {
		t.Errorf("the plugin is %s, not %s", p.Path, want)
	}
	for name, tc := range map[string]struct {
		from string
		got  []string
	}{
		"the configuration": {dir, []string{one.Read[0], one.Write[0], one.Run[0]}},
		"a file of tools":   {inner, []string{two.Read[0], two.Write[0], two.Run[0]}},
		"a plugin":          {dir, []string{p.Read[0], p.Write[0], p.Run[0]}},
	} {
		for i, rel := range []string{"r", "w", "../x"} {
			if want := filepath.Join(tc.from, rel); tc.got[i] != want {
				t.Errorf("%s: %s, not %s", name, tc.got[i], want)
			}
		}
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
		"  tools: [{ name: x, type: http }]":                                                                         "tools[0].url: is required and missing",
		"  tools: [{ name: x, type: command }]":                                                                      "tools[0].args: is required and missing",
		"  tools: [{ name: x, type: shell, args: [ls] }]":                                                            "is not one of http, command",
		"  tools: [{ name: x, type: command, args: [ls], url: 'https://a.example' }]":                                "tools[0].url: it is of tools with type: http",
		"  tools: [{ name: x, type: http, url: 'https://a.example', args: [ls] }]":                                   "tools[0].args: it is of tools with type: command",
		"  tools: [{ name: x, type: command, args: [ls], namespace: a }]":                                            "is that of the server a",
		"  tools: [{ name: x, type: command, args: [ls], namespace: toolgate }]":                                     "the gateway's own",
		"  tools: [{ name: x, type: command, args: [ls], namespace: '' }]":                                           "need a namespace",
		"  tools: [{ name: " + strings.Repeat("x", 39) + ", type: command, args: [ls] }]":                            "more than 45 characters",
		"  tools: [{ name: x, type: command, args: [ls] }, { name: x, type: command, args: [w] }]":                   "there are two tools x",
		"  tools: [{ name: x, type: command, args: [ls] }]\n  tool_files: [same.yaml]":                               "there are two tools x",
		"  tools: [{ name: x, type: command, args: [ls] }]\n  servers: { tools: { tools: { x: { timeout: 1s } } } }": "in each tool under tools",
		"  tool_files: [same.yaml]\n  servers: { tools: { timeouts: { call: 1s } } }":                                "in each tool under tools",
		"  tool_files: [missing.yaml]":                                                                               "tool_files[0]: it cannot be read",
		"  tool_files: [list.yaml]":                                                                                  "expected a map",
		"  tool_files: [none.yaml]":                                                                                  "write tools instead",
		"  tools: [{ name: x, type: http, url: 'https://a.example', headers: { A: '${NONE}' } }]":                    "NONE",
		"  tools: [{ name: x, type: command, args: [ls], input_schema: [] }]":                                        "expected a map",
		"  queue: { workers: 0 }":                                                                                    "queue.workers",
	} {
		if _, err := toolsOf(t, dir, section+"\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", section, err, want)
		}
	}
}

// A document that is no file of this machine is read by the same rules, and
// neither names its variables nor means folders of its own.
func TestParseTools(t *testing.T) {
	for text, want := range map[string]string{
		"tools: [{ name: x, type: http, url: 'https://a.example', headers: { A: 'Bearer plain' } }]":    "",
		`{"tools":[{"name":"x","type":"command","args":["/usr/bin/wc","{{"],"read":["/usr/share"]}]}`:   "",
		"tools: [{ name: x, type: http, url: 'https://a.example', headers: { A: 'Bearer ${TOKEN}' } }]": "variables are of files of this machine",
		"tools: [{ name: x, type: http, url: 'https://a.example', query: { A: '${TOKEN:-default}' } }]": "variables are of files of this machine",
		"tools: [{ name: x, type: command, args: [ls], env: { A: '${{ secrets.TOKEN }}' } }]":           "variables are of files of this machine",
		"tools: [{ name: x, type: command, args: [ls], env: { A: '${input:a}' } }]":                     "variables are of files of this machine",
		"tools: [{ name: x, type: command, args: [ls], cwd: '${userHome}' }]":                           "variables are of files of this machine",
		"tools: [{ name: x, type: command, args: [ls], cwd: '~/x' }]":                                   "is relative",
		"tools: [{ name: x, type: command, args: [ls], read: [../x] }]":                                 "is relative",
		"tools: [{ name: x, type: command, args: [bin/x] }]":                                            "is relative",
		"tools: [{ name: x, type: command, args: [ls], url: 'https://a.example' }]":                     "it is of tools with type: http",
		"tools: [{ name: x, type: command, argv: [ls] }]":                                               "argv",
		"tool_files: [/etc/passwd]": "tool_files",
		"tools: {}":                 "expected a list",
		"[]":                        "expected a map",
		"tools: [":                  "1",
		"tools: [{ name: x, namespace: toolgate, type: command, args: [ls] }]":                               "the gateway's own",
		"tools: [{ name: x, namespace: a, type: command, args: [ls] }]":                                      "is that of the server a",
		"tools: [{ name: taken, type: command, args: [ls] }]":                                                "there are two tools taken",
		"tools: [{ name: x, type: command, args: [ls] }, { name: x, type: http, url: 'https://a.example' }]": "there are two tools x",
	} {
		c, err := toolsOf(t, t.TempDir(), "  tools: [{ name: taken, type: command, args: [ls] }]\n")
		if err != nil {
			t.Fatal(err)
		}
		tools, err := ParseTools("https://a.example/tools.yaml", []byte(text))
		if err == nil {
			err = c.CheckTools(tools)
		}
		if want == "" && (err != nil || len(tools) != 1) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
}

func TestToolURLs(t *testing.T) {
	hash := strings.Repeat("0a", 32)
	for section, want := range map[string]string{
		"  tool_urls: [{ url: 'https://a.example/t.yaml', refresh: 1h }]":                                     "",
		"  tool_urls: [{ url: 'http://a.example/t.yaml', sha256: " + hash + " }]":                             "",
		"  tool_urls: [{ url: 'http://127.0.0.1:80/t.yaml' }, { url: 'http://localhost/t.yaml' }]":            "",
		"  tool_urls: [{ url: 'http://a.example/t.yaml' }]":                                                   "write https, or the sha256",
		"  tool_urls: [{ url: 'http://10.0.0.1/t.yaml' }]":                                                    "write https, or the sha256",
		"  tool_urls: [{ url: 'file:///etc/passwd' }]":                                                        "tool_urls[0].url",
		"  tool_urls: [{ url: 'https://a.example/{x}' }]":                                                     "no places",
		"  tool_urls: [{ url: 'https://a.example/x', sha256: abc }]":                                          "SHA-256",
		"  tool_urls: [{ url: 'https://a.example/x', refresh: 1ms }]":                                         "too small",
		"  tool_urls: [{ sha256: " + hash + " }]":                                                             "tool_urls[0].url",
		"  tool_urls: [{ url: 'https://a.example/x', hash: x }]":                                              "hash",
		"  tool_urls: [{ url: 'https://a.example/x' }, { url: 'https://a.example/x', sha256: " + hash + " }]": "the same url",
		"  tool_urls: ['https://a.example/x']":                                                                "expected a map",
	} {
		c, err := toolsOf(t, t.TempDir(), section+"\n")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v; want %s", section, err, want)
		}
		if want != "" || err != nil {
			continue
		}
		other, err := toolsOf(t, t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		if kept, pending := Merge(other, c); len(pending) == 0 || len(kept.Toolgate.ToolURLs) != 0 {
			t.Errorf("a reload that nobody asked for takes addresses: %v", pending)
		}
	}
}

// The words of other governance files mean settings of ours.
func TestGovernanceSynonyms(t *testing.T) {
	t.Parallel()
	c, err := Parse("toolgate.yaml", []byte(`
toolgate:
  governance:
    tools:
      write_file:
        category: "system_write"
        risk_level: high
        allowed_modes: ["NORMAL"]
        requires_approval_in_modes: ["ALERT", "DEGRADED", "RECOVERY"]
        forbidden_in_modes: ["LOCKDOWN"]
        requires_approval: true
        max_file_size_mb: 10
`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := c.Toolgate.Governance.Tools["write_file"]
	if got.Risk != governance.High || !slices.Equal(got.AllowedInModes, []governance.Mode{governance.Normal}) || got.MaxBytes != 10_000_000 || !got.RequiresApproval {
		t.Errorf("%+v", got)
	}
	if at := c.Origin("governance.tools.write_file.max_bytes"); at.Line != 12 {
		t.Errorf("the size is from %s", at)
	}
}
