package native

import (
	"encoding/json"
	"time"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/internal/child"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/native/group"
)

// PluginSettings are those of one program that serves tools.
type PluginSettings struct {
	// Path of the program. Required.
	Path string `config:"path" required:"true" format:"path"`
	// SHA-256 of the program, 64 hex digits. Required.
	SHA256 string `config:"sha256" required:"true" format:"sha256"`
	// Arguments of the program. Default: none.
	Args []string `config:"args"`
	// Environment variables in addition to PATH, HOME, LANG and TMPDIR; a value may contain variables, as in "${TOKEN}".
	// Default: none.
	Env map[string]secret.Text `config:"env"`
	// Makes the gateway and the plugin authenticate each other. Plugins that are not written in Go may not support this.
	// Default: true.
	AutoMTLS *bool `config:"auto_mtls"`
	// Configuration that the plugin receives unchanged. Default: {}.
	Config json.RawMessage `config:"config" format:"object"`
	// How long the plugin may take to start. Default: 10s.
	StartTimeout time.Duration `config:"start_timeout" min:"100ms" max:"10m"`
	// What happens where the plugin cannot be sandboxed. Default: auto.
	Sandbox group.Sandboxing `config:"sandbox" enum:"auto|required|off"`
	// Files and folders that the plugin may read, with everything in them. Default: what programs need to run.
	Read []string `config:"read" format:"path"`
	// Files and folders that the plugin may change. Default: only a private temporary folder.
	Write []string `config:"write" format:"path"`
	// Files and folders that the plugin may execute. Default: itself and the programs of the system.
	Run []string `config:"run" format:"path"`
	// What the plugin may reach on the network. Default: none.
	Network string `config:"network" enum:"none|full"`
	// Resource limits of the sandbox. Default: the default of each setting.
	Limits group.Limits `config:"limits"`
}

// Apply makes a spec that of the plugin. lookup has the environment of the gateway.
func (s *PluginSettings) Apply(spec *Spec, lookup func(string) (string, bool)) {
	spec.Shipped = false
	spec.Path, spec.SHA256, spec.Args, spec.AutoMTLS = s.Path, s.SHA256, s.Args, s.AutoMTLS == nil || *s.AutoMTLS
	spec.Config, spec.Timeouts.Start = s.Config, s.StartTimeout
	spec.Env = child.Environment(secret.Reveal(s.Env), nil, lookup)
	spec.Policy = s.Limits.Policy(s.Sandbox)
	spec.Policy.Read, spec.Policy.Write, spec.Policy.Run, spec.Policy.Temp = s.Read, s.Write, s.Run, true
	if s.Network == "full" {
		spec.Policy.Network = sandbox.FullNetwork
	}
}
