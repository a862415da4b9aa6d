package cli

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
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
