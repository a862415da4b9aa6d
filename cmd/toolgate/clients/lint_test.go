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
		{"goose", []clients.Tool{{Name: "a", Schema: plain, Description: strings.Repeat("x", 100_000)}}, []string{clients.RuleTokens}},
		{"vscode", []clients.Tool{{Name: "a", Schema: plain, Description: strings.Repeat("x", 100_000)}}, nil},
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

// The view follows from what a client does with long lists, and from the list.
func TestView(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		client        string
		tools, tokens int
		view, why     string
	}{
		{"claude-code", 5000, 1_000_000, clients.FullView, "Claude Code shows tools to its model when that searches for them"},
		{"cursor", 80, 8000, clients.FullView, "Cursor shows its model all tools at once, and these 80 cost about 8000 tokens"},
		{"cursor", 81, 8000, clients.FindView, "Cursor accepts 80 tools, and there are 81"},
		{"goose", 60, 20_000, clients.FullView, "Goose shows its model all tools at once, and these 60 cost about 20000 tokens"},
		{"goose", 60, 20_001, clients.FindView, "Goose shows its model all tools at once, and these 60 cost about 20001 tokens"},
		{"goose", 0, 0, clients.FullView, "how many tools there are is not known while no gateway runs"},
	} {
		c, _ := clients.Find(tt.client)
		if view, why := c.View(tt.tools, tt.tokens); view != tt.view || why != tt.why {
			t.Errorf("%s with %d tools: %s, %s", tt.client, tt.tools, view, why)
		}
	}
}

// What the strict mode of schemas cannot help is said.
func TestLintOfStrictSchemas(t *testing.T) {
	t.Parallel()
	c, _ := clients.Find("cline")
	for schema, fix := range map[string]string{
		`{"type":"object","anyOf":[{"required":["a"]}]}`:          "Use the strict mode of schemas: connect it to /mcp/strict, or set toolgate.schemas.",
		`{"type":"object","not":{"required":["a"]},"anyOf":[{}]}`: "Hide the tool from it, or have its server changed; the strict mode of schemas cannot help: not cannot be said in another way.",
	} {
		got := c.Lint([]clients.Tool{{Name: "a", Schema: []byte(schema)}})
		if len(got) != 1 || got[0].Rule != clients.RuleRoot || got[0].Fix != fix {
			t.Errorf("%s: %+v", schema, got)
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
