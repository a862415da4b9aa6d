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
	// Path is the file the record is appended to. Absent: audit.jsonl in the state folder.
	Path string `config:"path" format:"path"`
	// Mode is whether calls are refused while it cannot be written. Absent: required where authentication is configured, else best_effort.
	Mode Mode `config:"mode" enum:"required|best_effort"`
	// Fsync is when the file is forced to disk: after every entry, at short intervals, or by the system. Absent: interval.
	Fsync Fsync `config:"fsync" enum:"always|interval|never" default:"interval"`
	// ArgsHash is how arguments are recorded. Absent: sha256.
	ArgsHash string `config:"args_hash" enum:"sha256" default:"sha256"`
	// Fields are arguments of tools that are kept as they are, as JSON pointers by a glob of exposed names; secrets in them are not. Absent: none.
	Fields map[string][]string `config:"fields"`
	// DecisionInputs keeps the arguments of every call, sealed with the keys, for `toolgate policy replay`. Absent: only their hash is kept.
	DecisionInputs bool `config:"decision_inputs"`
	// RotateSize is how large a file gets before it is put aside and the next one begun; 0 is any size. Absent: 128MiB.
	RotateSize units.Size `config:"rotate_size" default:"128MiB"`
	// RotateAge is how old the first entry of a file gets before that; 0 is any age. Absent: 24h.
	RotateAge time.Duration `config:"rotate_age" default:"24h"`
}

// Check implements [decode.Checker]: what is kept of arguments is named as it can be
// found.
func (s *Settings) Check(p *tree.Problems, n *tree.Node, path string) {
	for glob, pointers := range s.Fields {
		for i, pointer := range pointers {
			if !strings.HasPrefix(pointer, "/") || pointer == "/" {
				p.At(n.Get("fields").Get(glob).Item(i), fmt.Sprintf("%s.fields.%s[%d]", path, glob, i), `write it as in "/owner"`, "%q is no JSON pointer to an argument", pointer)
			}
		}
	}
}
