package cli

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/cmd/toolgate/clients"
	"github.com/toolgate/toolgate/cmd/toolgate/doctor"
)

//go:generate go test -run=TestPages -update .

var updatePages = flag.Bool("update", false, "write the generated pages of the documentation")

// pages are the pages of the documentation that are written from the program, by
// their paths below docs.
func pages() map[string]func(io.Writer) error {
	all := map[string]func(io.Writer) error{
		"doctor.md": doctor.WritePage, "exit-codes.md": writeExitCodes, "cli.md": writeCommands, "configuration.md": writeConfiguration,
		"refusals.md": writeRefusals, "clients/README.md": writeClients,
	}
	for _, c := range clients.All() {
		all["clients/"+c.Name+".md"] = writeClient(c)
	}
	return all
}

// TestPages fails when a generated page is not what the program would write now.
func TestPages(t *testing.T) {
	for name, write := range pages() {
		var page bytes.Buffer
		if err := write(&page); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("..", "..", "..", "docs", filepath.FromSlash(name))
		if *updatePages {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		kept, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(string(kept), page.String()); diff != "" {
			t.Errorf("docs/%s is stale; run go generate ./cmd/toolgate/cli (-kept +now):\n%s", name, diff)
		}
	}
}

// writeExitCodes writes the page about exit codes.
func writeExitCodes(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Exit codes\n\nEvery command ends with one of these codes; scripts may rely on them. On standard error,\nlines that begin with `toolgate: ` say why a command has failed, those with `warning: ` what to look\ninto, and those with `note: ` what else is worth knowing; a longer message goes on in indented lines.\n\n| code | name | meaning |\n|---|---|---|\n")
	for _, c := range exitCodes {
		fmt.Fprintf(&b, "| %d | %s | %s |\n", c.code, c.name, c.means)
	}
	b.WriteString("\nThis page is generated from the program (`go generate ./cmd/toolgate/cli`).\n")
	_, err := io.WriteString(w, b.String())
	return err
}
