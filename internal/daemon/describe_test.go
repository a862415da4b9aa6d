//go:build !windows

package daemon_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// The catalog says of a tool what the operator, a declaration and a native tool say
// of it, in the store too, and follows a reload. It can be filtered by all of that.
func TestCatalogDescriptions(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	section := map[string]any{
		"governance": map[string]any{"tools": map[string]any{"a__p*": map[string]any{"category": "process", "class": "read_only", "risk": "low"}}, "categories": map[string]any{"speech": map[string]any{"forbidden_in_modes": []string{"NORMAL"}}}},
		"servers":    map[string]any{"a": map[string]any{"tools": map[string]any{"echo": map[string]any{"title": "Say it again", "cost": 3, "timeout": "5s"}}}},
		"native":     map[string]any{"util": map[string]any{}},
		"tools": []map[string]any{{
			"name": "say", "namespace": "own", "type": "command", "args": []string{"/bin/echo", "hello"}, "sandbox": "off", "class": "write", "category": "speech",
		}},
	}
	h.write(t, servers{"a": fake()}, section)
	r := h.newRunning(t)
	names := func(q admin.CatalogQuery) string {
		t.Helper()
		all, err := r.Catalog(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for i := range all {
			out = append(out, all[i].Name)
		}
		return strings.Join(out, " ")
	}
	testwait.Until(t, patience, "the catalog is complete", func() bool { return len(names(admin.CatalogQuery{Server: "util"})) > 0 })
	for _, tt := range []struct {
		q    admin.CatalogQuery
		want string
	}{
		{admin.CatalogQuery{Category: "process"}, "a__picture a__pid"},
		{admin.CatalogQuery{Category: "speech"}, "own__say"},
		{admin.CatalogQuery{Provider: "native", Category: "text"}, "util__echo util__timestamp"},
		{admin.CatalogQuery{Source: "dynamic"}, ""},
		{admin.CatalogQuery{Server: "own", Source: "discovery", Class: "write"}, "own__say"},
		{admin.CatalogQuery{Kind: "tool", Mode: "lockdown", Server: "a"}, "a__picture a__pid"},
		{admin.CatalogQuery{Class: "read-only", Risk: "low", Server: "a"}, "a__picture a__pid"},
	} {
		if got := names(tt.q); got != tt.want {
			t.Errorf("%+v selects %q, want %q", tt.q, got, tt.want)
		}
	}
	if got := tried(t.Context(), r.client(t), "own__say", "{}"); got != "governance" {
		t.Errorf("a tool of a category that is forbidden in NORMAL: %s", got)
	}
	if _, err := r.Catalog(t.Context(), admin.CatalogQuery{Mode: "none"}); err == nil {
		t.Error("a mode that there is not selects something")
	}
	if all, err := r.Catalog(t.Context(), admin.CatalogQuery{Mode: "ALERT", Server: "a"}); err != nil || len(all) < 3 || all[0].InMode != "ask" {
		t.Errorf("in mode ALERT: %+v, %v", all, err)
	}
	list, err := r.client(t).All(t.Context(), mcp.Tool)
	if err != nil || !strings.Contains(string(bytes.Join(list, nil)), `"title":"Say it again"`) {
		t.Errorf("clients do not see the title: %s, %v", list, err)
	}
	stored := func(name, category, config string) func() bool {
		return func() bool {
			e, err := r.CatalogEntry(t.Context(), name, "")
			if err != nil {
				t.Fatal(err)
			}
			return e.Category == category && string(e.Config) == config
		}
	}
	testwait.Until(t, patience, "the settings are recorded", stored("a__echo", "", `{"cost":3,"timeout":"5s","title":"Say it again"}`))
	section["governance"].(map[string]any)["tools"] = map[string]any{"a__echo": map[string]any{"category": "words"}}
	delete(section["servers"].(map[string]any)["a"].(map[string]any), "tools")
	h.write(t, servers{"a": fake()}, section)
	if _, err := r.TakeFile(true); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patience, "the reload is recorded", stored("a__echo", "words", ""))
}
