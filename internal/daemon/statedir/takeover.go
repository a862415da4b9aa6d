package statedir

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/config/secret"
)

// InForceFile is the file with the digest of the last configuration in force.
const InForceFile = "in-force.sha256"

// Digest identifies all parts of a configuration that must not change by an
// unrequested reload, including secrets. It is empty without a configuration, and an
// empty digest equals nothing.
func Digest(c *config.Config) string {
	h := sha256.New()
	for i := range c.Servers {
		s := &c.Servers[i]
		fmt.Fprintf(h, "%q %v\n", s.Key, s.Refused)
		for _, secrets := range []map[string]secret.Text{s.Env, s.Headers} { // JSON omits them
			for _, name := range slices.Sorted(maps.Keys(secrets)) {
				fmt.Fprintf(h, "%q %q\n", name, secrets[name].Reveal())
			}
			fmt.Fprintln(h)
		}
	}
	text, err := json.Marshal(struct {
		Servers  []config.Server
		Settings config.Toolgate
	}{c.Servers, c.Toolgate})
	if err != nil {
		return ""
	}
	h.Write(text)
	return hex.EncodeToString(h.Sum(nil))
}

// Remember records the digest in force for a takeover. If that fails, the next gateway
// continues with the configuration that it read at its start.
func (s *Dir) Remember(c *config.Config) {
	_ = s.Replace(InForceFile, Digest(c))
}
