//go:build !windows

package cli

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/daemon/references"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/proxy"
)

func TestBegins(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		glob, beginning string
		want            bool
	}{
		{"gh__x", "gh__", true},
		{"gh__*", "gh__", true},
		{"gh*", "gh__", true},
		{"*", "gh__", true},
		{"*_delete", "gh__", true},
		{"??__x", "gh__", true},
		{"g?__", "gh__", true},
		{"gh__", "gh__", true},
		{"anything", "", true},
		{"", "", true},
		{"gt__x", "gh__", false},
		{"gh_", "gh__", false},
		{"", "gh__", false},
		{"?h", "gh__", false},
		{"x*", "gh__", false},
		{"gh?x*", "gh__", false},
	} {
		if got := references.Begins(tt.glob, tt.beginning); got != tt.want {
			t.Errorf("%q may begin with %q: %t", tt.glob, tt.beginning, got)
		}
	}
}

// A glob that covers a text may begin with all beginnings of it.
func FuzzBegins(f *testing.F) {
	f.Add("gh__*", "gh__x")
	f.Add("*a?b*", "xxaybz")
	f.Add("**?", "ab")
	f.Fuzz(func(t *testing.T, glob, text string) {
		if len(glob)+len(text) > 200 || !gate.Glob(glob).Match(text) {
			return
		}
		for i := range len(text) + 1 {
			if !references.Begins(glob, text[:i]) {
				t.Errorf("%q covers %q, but may not begin with %q", glob, text, text[:i])
			}
		}
	})
}

