package clients_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/cmd/toolgate/clients"
)

func TestLintRules(t *testing.T) {
	t.Parallel()
	plain := []byte(`{"type":"object"}`)
	long := strings.Repeat("a", 48)
	for _, tt := range []struct {
		client string
		tools  []clients.Tool
		want   []string
	}{
		{"cursor", []clients.Tool{{Name: "a__b", Schema: plain}}, nil},
		{"cursor", []clients.Tool{{Name: "a__b." + long, Schema: plain}}, []string{clients.RuleName, clients.RuleChars}},
		{"cursor", []clients.Tool{{Name: "a", Schema: []byte(`{"type":"object","properties":{"x":{"type":["string","null"]}}}`)}}, []string{clients.RuleTypeList}},
		{"claude-code", []clients.Tool{{Name: "a", Schema: plain, Description: strings.Repeat("é", 1025)}}, []string{clients.RuleDescription}},
		{"codex", []clients.Tool{{Name: "a-b", Schema: plain}, {Name: "a_b", Schema: plain}}, []string{clients.RuleChars, clients.RuleCollision}},
		{"codex", []clients.Tool{{Name: "a", Schema: []byte(`{"type":"object","description":"` + strings.Repeat("x", 5000) + `"}`)}}, []string{clients.RuleSchema}},
		{"cline", []clients.Tool{{Name: "a", Schema: []byte(`{"type":"object","anyOf":[{}]}`)}}, []string{clients.RuleRoot}},
		{"gemini", []clients.Tool{
			{Name: long[:28] + "_one_" + long, Schema: plain},
			{Name: long[:28] + "_two_" + long, Schema: plain},
		}, []string{clients.RuleName, clients.RuleName, clients.RuleCollision}},
		{"windsurf", make([]clients.Tool, 101), nil},
	} {
		c, ok := clients.Find(tt.client)
		if !ok {
			t.Fatal(tt.client)
		}
		var got []string
		for _, p := range c.Lint(tt.tools) {
			if p.What == "" || p.Fix == "" || p.Client != c.Name {
				t.Errorf("incomplete: %+v", p)
			}
			got = append(got, p.Rule)
		}
		if tt.client == "windsurf" {
			if !slices.Contains(got, clients.RuleTools) {
				t.Errorf("windsurf: %v", got)
			}
			continue
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.client, diff)
		}
	}
}

// The table has what everything that goes by it needs.
func TestTable(t *testing.T) {
	t.Parallel()
	if !slices.IsSorted(clients.Names()) {
		t.Error("not sorted by name")
	}
	for _, c := range clients.All() {
		if c.Title == "" || len(c.Files) == 0 || c.Stdio == nil || c.After == "" || c.Whole == (len(c.Section) > 0) {
			t.Errorf("%s is incomplete", c.Name)
		}
		for _, f := range c.Files {
			if f.In(clients.Places{Home: "/h", Config: "/c", Project: "/p"}) == "" || f.In(clients.Places{}) != "" || f.Scope != "user" && f.Scope != "project" {
				t.Errorf("%s: %+v", c.Name, f)
			}
		}
	}
}
