package redact

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

const (
	// MinSecret is the least length of a secret, in bytes.
	MinSecret = 8
	// MaxSecrets bounds the number of values.
	MaxSecrets = 1000
)

// secrets are values in all their spellings, longest first.
type secrets []string

// find finds values, and beginnings of values that were cut off with an ellipsis.
func (s secrets) find(text string, f *finds) {
	for _, value := range s {
		for at := 0; at < len(text); {
			i := strings.Index(text[at:], value[:MinSecret])
			if i < 0 {
				break
			}
			start := at + i
			n := common(text[start:], value)
			if n < len(value) && !cutOff(text[start+n:]) {
				at = start + 1
				continue
			}
			f.add(start, start+n, "secret")
			at = start + n
		}
	}
}

// common returns the length of the common prefix of two texts.
func common(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// variants returns the spellings of values without duplicates, longest first. The
// scheme of an Authorization header is no secret; the rest is one of its own.
func variants(values []string) []string {
	var out []string
	add := func(value string) {
		if len(value) < MinSecret {
			return
		}
		quoted := mcp.Quote(value)
		out = append(out, value, string(quoted[1:len(quoted)-1]), url.QueryEscape(value), url.PathEscape(value),
			strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(value)), "="),
			strings.TrimRight(base64.URLEncoding.EncodeToString([]byte(value)), "="))
	}
	for _, value := range values {
		value = strings.TrimSpace(value)
		if scheme, rest, ok := strings.Cut(value, " "); ok && (strings.EqualFold(scheme, "bearer") || strings.EqualFold(scheme, "basic")) {
			value = strings.TrimSpace(rest)
		}
		add(value)
	}
	slices.SortFunc(out, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return slices.Compact(out)
}
