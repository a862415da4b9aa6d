package result

import (
	"fmt"
	"slices"

	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/config/units"
	"github.com/toolgate/toolgate/proxy/redact"
	"github.com/toolgate/toolgate/proxy/result/jq"
)

// Settings say what is done with what servers answer. A key that is written for a
// tool counts before that of its server, and that before the one for all
// servers; values, patterns and members to leave out of all three count together.
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
	// Members to leave out of JSON in results, such as items.*.url or **.avatar_url. Default: none.
	Drop []string `config:"drop"`
	// jq filter; what it returns is passed on instead of the result of a tool. Default: everything.
	Select string `config:"select"`
	// Passes lists of equal objects on as tables, where that is at least 15 % smaller. Default: off.
	Rows *bool `config:"rows"`
	// Leaves out structured content that a text repeats, for clients that are known to read the text. Default: off.
	Dedupe *bool `config:"dedupe"`
	// Lists an argument toolgate_select, a jq filter by which a model selects from the result of its call. Default: off.
	OwnSelect *bool `config:"own_select"`
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
	if s.Select == "" {
		s.Select = wider.Select
	}
	for _, one := range []struct{ own, wider **bool }{
		{&s.Rows, &wider.Rows}, {&s.Dedupe, &wider.Dedupe}, {&s.OwnSelect, &wider.OwnSelect},
	} {
		if *one.own == nil {
			*one.own = *one.wider
		}
	}
	s.Drop = slices.Concat(wider.Drop, s.Drop)
	s.Redact.Values = slices.Concat(wider.Redact.Values, s.Redact.Values)
	s.Redact.Patterns = slices.Concat(wider.Redact.Patterns, s.Redact.Patterns)
	return s
}

// Written tells whether anything is said.
func (s Settings) Written() bool {
	return s.ValidateOutput != "" || s.MaxBytes != 0 || s.Larger != "" || s.shapes() || s.Redact.Secrets != nil || s.Redact.Tokens != nil ||
		len(s.Redact.Values) > 0 || len(s.Redact.Patterns) > 0
}

// shapes tells whether anything is said about the form of results.
func (s *Settings) shapes() bool {
	return s.Select != "" || len(s.Drop) > 0 || s.Rows != nil || s.Dedupe != nil || s.OwnSelect != nil
}

// shaping returns the rules for the form of results.
func (s *Settings) shaping() (out Shaping, err error) {
	said := func(b *bool) bool { return b != nil && *b }
	out = Shaping{Rows: said(s.Rows), Dedupe: said(s.Dedupe), Own: said(s.OwnSelect)}
	for _, text := range s.Drop {
		path, err := ParsePath(text)
		if err != nil {
			return out, fmt.Errorf("drop: %s: %w", text, err)
		}
		out.Drop = append(out.Drop, path)
	}
	if s.Select != "" {
		if out.Select, err = jq.Compile(s.Select); err != nil {
			return out, fmt.Errorf("select: %w", err)
		}
	}
	return out, nil
}

// Rules are the rules of one level, with the limits of a search for secrets; secrets
// are those that the settings may take out by themselves.
func (s Settings) Rules(secrets []string, search redact.SearchLimits) (Rules, error) {
	r := Rules{Output: s.ValidateOutput, MaxBytes: int(s.MaxBytes), Larger: s.Larger, Redact: redact.Messages{SearchLimits: search}}
	if r.Output == "off" {
		r.Output = OutputUnchecked
	}
	if r.Larger == "cut" {
		r.Larger = TruncateLarger
	}
	var err error
	if r.Shaping, err = s.shaping(); err != nil {
		return r, err
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
	for i, text := range s.Drop {
		if _, err := ParsePath(text); err != nil {
			p.At(n.Get("drop"), fmt.Sprintf("%s.drop[%d]", path, i), "write names, * and ** with dots between them, such as items.*.url", "%q is no path: %v", text, err)
		}
	}
	if s.Select != "" {
		if _, err := jq.Compile(s.Select); err != nil {
			p.At(n.Get("select"), path+".select", "try it with jq", "the filter does not compile: %v", err)
		}
	}
	s.Redact.Check(p, n.Get("redact"), path+".redact")
}
