//go:build !windows

package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config"
)

// The documents of other tool systems are imported whole or not at all.
func TestImportDocuments(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	const before = "mcpServers:\n  a: { command: true-program }\ntoolgate:\n  log: { level: warn }\n"
	h.writeText(t, before)
	write := func(name, text string) string { return h.keep(t, name, text, 0o600) }
	rules := write("governance.yaml", "tools:\n  write_file: { risk_level: high, allowed_in_modes: [NORMAL], max_file_size_mb: 10 }\n")
	shell := write("tools.yaml", "tools:\n  - { name: gone, tool_type: shell, implementation_config: { command: \"rm {path}\" } }\n")
	o := h.run(t, "import", rules, shell, "--write", "--config", h.file)
	if o.code != exitConfig || !strings.Contains(o.stderr, "nothing is imported") || !strings.Contains(o.stderr, `tools.yaml:2`) {
		t.Errorf("a shell string: exit code %d, %s", o.code, o.stderr)
	}
	if o := h.run(t, "import", "--namespace", "fs", "--config", h.file); o.code != exitUsage {
		t.Errorf("a namespace for nothing: exit code %d, %s", o.code, o.stderr)
	}
	for name, want := range map[string]string{"gate.rego": "toolgate.opa.path", "gate.zed": "toolgate.spicedb.endpoint"} {
		if o := h.run(t, "import", write(name, "x"), "--write", "--config", h.file); o.code != exitConfig || !strings.Contains(o.stderr, "is not imported") || !strings.Contains(o.stderr, want) {
			t.Errorf("%s: exit code %d, %s", name, o.code, o.stderr)
		}
	}
	if now, err := os.ReadFile(h.file); err != nil || string(now) != before {
		t.Fatalf("the file has changed: %v\n%s", err, now)
	}
	if got := h.ok(t, "import", rules, "--namespace", "fs", "--write", "--config", h.file); !strings.Contains(got, "fs__write_file") {
		t.Errorf("import: %s", got)
	}
	after, err := os.ReadFile(h.file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse(h.file, after, config.Options{})
	if err != nil || c.Toolgate.Governance.Tools["fs__write_file"].MaxBytes != 10_000_000 {
		t.Errorf("the rule is not there: %v\n%s", err, after)
	}
}

// A list of tools as a request to a model has it is imported as the servers that it names,
// with their credentials beside the file, or every line that cannot be kept is named, also
// where the list is a configuration or in one.
func TestImportDefinitions(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	const before = "mcpServers:\n  a: { command: true-program }\n"
	h.writeText(t, before)
	write := func(name, text string) string { return h.keep(t, name, text, 0o600) }
	const server = `{"type": "mcp", "server_label": "docs", "server_url": "https://docs.example.com/mcp", "allowed_tools": ["search"], "authorization": "tok-12345678901234567890"}`
	good := write("request.json", `{"tools": [`+server+`]}`)
	bad := write("functions.json", `[`+server+`,
 {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]`)
	for _, files := range [][]string{{bad}, {good, bad}} {
		o := h.run(t, append([]string{"import", "--write", "--config", h.file}, files...)...)
		if o.code != exitConfig || !strings.Contains(o.stderr, "nothing is imported") || !strings.Contains(o.stderr, "functions.json:2: [1]") || !strings.Contains(o.stderr, "agent__run") {
			t.Errorf("%v: exit code %d, %s", files, o.code, o.stderr)
		}
	}
	if now, err := os.ReadFile(h.file); err != nil || string(now) != before {
		t.Fatalf("the file has changed: %v\n%s", err, now)
	}
	h.ok(t, "import", good, "--write", "--config", h.file)
	after, err := os.ReadFile(h.file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse(h.file, after, config.Options{Raw: true})
	if err != nil {
		t.Fatal(err)
	}
	docs, ok := c.Server("docs")
	if !ok || docs.URL != "https://docs.example.com/mcp" || len(docs.Include) != 1 || docs.Include[0] != "search" || strings.Contains(string(after), "tok-1234") {
		t.Errorf("it is not there, or with its token:\n%s", after)
	}
	for name, text := range map[string]string{
		"itself": `{"tools": [` + server + `]}`,
		"beside": `{"mcpServers": {"a": {"command": "b"}}, "tools": [` + server + `]}`,
		"inside": `{"toolgate": {"tools": [` + server + `]}}`,
	} {
		path := write(name+".json", text)
		if o := h.run(t, "validate", path); o.code != exitConfig || !strings.Contains(o.stderr, "tools[0]") || !strings.Contains(o.stderr, "write mcpServers: { docs: { url: https://docs.example.com/mcp } }") {
			t.Errorf("%s: exit code %d, %s", name, o.code, o.stderr)
		}
	}
}

// The tools of a caller are filtered by what the catalog says of them.
func TestToolsFilters(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, map[string]any{"governance": map[string]any{"tools": map[string]any{
		"a__echo": map[string]any{"category": "words", "risk": "low"}, "a__pid": map[string]any{"risk": "low"},
	}}})
	for filter, want := range map[string]string{"--category=words": "a__echo\n", "--risk=low": "a__echo\na__pid\n", "--category=none": ""} {
		if got := h.ok(t, "tools", filter, "-o", "name", "--config", h.file); got != want {
			t.Errorf("%s: %q, want %q", filter, got, want)
		}
	}
	if o := h.run(t, "tools", "--risk", "enormous", "--config", h.file); o.code != exitUsage || !strings.Contains(o.stderr, "low, medium or high") {
		t.Errorf("exit code %d, %s", o.code, o.stderr)
	}
}
