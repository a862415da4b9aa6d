//go:build !windows

package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/toolgate/toolgate/cmd/toolgate/demo"
	"github.com/toolgate/toolgate/cmd/toolgate/settings"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/version"
)

func TestListOutputs(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"b": fake("one"), "a": fake("tools=3"), "off": {"url": "https://example.invalid/mcp", "disabled": true}}, nil)
	h.up(t)

	table := h.ok(t, "ls", h.file)
	wide := h.ok(t, "ls", h.file, "-o", "wide")
	for name, tt := range map[string]struct{ got, pattern string }{
		"table": {table, `(?m)\ASERVER  KIND   STATE     TOOLS  TOKENS  IN STATE +REASON\n` +
			`a       stdio  ready     3      \d+ +\d.*\n` +
			`b       stdio  ready     6      \d+ +\d.*\n` +
			`off     http   disabled  0      0 +\d.* switched off in the configuration\n\z`},
		"wide": {wide, `(?m)REASON +NAMESPACE  ERA +PROTOCOL +PROMPTS  RESOURCES  SANDBOX\n(?s:.*)^a .* a +legacy +2025-11-25 +0 +0 +none$`},
	} {
		if !regexp.MustCompile(tt.pattern).MatchString(tt.got) {
			t.Errorf("%s is not like %s\n%s", name, tt.pattern, tt.got)
		}
		if strings.Contains(tt.got, "\x1b") {
			t.Errorf("%s has control codes: %q", name, tt.got)
		}
	}
	if got := h.ok(t, "ls", h.file, "-o", "name"); got != "a\nb\noff\n" {
		t.Errorf("name: %q", got)
	}
	var fromJSON, fromYAML struct {
		Servers []admin.Server
	}
	if err := json.Unmarshal([]byte(h.ok(t, "list", h.file, "-o", "json")), &fromJSON); err != nil {
		t.Fatal(err)
	}
	var generic any
	if err := yaml.Unmarshal([]byte(h.ok(t, "ls", h.file, "-o", "yaml")), &generic); err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(generic)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(asJSON, &fromYAML); err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]admin.Server{fromJSON.Servers, fromYAML.Servers} {
		for i := range list {
			list[i].Seconds, list[i].Tokens = 0, 0
		}
	}
	want := []admin.Server{
		{Name: "a", Namespace: "a", Kind: "stdio", State: "ready", Era: "legacy", Version: "2025-11-25", Tools: 3, Sandbox: "none"},
		{Name: "b", Namespace: "b", Kind: "stdio", State: "ready", Era: "legacy", Version: "2025-11-25", Tools: 6, Sandbox: "none"},
		{Name: "off", Namespace: "off", Kind: "http", State: "disabled", Reason: "switched off in the configuration"},
	}
	if diff := cmp.Diff(want, fromJSON.Servers); diff != "" {
		t.Errorf("json (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, fromYAML.Servers); diff != "" {
		t.Errorf("yaml (-want +got):\n%s", diff)
	}
	h.env["TOOLGATE_OUTPUT"] = "name"
	if got := h.ok(t, "ls", h.file); got != "a\nb\noff\n" {
		t.Errorf("TOOLGATE_OUTPUT: %q", got)
	}
}

func TestToolsOutputs(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, nil)
	h.up(t)
	table := h.ok(t, "tools", h.file)
	pattern := `(?m)\ATOOL +TOKENS  READ-ONLY  DESCRIPTION\na__echo +\d+ +-\n(?s:.*)^a__pid +\d+ +yes +Tell the process id\n(?s:.*)^a__slow +\d+ +no +Wait for a file\n6 tools, about \d+ tokens\n\z`
	if !regexp.MustCompile(pattern).MatchString(table) || strings.Contains(table, "\x1b") {
		t.Errorf("table: %q", table)
	}
	if got := h.ok(t, "tools", h.file, "-o", "name"); got != "a__echo\na__fail\na__fault\na__picture\na__pid\na__slow\n" {
		t.Errorf("name: %q", got)
	}
	var list struct {
		Tools []struct {
			Name     string
			Tokens   int
			ReadOnly *bool `json:"read_only"`
		}
		Tokens   int
		Warnings []string
	}
	if err := json.Unmarshal([]byte(h.ok(t, "tools", h.file, "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, tool := range list.Tools {
		total += tool.Tokens
		if tool.Tokens < 5 {
			t.Errorf("%s costs %d tokens", tool.Name, tool.Tokens)
		}
	}
	if len(list.Tools) != 6 || total != list.Tokens || list.Warnings == nil || len(list.Warnings) != 0 || list.Tools[0].ReadOnly != nil {
		t.Errorf("json: %+v", list)
	}
}

func TestToolsWarnsOfClientsLimits(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("tools=90", "long=44")}, nil)
	o := h.run(t, "tools", h.file)
	if o.code != exitOK || strings.Contains(o.stdout, "warning") {
		t.Errorf("%+v", o)
	}
	if !strings.Contains(o.stderr, "warning: Cursor accepts at most 80 tools; this list has 91\n") {
		t.Errorf("stderr: %s", o.stderr)
	}
	if o := h.run(t, "tools", h.file, "-o", "name"); o.stderr != "" {
		t.Errorf("names for a program, with %q", o.stderr)
	}
}

