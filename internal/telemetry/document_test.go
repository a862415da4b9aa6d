package telemetry_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/telemetry"
)

var update = flag.Bool("update", false, "write docs/metrics.md")

const document = "../../docs/metrics.md"

const preface = "# Metrics\n\n" +
	"Written by `go test ./internal/telemetry -update` from the code; do not edit.\n\n" +
	"They are served at `/metrics` of `listen.metrics` in the text format of Prometheus,\n" +
	"with those of the Go runtime (`go_...`) and of the process (`process_...`).\n" +
	"[telemetry.md](telemetry.md) says how to use them.\n\n" +
	"| metric | type | labels | what |\n|---|---|---|---|\n"

// The page about metrics says what the code exports.
func TestDocument(t *testing.T) {
	m := telemetry.New("v1")
	everything(m)
	page := bytes.NewBufferString(preface)
	for _, d := range m.Described() {
		labels := "-"
		if len(d.Labels) > 0 {
			labels = "`" + strings.Join(d.Labels, "`, `") + "`"
		}
		fmt.Fprintf(page, "| `%s` | %s | %s | %s |\n", d.Name, d.Type, labels, d.Help)
	}
	if *update {
		if err := os.WriteFile(document, page.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(page.String(), string(have)); diff != "" {
		t.Errorf("docs/metrics.md (-code +page):\n%s", diff)
	}
}
