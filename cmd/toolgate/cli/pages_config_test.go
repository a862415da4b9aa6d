package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
)

// writeConfiguration writes the page that leads to the settings: people write it, but for
// the order in which files are looked for, which `toolgate help config` says too.
func writeConfiguration(w io.Writer) error {
	const begin, end = "<!-- which file: begin -->\n", "<!-- which file: end -->\n"
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "configuration.md"))
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("docs/configuration.md has no lines %q and %q", begin, end)
	}
	_, err = io.WriteString(w, before+begin+command.SearchOrder+"\n"+end+after)
	return err
}
