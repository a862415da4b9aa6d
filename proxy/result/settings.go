package result

import (
	"slices"

	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/config/units"
	"github.com/toolgate/toolgate/proxy/redact"
)

// Settings say what is done with what servers answer. A key that is written for a
// tool counts before that of its server, and that before the one for all
// servers; values and patterns of all three count together.
type Settings struct {
	// Validates structuredContent against the outputSchema that the server lists: warn marks, logs and counts
	// mismatches, enforce refuses them. Default: off.
	ValidateOutput OutputMode `config:"validate_output" enum:"off|warn|enforce"`
	// Redacts secrets in results. Default: nothing is redacted.
	Redact redact.Settings `config:"redact"`
	// Largest result of a tool. Default: limits.result.
	MaxBytes units.Size `config:"max_bytes" min:"2KiB" max:"1GiB"`
	// What happens to a result above max_bytes. cut delivers what fits and notes how much is missing; keep does the same
	// and stores the whole result as a resource that only this caller can read; refuse delivers nothing. Default: cut.
	Larger LargerMode `config:"larger" enum:"cut|keep|refuse"`
}

// Over returns the settings with those of a wider level where they say nothing.
func (s Settings) Over(wider Settings) Settings {
	if s.ValidateOutput == "" {
		s.ValidateOutput = wider.ValidateOutput
	}
	if s.MaxBytes == 0 {
		s.MaxBytes = wider.MaxBytes
	}
	if s.Larger == "" {
		s.Larger = wider.Larger
	}
	if s.Redact.Secrets == nil {
		s.Redact.Secrets = wider.Redact.Secrets
	}
	if s.Redact.Tokens == nil {
		s.Redact.Tokens = wider.Redact.Tokens
	}
	s.Redact.Values = slices.Concat(wider.Redact.Values, s.Redact.Values)
	s.Redact.Patterns = slices.Concat(wider.Redact.Patterns, s.Redact.Patterns)
	return s
}

// Written tells whether anything is said.
func (s Settings) Written() bool {
	return s.ValidateOutput != "" || s.MaxBytes != 0 || s.Larger != "" || s.Redact.Secrets != nil || s.Redact.Tokens != nil ||
		len(s.Redact.Values) > 0 || len(s.Redact.Patterns) > 0
}

// Rules are the rules of one level, with what is searched for secrets at most; secrets
// are those that the settings may take out by themselves.
func (s Settings) Rules(secrets []string, search redact.Messages) (Rules, error) {
	r := Rules{Output: s.ValidateOutput, MaxBytes: int(s.MaxBytes), Larger: s.Larger, Redact: search}
	if r.Output == "off" {
		r.Output = OutputUnchecked
	}
	if r.Larger == "cut" {
		r.Larger = TruncateLarger
	}
	found, err := redact.New(s.Redact.Options(secrets))
	if err != nil {
		return r, err
	}
	if found != nil { // a nil pointer would be no nil interface
		r.Redact.Filter = found
	}
	return r, nil
}

// CheckLevel reports what the values of one level of settings together have
// wrong. It is sized where another level says how large a result may be, or may.
func (s *Settings) CheckLevel(p *tree.Problems, n *tree.Node, path string, sized bool) {
	if s.Larger != "" && s.MaxBytes == 0 && !sized {
		p.At(n.Get("larger"), path+".larger", "add max_bytes", "nothing says from which size on")
	}
	s.Redact.Check(p, n.Get("redact"), path+".redact")
}
