package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The demo of a machine without clients has nothing to import.
func TestNextStep(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"HOME", "USERPROFILE", "XDG_CONFIG_HOME", "AppData"} {
		t.Setenv(name, home)
	}
	t.Chdir(home)
	if got := nextStep(""); strings.Contains(got, "import") || !strings.Contains(got, "toolgate tools") {
		t.Errorf("without a client: %s", got)
	}
	if err := os.Mkdir(filepath.Join(home, ".cursor"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, ".cursor", "mcp.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := nextStep(""); got != "Next: toolgate import" {
		t.Errorf("with a client: %s", got)
	}
}
