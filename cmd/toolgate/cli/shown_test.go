package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

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
		if got := escaped(text); got != want {
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
		o := &options{output: format}
		if err := o.print(&out, table{data: want}); err != nil {
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

// Whatever commands print goes through what makes it safe. What is printed otherwise
// is named here.
func TestNothingIsPrintedAsItIs(t *testing.T) {
	t.Parallel()
	allowed := regexp.MustCompile(`escapedJSON\(|printable\(|fmt\.Println\((text|l\.Text)\)`)
	printing := regexp.MustCompile(`fmt\.(Print|Printf|Println)\(|fmt\.Fprint(f|ln)?\(os\.Std(out|err), [^"]`)
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if printing.MatchString(line) && !allowed.MatchString(line) {
				t.Errorf("%s prints as it is, not with say: %s", name, strings.TrimSpace(line))
			}
		}
	}
}

// What commands tell besides their output has one form, which tell writes. Nothing else
// writes to stderr but the log, the table of `up`, the questions of tools and the end of a
// line that was typed.
func TestOneFormOnStderr(t *testing.T) {
	t.Parallel()
	writes := regexp.MustCompile(`(?:print\w*|Print\w*|say|WriteString|Write)\((?:os\.Stderr|\w+\.ErrOrStderr\(\))`)
	var found []string
	for _, pattern := range []string{"*.go", "../*/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "../cli/") && writes.Match(text) {
				found = append(found, name)
			}
		}
	}
	if diff := cmp.Diff([]string{"call.go", "output.go", "../screen/line.go"}, found); diff != "" {
		t.Errorf("these files write to stderr without warn, note or ask (-want +got):\n%s", diff)
	}
}
