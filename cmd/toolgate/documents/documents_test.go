package documents_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/cmd/toolgate/documents"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate/governance"
)

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestKinds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]documents.Kind{
		"tools: { a: { risk_level: low } }":                           documents.Rules,
		"tools: [{ name: a }]":                                        documents.Tools,
		"mcpServers: { a: { command: b } }":                           documents.Other,
		"mcpServers: { a: { command: b } }\ntools: {}":                documents.Other,
		"toolgate: { governance: { tools: {} } }\ntools: { a: {} }\n": documents.Other,
		"tools: 7": documents.Other,
		"a: [":     documents.Other,
	} {
		if got := documents.Of(file(t, "x.yaml", text)); got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
	if got := documents.Of(filepath.Join(t.TempDir(), "none")); got != documents.Other {
		t.Errorf("a file that is not there is %q", got)
	}
}

const governed = `tools:
  write_file:
    category: "system_write"
    risk_level: high
    allowed_in_modes: ["NORMAL"]
    requires_approval_in_modes: ["ALERT", "DEGRADED", "RECOVERY"]
    forbidden_in_modes: ["LOCKDOWN"]
    allowed_paths:
      - "$HOME/work/**"
      - "./notes/**"
      - "drafts/**"
    forbidden_paths:
      - "/System/**"
      - ".ssh"
    max_file_size_mb: 10
  read_file: { category: read_only, risk_level: low }
`

// The rules of a file are in the configuration afterwards, in its words, and mean the same.
func TestAddRules(t *testing.T) {
	t.Parallel()
	doc := file(t, "governance.yaml", governed)
	for name, before := range map[string]string{
		"toolgate.yaml": "# mine\nmcpServers:\n  a: { command: b }\ntoolgate:\n  log: { level: warn }\n",
		"mcp.json":      "{\n  \"mcpServers\": { \"a\": { \"command\": \"b\" } }\n}\n",
		"new.yaml":      "",
	} {
		target := filepath.Join(t.TempDir(), name)
		rules, after, err := documents.AddRules(doc, "fs__", target, []byte(before))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := []documents.Rule{
			{Name: "fs__write_file", File: doc, Line: 2, Action: documents.New},
			{Name: "fs__read_file", File: doc, Line: 16, Action: documents.New},
		}
		if diff := cmp.Diff(want, rules); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		c, err := config.Parse(target, after, config.Options{})
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, after)
			continue
		}
		dir := filepath.ToSlash(filepath.Dir(doc))
		diff := cmp.Diff(map[string]governance.Tool{
			"fs__write_file": {
				Category: "system_write", Risk: governance.High, AllowedInModes: []governance.Mode{"NORMAL"},
				RequiresApprovalInModes: []governance.Mode{"ALERT", "DEGRADED", "RECOVERY"}, ForbiddenInModes: []governance.Mode{"LOCKDOWN"},
				AllowedPaths:   []string{"$HOME/work/**", dir + "/notes/**", dir + "/drafts/**"},
				ForbiddenPaths: []string{"/System/**", ".ssh"}, MaxBytes: 10_000_000,
			},
			"fs__read_file": {Category: "read_only", Risk: governance.Low},
		}, c.Toolgate.Governance.Tools)
		if diff != "" {
			t.Errorf("%s (-want +got):\n%s\n%s", name, diff, after)
		}
		again, same, err := documents.AddRules(doc, "fs__", target, after)
		if err != nil || string(same) != string(after) || again[0].Action != documents.There || again[1].Action != documents.There {
			t.Errorf("%s: again: %v, %v\n%s", name, again, err, same)
		}
	}
}

// A file with a line that cannot be kept is not taken at all, and each such line is named.
func TestRulesThatCannotBeKept(t *testing.T) {
	t.Parallel()
	doc := file(t, "governance.yaml", `version: 3
tools:
  write_file:
    risk_level: enormous
    timeout_seconds: 30
    rate_limit_per_hour: 5
    requires_sandbox: true
    allow_paths: [x]
  there: { risk: low }
`)
	rules, after, err := documents.AddRules(doc, "", "toolgate.yaml", []byte("toolgate:\n  governance:\n    tools:\n      there: { risk: high }\n"))
	if err == nil || rules != nil || after != nil {
		t.Fatalf("it was taken: %v\n%s", rules, after)
	}
	for _, want := range []string{
		":1: version: unknown key", ":4: tools.write_file.risk", ":5: tools.write_file.timeout_seconds", "timeout: 30s",
		":6: tools.write_file.rate_limit_per_hour", ":7: tools.write_file.requires_sandbox", ":8: tools.write_file.allow_paths", "allowed_paths",
		":9: tools.there: toolgate.yaml has another rule for there",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("it does not say %q:\n%v", want, err)
		}
	}
}

// A plan has everything of all documents, or nothing and all that is wrong with them.
func TestPlan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	rules := write("governance.yaml", governed)
	tools := write("tools.yaml", "tools:\n  - { name: now, tool_type: shell, implementation_config: { command: date } }\n")
	shell := write("shell.yaml", "tools:\n  - { name: gone, tool_type: shell, implementation_config: { command: \"rm {path}\" } }\n")
	servers := write("mcp.json", `{"mcpServers": {"a": {"command": "b"}}}`)
	target := filepath.Join(dir, "toolgate.yaml")

	items, after, err := documents.Plan([]string{rules, tools}, "", target, nil)
	want := []documents.Item{
		{Kind: documents.Rules, Name: "write_file", Action: documents.New, File: rules},
		{Kind: documents.Rules, Name: "read_file", Action: documents.New, File: rules},
		{Kind: documents.Tools, Name: "tools__now", Action: documents.AsIs, File: tools, Do: "write under toolgate: tool_files: [tools.yaml]"},
	}
	if diff := cmp.Diff(want, items); err != nil || diff != "" || !strings.Contains(string(after), "write_file") {
		t.Errorf("%v (-want +got):\n%s\n%s", err, diff, after)
	}
	items, _, err = documents.Plan([]string{tools}, "", target, []byte("toolgate: { tool_files: [tools.yaml] }\n"))
	if err != nil || len(items) != 1 || items[0].Do != "" {
		t.Errorf("a file that the configuration names: %+v, %v", items, err)
	}
	items, after, err = documents.Plan([]string{rules, shell, servers}, "", target, nil)
	if err == nil || items != nil || after != nil {
		t.Fatalf("half of it was planned: %v\n%s", items, after)
	}
	for _, want := range []string{"shell.yaml:2: tools[0]", `args: [rm, "{path}"]`, "mcp.json has servers"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("it does not say %q:\n%v", want, err)
		}
	}
}
