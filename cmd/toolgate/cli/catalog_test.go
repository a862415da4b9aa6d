//go:build !windows

package cli

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/fakeserver"
	"github.com/toolgate/toolgate/internal/store"
)

// The commands, as a person uses them.
func TestCatalogCommands(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, nil)
	for _, args := range [][]string{{"ls"}, {"show", "a__echo"}, {"enable", "a__echo"}, {"accept", "--all"}, {"orphans"}} {
		args = append(append([]string{"catalog"}, args...), "--file", h.file)
		if o := h.run(t, args...); o.code != exitUnreachable || !strings.Contains(o.stderr, "toolgate up") {
			t.Errorf("%v without a gateway: %+v", args, o)
		}
	}
	h.up(t)
	h.ok(t, "ls", h.file, "--wait", "20s")
	catalog := func(args ...string) string {
		t.Helper()
		return h.ok(t, append(append([]string{"catalog"}, args...), "--file", h.file)...)
	}
	var all []admin.CatalogEntry
	if err := json.Unmarshal([]byte(catalog("ls", "-o", "json")), &all); err != nil || len(all) != len(fakeserver.Tools) || all[0].State != store.StateActive {
		t.Errorf("%+v, %v", all, err)
	}
	if got := strings.Fields(catalog("ls", "-o", "name")); !slices.Contains(got, "a__echo") || len(got) != len(fakeserver.Tools) {
		t.Errorf("names: %q", got)
	}
	if got := catalog("disable", "a__echo", "a__pid", "--reason", "not today", "-o", "wide"); strings.Count(got, " off ") != 2 {
		t.Errorf("disabled:\n%s", got)
	}
	if got := h.ok(t, "tools", h.file, "-o", "name"); strings.Contains(got, "echo") || strings.Contains(got, "pid") {
		t.Errorf("tools:\n%s", got)
	}
	if got := catalog("show", "a__echo"); !strings.Contains(got, "not today") || !strings.Contains(got, `"x-own": 9007199254740993`) {
		t.Errorf("show:\n%s", got)
	}
	catalog("enable", "a/echo")
	catalog("flag", "a__echo", "off", "--tenant", "acme")
	catalog("restrict", "a__echo", "--persona", "bot")
	if got := catalog("class", "a__echo", "write", "--risk", "low"); !strings.Contains(got, "acme=off") || !strings.Contains(got, "bot") || !strings.Contains(got, "write") {
		t.Errorf("class:\n%s", got)
	}
	catalog("restrict", "a__echo", "--persona", "bot", "--lift")
	if got := catalog("flag", "a__echo", "clear", "--tenant", "acme"); strings.Contains(got, "acme") || strings.Contains(got, "bot") {
		t.Errorf("lifted:\n%s", got)
	}
	if got := catalog("diff", "a__echo"); got != "" {
		t.Errorf("diff: %s", got)
	}
	seed := h.path("seed.yaml")
	if err := os.WriteFile(seed, []byte("capabilities:\n  - name: a__fail\n    enabled: false\n  - name: a__nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if o := h.run(t, "catalog", "seed", seed, "--file", h.file); o.code != exitConfig || !strings.Contains(o.stderr, "seed.yaml:4: a__nothing") {
		t.Errorf("seed: %+v", o)
	}
	if got := catalog("show", "a__fail"); !strings.Contains(got, "off") {
		t.Errorf("seeded:\n%s", got)
	}
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"show", "a__ech"}, exitUsage, "nothing in the catalog has the name a__ech"},
		{[]string{"accept"}, exitUsage, "--all"},
		{[]string{"accept", "a__echo"}, exitUsage, "no definition of it is held"},
		{[]string{"flag", "a__echo", "off"}, exitUsage, "--tenant"},
		{[]string{"flag", "a__echo", "--tenant", "x"}, exitUsage, "on, off or clear"},
		{[]string{"flag", "a__echo", "clear", "--tenant", "x"}, exitUsage, "no flag"},
		{[]string{"restrict", "a__echo"}, exitUsage, "--persona"},
		{[]string{"class", "a__echo", "nice"}, exitUsage, "read-only"},
		{[]string{"seed", h.path("none.yaml")}, exitConfig, "read the seed"},
	} {
		if o := h.run(t, append(append([]string{"catalog"}, tt.args...), "--file", h.file)...); o.code != tt.code || !strings.Contains(o.stderr, tt.says) {
			t.Errorf("%v: %+v", tt.args, o)
		}
	}
}

