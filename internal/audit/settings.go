package audit

import (
	"fmt"
	"strings"
	"time"

	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/config/units"
)

// Settings are what an operator says of the record of calls.
type Settings struct {
	// File of the audit log. Default: audit.jsonl in the state folder.
	Path string `config:"path" format:"path"`
	// Whether calls are refused while the log cannot be written (required) or continue (best_effort). Default: required
	// if authentication is configured, else best_effort.
	Mode Mode `config:"mode" enum:"required|best_effort"`
	// When entries are forced to disk: always after each entry, interval at short intervals, or never, which leaves it
	// to the system. Default: interval.
	Fsync Fsync `config:"fsync" enum:"always|interval|never" default:"interval"`
	// How arguments are recorded. Default: sha256.
	ArgsHash string `config:"args_hash" enum:"sha256" default:"sha256"`
	// Arguments that are recorded in plain text: JSON Pointers by a glob of exposed names. Secrets in them are redacted.
	// Default: none.
	Fields map[string][]string `config:"fields"`
	// Records the arguments of every call, encrypted with the keys, for `toolgate policy replay`. Default: false; only
	// their hash is recorded.
	DecisionInputs bool `config:"decision_inputs"`
	// Size at which a new file is begun; 0 for no limit. Default: 128MiB.
	RotateSize units.Size `config:"rotate_size" default:"128MiB"`
	// Age of the first entry at which a new file is begun; 0 for no limit. Default: 24h.
	RotateAge time.Duration `config:"rotate_age" default:"24h"`
}

// Check implements [decode.Checker]: what is kept of arguments is named as it can be
// found.
func (s *Settings) Check(p *tree.Problems, n *tree.Node, path string) {
	for glob, pointers := range s.Fields {
		for i, pointer := range pointers {
			if !strings.HasPrefix(pointer, "/") || pointer == "/" {
				p.At(n.Get("fields").Get(glob).Item(i), fmt.Sprintf("%s.fields.%s[%d]", path, glob, i), `write it as in "/owner"`, "%q is not a JSON pointer to an argument", pointer)
			}
		}
	}
}
