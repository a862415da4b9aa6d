//go:build !windows

package daemon_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/testwait"
)

// A running gateway shows names of policy data and relations that are about
// nothing as it does others, for as long as they are, and decides nothing by them.
func TestDanglingAlarms(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	both := func(suffix, server string) map[string]any {
		section := h.naming(t, suffix, server)
		delete(section, "capsules")
		delete(section["auth"].(map[string]any), "scopes")
		delete(section, "governance")
		return section
	}
	h.write(t, servers{"a": fake()}, both("", "a"))
	r := h.newRunning(t)
	alarms := func(want ...string) {
		t.Helper()
		testwait.Until(t, patience, "the alarms are those of "+strings.Join(want, ", "), func() bool {
			text := strings.Join(r.Status().Alarms, "\n")
			return strings.Count(text, "\n") == max(0, len(want)-1) && !slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(text, w) }) && (len(want) > 0 || text == "")
		})
	}
	alarms()
	h.write(t, servers{"a": fake()}, both("x", "aa"))
	if _, err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	alarms(`data.global_tool_deny: "a__echox"`, `"tool:a__pidx"`, `"server:aa"`)
	// The policy's files are followed without a reload.
	if err := os.WriteFile(h.path("policy/data.json"), []byte(`{"global_tool_deny": [], "global_tools_deny": ["a__echo"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	alarms(`data.global_tools_deny: nothing reads this key`, `"tool:a__pidx"`, `"server:aa"`)
	h.write(t, servers{"a": fake()}, both("", "a"))
	if _, err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	alarms()
}

// Names about nothing widen nothing: with them exactly the same is listed.
func TestDanglingNamesWidenNothing(t *testing.T) {
	t.Parallel()
	listed := func(change func(map[string]any)) []string {
		h := newHome(t)
		section := h.naming(t, "", "a")
		auth := section["auth"].(map[string]any)
		delete(auth, "scopes")
		auth["keys"].([]any)[0].(map[string]any)["groups"] = []string{"g"}
		builtin := section["spicedb"].(map[string]any)["builtin"].(map[string]any)
		delete(builtin, "servers")
		change(section)
		h.write(t, servers{"a": fake()}, section)
		r := h.newRunning(t)
		id, err := r.Identities.Caller("k")
		if err != nil {
			t.Fatal(err)
		}
		var seen []string
		for _, one := range r.Gateway.Capabilities() {
			who, err := r.WhoCan(t.Context(), one.Exposed, nil)
			if err != nil {
				t.Fatal(err)
			}
			if who[0].View {
				seen = append(seen, one.Exposed+" "+fmt.Sprint(who[0].Call)+" "+id.Subject)
			}
		}
		return seen
	}
	want := listed(func(map[string]any) {})
	if len(want) == 0 {
		t.Fatal("nothing is listed")
	}
	got := listed(func(section map[string]any) {
		capsule := section["capsules"].(map[string]any)["c"].(map[string]any)
		capsule["callable"] = append(capsule["callable"].([]string), "a__nothing*", "b__*")
		builtin := section["spicedb"].(map[string]any)["builtin"].(map[string]any)
		builtin["servers"] = map[string]any{"aa": map[string]any{"executors": []string{"user:k"}}}
		builtin["tools"].(map[string]any)["a__nothing"] = map[string]any{"owners": []string{"user:k"}}
	})
	if !slices.Equal(got, want) {
		t.Errorf("with names about nothing %q, without %q", got, want)
	}
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
	section["governance"] = map[string]any{"tools": map[string]any{pid: readOnly}}
	section["opa"] = map[string]any{"path": policy}
	section["spicedb"] = map[string]any{"builtin": map[string]any{
		"servers": map[string]any{server: map[string]any{"executors": []string{"user:k"}}},
		"tools":   map[string]any{pid: map[string]any{"owners": []string{"user:k"}}},
	}}
	return section
}
