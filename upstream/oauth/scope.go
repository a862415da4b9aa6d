package oauth

import (
	"slices"
	"strings"
)

const (
	// maxScopes bounds how many scopes are asked for at once, maxScope the bytes of
	// one.
	maxScopes = 100
	maxScope  = 256
	// offline is the scope that asks for a refresh token.
	offline = "offline_access"
	// openID is the scope that asks for an ID token.
	openID = "openid"
)

// Scopes splits the value of a scope parameter (RFC 6749 section 3.3). What no
// scope can be is left out.
func Scopes(text string) (out []string) {
	for s := range strings.FieldsSeq(text) {
		out = add(out, s)
	}
	return out
}

// Union returns the scopes of all lists, each once, in the order in which they
// are named first.
func Union(lists ...[]string) (out []string) {
	for _, list := range lists {
		for _, s := range list {
			out = add(out, s)
		}
	}
	return out
}

func add(to []string, scope string) []string {
	legal := scope != "" && len(scope) <= maxScope && !strings.ContainsFunc(scope, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || r == '"' || r == '\\'
	})
	if !legal || len(to) >= maxScopes || slices.Contains(to, scope) {
		return to
	}
	return append(to, scope)
}

// Covers tells whether all wanted scopes are among those that there are.
func Covers(have, want []string) bool {
	return !slices.ContainsFunc(want, func(s string) bool { return !slices.Contains(have, s) })
}

// Select returns the scopes to ask for (2026-07-28 basic/authorization, Scope
// Selection Strategy): those of the challenge, else all that the resource names,
// with those that were asked for before. offline_access goes with them where the
// authorization server knows it.
func Select(c Challenge, r *Resource, m *Metadata, before []string) []string {
	scopes := c.Scope
	if len(scopes) == 0 && len(before) == 0 && r != nil {
		scopes = r.Scopes
	}
	out := Union(before, scopes)
	if m != nil && slices.Contains(m.Scopes, offline) {
		out = add(out, offline)
	}
	return out
}