func TestCall(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one"), "broken": fake("broken=" + program)}, nil)
	h.up(t)
	tests := []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string // what they contain; empty is empty
	}{
		{"arguments of all kinds", []string{"a__echo", "n=9007199254740993", "s=text", "q=\"1\"", "l=[1, 2]", "e=", "b=true"}, exitOK, `{"b":true,"e":"","l":[1, 2],"q":"1","s":"text","n":9007199254740993}`, ""},
		{"an object", []string{"a__echo", "--json", `{"x":{"y":1e400}}`, "z==1"}, exitOK, `{"z":"=1","x":{"y":1e400}}`, ""},
		{"a pair replaces a member", []string{"a__echo", "--json", `{"x":1}`, "x=2"}, exitOK, `{"x":2}`, ""},
		{"as JSON", []string{"a__picture", "-o", "json"}, exitOK, `"mimeType": "image/png"`, ""},
		{"as YAML", []string{"a__picture", "-o", "yaml"}, exitOK, "mimeType: image/png\n", ""},
		{"no text", []string{"a__picture"}, exitOK, "[image, ", ""},
		{"the tool's error", []string{"a__fail"}, exitTool, "it did not work\n", "the tool reports an error"},
		{"the server's error", []string{"a__fault"}, exitTool, "", "not here"},
		{"no such tool", []string{"a__absent"}, exitTool, "", "Unknown tool: a__absent"},
		{"no tool", nil, exitUsage, "", "lacks an argument"},
		{"no pair", []string{"a__echo", "x"}, exitUsage, "", `"x" is not NAME=VALUE`},
		{"no name", []string{"a__echo", "=x"}, exitUsage, "", "is not NAME=VALUE"},
		{"no object", []string{"a__echo", "--json", "[]"}, exitUsage, "", "--json must be a JSON object"},
		{"no JSON", []string{"a__echo", "--json", "{"}, exitUsage, "", "--json must be a JSON object"},
		{"unknown output", []string{"a__slow", "-o", "xml"}, exitUsage, "", `unknown output "xml"`},
	}
	for _, tt := range tests {
		o := h.run(t, append([]string{"call", "--file", h.file}, tt.args...)...)
		contains := func(got, want string) bool { return strings.Contains(got, want) && (want != "" || got == "") }
		if o.code != tt.code || !contains(o.stdout, tt.stdout) || !contains(o.stderr, tt.stderr) {
			t.Errorf("%s: %+v", tt.name, o)
		}
	}
}

