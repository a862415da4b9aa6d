package auth_test

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/proxy/auth"
)

// An ID token counts for the client and the request that it was made for, and for nothing
// else.
func TestOpenID(t *testing.T) {
	t.Parallel()
	s, other := newSigner(t, "k1", "ES256"), newSigner(t, "k1", "ES256")
	a := newAuthority(t, s)
	j := newJWT(t, a, func(o *auth.JWTOptions) { o.Issuers[0].Claims.Groups = "groups" })
	asked := auth.IDToken{Issuer: a.issuer, ClientID: "console", Nonce: "n1", Access: "token"}
	sum := sha256.Sum256([]byte("token"))
	atHash := base64.RawURLEncoding.EncodeToString(sum[:16])
	claims := func(changes ...any) map[string]any {
		return a.claims(append([]any{"aud", "console", "nonce", "n1", "groups", []any{"ops"}}, changes...)...)
	}
	plain := map[string]any{"alg": "ES256", "kid": "k1"}
	now := time.Now().Unix()
	for name, token := range map[string]string{
		"plain":                   s.sign(t, plain, claims()),
		"typed":                   s.sign(t, map[string]any{"alg": "ES256", "kid": "k1", "typ": "JWT"}, claims()),
		"with its access token":   s.sign(t, plain, claims("at_hash", atHash)),
		"for this party":          s.sign(t, plain, claims("azp", "console")),
		"for several, this party": s.sign(t, plain, claims("aud", []any{"other", "console"}, "azp", "console")),
	} {
		id, until, err := j.OpenID(t.Context(), token, asked)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := gate.Principal{Issuer: a.issuer, Tenant: gate.DefaultTenant, Subject: "alice"}
		if id.Principal != want || len(id.Groups) != 1 || id.Groups[0] != "ops" || id.Credential != "oidc:t1" || until.Unix() != now+600 && until.Unix() != now+601 {
			t.Errorf("%s: %+v until %s", name, id, until)
		}
		if _, err := try(t, j, "/mcp", token); !errors.Is(err, gate.ErrBadCredential) {
			t.Errorf("%s: a caller is let in by an ID token: %v", name, err)
		}
	}
	for name, token := range map[string]string{
		"another nonce":            s.sign(t, plain, claims("nonce", "n2")),
		"no nonce":                 s.sign(t, plain, claims("nonce", nil)),
		"a nonce that is a number": s.sign(t, plain, claims("nonce", 1)),
		"another audience":         s.sign(t, plain, claims("aud", audience)),
		"an audience in capitals":  s.sign(t, plain, claims("aud", "Console")),
		"no audience":              s.sign(t, plain, claims("aud", nil)),
		"audiences of no party":    s.sign(t, plain, claims("aud", []any{"console", "other"})),
		"another party":            s.sign(t, plain, claims("azp", "other")),
		"a party that is no text":  s.sign(t, plain, claims("azp", 1)),
		"another issuer":           s.sign(t, plain, claims("iss", "https://other.example")),
		"expired":                  s.sign(t, plain, claims("exp", now-61)),
		"no end":                   s.sign(t, plain, claims("exp", nil)),
		"no time":                  s.sign(t, plain, claims("iat", nil)),
		"of the future":            s.sign(t, plain, claims("iat", now+120)),
		"another access token":     s.sign(t, plain, claims("at_hash", base64.RawURLEncoding.EncodeToString(sum[16:]))),
		"a hash that is no text":   s.sign(t, plain, claims("at_hash", 1)),
		"an access token":          s.sign(t, map[string]any{"alg": "ES256", "kid": "k1", "typ": "at+jwt"}, claims()),
		"another key":              other.sign(t, plain, claims()),
		"unsigned":                 encodePart(t, map[string]any{"alg": "none"}) + "." + encodePart(t, claims()) + ".",
		"of nobody":                s.sign(t, plain, claims("sub", nil)),
		"no token":                 "",
		"a list":                   s.sign(t, plain, claims()) + ", x",
	} {
		if id, _, err := j.OpenID(t.Context(), token, asked); !errors.Is(err, gate.ErrBadCredential) || id != nil {
			t.Errorf("%s: %v %v", name, id, err)
		}
	}
	good := s.sign(t, plain, claims())
	for name, asked := range map[string]auth.IDToken{
		"nothing": {}, "no nonce": {Issuer: a.issuer, ClientID: "console"}, "no client": {Issuer: a.issuer, Nonce: "n1"},
		"another issuer": {Issuer: "https://other.example", ClientID: "console", Nonce: "n1"},
	} {
		if id, _, err := j.OpenID(t.Context(), good, asked); err == nil || id != nil {
			t.Errorf("asked for %s: %v", name, id)
		}
	}
	if _, _, err := (*auth.JWT)(nil).OpenID(t.Context(), good, asked); err == nil {
		t.Error("nobody verifies")
	}
}
