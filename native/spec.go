package native

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/toolgate/toolgate/internal/sandbox"
)

// Spec says which process serves the tools of a plugin, and how. It is not
// changed once it is given to a [Host].
type Spec struct {
	// Key is the plugin's name in the configuration.
	Key string
	// Shipped tells that the tools are in the program of the gateway itself, under
	// the key; nothing of Path to AutoMTLS counts then.
	Shipped bool

	// Path is the program, SHA256 the checksum of its bytes in hex.
	Path, SHA256 string
	Args         []string
	// Env is the whole environment as NAME=value, beside what the handshake needs.
	Env []string
	// AutoMTLS has both sides show certificates that were made for this start.
	AutoMTLS bool

	// Config is handed to the plugin, a JSON object; nil is {}.
	Config []byte
	// Policy is what the process may do.
	Policy sandbox.Policy
	// Refused is why it is not started, until there is another spec; nil where it is.
	Refused error

	Timeouts Timeouts
	// Result is how large a result may be, in bytes; 32 MiB when zero.
	Result int
}

// Timeouts bound what is waited for. Zero values are replaced by the defaults.
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

// Hash tells two specs apart that need different processes. It holds nothing that
// is secret.
func (s *Spec) Hash() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %t %q %q %q %q %t %q %+v %+v %d",
		s.Key, s.Shipped, s.Path, s.SHA256, s.Args, s.Env, s.AutoMTLS, s.Config, s.Policy, s.Timeouts, s.Result))
	return hex.EncodeToString(sum[:])
}
