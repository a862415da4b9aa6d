package oauthtest

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// OpenID makes an authority say who signs in (OpenID Connect Core).
type OpenID struct {
	// Groups are those of whoever signs in.
	Groups []string
	// Claims changes an ID token before it is signed, Header its header.
	Claims, Header func(map[string]any)
	// None gives no ID token.
	None bool

	key ed25519.PrivateKey
}

// NewOpenID starts an authority that gives ID tokens as well.
func NewOpenID(t testing.TB) *Authority {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := New(t)
	a.OpenID = &OpenID{key: key}
	return a
}

// keys answers with the public key (RFC 8037 section 2).
func (a *Authority) keys(w http.ResponseWriter, _ *http.Request) {
	if a.OpenID == nil {
		reply(w, http.StatusNotFound, map[string]any{})
		return
	}
	x := base64.RawURLEncoding.EncodeToString(a.OpenID.key.Public().(ed25519.PublicKey))
	reply(w, http.StatusOK, map[string]any{"keys": []any{map[string]any{"kid": "1", "kty": "OKP", "crv": "Ed25519", "use": "sig", "x": x}}})
}

// idToken returns the ID token for a code.
func (o *OpenID) idToken(issuer string, g *Grant, nonce string) string {
	now := time.Now().Unix()
	claims := jwt.MapClaims{"iss": issuer, "sub": g.User, "aud": g.Client, "iat": now, "exp": now + 3600, "nonce": nonce}
	if o.Groups != nil {
		claims["groups"] = o.Groups
	}
	if o.Claims != nil {
		o.Claims(claims)
	}
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims)
	token.Header["kid"] = "1"
	if o.Header != nil {
		o.Header(token.Header)
	}
	text, err := token.SignedString(o.key)
	if err != nil {
		body, _ := json.Marshal(err.Error())
		return string(body) // which no client takes for a token
	}
	return text
}
