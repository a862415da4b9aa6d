package config

import (
	"fmt"
	"io"
	"log/slog"
)

// redacted is what a secret looks like everywhere but in [Secret.Reveal].
const redacted = "[redacted]"

// Secret is a text that may be a credential: the value of an environment
// variable or of a header. It prints as "[redacted]" in JSON, YAML and TOML, in
// logs, and with every verb of fmt but %w, which takes errors only and which
// vet rejects for it. Only [Secret.Reveal] gives it away.
//
// fmt cannot ask a value in an unexported struct field how to print itself, so
// a Secret belongs in exported fields, maps and slices only.
type Secret string

// Reveal returns the text itself, for the one place that sends it.
func (s Secret) Reveal() string { return string(s) }

// String returns "[redacted]".
func (Secret) String() string { return redacted }

// Format writes "[redacted]" whatever the verb; without it the verbs that fmt
// thinks wrong for a string would print the text.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue is "[redacted]".
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON is "[redacted]".
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// MarshalText is "[redacted]".
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalYAML is "[redacted]".
func (Secret) MarshalYAML() (any, error) { return redacted, nil }
