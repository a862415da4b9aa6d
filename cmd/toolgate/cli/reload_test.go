//go:build !windows

package cli

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/toolgate/toolgate/internal/admin"
)

// laterSettings is a toolgate section that a running gateway takes over in part.
var laterSettings = map[string]any{
	"listen": map[string]any{"public_url": "https://example.com"},
	"limits": map[string]any{"body": "1MiB", "queue": 7},
	"audit":  map[string]any{"mode": "required"},
}

var laterPaths = []string{"audit.mode", "limits.body", "listen.public_url"}

func TestReloadSaysWhatTheNextStartTakesOver(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, nil)
	p, _ := h.up(t)
	if got := h.ok(t, "reload", h.file); got != "reloaded "+h.file+"\n  nothing to apply\n" {
		t.Errorf("nothing has changed: %q", got)
	}

	h.write(t, servers{"a": fake("two")}, laterSettings)
	// The file is read by itself first; what only a start takes over waits for
	// nobody.
	p.says(t, p.err, "takes effect at the next start.*limits.body")
	if s := p.err.String(); strings.Contains(s, "setting audit") || !strings.Contains(s, "server a: args") {
		t.Errorf("what waits: %s", s)
	}
	later := "takes effect at the next start:\n  setting audit.mode\n  setting limits.body\n  setting listen.public_url\n"
	if got, want := h.ok(t, "reload", h.file), "reloaded "+h.file+"\n  server a: args\n"+later; got != want {
		t.Errorf("reload: %q, want %q", got, want)
	}
	// A second reload has nothing to do, and the next start is still needed.
	if got, want := h.ok(t, "reload", h.file), "reloaded "+h.file+"\n  nothing to apply\n"+later; got != want {
		t.Errorf("again: %q, want %q", got, want)
	}
	if got := h.ok(t, "reload", h.file, "-o", "name"); got != strings.Join(laterPaths, "\n")+"\n" {
		t.Errorf("names: %q", got)
	}
	want := admin.Reloaded{File: h.file, Applied: []string{}, AtNextStart: laterPaths}
	var fromJSON, fromYAML admin.Reloaded
	if err := json.Unmarshal([]byte(h.ok(t, "reload", h.file, "-o", "json")), &fromJSON); err != nil {
		t.Fatal(err)
	}
	asJSON(t, h.ok(t, "reload", h.file, "-o", "yaml"), &fromYAML)
	if diff := cmp.Diff([]admin.Reloaded{want, want}, []admin.Reloaded{fromJSON, fromYAML}); diff != "" {
		t.Errorf("json, yaml (-want +got):\n%s", diff)
	}

	if got := h.ok(t, "ls", h.file); !strings.HasSuffix(got, later) {
		t.Errorf("ls: %s", got)
	}
	var status, statusYAML admin.Status
	if err := json.Unmarshal([]byte(h.ok(t, "ls", h.file, "-o", "json")), &status); err != nil {
		t.Fatal(err)
	}
	asJSON(t, h.ok(t, "ls", h.file, "-o", "yaml"), &statusYAML)
	for _, s := range []admin.Status{status, statusYAML} {
		if len(s.Servers) != 1 || len(s.Pending) != 0 || !slices.Equal(s.AtNextStart, laterPaths) {
			t.Errorf("ls: %+v", s)
		}
	}
	if got := h.ok(t, "ls", h.file, "-o", "name"); got != "a\n" {
		t.Errorf("names are of servers: %q", got)
	}

	// Back to what the gateway started with: no start is needed for that.
	h.write(t, servers{"a": fake("two")}, nil)
	if got := h.ok(t, "reload", h.file); strings.Contains(got, "next start") {
		t.Errorf("taken back: %q", got)
	}
	if got := h.ok(t, "ls", h.file); strings.Contains(got, "next start") {
		t.Errorf("ls: %s", got)
	}
	// And the next start has nothing left to take over.
	h.write(t, servers{"a": fake("two")}, laterSettings)
	h.ok(t, "reload", h.file)
	p.stop(t, syscall.SIGTERM)
	h.up(t)
	if got := h.ok(t, "reload", h.file); strings.Contains(got, "next start") {
		t.Errorf("after the next start: %q", got)
	}
}

// asJSON reads YAML by way of JSON, for its names.
func asJSON(t *testing.T, text string, into any) {
	t.Helper()
	var generic any
	if err := yaml.Unmarshal([]byte(text), &generic); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(generic)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

func TestReloadOfTheDemo(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	p := h.start(t, "up")
	p.says(t, p.out, `(?m)^ready +(in|\d+ of) `)
	if got := h.ok(t, "reload"); got != "reloaded\n  nothing to apply\n" {
		t.Errorf("%q", got)
	}
	if _, err := os.Stat(h.file); err == nil {
		t.Error("a file was made")
	}
}
