package native

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/toolgate/toolgate/internal/sandbox"
)

// Spec describes the process that serves the tools of a plugin. It must not be changed
// after it was given to a [Host].
type Spec struct {
	// Key is the plugin's name in the configuration.
	Key string
	// Shipped is true if the tools are part of the gateway's own program, under the
	// key. Path to AutoMTLS are ignored then.
	Shipped bool
	// Inside is true if the gateway serves shipped tools in its own process: there is
	// none to start, and what describes one is ignored. A [Host] does not take them.
	Inside bool

	// Path is the program, SHA256 the checksum of its bytes in hex.
	Path, SHA256 string
	Args         []string
	// Env is the whole environment as NAME=value, beside what the handshake needs.
	Env []string
	// AutoMTLS makes both sides authenticate with certificates made for this start.
	AutoMTLS bool

	// Config is the configuration of the plugin, a JSON object; nil is {}.
	Config []byte
	// Policy is what the process may do.
	Policy sandbox.Policy
	// Runs are what confines the programs that the tools run, where not their own process
	// is confined but each run. Nil is the confinement of the process.
	Runs []string
	// Refused is why the plugin is not started; nil starts it.
	Refused error

	Timeouts Timeouts
	// Result is how large a result may be, in bytes; 32 MiB when zero.
	Result int
}

// Timeouts limit how long the host waits. Zero is the default of each.
type Timeouts struct {
	Start time.Duration // until the plugin has listed its tools; 10 s
	// Call bounds a call that reports no progress, of a tool that has no timeout of
	// its own; 120 s. Idle bounds the silence of one that does; Call when zero.
	Call, Idle time.Duration
	Hard       time.Duration // of every call; 30 min
}

const (
	defaultStart  = 10 * time.Second
	defaultCall   = 120 * time.Second
	defaultHard   = 30 * time.Minute
	defaultResult = 32 << 20
)

func (s Spec) withDefaults() Spec {
	for _, d := range []struct {
		at *time.Duration
		to time.Duration
	}{{&s.Timeouts.Start, defaultStart}, {&s.Timeouts.Call, defaultCall}, {&s.Timeouts.Hard, defaultHard}} {
		if *d.at <= 0 {
			*d.at = d.to
		}
	}
	if s.Result <= 0 {
		s.Result = defaultResult
	}
	if s.Config == nil {
		s.Config = []byte("{}")
	}
	return s
}

// Hash differs for specs that need different processes. It reveals no secret.
func (s *Spec) Hash() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %t %q %q %q %q %t %q %+v %+v %d",
		s.Key, s.Shipped, s.Path, s.SHA256, s.Args, s.Env, s.AutoMTLS, s.Config, s.Policy, s.Timeouts, s.Result))
	return hex.EncodeToString(sum[:])
}
