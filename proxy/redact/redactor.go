package redact

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Options configure what is removed.
type Options struct {
	// Secrets are values that are removed wherever they stand: literally, as a JSON
	// string spells them, percent-encoded, and in Base64. Those shorter than
	// [MinSecret] bytes are ignored, because they would match ordinary text.
	Secrets []string
	// Set holds further secrets, which come and go; nil for none.
	Set *Set
	// Tokens removes credentials of a known shape, see [Tokens].
	Tokens bool
	// Patterns are regular expressions of the operator.
	Patterns []Pattern
}

// Redactor removes what its options say. It is immutable and safe for concurrent use. A
// nil Redactor removes nothing.
type Redactor struct {
	rules []rule
}

// rule finds one kind of secret.
type rule interface {
	// find adds every match in the text.
	find(text string, found *finds)
}

// finds are the matches in one text.
type finds struct {
	spans []found
	until time.Time // deadline of the search
	late  bool      // the deadline has passed
}

type found struct {
	start, end int
	name       string // of the rule
}

func (f *finds) add(start, end int, name string) {
	if end > start {
		f.spans = append(f.spans, found{start, end, name})
	}
}

// New returns a redactor, nil when the options remove nothing. The error is about a
// pattern, or too many secrets.
func New(o Options) (*Redactor, error) {
	r := &Redactor{}
	if n := len(o.Secrets); n > MaxSecrets {
		return nil, fmt.Errorf("there are %d secrets to look for and may be %d", n, MaxSecrets)
	}
	if values := variants(o.Secrets); len(values) > 0 {
		r.rules = append(r.rules, secrets(values))
	}
	if o.Set != nil {
		r.rules = append(r.rules, o.Set)
	}
	if o.Tokens {
		r.rules = append(r.rules, tokens{})
	}
	for _, p := range o.Patterns {
		re, err := p.compile()
		if err != nil {
			return nil, fmt.Errorf("the pattern %s: %w", p.Name, err)
		}
		r.rules = append(r.rules, pattern{p.Name, re})
	}
	if len(r.rules) == 0 {
		return nil, nil
	}
	return r, nil
}

// mark is the replacement of a secret.
func mark(name string) string { return "[redacted: " + name + "]" }

// ErrLate means that a search was not completed in time. The searched value may hold
// secrets.
var ErrLate = errors.New("the search for secrets takes too long")

// Text returns a text with marks in place of secrets, and their number. Without
// matches, invalid UTF-8 is kept. The error is [ErrLate].
func (r *Redactor) Text(text string, until time.Time) (clean string, n int, err error) {
	if r == nil || len(text) == 0 {
		return text, 0, nil
	}
	spans, err := r.search(text, until)
	switch {
	case err != nil:
		return "", 0, err
	case len(spans) == 0:
		return text, 0, nil
	}
	return marked(text, spans), len(spans), nil
}

// emptyFinds are those of searches that found nothing, as most do.
var emptyFinds = sync.Pool{New: func() any { return new(finds) }}

// search returns the matches in a text in their order. The error is [ErrLate].
func (r *Redactor) search(text string, until time.Time) ([]found, error) {
	f := emptyFinds.Get().(*finds)
	f.until = until
	for _, rule := range r.rules {
		if rule.find(text, f); f.late {
			return nil, ErrLate
		}
	}
	if len(f.spans) == 0 {
		emptyFinds.Put(f)
		return nil, nil
	}
	return merged(f.spans), nil
}

// marked returns a text with marks in place of spans. A span may end behind the text.
func marked(text string, spans []found) string {
	var b strings.Builder
	at := 0
	for _, s := range spans {
		b.WriteString(text[at:s.start])
		b.WriteString(mark(s.name))
		at = s.end
	}
	if at < len(text) {
		b.WriteString(text[at:])
	}
	return b.String()
}

// lookahead is how many bytes behind a beginning are searched with it. What is found by its
// form shows that in fewer, and of the secrets that are known a beginning is enough.
const lookahead = 4 << 10

// cutMark stands where a text was cut off; see cutOff.
const cutMark = "…"

// Beginning is [Redactor.Text] for the first bytes of a text, at most most of them. The rest of
// the text costs nothing. A secret that begins in these bytes is found, wherever it ends. The
// result may be longer than most, because marks may be longer than what they replace.
func (r *Redactor) Beginning(text string, most int, until time.Time) (string, error) {
	if !until.IsZero() && time.Now().After(until) {
		return "", ErrLate
	}
	shown := text
	if len(text) > most {
		end := most
		for end > 0 && end > most-utf8.UTFMax && !utf8.RuneStart(text[end]) {
			end--
		}
		shown = text[:end]
	}
	if r == nil {
		return shown, nil
	}
	if seen := len(shown) + lookahead; len(text) > seen {
		text = text[:seen] + cutMark
	}
	spans, err := r.search(text, until)
	if err != nil {
		return "", err
	}
	behind := slices.IndexFunc(spans, func(s found) bool { return s.start >= len(shown) })
	if behind >= 0 {
		spans = spans[:behind]
	}
	return marked(shown, spans), nil
}

// merged sorts spans and joins those that overlap, under the name of the first and
// longest.
func merged(spans []found) []found {
	slices.SortFunc(spans, func(a, b found) int {
		return cmp.Or(a.start-b.start, b.end-a.end, strings.Compare(a.name, b.name))
	})
	out := spans[:1]
	for _, s := range spans[1:] {
		last := &out[len(out)-1]
		if s.start >= last.end {
			out = append(out, s)
			continue
		}
		last.end = max(last.end, s.end)
	}
	return out
}

// Value returns a validated JSON value with marks in place of secrets in its strings
// and keys, and their number. The value is not modified; without matches it is returned
// itself. A key that would become a duplicate gets a number. The error is [ErrLate].
func (r *Redactor) Value(value []byte, until time.Time) (clean []byte, n int, err error) {
	if r == nil {
		return value, 0, nil
	}
	var edits []mcp.Edit
	keys := false
	for s := range stringsIn(value) {
		text, err := mcp.Unquote(s.of(value))
		if err != nil {
			continue
		}
		told, found, err := r.Text(text, until)
		if err != nil {
			return nil, 0, err
		}
		if found == 0 {
			continue
		}
		n += found
		keys = keys || s.key
		edits = append(edits, mcp.Edit{Span: s.Span, New: mcp.Quote(told)})
	}
	if n == 0 {
		return value, 0, nil
	}
	if clean = mcp.Splice(value, edits...); keys {
		clean = distinct(clean)
	}
	return clean, n, nil
}
