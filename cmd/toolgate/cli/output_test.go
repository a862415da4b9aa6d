package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/cmd/toolgate/arguments"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/mcp"
)

var errTest = errors.New("test")

func TestTokens(t *testing.T) {
	bare := build.ToolTokens([]byte(`{"name":"a","inputSchema":{}}`))
	longer := build.ToolTokens([]byte(`{"name":"a","description":"` + strings.Repeat("w", 448) + `","inputSchema":{}}`))
	unseen := build.ToolTokens([]byte(`{"name":"a","inputSchema":{},"outputSchema":{"x":"` + strings.Repeat("word ", 90) + `"},"_meta":{}}`))
	if bare < 5 || longer-bare != 100 || unseen != bare {
		t.Errorf("bare %d, with a text of 100 tokens %d, with what no model sees %d", bare, longer, unseen)
	}
	if build.ListingTokens(nil, "a", "a") != 0 {
		t.Error("nothing costs something")
	}
}

func TestLimitWarnings(t *testing.T) {
	names := func(n int) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = fmt.Sprint("t", i)
		}
		return out
	}
	clients := func(warnings []string) string {
		var out []string
		for _, w := range warnings {
			client, _, _ := strings.Cut(w, " accepts")
			out = append(out, client)
		}
		return strings.Join(out, ", ")
	}
	for _, tt := range []struct {
		name  string
		names []string
		want  string
	}{
		{"none", nil, ""},
		{"at Cursor's limit", names(80), ""},
		{"beyond it", names(81), "Cursor"},
		{"beyond Windsurf's", names(101), "Cursor, Windsurf"},
		{"beyond all", names(129), "Cursor, VS Code, Windsurf"},
		{"toolgate's longest own name fits all", []string{strings.Repeat("n", 45)}, ""},
		{"a long name", []string{strings.Repeat("n", 51)}, "Codex, Gemini CLI"},
		{"a very long name", []string{strings.Repeat("n", 120)}, "Claude Code, Cline, Codex, Cursor, Gemini CLI, VS Code, Zed"},
	} {
		if got := clients(limitWarnings(tt.names)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestCallParams(t *testing.T) {
	for _, tt := range []struct {
		tool   string
		pairs  []string
		object string
		want   string
	}{
		{"t", nil, "", `{"name":"t","arguments":{}}`},
		{`a"b`, []string{"x= 1 ", "y=\"", "z=nul\x01"}, "", `{"name":"a\"b","arguments":{"z":"nul\u0001","y":"\"","x":1}}`},
		{"t", []string{`a"=1`}, `{ "b" : 2 }`, `{"name":"t","arguments":{"a\"":1, "b" : 2 }}`},
	} {
		pairs, err := arguments.Pairs(t.Context(), tt.pairs, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := callParams(tt.tool, nil, pairs, tt.object)
		if err != nil || mcp.Validate(got, mcp.Limits{}) != nil {
			t.Errorf("%v: %s, %v", tt.pairs, got, err)
		}
		if compact(got) != compact([]byte(tt.want)) {
			t.Errorf("%v\n got %s\nwant %s", tt.pairs, got, tt.want)
		}
	}
}

func compact(text []byte) string { return strings.ReplaceAll(string(text), " ", "") }
