// Package daemontest runs gateways inside the process of a test: made by the one
// composition, of a configuration file in a folder of the test's own.
package daemontest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/fakeserver"
)

// Patience bounds every wait of tests; nothing waits for it to pass.
const Patience = 30 * time.Second

// Servers are the servers of a configuration file.
type Servers map[string]map[string]any

// Fake is the entry of a server that the program of the test itself is, see package
// fakeserver.
func Fake(args ...string) map[string]any {
	return map[string]any{
		"command": os.Args[0], "args": append([]string{fakeserver.Command}, args...),
		"env": map[string]string{"GORACE": "atexit_sleep_ms=0"}, // or the race detector waits for a second
	}
}

// Home is a folder with the configuration file of a gateway.
type Home struct{ Dir, File string }

// NewHome makes one whose paths are short enough for sockets. It goes with the test.
func NewHome(t testing.TB) *Home {
	t.Helper()
	dir, err := os.MkdirTemp("", "tg") //nolint:usetesting // the path of t.TempDir is too long for a socket on some systems
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return &Home{Dir: dir, File: filepath.Join(dir, "toolgate.yaml")}
}

// Path is that of a file in the folder.
func (h *Home) Path(name string) string { return filepath.Join(h.Dir, name) }

// Write writes the configuration. Whoever watches sees all of it or nothing.
func (h *Home) Write(t testing.TB, s Servers, toolgate map[string]any) {
	t.Helper()
	file := map[string]any{"mcpServers": s}
	if toolgate != nil {
		file["toolgate"] = toolgate
	}
	text, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	h.WriteText(t, string(text))
}

// WriteText writes the configuration as a text.
func (h *Home) WriteText(t testing.TB, text string) {
	t.Helper()
	if err := os.WriteFile(h.File+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(h.File+".new", h.File); err != nil {
		t.Fatal(err)
	}
}

// KeyHash is the hash of an API key, as a configuration has it.
func KeyHash(key string) string {
	s := sha256.Sum256([]byte(key))
	return hex.EncodeToString(s[:])
}

// WithKeys is a toolgate section that lets in the owners of keys.
func WithKeys(keys ...string) map[string]any {
	list := []any{}
	for _, k := range keys {
		list = append(list, map[string]any{"id": k, "sha256": KeyHash(k), "subject": k})
	}
	return map[string]any{"gate": map[string]any{"open": true}, "auth": map[string]any{"keys": list}}
}