// naming is a section that names, in every place, what suffix makes of the tools
// pid and echo of server a, and what server is.
func (h *home) naming(t *testing.T, suffix, server string) map[string]any {
	t.Helper()
	pid, echo := "a__pid"+suffix, "a__echo"+suffix
	policy := h.path("policy")
	if err := os.MkdirAll(policy, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"p.rego": "package toolgate\n\ndefault decision := false\n\ndecision if not input.tool_name in data.global_tool_deny\n",
		// On one line each, so that the line says which.
		"data.json": "{\n\"global_tool_deny\":\n[\"" + echo + "\"]}",
	} {
		if err := os.WriteFile(policy+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	section := withKeys("k")
	delete(section, "gate")
	section["auth"].(map[string]any)["scopes"] = map[string]any{"required": []any{map[string]any{"match": echo, "scopes": "admin"}}}
	section["capsules"] = map[string]any{"c": map[string]any{"visible": []string{"*"}, "callable": []string{pid}, "groups": []string{"g"}}}
	section["find"] = map[string]any{"pins": []string{echo}}
	section["governance"] = map[string]any{"tools": map[string]any{pid: readOnly}}
	section["opa"] = map[string]any{"path": policy}
	section["spicedb"] = map[string]any{"builtin": map[string]any{
		"servers": map[string]any{server: map[string]any{"executors": []string{"user:k"}}},
		"tools":   map[string]any{pid: map[string]any{"owners": []string{"user:k"}}},
	}}
	return section
}

// findings are what validate says, by what it is about.
func (h *home) findings(t *testing.T) []string {
	t.Helper()
	o := h.run(t, "validate", h.file)
	if o.code != exitOK && o.code != exitConfig {
		t.Fatalf("exit code %d: %s", o.code, o.stderr)
	}
	var found []string
	for _, key := range []string{
		"auth.scopes.required", "capsules", "find.pins", "governance.tools", "data.global_tool_deny", "data.global_tool_denny", "spicedb.builtin: \"tool:", "spicedb.builtin: \"server:",
	} {
		if strings.Contains(o.stderr, ": "+key) {
			found = append(found, key)
		}
	}
	if o.code == exitConfig != (len(found) > 0) {
		t.Errorf("exit code %d: %s", o.code, o.stderr)
	}
	return found
}

var everywhere = []string{"auth.scopes.required", "capsules", "find.pins", "governance.tools", "data.global_tool_deny", `spicedb.builtin: "tool:`}

// From the file alone it is known which namespaces there are; from an earlier run
// which tools, as long as their server has its name.
func TestDanglingNames(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	check := func(when string, want ...string) {
		t.Helper()
		if got := h.findings(t); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	a := servers{"a": fake()}
	h.write(t, a, h.naming(t, "", "a"))
	check("good names, of which nothing is known")
	h.write(t, a, h.naming(t, "x", "a"))
	check("names that may be")
	h.write(t, servers{"b": fake()}, h.naming(t, "", "b"))
	check("of no namespace", everywhere...)
	h.write(t, a, h.naming(t, "", "aa"))
	check("of no server", `spicedb.builtin: "server:`)

	h.write(t, a, h.naming(t, "", "a"))
	p, _ := h.up(t)
	check("good names, while it runs")
	h.write(t, a, h.naming(t, "x", "a"))
	check("bad names, while it runs", everywhere...)
	p.stop(t, syscall.SIGINT)
	check("bad names, as it was kept", everywhere...)
	o := h.run(t, "validate", h.file)
	for _, want := range []string{
		`did you mean "a__pid"?`, `did you mean "tool:a__pid"?`, h.path("policy/data.json") + `:3: data.global_tool_deny: "a__echox"`, h.file + ":1: spicedb.builtin: ",
	} {
		if !strings.Contains(o.stderr, want) {
			t.Errorf("validate lacks %q: %s", want, o.stderr)
		}
	}
	h.write(t, a, h.naming(t, "", "a"))
	check("good names, as it was kept")

	// Under another namespace the kept names are those of before.
	section := h.naming(t, "x", "a")
	section["servers"] = map[string]any{"a": map[string]any{"namespace": "b"}}
	h.write(t, a, section)
	check("another namespace", everywhere...)
	section["governance"] = map[string]any{"tools": map[string]any{"b__pid": readOnly, "b__new": readOnly}}
	section["find"] = map[string]any{"pins": []string{"b__pid"}}
	section["capsules"] = map[string]any{"c": map[string]any{"visible": []string{"b__*"}, "groups": []string{"g"}}}
	for _, gone := range []string{"opa", "spicedb"} {
		delete(section, gone)
	}
	delete(section["auth"].(map[string]any), "scopes")
	h.write(t, a, section)
	check("names of another namespace, of which nothing is known")
	off := fake()
	off["disabled"] = true
	h.write(t, servers{"a": off}, h.naming(t, "x", "a"))
	check("of a server that is switched off")
	section = h.naming(t, "x", "a")
	section["servers"] = map[string]any{"b": map[string]any{"namespace": "a"}}
	h.write(t, servers{"b": fake()}, section)
	check("another server of the namespace", `spicedb.builtin: "server:`)

	if err := os.WriteFile(h.path("policy/data.yaml"), []byte("global_tool_denny:\n  - a__pid\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.write(t, a, h.naming(t, "", "a"))
	check("a misspelt key", "data.global_tool_denny")
	if o := h.run(t, "validate", h.file); !strings.Contains(o.stderr, h.path("policy/data.yaml")+`:1: data.global_tool_denny: `) || !strings.Contains(o.stderr, `did you mean "global_tool_deny"?`) {
		t.Errorf("validate: %s", o.stderr)
	}
}

// A kept name counts where the settings of its server still make it.
func TestNamedNow(t *testing.T) {
	t.Parallel()
	s := &config.Server{Key: "github", Namespace: "gh", Tools: map[string]config.Tool{"new": {ToolShape: proxy.ToolShape{Rename: "create"}}}}
	for _, tt := range []struct {
		kind           mcp.Kind
		original, name string
		want           bool
	}{
		{mcp.Tool, "search", "gh__search", true},
		{mcp.Tool, "search", "github__search", false},
		{mcp.Tool, "search", "gh__find", false},
		{mcp.Tool, "a.b", "gh__a_b_abcdefg", true},
		{mcp.Tool, "new", "gh__create", true},
		{mcp.Tool, "new", "gh__new", false},
		{mcp.Prompt, "ask", "gh__ask", true},
		{mcp.Resource, "file:///x", "gh+file:///x", true},
		{mcp.Resource, "file:///x", "github+file:///x", false},
		{mcp.Resource, "ui://x", "ui://gh+x", true},
	} {
		r := &store.RegistryRecord{Kind: tt.kind.String(), Original: tt.original, Name: tt.name}
		if got := references.NamedNow(s, r); got != tt.want {
			t.Errorf("%s %s as %s: %t", tt.kind, tt.original, tt.name, got)
		}
	}
}
