package redact

import (
	"fmt"
	"slices"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/tree"
)

// maxPatterns is how many expressions one level may have.
const maxPatterns = 32

// Settings say which secrets are taken out of results, errors, progress, log
// messages and questions of a server.
type Settings struct {
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
	Patterns []Pattern `config:"patterns"`
}

// Options are what the settings take out; secrets are those that they may take out by
// themselves.
func (s *Settings) Options(secrets []string) Options {
	o := Options{Tokens: s.Tokens != nil && *s.Tokens, Patterns: s.Patterns}
	for _, value := range s.Values {
		o.Secrets = append(o.Secrets, value.Reveal())
	}
	if s.Secrets != nil && *s.Secrets {
		o.Secrets = append(o.Secrets, secrets...)
	}
	return o
}

// Check implements [decode.Checker]: values are long enough to be told from ordinary
// text, and patterns few and with names of their own.
func (s *Settings) Check(p *tree.Problems, n *tree.Node, path string) {
	for i, value := range s.Values {
		at := fmt.Sprintf("%s.values[%d]", path, i)
		known := slices.ContainsFunc(p.List, func(e *tree.Error) bool { return e.Key == at })
		if len(value) < MinSecret && !known {
			p.At(n.Get("values").Item(i), at,
				fmt.Sprintf("write one of %d bytes or more", MinSecret), "the value is so short that it would be found in ordinary text")
		}
	}
	if len(s.Patterns) > maxPatterns {
		p.At(n.Get("patterns"), path+".patterns", "join some of them", "there are %d patterns and may be %d", len(s.Patterns), maxPatterns)
	}
	names := map[string]int{}
	for i, pattern := range s.Patterns {
		p.Unique(n.Get("patterns").Item(i), fmt.Sprintf("%s.patterns[%d]", path, i), "name", pattern.Name, names)
	}
}
