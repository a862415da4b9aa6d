package cli

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/daemon"
)

// successor returns the configuration with which a process takes over from a
// gateway that has gone. Nobody asked for that, so it is the file as it is now
// only if that is what was in force; otherwise it is what this process read
// when a person started it, and the rest waits for a reload.
func (o *options) successor(c *config.Config, state *daemon.StateDir) *config.Config {
	text, err := os.ReadFile(filepath.Join(state.Path, daemon.InForceFile))
	if err != nil {
		return c
	}
	now, err := o.readConfig(c.Path)
	if err != nil || daemon.Digest(now) == "" || daemon.Digest(now) != strings.TrimSpace(string(text)) {
		return c
	}
	return now
}