// A call whose server is gone has the exit code of what cannot be reached.
func TestCallOfAnUnreachableServer(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	broken := h.path("broken")
	h.write(t, servers{"a": fake("broken=" + broken)}, nil)
	h.ok(t, "tools", h.file) // keeps its catalog
	if err := os.WriteFile(broken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := h.run(t, "call", "a__pid", "--file", h.file)
	if o.code != exitUnreachable || !strings.Contains(o.stdout, "a") {
		t.Errorf("%+v", o)
	}
	var list struct{ Servers []admin.Server }
	if err := json.Unmarshal([]byte(h.ok(t, "ls", h.file, "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Servers) != 1 || list.Servers[0].State != "stale" || list.Servers[0].Tools != 6 {
		t.Errorf("%+v", list)
	}
}

func TestRefusedExit(t *testing.T) {
	for kind, want := range map[string]int{
		"denied": exitDenied, "insufficient_scope": exitDenied, "approval_pending": exitDenied, "approval_denied": exitDenied, "policy_error": exitDenied, "authz_unavailable": exitDenied,
		"budget": exitBudget, "rate_limited": exitBudget, "repeated_call": exitBudget, "too_many_calls": exitBudget, "breaker_open": exitBreaker, "needs_login": exitAuth,
		"upstream_unavailable": exitUnreachable, "upstream_timeout": exitUnreachable, "upstream_busy": exitUnreachable, "upstream_disabled": exitUnreachable,
		"upstream_error": exitTool, "upstream_too_large": exitTool, "invalid_arguments": exitTool, "": exitTool, "what comes later": exitTool,
	} {
		refusal := fmt.Appendf(nil, `{"kind":%q}`, kind)
		if got := report(refusedExit(refusal, errTest)); got != want {
			t.Errorf("%s: exit code %d, want %d", kind, got, want)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": {"command": "x", "disabled": true}}, nil)
	for _, args := range [][]string{
		{"nothing"},
		{"ls", "--nothing"},
		{"ls", "a", "b"},
		{"ls", h.file, "-o", "xml"},
		{"up", h.file, "--set", "no-value"},
		{"version", "more"},
		{"ls", h.file, "--wait", "long"},
	} {
		if o := h.run(t, args...); o.code != exitUsage || o.stdout != "" || !strings.HasPrefix(o.stderr, "toolgate: ") {
			t.Errorf("%v: %+v", args, o)
		}
	}
	for _, args := range [][]string{
		{"ls", h.path("absent.json")},
		{"validate", "--config", h.path("absent.json")},
		{"validate", h.file, "--set", "lisen.http=x"},
		{"validate", h.file, "--set", "limits.body=much"},
		{"validate", h.file, "--set", "redis=x"},
	} {
		if o := h.run(t, args...); o.code != exitConfig || o.stdout != "" || !strings.HasPrefix(o.stderr, "toolgate: ") {
			t.Errorf("%v: %+v", args, o)
		}
	}
	if o := h.run(t, "ls", h.file, "--wait", "1s"); o.code != exitUnreachable || !strings.Contains(o.stderr, "no gateway is running") {
		t.Errorf("ls --wait without a gateway: %+v", o)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.env["SECRET"] = "hunter2"
	h.write(t, servers{
		"good": {"command": "npx", "args": []string{"-y", "${SECRET}"}}, "bad": {"url": "https://x/${UNSET_VARIABLE}"}, "off": {"command": "x", "disabled": true},
		"me": {"command": "toolgate", "args": []string{"stdio"}},
	}, nil)
	o := h.run(t, "validate", h.file)
	want := `(?m)\ASERVER  NAMESPACE  TRANSPORT  STATUS    TARGET +REASON\n` +
		`bad     bad        auto       refused   https://x/\$\{UNSET_VARIABLE\}  .*UNSET_VARIABLE.*\n` +
		`good    good       stdio      ok        npx -y \$\{SECRET\}\n` +
		`off     off        stdio      disabled  x\n\z`
	if o.code != exitConfig || !regexp.MustCompile(want).MatchString(o.stdout) {
		t.Errorf("%+v", o)
	}
	if !strings.Contains(o.stderr, "warning: me (line 1) is skipped: it starts toolgate itself\n") {
		t.Errorf("stderr: %s", o.stderr)
	}
	all := o.stdout + h.run(t, "validate", h.file, "-o", "json").stdout + h.ok(t, "config", "show", h.file, "-o", "yaml")
	if strings.Contains(all, "hunter2") {
		t.Errorf("a secret is shown: %s", all)
	}
	if got := h.run(t, "validate", h.file, "-o", "name").stdout; got != "bad\ngood\noff\n" {
		t.Errorf("name: %q", got)
	}
	h.write(t, servers{}, map[string]any{"auth": map[string]any{"keys": []any{map[string]any{"id": "a", "subject": "a", "sha256": sum("a")}}}})
	if o := h.run(t, "validate", h.file); o.code != exitConfig || !strings.Contains(o.stderr, "gate: { open: true }") {
		t.Errorf("nothing decides: %+v", o)
	}
}

func TestConfigShow(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": {"command": "x", "disabled": true}}, map[string]any{"limits": map[string]any{"body": "1MiB", "line": "1MiB", "result": "1MiB"}})
	h.env["TOOLGATE_LIMITS_LINE"] = "2MiB"
	h.env["TOOLGATE_LIMITS_RESULT"] = "2MiB"
	shown := func(args ...string) map[string]settings.Setting {
		t.Helper()
		var out struct{ Settings []settings.Setting }
		if err := json.Unmarshal([]byte(h.ok(t, append([]string{"config", "show", h.file, "-o", "json"}, args...)...)), &out); err != nil {
			t.Fatal(err)
		}
		by := make(map[string]settings.Setting, len(out.Settings))
		for _, s := range out.Settings {
			by[s.Path] = s
		}
		return by
	}
	got := shown("--all", "--origin", "--set", "limits.result=3MiB", "--set", "servers.a.namespace=zz")
	for path, want := range map[string][2]string{
		"limits.body":         {"1MiB", "toolgate.yaml:1"},
		"limits.line":         {"2MiB", "TOOLGATE_LIMITS_LINE"},
		"limits.result":       {"3MiB", "limits.result"},
		"limits.depth":        {"128", "default"},
		"listen.http":         {"127.0.0.1:0", "TOOLGATE_LISTEN_HTTP"},
		"servers.a.namespace": {`"zz"`, ""},
		"servers.a.target":    {"x", ""},
	} {
		if s, ok := got[path]; !ok || s.Value != want[0] || !strings.Contains(s.Origin, want[1]) {
			t.Errorf("%s: %+v, want %v", path, s, want)
		}
	}
	if s := shown()["limits.body"]; s.Origin != "" || s.Value != "1MiB" {
		t.Errorf("without --origin: %+v", s)
	}
	if table := h.ok(t, "config", "show", h.file, "--origin"); !regexp.MustCompile(`(?m)\ASETTING +VALUE +ORIGIN\n(?s:.*)^limits\.body +1MiB +.*toolgate\.yaml:1$`).MatchString(table) {
		t.Errorf("table: %s", table)
	}
	var schema map[string]any
	if err := json.Unmarshal([]byte(h.ok(t, "config", "schema")), &schema); err != nil || schema["$schema"] == nil {
		t.Errorf("schema: %v", err)
	}
}

// The file is the argument, else --config, else TOOLGATE_CONFIG, else
// ./toolgate.yaml, else the user's, else there is none.
func TestWhichFile(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for _, name := range []string{"argument.json", "flag.json", "variable.json", "toolgate.yaml", "config/toolgate/toolgate.yaml"} {
		if err := os.MkdirAll(h.path("config/toolgate"), 0o700); err != nil {
			t.Fatal(err)
		}
		server := "of-" + strings.ReplaceAll(strings.NewReplacer("/", "-", ".", "-").Replace(name), "-yaml", "")
		if err := os.WriteFile(h.path(name), fmt.Appendf(nil, `{"mcpServers":{%q:{"command":"x"}}}`, server), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found := func(args ...string) string {
		t.Helper()
		return strings.TrimSpace(h.ok(t, append([]string{"validate", "-o", "name"}, args...)...))
	}
	h.env["TOOLGATE_CONFIG"] = h.path("variable.json")
	for _, step := range []struct {
		args []string
		then func()
		want string
	}{
		{[]string{"argument.json", "--config", "flag.json"}, nil, "of-argument-json"},
		{[]string{"--config", "flag.json"}, nil, "of-flag-json"},
		{nil, func() { delete(h.env, "TOOLGATE_CONFIG") }, "of-variable-json"},
		{nil, func() { _ = os.Remove(h.file) }, "of-toolgate"},
		{nil, func() { _ = os.Remove(h.path("config/toolgate/toolgate.yaml")) }, "of-config-toolgate-toolgate"},
		{nil, nil, demo.Name},
	} {
		if got := found(step.args...); got != step.want {
			t.Errorf("%v: %s, want %s", step.args, got, step.want)
		}
		if step.then != nil {
			step.then()
		}
	}
}

func TestVersionKeyAndCompletion(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	if got := h.ok(t, "version"); !regexp.MustCompile(`\Atoolgate ` + regexp.QuoteMeta(version.Version) + `( [0-9a-f]+)? go\S+ \w+/\w+\n\z`).MatchString(got) {
		t.Errorf("version: %q", got)
	}
	found := regexp.MustCompile(`\Akey     (tgk_\S+)\nsha256  ([0-9a-f]{64})\n\z`).FindStringSubmatch(h.ok(t, "key", "new"))
	if found == nil || sum(found[1]) != found[2] {
		t.Errorf("key: %q", found)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := h.ok(t, "completion", shell); !strings.Contains(got, "toolgate") {
			t.Errorf("%s: %d bytes", shell, len(got))
		}
	}
	if got := h.ok(t, "__complete", "ls", "-o", ""); got != "table\nwide\njson\nyaml\nname\n:4\n" {
		t.Errorf("values of -o: %q", got)
	}
}

// A gateway that is just starting, or a command that is just at work, is waited
// for.
func TestCommandsAtTheSameTime(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, nil)
	const many = 3
	all := make([]*process, many)
	for i := range all {
		all[i] = h.start(t, "call", "a__pid", "--file", h.file)
	}
	for _, p := range all {
		if code := p.wait(t); code != exitOK || strings.TrimSpace(p.out.String()) == "" {
			t.Errorf("exit code %d: %s%s", code, p.out, p.err)
		}
	}
}

// Who answers on the socket, and how, decides the exit code.
func TestControlSocketFaults(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, nil)
	h.up(t)
	if err := os.WriteFile(h.stateFile(t, "admin.token"), []byte("another\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"ls", h.file}, {"tools", h.file}, {"call", "a__pid", "--file", h.file}, {"reload", h.file}, {"stdio", h.file}} {
		if o := h.run(t, args...); o.code != exitAuth || o.stdout != "" || !strings.Contains(o.stderr, "admin token") {
			t.Errorf("%v: %+v", args, o)
		}
	}
}
