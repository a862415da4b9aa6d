//go:build amd64 || arm64

package servers_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/daemon/daemontest"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/internal/testwait"
)

// What confines each server is in its row: nothing, the layers of its sandbox, and for
// code what its runs have.
func TestSandboxOfRows(t *testing.T) {
	b := newBench(t)
	confined := map[string]any{"sandbox": map[string]any{}}
	b.use(t, daemontest.Servers{"open": daemontest.Fake("one"), "closed": daemontest.Fake("one")},
		map[string]any{"servers": map[string]any{"closed": confined}, "native": map[string]any{"code": map[string]any{"sandbox": "auto"}}})
	layers, err := sandbox.Available(sandbox.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	server, err := sandbox.Available(sandbox.Policy{Unlimited: true})
	if err != nil {
		t.Fatal(err)
	}
	named := func(l sandbox.Layers) string { return strings.ReplaceAll(l.String(), " ", ", ") }
	want := map[string]string{"open": "none", "closed": named(server), "code": named(layers)}
	for _, row := range b.Rows() {
		if got := row.Sandbox; got != want[row.Name] {
			t.Errorf("%s (%s %s): %q, want %q", row.Name, row.State, row.Reason, got, want[row.Name])
		}
		if refused := len(server.Lacks()) > 0; row.Name == "closed" && (row.State == "ready") == refused {
			t.Errorf("the confined server is %s: %s", row.State, row.Reason)
		}
	}
}

// A sandbox does not give a server what is the gateway's own, nor what others are started
// from.
func TestSandboxKeepsOff(t *testing.T) {
	b := newBench(t)
	for want, set := range map[string]map[string]any{
		"the gateway's own":                     {"read": []string{b.Dir}},
		"from which a server or a tool is star": {"write": []string{"/usr/local/bin"}},
	} {
		_, err := b.plan(t, daemontest.Servers{"a": daemontest.Fake("one")}, map[string]any{"servers": map[string]any{"a": map[string]any{"sandbox": set}}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "toolgate.servers.a.sandbox.") {
			t.Errorf("%v: %v, want %q", set, err, want)
		}
	}
}

// What a sandbox grants is checked when it is given: a link that leads elsewhere since the
// configuration was checked gives nothing.
func TestSandboxOfALinkThatChanges(t *testing.T) {
	if err := sandbox.Refusal(sandbox.Policy{Unlimited: true}); err != nil {
		t.Skipf("servers cannot be confined on this machine: %v", err)
	}
	for want, tc := range map[string]struct{ key, to string }{
		"the gateway's own":                        {key: "read"},
		"from which a server or a tool is started": {key: "write", to: "/usr/local/bin"},
	} {
		b := newBench(t)
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(t.TempDir(), link); err != nil {
			t.Fatal(err)
		}
		p, err := b.plan(t, daemontest.Servers{"a": daemontest.Fake("one")},
			map[string]any{"servers": map[string]any{"a": map[string]any{"sandbox": map[string]any{tc.key: []string{link}}}}})
		if err != nil {
			t.Fatal(err)
		}
		if tc.to == "" {
			tc.to = b.Dir
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(tc.to, link); err != nil {
			t.Fatal(err)
		}
		b.Use(b.ctx, p)
		testwait.Until(t, daemontest.Patience, "the server is refused", func() bool {
			row := b.Rows()[0]
			return row.State != "ready" && strings.Contains(row.Reason, want)
		})
	}
}
