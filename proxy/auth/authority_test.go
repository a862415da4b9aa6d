package auth_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/proxy/auth"
)

// signer is a key of an authority.
type signer struct {
	kid, alg string
	key      crypto.Signer
}

// rsaKey is one key for all tests, because generating one takes long.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func newSigner(t *testing.T, kid, alg string) signer {
	t.Helper()
	var key crypto.Signer
	var err error
	switch alg {
	case "ES256":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ES384":
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ES512":
		key, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "EdDSA", "Ed25519":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	default:
		key = rsaKey()
	}
	if err != nil {
		t.Fatal(err)
	}
	return signer{kid: kid, alg: alg, key: key}
}

var b64 = base64.RawURLEncoding

// jwk is the public key as a member of a JWK Set.
func (s signer) jwk() map[string]any {
	out := map[string]any{"use": "sig"}
	if s.kid != "" {
		out["kid"] = s.kid
	}
	switch k := s.key.Public().(type) {
	case *rsa.PublicKey:
		out["kty"], out["n"], out["e"] = "RSA", b64.EncodeToString(k.N.Bytes()), b64.EncodeToString(big.NewInt(int64(k.E)).Bytes())
	case *ecdsa.PublicKey:
		point, err := k.Bytes()
		if err != nil {
			panic(err)
		}
		half := len(point) / 2
		out["kty"], out["crv"] = "EC", k.Curve.Params().Name
		out["x"], out["y"] = b64.EncodeToString(point[1:1+half]), b64.EncodeToString(point[1+half:])
	case ed25519.PublicKey:
		out["kty"], out["crv"], out["x"] = "OKP", "Ed25519", b64.EncodeToString(k)
	}
	return out
}

// sign signs a token with the header and the claims as they are.
func (s signer) sign(t *testing.T, header, claims map[string]any) string {
	t.Helper()
	text := encodePart(t, header) + "." + encodePart(t, claims)
	return text + "." + b64.EncodeToString(s.signature(t, text))
}

func (s signer) signature(t *testing.T, text string) []byte {
	t.Helper()
	alg := s.alg
	if alg == "Ed25519" {
		alg = "EdDSA"
	}
	signature, err := jwt.GetSigningMethod(alg).Sign(text, s.key)
	if err != nil {
		t.Fatal(err)
	}
	return signature
}

func encodePart(t *testing.T, part map[string]any) string {
	t.Helper()
	data, err := json.Marshal(part)
	if err != nil {
		t.Fatal(err)
	}
	return b64.EncodeToString(data)
}

func (s signer) header() map[string]any {
	h := map[string]any{"alg": s.alg, "typ": "at+jwt"}
	if s.kid != "" {
		h["kid"] = s.kid
	}
	return h
}

// authority is an authorization server with metadata, keys and introspection.
type authority struct {
	issuer string

	mu       sync.Mutex
	keys     []signer
	fetches  int // of keys
	metas    int // of metadata
	metadata map[string]any
	meta     string // path of the metadata
	broken   http.HandlerFunc
	active   map[string]map[string]any // introspection responses by token
	asked    int                       // number of introspection requests
	oddity   http.HandlerFunc          // replaces introspection
}

func (a *authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	keys, broken, metadata, meta, answer, oddity := a.keys, a.broken, a.metadata, a.meta, a.active[r.FormValue("token")], a.oddity
	switch r.URL.Path {
	case "/keys":
		a.fetches++
	case "/introspect":
		a.asked++
	case meta:
		a.metas++
	}
	a.mu.Unlock()
	switch {
	case r.URL.Path == "/introspect" && oddity != nil:
		oddity(w, r)
	case r.URL.Path == "/introspect":
		if id, secret, ok := r.BasicAuth(); !ok || id != "gw" || secret != "s%3Acret" || r.Method != http.MethodPost {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if answer == nil {
			answer = map[string]any{"active": false}
		}
		_ = json.NewEncoder(w).Encode(answer)
	case broken != nil:
		broken(w, r)
	case r.URL.Path == "/keys":
		set := []any{}
		for _, k := range keys {
			set = append(set, k.jwk())
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": set})
	case meta != "" && r.URL.Path == meta:
		_ = json.NewEncoder(w).Encode(metadata)
	default:
		http.NotFound(w, r)
	}
}

// newAuthority starts an authority that listens.
func newAuthority(t *testing.T, keys ...signer) *authority {
	t.Helper()
	a := &authority{keys: keys}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.issuer = server.URL
	return a
}

func (a *authority) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

func (a *authority) count() (fetches, asked int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.fetches, a.asked
}

// RoundTrip serves a request without a network, for bubbles.
func (a *authority) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

const audience = "https://gw.example/mcp"

// claims returns valid claims with changes; nil removes one.
func (a *authority) claims(changes ...any) map[string]any {
	now := time.Now().Unix()
	c := map[string]any{"iss": a.issuer, "sub": "alice", "aud": audience, "exp": now + 600, "iat": now, "nbf": now, "jti": "t1"}
	for i := 0; i < len(changes); i += 2 {
		if changes[i+1] == nil {
			delete(c, changes[i].(string))
		} else {
			c[changes[i].(string)] = changes[i+1]
		}
	}
	return c
}

func (a *authority) token(t *testing.T, s signer, changes ...any) string {
	t.Helper()
	return s.sign(t, s.header(), a.claims(changes...))
}

// newJWT returns an authenticator of the authority's tokens.
func newJWT(t *testing.T, a *authority, change ...func(*auth.JWTOptions)) *auth.JWT {
	t.Helper()
	o := auth.JWTOptions{Issuers: []auth.Issuer{{Issuer: a.issuer, JWKS: a.issuer + "/keys", Audience: []string{audience}}}}
	for _, c := range change {
		c(&o)
	}
	j, err := auth.NewJWT(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.Close)
	return j
}

// identifier is what all authenticators with times are.
type identifier interface {
	Identify(r *http.Request) (auth.Grant, error)
}

// try authenticates a token at an endpoint.
func try(t *testing.T, a identifier, path, token string) (*gate.Identity, error) {
	t.Helper()
	r := newRequest(t, "192.0.2.1:1", "Authorization", "Bearer "+token)
	r.URL.Path = path
	g, err := a.Identify(r)
	if (err == nil) != (g.Identity != nil) {
		t.Fatalf("identity %v with the error %v", g.Identity, err)
	}
	return g.Identity, err
}

// serve runs a handler behind an authenticator, like a gateway.
func serve(t *testing.T, a identifier, x *auth.Resource, scopes *auth.Scopes) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(gateway(a, x, scopes))
	t.Cleanup(server.Close)
	return server
}

func gateway(a identifier, x *auth.Resource, scopes *auth.Scopes) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if x.Serves(r.URL.EscapedPath()) {
			x.ServeHTTP(w, r)
			return
		}
		g, err := a.Identify(r)
		if tool := r.Header.Get("Mcp-Name"); err == nil && tool != "" {
			err = scopes.Check(g.Identity, gate.Names{Exposed: tool})
		}
		if err != nil {
			refusal := x.Refuse(r, err)
			refusal.SetHeader(w.Header())
			http.Error(w, refusal.Message, refusal.Status)
			return
		}
		_, _ = w.Write([]byte(g.Identity.Key()))
	})
}

// post sends a request with headers and returns the answer and its body.
func post(t *testing.T, client *http.Client, url string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Add(headers[i], headers[i+1])
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var body strings.Builder
	if _, err := io.Copy(&body, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp, strings.TrimSpace(body.String())
}
