//go:build !windows

package daemon_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// What one principal keeps is out of reach for every other, also for the same subject of
// another tenant, and there after a restart. Secrets of the configuration are in neither
// the answers nor the store.
func TestMemoriesOfPrincipals(t *testing.T) {
	t.Parallel()
	const secret = "correct-horse-battery-staple"
	h := newHome(t)
	server := fake("one")
	server["env"] = map[string]any{"API_TOKEN": secret}
	section := withKeys("alice", "bob", "carol")
	keys := section["auth"].(map[string]any)["keys"].([]any)
	keys[2].(map[string]any)["subject"] = "alice"
	keys[2].(map[string]any)["tenant"] = "other"
	section["native"] = map[string]any{"memory": map[string]any{}}
	file := h.path("state.db")
	section["store"] = "sqlite:" + file
	h.write(t, servers{"a": server}, section)

	var id string
	t.Run("first", func(t *testing.T) {
		r := h.newRunning(t)
		alice := r.Client(t, "alice")
		got := text(t, alice, "memory__save", `{"text":"the token is `+secret+`, the door is green","name":"door"}`)
		if !strings.Contains(got, `"redacted":true`) {
			t.Errorf("saved: %s", got)
		}
		id, _ = mcp.LookupString([]byte(got), "id")
		text(t, alice, "memory__remember", `{"note":"the door opens inward"}`)
		for _, key := range []string{"bob", "carol"} {
			other := r.Client(t, key)
			for tool, args := range map[string]string{
				"memory__load": `{"query":"door green"}`, "memory__recall": `{"query":"door"}`,
				"memory__delete": `{"ids":"` + id + `"}`, "memory__forget": `{"query":"door","threshold":0}`,
			} {
				if got := text(t, other, tool, args); !strings.Contains(got, `":[]`) {
					t.Errorf("%s: %s: %s", key, tool, got)
				}
			}
			if got := text(t, other, "memory__save", `{"text":"mine","name":"door"}`); strings.Contains(got, id) {
				t.Errorf("%s has replaced the text of another: %s", key, got)
			}
		}
		row := r.Servers()[slices.IndexFunc(r.Servers(), func(s admin.Server) bool { return s.Name == "memory" })]
		if row.Kind != "native" || row.State != "ready" || row.Tools != 6 || row.Sandbox != "" || r.NativePID("memory") != 0 {
			t.Errorf("%+v", row)
		}
		// In LOCKDOWN what is read-only and of low risk goes on.
		if _, err := r.SetMode(t.Context(), "LOCKDOWN", "a test"); err != nil {
			t.Fatal(err)
		}
		if got := text(t, alice, "memory__load", `{"name":"door"}`); !strings.Contains(got, "door is green") {
			t.Errorf("load in LOCKDOWN: %s", got)
		}
		for _, call := range [][2]string{{"save", `{"text":"x"}`}, {"delete", `{"ids":"` + id + `"}`}, {"forget", `{"query":"door"}`}, {"remember", `{"note":"x"}`}} {
			if got := text(t, alice, "memory__"+call[0], call[1]); !strings.Contains(got, "not allowed") {
				t.Errorf("%s in LOCKDOWN: %s", call[0], got)
			}
		}
	})
	t.Run("after a restart", func(t *testing.T) {
		r := h.newRunning(t)
		got := text(t, r.Client(t, "alice"), "memory__load", `{"query":"green"}`)
		if !strings.Contains(got, id) || !strings.Contains(got, "the door is green") || strings.Contains(got, secret) {
			t.Errorf("%s", got)
		}
	})
	all, err := filepath.Glob(file + "*")
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	for _, name := range all {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(raw, []byte(secret)) {
			t.Errorf("the secret is in %s", filepath.Base(name))
		}
	}
}

