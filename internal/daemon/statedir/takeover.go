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

// InForceFile is the file of the state folder with the digest of what the last
// gateway had in force.
const InForceFile = "in-force.sha256"

// Digest stands for everything of a configuration that a reload which nobody
// asked for must not bring in, secrets included. It is empty where there is
// none, which is equal to nothing.
func Digest(c *config.Config) string {
	h := sha256.New()
	for i := range c.Servers {
		s := &c.Servers[i]
		fmt.Fprintf(h, "%q %v\n", s.Key, s.Refused)
		for _, secrets := range []map[string]secret.Text{s.Env, s.Headers} { // which JSON leaves out
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

// Remember notes what is in force for whoever takes over. Where it cannot, the
// next gateway goes on with what it read when it started.
func (s *Dir) Remember(c *config.Config) {
	_ = s.Replace(InForceFile, Digest(c))
}
