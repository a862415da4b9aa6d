package opa_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/gate/opa"
)

// loaded is the phase of a folder with files.
func loaded(t *testing.T, files map[string]string) *opa.Phase {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := opa.New(t.Context(), opa.Options{Settings: opa.Settings{Path: dir}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const readsNothing = "package toolgate\n\ndefault decision := true\n"

func TestMentions(t *testing.T) {
	p := loaded(t, map[string]string{
		"p.rego": readsNothing,
		"data.json": `{
  "global_tool_deny": [
    "gh__delete",
    "gh__delete_repo"
  ],
  "tenant_tool_flags": {"acme": {"gh__fork": {"enabled": false}}, "blue": {"gh__fork": {"enabled": true}}},
  "persona_permissions": {"bot": {"can_add_tools": true}}
}`,
		"persona_tool_deny/data.yaml":      "bot:\n  - web__fetch\n  - gh__delete\n",
		"tenant_restricted_args/data.json": `{"acme": {"web__fetch": {"url": ["x"]}}}`,
	})
	type found struct {
		Key, Name, File string
		Line            int
	}
	var got []found
	for _, m := range p.Mentions() {
		got = append(got, found{m.Key, m.Name, filepath.Base(filepath.Dir(m.At.File)) + "/" + filepath.Base(m.At.File), m.At.Line})
	}
	root := "001/data.json"
	want := []found{
		{"global_tool_deny", "gh__delete", root, 3},
		{"global_tool_deny", "gh__delete_repo", root, 4},
		{"persona_tool_deny", "gh__delete", "persona_tool_deny/data.yaml", 3},
		{"persona_tool_deny", "web__fetch", "persona_tool_deny/data.yaml", 2},
		{"tenant_restricted_args", "web__fetch", "tenant_restricted_args/data.json", 1},
		{"tenant_tool_flags", "gh__fork", root, 6},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// What the gateway gives is not the policy's own.
	if err := p.SetData(opa.Data{ToolCatalog: map[string]opa.Tool{"gh__fork": {Enabled: true}}}); err != nil {
		t.Fatal(err)
	}
	if n := len(p.Mentions()); n != len(want) {
		t.Errorf("%d mentions with the gateway's data, want %d", n, len(want))
	}
}

func TestUnreadData(t *testing.T) {
	for name, tt := range map[string]struct {
		rego string
		want map[string]int // line by key
	}{
		"nothing is read": {readsNothing, map[string]int{"global_tool_denny": 2, "limits": 3}},
		"one is": {
			"package toolgate\n\ndefault decision := false\n\ndecision if not input.tool_name in data.global_tool_denny\n",
			map[string]int{"limits": 3},
		},
		"one is, in another way": {
			"package toolgate\n\nimport data.limits as l\n\ndefault decision := false\n\ndecision if l.most > 3\n",
			map[string]int{"global_tool_denny": 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := loaded(t, map[string]string{"p.rego": tt.rego, "data.json": "{\n\"global_tool_denny\": [],\n\"limits\": {\"most\": 1}, \"global_tool_deny\": []}"})
			got := map[string]int{}
			for key, at := range p.UnreadData() {
				got[key] = at.Line
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	var zero opa.Phase
	if zero.UnreadData() != nil || zero.Mentions() != nil {
		t.Error("a phase without a policy names something")
	}
}
