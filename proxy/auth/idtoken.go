package auth

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/gate"
)

// What is wrong with an ID token, as far as people can do something about it. Errors wrap
// these together with [gate.ErrBadCredential].
var (
	ErrNonce  = errors.New("its nonce is not that of the request")
	ErrClient = errors.New("it was made for another client")
	ErrClaims = errors.New("its claims cannot be read")
)

// IDToken is what an ID token was asked for with (OpenID Connect Core section 3.1.3.7).
type IDToken struct {
	Issuer   string // that was asked
	ClientID string // that asked
	Nonce    string // of the request
	Access   string // token that came with it
}

// OpenID returns whom an ID token names, and when it ends. It must be for this very
// client and request. No decision about it is cached. An ID token is no credential of a
// caller: [JWT.Identify] refuses it unless its audience is accepted there.
func (j *JWT) OpenID(ctx context.Context, token string, asked IDToken) (*gate.Identity, time.Time, error) {
	if j == nil || asked.Issuer == "" || asked.ClientID == "" || asked.Nonce == "" {
		return nil, time.Time{}, badCredentialf("nobody was asked for an ID token")
	}
	if len(token) > tokenBytes || !plainToken(token) {
		return nil, time.Time{}, badCredentialf("it is not a signed token")
	}
	t, err := parseCompact(token)
	if err != nil {
		return nil, time.Time{}, badCredentialf("%v", err)
	}
	from, ok := j.issuers[asked.Issuer]
	if !ok || t.issuer != asked.Issuer {
		return nil, time.Time{}, badCredentialf("it is not of the issuer that was asked")
	}
	until, err := from.checkIDToken(t, asked)
	if err != nil {
		return nil, time.Time{}, err
	}
	id, err := from.Claims.identity(t.issuer, credentialOf("oidc", t.claims), keyOf(token), t.claims)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("%w: %w: %w", gate.ErrBadCredential, ErrClaims, err)
	}
	if err := from.checkSignature(ctx, t); err != nil {
		return nil, time.Time{}, err
	}
	return id, until, nil
}

// checkIDToken checks all but the signature and returns when the token ends.
func (i *issuer) checkIDToken(t *compactToken, asked IDToken) (until time.Time, err error) {
	if err := t.checkHeader(i.Algorithms); err != nil {
		return time.Time{}, err
	}
	if typ, ok, err := member(t.header, "typ"); err != nil || ok && !strings.EqualFold(typ, "JWT") { // an access token says at+jwt
		return time.Time{}, badCredentialf("it is not an ID token by its type")
	}
	now := time.Now()
	if until, err = checkTimes(t.claims, now, i.Leeway, true); err != nil {
		return time.Time{}, err
	}
	if _, ok := t.claims["iat"]; !ok {
		return time.Time{}, badCredentialf("it has no iat")
	}
	if err := checkParty(t.claims, asked.ClientID); err != nil {
		return time.Time{}, err
	}
	nonce, _, err := member(t.claims, "nonce")
	if err != nil || subtle.ConstantTimeCompare([]byte(nonce), []byte(asked.Nonce)) != 1 {
		return time.Time{}, fmt.Errorf("%w: %w", gate.ErrBadCredential, ErrNonce)
	}
	return until, t.checkAccess(asked.Access)
}

// checkParty checks that a token was made for a client alone.
func checkParty(claims map[string]any, client string) error {
	var audiences []string
	switch v := claims["aud"].(type) {
	case string:
		audiences = []string{v}
	case []any:
		var err error
		if audiences, err = texts("aud", v); err != nil {
			return badCredentialf("%v", err)
		}
	}
	azp, named, err := member(claims, "azp")
	switch {
	case !slices.Contains(audiences, client):
		return fmt.Errorf("%w: %w: its audience is not this client", gate.ErrBadCredential, ErrClient)
	case err != nil || named && azp != client || !named && len(audiences) > 1:
		return fmt.Errorf("%w: %w", gate.ErrBadCredential, ErrClient)
	}
	return nil
}

// checkAccess checks at_hash, which binds an access token to an ID token, where it is
// there.
func (t *compactToken) checkAccess(access string) error {
	want, ok, err := member(t.claims, "at_hash")
	if err != nil {
		return badCredentialf("%v", err)
	}
	if !ok {
		return nil
	}
	var sum []byte
	switch t.alg[len(t.alg)-3:] {
	case "256":
		h := sha256.Sum256([]byte(access))
		sum = h[:]
	case "384":
		h := sha512.Sum384([]byte(access))
		sum = h[:]
	default: // 512, and Ed25519, which hashes with SHA-512
		h := sha512.Sum512([]byte(access))
		sum = h[:]
	}
	if got := base64.RawURLEncoding.EncodeToString(sum[:len(sum)/2]); subtle.ConstantTimeCompare([]byte(got), []byte(want)) != 1 {
		return badCredentialf("it came with another access token")
	}
	return nil
}
