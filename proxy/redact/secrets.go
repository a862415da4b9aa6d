package redact

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

const (
	// MinSecret is the length in bytes from which on a value is taken for a
	// secret.
	MinSecret = 8
	// MaxSecrets is how many values are looked for.
	MaxSecrets = 1000
)

// secrets are values with all their spellings, the longest first.
type secrets []string

// find finds values, and the beginnings of those that were cut off with an
// ellipsis before anybody looked.
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

// common is how long two texts are the same.
func common(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// variants returns the spellings of values, each once, the longest first. Of an
// Authorization header the scheme is no secret and the rest is one of its own.
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
