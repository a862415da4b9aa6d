//go:build !windows

package cli

import (
	"runtime"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/upstream/credential"
)

// What the groups are opened with names everything that they keep off.
func TestNativeOwnFiles(t *testing.T) {
	t.Parallel()
	c := &config.Config{Path: "/c/toolgate.yaml", Servers: []config.Server{{Command: "/p/server", Args: []string{"/p/server.py"}, Auth: credential.Auth{Client: credential.Client{Key: "/k/key.pem"}, Assertion: "/w/assertion"}}}}
	c.Toolgate.ToolFiles = []string{"/t/tools.yaml"}
	own := strings.Join(build.OwnFiles(c, &statedir.Dir{Path: "/state", Socket: "/state/socket"}), " ")
	for _, path := range []string{"/c/toolgate.yaml", "/k/key.pem", "/w/assertion", "/t/tools.yaml"} {
		if !strings.Contains(own, path) {
			t.Errorf("%s is not among %s", path, own)
		}
	}
	if runtime.GOOS == "linux" {
		fixed := strings.Join(build.KeepOff(c, nil).Started(), " ")
		for _, path := range []string{"/p/server", "/p/server.py", "/usr/bin"} {
			if !strings.Contains(fixed, path) {
				t.Errorf("%s is not among %s", path, fixed)
			}
		}
	}
}
