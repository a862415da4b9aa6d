package auth

import (
	"context"
	"net"
)

// For tests of what decides before any verdict.
var (
	DecodeObject      = decodeObject
	CanonicalAudience = canonicalAudience
	ScopeToken        = scopeToken
	Bearer            = bearer
)

// TokenBytes is the longest token that is looked at.
const TokenBytes = tokenBytes

// Compact takes a token apart as [JWT] does.
func Compact(token string) (header, claims map[string]any, signed string, err error) {
	t, err := parseCompact(token)
	if err != nil {
		return nil, nil, "", err
	}
	return t.header, t.claims, t.signed, nil
}

// Dial connects as the fetches from issuers do, with names of a resolver.
func Dial(ctx context.Context, r *net.Resolver, address string) (net.Conn, error) {
	return dialer{r}.dial(ctx, "tcp", address)
}

// ErrInside is the error of an address that nothing is fetched from.
var ErrInside = errForbiddenAddress
