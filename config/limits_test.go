package config

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/config/decode"
)

const limitsPage = "../docs/limits.md"

// TestLimitsPage keeps the table of the page that documents the limits equal to
// the code: a row for each key, with its default, range and meaning.
func TestLimitsPage(t *testing.T) {
	const begin, end = "<!-- limits: begin -->\n", "<!-- limits: end -->\n"
	docs := fieldDocs{}
	var table strings.Builder
	table.WriteString("| key under `limits` | default | from | to | what it bounds |\n|---|---|---|---|---|\n")
	for _, f := range decode.Fields(reflect.TypeFor[Limits]()) {
		about, _, ok := strings.Cut(docs.of(t, reflect.TypeFor[Limits](), f), " Default: ")
		for _, tag := range []string{"default", "min", "max"} {
			if _, has := f.Tag.Lookup(tag); !has || !ok {
				t.Errorf("%s has no %s, or does not say what its default is", f.Name, tag)
			}
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s | %s |\n", f.Tag.Get("config"), f.Tag.Get("default"), f.Tag.Get("min"), f.Tag.Get("max"), about)
	}
	page, err := os.ReadFile(limitsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), begin)
	old, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", limitsPage)
	}
	if *update {
		if err := os.WriteFile(limitsPage, []byte(before+begin+table.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(old, table.String()); diff != "" {
		t.Errorf("%s is not what the code says; run go test ./config -update (-page +code):\n%s", limitsPage, diff)
	}
}
