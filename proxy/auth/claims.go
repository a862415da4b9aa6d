package auth

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolgate/toolgate/gate"
)

// Claims names the claims of a token, or the members of an introspection response, that
// make up an identity. A name is that of a top-level claim, even with dots
// ("https://example.com/groups"). If there is no such claim, dots lead into objects
// ("realm_access.roles"). An empty name reads nothing, except that Subject and Scopes
// have defaults.
//
// A claim of another type than described here makes the token invalid.
type Claims struct {
	// Claim with the caller's subject. Default: sub.
	Subject string `config:"subject" default:"sub"`
	// Claim with the tenant. Default: none; every caller belongs to the tenant default.
	Tenant string `config:"tenant"`
	// Claim with the role in which the caller acts. Default: none.
	Persona string `config:"persona"`
	// Claim with the groups, a list or a single string. Default: none.
	Groups string `config:"groups"`
	// Claim with the scopes, a list or a string with spaces. Default: scope, else scp.
	Scopes string `config:"scopes"`
	// Claim with the quota plan. Default: none.
	Plan string `config:"plan"`
}

// Limits of claims; the size of the token bounds the rest.
const (
	claimBytes = 1024 // of one text
	claimItems = 1000 // of one list
)

// identity returns the identity that the claims of a token describe.
func (c Claims) identity(issuer, credential string, token tokenKey, claims map[string]any) (*gate.Identity, error) {
	id := gate.Identity{
		Principal: gate.Principal{Issuer: issuer}, Credential: credential,
		Actor: actorOf(claims), Token: hex.EncodeToString(token[:]),
	}
	subject := cmp.Or(c.Subject, "sub")
	for _, f := range []struct {
		path string
		into *string
	}{{subject, &id.Subject}, {c.Tenant, &id.Tenant}, {c.Persona, &id.Persona}, {c.Plan, &id.Plan}} {
		v, ok, err := lookup(claims, f.path)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if *f.into, err = text(f.path, v); err != nil {
			return nil, err
		}
	}
	if id.Subject == "" {
		return nil, fmt.Errorf("the claim %q names nobody", subject)
	}
	var err error
	if id.Groups, err = c.groups(claims); err != nil {
		return nil, err
	}
	if id.Scopes, err = c.scopes(claims); err != nil {
		return nil, err
	}
	return gate.NewIdentity(id), nil
}

// actorOf identifies who acts for the subject (RFC 8693 section 4.1), including earlier
// actors, and the client that a token was issued to (RFC 8693 section 4.3, OpenID
// Connect Core section 2).
func actorOf(claims map[string]any) string {
	by := make(map[string]any)
	for _, name := range [...]string{"act", "azp", "client_id"} {
		if v, ok := claims[name]; ok {
			by[name] = v
		}
	}
	if len(by) == 0 {
		return ""
	}
	text, err := json.Marshal(by) // keys in order
	if err != nil {
		return "unknown" // impossible: it was read as JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

func (c Claims) groups(claims map[string]any) ([]string, error) {
	v, ok, err := lookup(claims, c.Groups)
	if err != nil || !ok {
		return nil, err
	}
	if one, isText := v.(string); isText {
		v = []any{one}
	}
	return texts(c.Groups, v)
}

func (c Claims) scopes(claims map[string]any) ([]string, error) {
	path := c.Scopes
	if path == "" {
		path = "scope"
		if _, ok := claims[path]; !ok {
			path = "scp"
		}
	}
	v, ok, err := lookup(claims, path)
	if err != nil || !ok {
		return nil, err
	}
	var scopes []string
	if one, isText := v.(string); isText {
		for s := range strings.SplitSeq(one, " ") {
			if s != "" {
				scopes = append(scopes, s)
			}
		}
		if len(scopes) > claimItems {
			return nil, fmt.Errorf("the claim %q has more than %d entries", path, claimItems)
		}
	} else if scopes, err = texts(path, v); err != nil {
		return nil, err
	}
	for _, s := range scopes {
		if !scopeToken(s) {
			return nil, fmt.Errorf("the claim %q holds something that is not a scope", path)
		}
	}
	return scopes, nil
}

// lookup finds a claim by its name, or by a path with dots.
func lookup(claims map[string]any, path string) (value any, ok bool, err error) {
	if path == "" {
		return nil, false, nil
	}
	if v, ok := claims[path]; ok {
		return v, true, nil
	}
	names := strings.Split(path, ".")
	for i, name := range names {
		v, ok := claims[name]
		if !ok {
			return nil, false, nil
		}
		if i == len(names)-1 {
			return v, true, nil
		}
		if claims, ok = v.(map[string]any); !ok {
			return nil, false, fmt.Errorf("the claim %q is not an object on the way to %q", name, path)
		}
	}
	return nil, false, nil
}

// text validates one string. Invisible characters are refused: they could make two
// names look the same, or end a line of a log. So is U+FFFD, which replaces invalid
// text and could make two names equal.
func text(path string, v any) (string, error) {
	s, ok := v.(string)
	switch {
	case !ok:
		return "", fmt.Errorf("the claim %q is not a string", path)
	case len(s) > claimBytes:
		return "", fmt.Errorf("the claim %q is longer than %d bytes", path, claimBytes)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || !unicode.IsGraphic(r) }):
		return "", fmt.Errorf("the claim %q holds characters that cannot be seen", path)
	}
	return s, nil
}

func texts(path string, v any) ([]string, error) {
	list, ok := v.([]any)
	switch {
	case !ok:
		return nil, fmt.Errorf("the claim %q is not a list of strings", path)
	case len(list) > claimItems:
		return nil, fmt.Errorf("the claim %q has more than %d entries", path, claimItems)
	}
	out := make([]string, 0, len(list))
	for _, item := range list {
		s, err := text(path, item)
		if err != nil {
			return nil, err
		}
		if s == "" {
			return nil, fmt.Errorf("the claim %q has an empty entry", path)
		}
		out = append(out, s)
	}
	return out, nil
}

// scopeToken reports whether s is a scope (RFC 6749 section 3.3). Such a string needs
// no escapes in a challenge.
func scopeToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x21 || c > 0x7e || c == '"' || c == '\\' {
			return false
		}
	}
	return s != ""
}
