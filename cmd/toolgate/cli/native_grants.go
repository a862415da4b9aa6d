package cli

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/native"
)

// checkPlugins checks what the plugins of a configuration that is not run are
// granted: it is there, and it is nothing of the gateway's own.
func checkPlugins(c *config.Config) error {
	plugins := c.Toolgate.Native.Plugins
	if len(plugins) == 0 {
		return nil
	}
	state, err := statedir.Find(c.Path)
	if err != nil {
		return err
	}
	off := build.KeepOff(c, build.OwnFiles(c, state))
	var wrong []error
	for _, key := range slices.Sorted(maps.Keys(plugins)) {
		n := plugins[key]
		if n.Sandbox == "off" {
			continue // there is nothing that is granted
		}
		prefix := "native.plugins." + key + "."
		for _, grant := range []struct {
			key   string
			paths []string
		}{{"read", n.Read}, {"write", n.Write}, {"run", n.Run}} {
			for _, path := range grant.paths {
				if _, err := os.Stat(path); err != nil {
					wrong = append(wrong, fmt.Errorf("%s%s%s: what is granted has to be there: %w", placeOf(c, prefix+grant.key), prefix, grant.key, err))
				}
			}
		}
		if _, err := build.PluginSpec(native.Spec{Key: key}, &n, c, off); err != nil {
			wrong = append(wrong, fmt.Errorf("%s%w", placeOf(c, prefix), err))
		}
	}
	return failure.New(failure.Config, errors.Join(wrong...))
}

// placeOf is where a file says something, before what is wrong with it.
func placeOf(c *config.Config, prefix string) string {
	if at := build.RuleAt(c, prefix); at.Line > 0 {
		return fmt.Sprintf("%s:%d: ", at.File, at.Line)
	}
	return c.Path + ": "
}
