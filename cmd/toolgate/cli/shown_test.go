package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Whatever commands print goes through what makes it safe. What is printed otherwise
// is named here.
func TestNothingIsPrintedAsItIs(t *testing.T) {
	t.Parallel()
	allowed := regexp.MustCompile(`[eE]scapedJSON\(|[pP]rintable\(|fmt\.Println\((text|l\.Text)\)`)
	printing := regexp.MustCompile(`fmt\.(Print|Printf|Println)\(|fmt\.Fprint(f|ln)?\(os\.Std(out|err), [^"]`)
	files, err := filepath.Glob("../*/*.go")
	if err != nil || len(files) < 100 {
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
	writes := regexp.MustCompile(`(?:print\w*|Print\w*|[sS]ay\w*|WriteString|Write)\((?:os\.Stderr|\w+\.ErrOrStderr\(\))`)
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
	if diff := cmp.Diff([]string{"call.go", "../output/output.go", "../screen/line.go"}, found); diff != "" {
		t.Errorf("these files write to stderr without warn, note or ask (-want +got):\n%s", diff)
	}
}
