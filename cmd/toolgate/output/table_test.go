package output

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/toolgate/toolgate/cmd/toolgate/screen"
)

func TestPrint(t *testing.T) {
	tab := Table{
		Header: []string{"NAME", "N", "MORE"}, Wide: 1, Names: []string{"é", "long", "a\x1b]0;x\a"},
		Rows: [][]string{{"é", "1", ""}, {"long", "", "x"}},
		Data: map[string]any{"list": []any{map[string]any{"name": "é", "n": "007", "yes": "true", "empty": []any{}}}},
	}
	for output, want := range map[string]string{
		"table": "NAME  N\né     1\nlong\n",
		"wide":  "NAME  N  MORE\né     1\nlong     x\n",
		"name":  "é\nlong\na\ufffd]0;x\ufffd\n",
		"json":  "{\n  \"list\": [\n    {\n      \"empty\": [],\n      \"n\": \"007\",\n      \"name\": \"é\",\n      \"yes\": \"true\"\n    }\n  ]\n}\n",
		"yaml":  "list:\n  - empty: []\n    n: \"007\"\n    name: é\n    yes: \"true\"\n",
	} {
		var out strings.Builder
		if err := Print(&out, output, tab); err != nil {
			t.Errorf("%s: %v", output, err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", output, diff)
		}
	}
	for _, output := range []string{"", "xml", "JSON"} {
		if err := Check(output); err == nil {
			t.Errorf("%q is taken", output)
		}
	}
}

// hostile moves the cursor, sets a title, turns text round, hides a letter and ends
// a line in ways that terminals act on.
const hostile = "a\x1b[2Jb\u009b31mc\x07d\u202ee\u2028f\u0085g\rh\x7fi\U000e0041j\u200bk"

func TestShown(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain\n\ttext, ö 日本 😀": "plain\n\ttext, ö 日本 😀",
		"two\r\nlines":          "two\nlines",
		hostile:                 `a\u001b[2Jb\u009b31mc\u0007d\u202ee\u2028f\u0085g\u000dh\u007fi\U000e0041j\u200bk`,
		"broken\xff":            "broken\uFFFD",
	} {
		if got := Escaped(text); got != want {
			t.Errorf("%q is shown as %q, not %q", text, got, want)
		}
	}
}

// Data is the same value in every format, and nothing in it acts on a terminal.
func TestDataThatActs(t *testing.T) {
	t.Parallel()
	want := map[string]any{hostile: []any{hostile, "two\nlines " + hostile, "plain", "ö 😀"}}
	for format, read := range map[string]func([]byte, any) error{"json": json.Unmarshal, "yaml": yaml.Unmarshal} {
		var out bytes.Buffer
		if err := Print(&out, format, Table{Data: want}); err != nil {
			t.Errorf("%s: %v", format, err)
			continue
		}
		if strings.ContainsFunc(out.String(), actsInText) {
			t.Errorf("%s acts on a terminal: %q", format, out.String())
		}
		var got map[string]any
		if err := read(out.Bytes(), &got); err != nil {
			t.Errorf("%s: %v\n%s", format, err, out.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s is another value (-want +got):\n%s", format, diff)
		}
	}
}

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
