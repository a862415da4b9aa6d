package daemon

import (
	"os"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/daemon/build"
)

// hideSecrets keeps the secrets of the settings in force out of what is shown.
func (in *Daemon) hideSecrets(c *config.Config, servers []config.Server) {
	in.Hidden.Use(build.KnownSecrets(&c.Toolgate, servers, os.LookupEnv), in.Log)
	if in.logs != nil {
		in.logs.Redact(&in.Hidden)
	}
}
