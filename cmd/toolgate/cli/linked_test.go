//go:build !windows

package cli

import (
	"os"
	"strings"
	"testing"
)

// Who keeps the configuration, and the variables beside it, elsewhere and links to
// them, has the links afterwards too, and the changes where they lead to.
func TestLinkedFilesAreChangedWhereTheyAre(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.env["HOME"] = h.path("person")
	h.keep(t, "person/.cursor/mcp.json", `{"mcpServers": {"x": {"command": "true", "env": {"API_TOKEN": "a-secret-of-some-length"}}}}`, 0o600)
	real := h.keep(t, "dotfiles/toolgate.yaml", "mcpServers:\n  a: # mine\n    command: \"true\"\n", 0o600)
	variables := h.keep(t, "dotfiles/variables", "OTHER='1'\n", 0o600)
	h.file = h.path("toolgate.yaml")
	for link, to := range map[string]string{h.file: real, h.path("toolgate.env"): variables} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	h.ok(t, "import", "--write", "--config", h.file)
	h.ok(t, "add", "other", "--config", h.file, "--", "true")
	h.ok(t, "remove", "a", "--config", h.file)
	for _, link := range []string{h.file, h.path("toolgate.env")} {
		if _, err := os.Readlink(link); err != nil {
			t.Errorf("the link is gone: %v", err)
		}
	}
	if got := h.text(t, real); !strings.Contains(got, "x:") || !strings.Contains(got, "other:") || strings.Contains(got, "mine") {
		t.Errorf("the file has %q", got)
	}
	if got := h.text(t, variables); !strings.Contains(got, "OTHER='1'") || !strings.Contains(got, "a-secret-of-some-length") {
		t.Errorf("the variables are %q", got)
	}
	// A link to nothing is told of, and not replaced.
	if err := os.Remove(real); err != nil {
		t.Fatal(err)
	}
	if o := h.run(t, "add", "z", "--config", h.file, "--", "true"); o.code == exitOK {
		t.Errorf("a link to nothing: %+v", o)
	}
	if _, err := os.Readlink(h.file); err != nil {
		t.Errorf("the link to nothing is gone: %v", err)
	}
}