// A group without settings is on by its name alone, waits for a person as every new
// server does, and goes with its line.
func TestMemoryIsReloaded(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{}, withNative(map[string]any{"util": map[string]any{}}, nil))
	r := h.newRunning(t)
	h.write(t, servers{}, withNative(map[string]any{"util": map[string]any{}, "memory": map[string]any{}}, map[string]any{"memory": map[string]any{"namespace": "mind"}}))
	if got, err := r.TakeFile(false); err != nil || len(got.Pending) != 1 {
		t.Fatal(got, err)
	}
	if _, err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	client := r.client(t)
	text(t, client, "mind__save", `{"text":"kept"}`)
	for range 2 { // an equal configuration changes nothing
		if _, err := r.Reload(); err != nil {
			t.Fatal(err)
		}
		if got := text(t, client, "mind__load", `{}`); !strings.Contains(got, "kept") {
			t.Error(got)
		}
	}
	h.write(t, servers{}, withNative(map[string]any{"util": map[string]any{}}, nil))
	if _, err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if states(r)["memory"] != "" {
		t.Error("it is still there")
	}
}

// A caller sees the statistics of its own calls, of the tools that it may see; with the
// scope for it, those of its tenant.
func TestToolStatsOfCallers(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	section := withKeys("alice", "bob", "boss", "carol")
	keys := section["auth"].(map[string]any)["keys"].([]any)
	keys[2].(map[string]any)["scopes"] = []string{"toolgate:stats"}
	keys[3].(map[string]any)["scopes"], keys[3].(map[string]any)["tenant"] = []string{"toolgate:stats"}, "other"
	section["native"] = map[string]any{"memory": map[string]any{}, "util": map[string]any{}}
	h.write(t, servers{}, section)
	r := h.newRunning(t)
	alice := r.Client(t, "alice")
	for range 3 {
		text(t, alice, "util__echo", `{"text":"a"}`)
	}
	text(t, alice, "util__echo", `{"words":1}`)
	text(t, r.Client(t, "bob"), "util__timestamp", `{"zone":"Nowhere"}`)
	stats := func(key string) string { return text(t, r.Client(t, key), "toolgate__tool_stats", `{}`) }
	testwait.Until(t, patience, "the log of executions", func() bool { // which is written behind the calls
		all, err := r.Store.Executions(0).StatsOfTenant(t.Context(), "default", time.Now().Add(-time.Hour))
		var calls int64
		for _, s := range all {
			calls += s.Calls
		}
		return err == nil && calls == 5
	})
	if got := stats("alice"); !strings.Contains(got, `{"calls_of":"you","tools":[`) || !strings.Contains(got, `{"tool":"util__echo","calls":4,"success_rate":0.75,`) ||
		!strings.Contains(got, `"last_error":"invalid_arguments"`) || strings.Contains(got, "timestamp") {
		t.Errorf("of alice: %s", got)
	}
	if got := stats("bob"); strings.Contains(got, "echo") || !strings.Contains(got, `{"tool":"util__timestamp","calls":1,"success_rate":0,`) {
		t.Errorf("of bob: %s", got)
	}
	if got := stats("boss"); !strings.Contains(got, `"calls_of":"your tenant"`) || !strings.Contains(got, "util__echo") || !strings.Contains(got, "util__timestamp") {
		t.Errorf("of the tenant: %s", got)
	}
	if got := stats("carol"); strings.Contains(got, "util__") {
		t.Errorf("of another tenant: %s", got)
	}
	// What it may not see any more is not told of either.
	section["native"] = map[string]any{"memory": map[string]any{}}
	h.write(t, servers{}, section)
	if _, err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := stats("alice"); strings.Contains(got, "util__") {
		t.Errorf("of a tool that is gone: %s", got)
	}
	// Without the group there is no such tool.
	section["native"] = map[string]any{"util": map[string]any{}}
	h.write(t, servers{}, section)
	if _, err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, err := alice.Request(t.Context(), mcp.MethodToolsCall, []byte(`{"name":"toolgate__tool_stats"}`)); err == nil {
		t.Error("there still is the tool")
	}
}
