package config

import (
	"slices"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/units"
)

// Results say what is done with what servers answer. A key that is written for a
// tool counts before that of its server, and that before the one for all
// servers; values and patterns of all three count together.
type Results struct {
	// ValidateOutput holds the structuredContent of tools against the outputSchema that their server lists: warn marks,
	// logs and counts what does not fit, enforce refuses it. Absent: off.
	ValidateOutput string `config:"validate_output" enum:"off|warn|enforce"`
	// Redact takes secrets out of what the server answers. Absent: nothing is taken out.
	Redact Redact `config:"redact"`
	// MaxBytes is the largest result of a tool. Absent: limits.result.
	MaxBytes units.Size `config:"max_bytes" min:"2KiB" max:"1GiB"`
	// Larger is what happens to larger ones: cut passes on what fits, with a note that says how much was left out; keep
	// does the same and keeps the whole as a resource that the caller alone can read; refuse passes nothing on. Absent: cut.
	Larger string `config:"larger" enum:"cut|keep|refuse"`
}

// Redact says which secrets are taken out of results, errors, progress, log
// messages and questions of a server.
type Redact struct {
	// Secrets takes out the values of this file's own secrets, of 8 bytes or more: headers of servers, but for those such
	// as Accept and User-Agent; variables of servers, also inherited ones, whose names say that they are secret; passwords
	// in URLs, and what in their queries has the name of a secret; and the secrets under toolgate. Absent: no.
	Secrets *bool `config:"secrets"`
	// Tokens takes out what has the shape of a known kind of credential, such as a private key, a JWT, the password of
	// a URL, or the tokens of GitHub, AWS, Slack and others. Absent: no.
	Tokens *bool `config:"tokens"`
	// Values are further secrets, of 8 bytes or more. Absent: none.
	Values []secret.Text `config:"values"`
	// Patterns are regular expressions (RE2) of what is taken out besides, at most 32. Absent: none.
	Patterns []RedactPattern `config:"patterns"`
}

// RedactPattern is one regular expression of what is taken out.
type RedactPattern struct {
	// Name is shown in the place of what was taken out. Required.
	Name string `config:"name" required:"true" format:"id"`
	// Match is the expression (RE2). Required.
	Match string `config:"match" required:"true" format:"regexp"`
}

// Over returns the settings with those of a wider level where they say nothing.
func (r Results) Over(wider Results) Results {
	if r.ValidateOutput == "" {
		r.ValidateOutput = wider.ValidateOutput
	}
	if r.MaxBytes == 0 {
		r.MaxBytes = wider.MaxBytes
	}
	if r.Larger == "" {
		r.Larger = wider.Larger
	}
	if r.Redact.Secrets == nil {
		r.Redact.Secrets = wider.Redact.Secrets
	}
	if r.Redact.Tokens == nil {
		r.Redact.Tokens = wider.Redact.Tokens
	}
	r.Redact.Values = slices.Concat(wider.Redact.Values, r.Redact.Values)
	r.Redact.Patterns = slices.Concat(wider.Redact.Patterns, r.Redact.Patterns)
	return r
}

// Written tells whether anything is said.
func (r Results) Written() bool {
	return r.ValidateOutput != "" || r.MaxBytes != 0 || r.Larger != "" || r.Redact.Secrets != nil || r.Redact.Tokens != nil ||
		len(r.Redact.Values) > 0 || len(r.Redact.Patterns) > 0
}
