package redact

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/config/units"
)

// maxPatterns is how many expressions one level may have.
const maxPatterns = 32

// Settings say which secrets are taken out of results, errors, progress, log
// messages and questions of a server.
type Settings struct {
	// Redacts the secrets of this configuration that have 8 bytes or more: headers of servers (not those such as Accept
	// and User-Agent), variables of servers with names that look secret (inherited ones too), passwords in URLs, secret
	// parameters in their queries, and secrets under toolgate. Default: false.
	Secrets *bool `config:"secrets"`
	// Redacts text in the form of a known credential, such as a private key, a JWT, the password in a URL, or a token of
	// GitHub, AWS, Slack and others. Default: false.
	Tokens *bool `config:"tokens"`
	// Additional secrets to redact, each of 8 bytes or more. Default: none.
	Values []secret.Text `config:"values"`
	// Additional regular expressions (RE2) to redact, at most 32. Use them for personal data (PII). Default: none.
	Patterns []Pattern `config:"patterns"`
}

// SearchLimits are the settings of the section limits that bound the search for secrets in
// one message.
type SearchLimits struct {
	// Bytes of one result that are scanned for secrets; a larger result is refused. Default: 8MiB.
	RedactBytes units.Size `config:"redact" default:"8MiB" min:"1KiB" max:"1GiB"`
	// Time to scan one result for secrets; a result that takes longer is refused. The texts of one run of an agent have
	// it as well, where they are shown. Default: 5s.
	RedactTime time.Duration `config:"redact_time" default:"5s" min:"1ms" max:"10m"`
}

// searchDefaults are the limits of a search for which none are set.
var searchDefaults = sync.OnceValue(func() (l SearchLimits) {
	decode.Defaults(&l)
	return l
})

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
