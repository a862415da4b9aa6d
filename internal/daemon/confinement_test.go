//go:build !windows

package daemon_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/native/group"
	"github.com/toolgate/toolgate/native/plugins/code"
)

// What runs code or commands that a caller has a say in is confined, or does not
// run, unless the file says otherwise.
func TestCodeAndCommandsMustBeConfined(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]sandbox.Mode{"": sandbox.Required, "auto": sandbox.Auto, "off": sandbox.Off, "required": sandbox.Required} {
		set := ""
		if written != "" {
			set = ", sandbox: " + written
		}
		h := newHome(t)
		c := configOf(t, h, fmt.Sprintf("toolgate:\n  native: { code: { timeout: 1s%[1]s } }\n  tools: [{ name: say, type: command, args: [echo]%[1]s }]\n", set))
		off := build.KeepOff(c, nil)
		child := c.Toolgate.Native.Code.Child(&group.Gateway{Own: off.Own, Started: off.Started, Python: off.Python})
		if settings, ok := child.Config.(code.Config); !ok || settings.Sandbox != want {
			t.Errorf("code with %q: %+v, want %v", written, child.Config, want)
		}
		command, err := build.DeclaredCommand(c, &c.Toolgate.Tools[0], off)
		if err != nil || command.Policy.Mode != want {
			t.Errorf("a command with %q: %+v, %v, want %v", written, command, err, want)
		}
	}
}

// A machine that cannot confine is named by validate, doctor and the log: what does
// not run there, what runs all the same, and what to write.
func TestWhatIsNotConfinedIsSaid(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	c := configOf(t, h, `mcpServers: { near: { command: /bin/true }, open: { command: /bin/true } }
toolgate:
  servers: { near: { sandbox: {} } }
  native:
    code: {}
    plugins: { sums: { path: /bin/true, sha256: `+strings.Repeat("ab", 32)+` } }
  tools:
    - { name: strict, type: command, args: [echo] }
    - { name: loose, type: command, args: [echo], sandbox: auto }
    - { name: free, type: command, args: [echo], sandbox: "off" }
    - { name: asks, type: http, url: "https://a.example/" }
`)
	bare := func(sandbox.Policy) (sandbox.Layers, error) {
		return sandbox.Layers{Missing: []sandbox.Missing{{Layer: sandbox.Files, Why: "none", Needed: true}, {Layer: sandbox.Namespaces, Why: "none"}}}, nil
	}
	var got []string
	for _, u := range daemon.UnconfinedOf(c, bare) {
		got = append(got, fmt.Sprintf("%s %v", u.Subject, u.Refused))
		if strings.Contains(u.String(), "sandbox: auto is written") != (u.Refused && !u.Server) || !strings.Contains(u.Why, "lacks landlock; landlock: none") {
			t.Errorf("it says %s", u)
		}
	}
	want := []string{"native.code true", "native.plugins.sums false", "servers.near true", "tools[0] (tools__strict) true", "tools[1] (tools__loose) false"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := daemon.UnconfinedOf(c, func(sandbox.Policy) (sandbox.Layers, error) { return sandbox.Layers{}, nil }); got != nil {
		t.Errorf("where everything is in force: %v", got)
	}
}

// configOf is a configuration of some text.
func configOf(t *testing.T, h *home, text string) *config.Config {
	t.Helper()
	h.writeText(t, text)
	c, err := config.Load(h.file, config.Options{LookupEnv: os.LookupEnv})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
