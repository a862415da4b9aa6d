package auth

import (
	"net/http"
	"slices"
	"strings"
)

// admits reports whether one of a token's audiences is this gateway, or the endpoint of
// the request (RFC 8707 section 2). A token without an audience is refused.
func (a audienceRule) admits(r *http.Request, audiences []string) bool {
	for _, aud := range audiences {
		if slices.Contains(a.anywhere, aud) {
			return true
		}
	}
	return slices.ContainsFunc(a.resource.identifiers(r), func(own string) bool {
		return slices.Contains(audiences, canonicalAudience(own))
	})
}

// canonicalAudience returns the form in which audiences are compared, byte for byte.
// Only the scheme and the authority of a URI are lowered, in ASCII (MCP 2026-07-28
// authorization, Canonical Server URI; RFC 3986 section 6.2.2.1). Another trailing
// slash, port, path, escape or query makes another audience. A name that is no URI is
// compared as it is.
func canonicalAudience(aud string) string {
	scheme, rest, ok := strings.Cut(aud, "://")
	if !ok || !isScheme(scheme) {
		return aud
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority := rest[:end]
	if authority == "" || strings.Contains(authority, "@") {
		return aud // the part before @ is no host and is case-sensitive
	}
	return lowerASCII(scheme) + "://" + lowerASCII(authority) + rest[end:]
}

func isScheme(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || !(c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.')) {
			return false
		}
	}
	return s != ""
}

// lowerASCII lowers only A to Z: Unicode has other capitals of k and s.
func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

func canonicalAudiences(list []string) []string {
	out := make([]string, len(list))
	for i, aud := range list {
		out[i] = canonicalAudience(aud)
	}
	return out
}
