package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/cmd/toolgate/arguments"
	"github.com/toolgate/toolgate/cmd/toolgate/screen"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/mcp"
)

var errTest = errors.New("test")

func TestPrint(t *testing.T) {
	tab := table{
		header: []string{"NAME", "N", "MORE"}, wide: 1, names: []string{"é", "long", "a\x1b]0;x\a"},
		rows: [][]string{{"é", "1", ""}, {"long", "", "x"}},
		data: map[string]any{"list": []any{map[string]any{"name": "é", "n": "007", "yes": "true", "empty": []any{}}}},
	}
	for output, want := range map[string]string{
		"table": "NAME  N\né     1\nlong\n",
		"wide":  "NAME  N  MORE\né     1\nlong     x\n",
		"name":  "é\nlong\na\ufffd]0;x\ufffd\n",
		"json":  "{\n  \"list\": [\n    {\n      \"empty\": [],\n      \"n\": \"007\",\n      \"name\": \"é\",\n      \"yes\": \"true\"\n    }\n  ]\n}\n",
		"yaml":  "list:\n  - empty: []\n    n: \"007\"\n    name: é\n    yes: \"true\"\n",
	} {
		var out strings.Builder
		if err := (&options{output: output}).print(&out, tab); err != nil {
			t.Errorf("%s: %v", output, err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", output, diff)
		}
	}
	for _, output := range []string{"", "xml", "JSON"} {
		if err := checkOutput(output); err == nil {
			t.Errorf("%q is taken", output)
		}
	}
}

func TestShort(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1.0k", 9949: "9.9k", 10_000: "10k", 999_999: "999k", 1_000_000: "1.0M", 25_500_000: "25.5M"} {
		if got := short(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	for s, want := range map[float64]string{0: "0 ms", 0.0015: "1 ms", 0.9999: "999 ms", 1: "1.0 s", 59.94: "59.9 s", 60: "1m0s", 3725.4: "1h2m5s"} {
		if got := seconds(s); got != want {
			t.Errorf("%v s: %s, want %s", s, got, want)
		}
	}
	for in, want := range map[string]string{"": "", "one\ntwo": "one", "one\r\ntwo": "one", "ééééé": "ééééé", "éééééé": "éééé…"} {
		if got := firstLine(in, 5); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

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

// What others named does nothing to the terminal that shows it.
func TestColumnsArePrintable(t *testing.T) {
	var out strings.Builder
	if err := new(screen.Screen).Columns(&out, []string{"A"}, [][]string{{"x\x1b[31m\r\u202ey\u009bz é"}}); err != nil {
		t.Fatal(err)
	}
	if want := "A\nx\ufffd[31m\ufffd\ufffdy\ufffdz é\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
