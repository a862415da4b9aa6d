package cli

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
)

// successor returns the configuration with which a process takes over from a
// gateway that has gone. Nobody asked for that, so it is the file as it is now
// only if that is what was in force; otherwise it is what this process read
// when a person started it, and the rest waits for a reload.
func (o *options) successor(c *config.Config, state *statedir.Dir) *config.Config {
	text, err := os.ReadFile(filepath.Join(state.Path, statedir.InForceFile))
	if err != nil {
		return c
	}
	now, err := o.readConfig(c.Path)
	if err != nil || statedir.Digest(now) == "" || statedir.Digest(now) != strings.TrimSpace(string(text)) {
		return c
	}
	return now
}
