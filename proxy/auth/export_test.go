package auth

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
