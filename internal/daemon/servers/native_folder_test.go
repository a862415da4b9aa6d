package servers

import (
	"path/filepath"
	"strings"
	"testing"
)

// The sockets of plugins are where their paths fit, and where they fit nowhere a
// person is told what to set.
func TestPluginFolder(t *testing.T) {
	t.Parallel()
	long := "/" + strings.Repeat("d", 90)
	for _, c := range []struct{ state, temp, folder, short, wrong string }{
		{"/s", "/tmp", filepath.Join("/s", "plugins"), "", ""},
		{"/s", long, filepath.Join("/s", "plugins"), "", ""},
		{long, "/tmp", "", filepath.Join("/tmp", "toolgate-7"), ""},
		{long, long, "", "", "set TMPDIR to a shorter path"},
	} {
		folder, short, err := pluginFolder(c.state, c.temp, 7)
		switch {
		case c.wrong != "":
			if folder != filepath.Join(c.state, "plugins") || short != "" || err == nil || !strings.Contains(err.Error(), c.wrong) || !strings.Contains(err.Error(), "TOOLGATE_STATE") {
				t.Errorf("%s, %s: %v", c.state, c.temp, err)
			}
		case err != nil || short != c.short || c.folder != "" && folder != c.folder || filepath.Dir(folder) != c.short && c.short != "":
			t.Errorf("%s, %s: %s, %s, %v", c.state, c.temp, folder, short, err)
		case len(folder) > nativeSocketPath:
			t.Errorf("%s is too long", folder)
		}
	}
}
