package upstream

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

const withApps = `{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}`

// A legacy server is told the extensions of the clients that call it, even if its process
// started before they came, unless somebody has already used that process.
func TestExtensionsAreDeclaredToLegacyServers(t *testing.T) {
	t.Parallel()
	for _, used := range []bool{false, true} {
		dir := t.TempDir()
		spec := childServer("notes", mcp.Legacy)
		spec.Env = append(spec.Env, placesVariable+"="+dir)
		r := run(t, spec)
		r.state(mcp.Ready)
		if used {
			r.call(tool("echo", `{}`))
		}
		call := tool("echo", `{}`)
		call.Capabilities = []byte(withApps)
		r.call(call)
		told, err := os.ReadFile(filepath.Join(dir, "started"))
		if err != nil {
			t.Fatal(err)
		}
		starts := strings.Split(strings.TrimSpace(string(told)), "\n")
		if used && len(starts) != 1 || !used && (len(starts) != 2 || !strings.Contains(starts[1], "text/html;profile=mcp-app")) {
			t.Errorf("used before: %t; the processes were told %q", used, starts)
		}
		// What was learned is kept, for the next start.
		testwait.Until(t, patience, "the listing", func() bool {
			r.Connected("", []byte(withApps))
			l, _ := r.Listing()
			return l != nil && (used || l.Declared != nil)
		})
	}
}

// Remembered extensions are bounded, and repeated declarations take no room.
func TestExtensionsAreBounded(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, declared string
		official       bool
		want           string
	}{
		{"none", `{}`, false, ""},
		{"no object", `{"extensions":[1]}`, false, ""},
		{"one", `{"extensions":{"x.example/a":{"n":[1]}}}`, false, `{"x.example/a":{"n":[1]}}`},
		{"without a prefix", `{"extensions":{"a":{}}}`, false, ""},
		{"not settings", `{"extensions":{"x.example/a":true}}`, false, ""},
		{"tasks, which are of modern revisions", `{"extensions":{"` + mcp.ExtensionTasks + `":{}}}`, false, ""},
		{"of somebody where several people share the server", `{"extensions":{"x.example/a":{}}}`, true, ""},
		{"official there", `{"extensions":{"io.modelcontextprotocol/ui":{}}}`, true, `{"io.modelcontextprotocol/ui":{}}`},
		{"too large", `{"extensions":{"x.example/a":{"n":"` + strings.Repeat("n", maxExtensions) + `"}}}`, false, ""},
	}
	for _, tt := range tests {
		var e extensions
		if got := e.learn([]byte(tt.declared), tt.official); got != (tt.want != "") || string(e.known()) != tt.want {
			t.Errorf("%s: %t, %s; want %s", tt.name, got, e.known(), tt.want)
		}
		if e.learn([]byte(tt.declared), tt.official) {
			t.Errorf("%s: it is news twice", tt.name)
		}
	}
}
