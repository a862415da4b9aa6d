// Package secret has the type of settings that may be credentials.
package secret

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// Redacted is what a secret looks like everywhere but in [Text.Reveal].
const Redacted = "[redacted]"

// MinSigning is how long a secret must be that signs messages, in bytes.
const MinSigning = 32

// Text is a text that may be a credential: the value of an environment
// variable or of a header. It prints as "[redacted]" in JSON, YAML and TOML, in
// logs, and with every verb of fmt but %w, which takes errors only and which
// vet rejects for it. Only [Text.Reveal] gives it away.
//
// fmt cannot ask a value in an unexported struct field how to print itself, so
// a Text belongs in exported fields, maps and slices only.
type Text string

// Reveal returns the text itself, for the one place that sends it.
func (t Text) Reveal() string { return string(t) }

// String returns "[redacted]".
func (Text) String() string { return Redacted }

// Format writes "[redacted]" whatever the verb; without it the verbs that fmt
// thinks wrong for a string would print the text.
func (Text) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Redacted) }

// LogValue is "[redacted]".
func (Text) LogValue() slog.Value { return slog.StringValue(Redacted) }

// MarshalJSON is "[redacted]".
func (Text) MarshalJSON() ([]byte, error) { return []byte(`"` + Redacted + `"`), nil }

// MarshalText is "[redacted]".
func (Text) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// MarshalYAML is "[redacted]".
func (Text) MarshalYAML() (any, error) { return Redacted, nil }

// Reveal returns the texts of a map themselves; it is never nil.
func Reveal[K comparable](texts map[K]Text) map[K]string {
	out := make(map[K]string, len(texts))
	for name, text := range texts {
		out[name] = text.Reveal()
	}
	return out
}

// ErrNone means that there is no secret of a name.
var ErrNone = errors.New("there is no such secret")

// MaxName is the most bytes of the name of a secret.
const MaxName = 128

// Name tells whether a text can be the name of a secret that is kept outside the
// configuration: letters, digits, "_", "-" and ".", the first no "-" and no ".".
func Name(text string) bool {
	if text == "" || len(text) > MaxName || text[0] == '-' || text[0] == '.' {
		return false
	}
	for i := range len(text) {
		c := text[i]
		letter, digit := c|0x20 >= 'a' && c|0x20 <= 'z', c >= '0' && c <= '9'
		if !letter && !digit && c != '_' && c != '-' && c != '.' {
			return false
		}
	}
	return true
}