// The shipped seed describes what toolgate knows, with one flag, and again after a reload.
func TestShippedSeed(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one"), "new": fake("one")}, map[string]any{
		"native":  map[string]any{"code": map[string]any{}},
		"servers": map[string]any{"new": map[string]any{"offer": map[string]any{"description": "another"}}},
	})
	p, _ := h.up(t)
	shipped := func() string {
		return h.ok(t, "catalog", "ls", "--source", "shipped", "-o", "wide", "--file", h.file)
	}
	h.ok(t, "ls", "--wait", "20s", "--file", h.file)
	if got := shipped(); strings.Contains(got, "shipped") {
		t.Errorf("without the flag:\n%s", got)
	}
	p.stop(t, syscall.SIGTERM)
	h.up(t, "--shipped-seed")
	h.ok(t, "ls", "--wait", "20s", "--file", h.file)
	h.ok(t, "reload", "--file", h.file)
	got := shipped()
	for _, want := range []string{
		`(?m)^code__execute +tool +active +on \(default\) +destructive .* code +native +shipped +high `,
		`(?m)^toolgate__add_server +tool +active +on \(default\) +write .* gateway +native +shipped +high `,
	} {
		if !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("no line %s:\n%s", want, got)
		}
	}
	if strings.Contains(got, "a__") {
		t.Errorf("what toolgate does not know:\n%s", got)
	}
	if e := h.ok(t, "catalog", "show", "code__execute", "-o", "json", "--file", h.file); !strings.Contains(e, `"high_cost": true`) {
		t.Errorf("its cost:\n%s", e)
	}
}

// A seed that names nothing is an error as soon as that can be known.
func TestValidateSeed(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	seed := h.path("seed.yaml")
	if err := os.WriteFile(seed, []byte("capabilities:\n  - name: a__ech\n  - { server: a, original: echo }\n  - { server: a, original: ech }\n  - { server: b, original: x }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	with := func(path string) map[string]any { return map[string]any{"registry": map[string]any{"seed": path}} }
	h.write(t, servers{"a": fake("one")}, with(seed))
	h.ok(t, "validate", h.file) // nothing is known yet
	h.ok(t, "tools", h.file)
	o := h.run(t, "validate", h.file)
	if o.code != exitConfig || !strings.Contains(o.stderr, "seed.yaml:2: no server offers a__ech") || !strings.Contains(o.stderr, "seed.yaml:4: no server offers a ech") ||
		strings.Contains(o.stderr, "seed.yaml:3") || strings.Contains(o.stderr, "seed.yaml:5") {
		t.Errorf("%+v", o)
	}
	h.write(t, servers{"a": fake("one"), "new": fake("one")}, with(seed))
	if o := h.run(t, "validate", h.file); o.code != exitConfig || strings.Contains(o.stderr, "a__ech") {
		t.Errorf("a name that may be of a new server: %+v", o)
	}
	h.write(t, servers{"a": fake("one")}, with(h.path("none.yaml")))
	if o := h.run(t, "validate", h.file); o.code != exitConfig || !strings.Contains(o.stderr, "none.yaml: the seed file cannot be read") {
		t.Errorf("no such seed: %+v", o)
	}
}

// Steps are compared with what the servers have listed in an earlier run, once there was one.
func TestValidateSteps(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	step := func(call string, with map[string]any) map[string]any {
		return map[string]any{"name": "says", "type": "steps", "steps": []any{map[string]any{"id": "first", "call": call, "with": with}}}
	}
	file := func(tool map[string]any) map[string]any { return map[string]any{"tools": []any{tool}} }
	server := fake(`schema={"type":"object","properties":{"text":{"type":"string"}}}`)
	const wrong = "the step first of tools__says does not fit a__echo: with.text: "
	bad := file(step("a__echo", map[string]any{"text": 5}))
	h.write(t, servers{"a": server}, bad)
	if o := h.run(t, "validate", h.file); o.code != 0 || strings.Contains(o.stderr, wrong) {
		t.Errorf("nothing is known yet: %+v", o)
	}
	h.ok(t, "tools", h.file)
	if o := h.run(t, "validate", h.file); o.code != 0 || !strings.Contains(o.stderr, wrong) || !strings.Contains(o.stderr, "this is how the server last listed the tool") {
		t.Errorf("%+v", o)
	}
	h.write(t, servers{"a": server}, file(step("a__echo", map[string]any{"text": "five"})))
	if o := h.run(t, "validate", h.file); o.code != 0 || strings.Contains(o.stderr, "does not fit") {
		t.Errorf("%+v", o)
	}
}
