//go:build !windows

package cli

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// authority is an authorization server: metadata, keys that it rotates, and
// introspection.
type authority struct {
	issuer string

	mu      sync.Mutex
	keys    map[string]crypto.Signer // by key id
	fetches int                      // of keys
	down    bool
	opaque  map[string]func() any // answers of introspection by token; text is sent as it is
}

func newAuthority(t *testing.T, kids ...string) *authority {
	t.Helper()
	a := &authority{keys: map[string]crypto.Signer{}, opaque: map[string]func() any{}}
	for _, kid := range kids {
		a.keys[kid] = newKeyPair(t)
	}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.issuer = server.URL
	return a
}

func newKeyPair(t *testing.T) crypto.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.down:
		w.WriteHeader(http.StatusBadGateway)
	case r.URL.Path == "/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": a.issuer, "jwks_uri": a.issuer + "/keys"})
	case r.URL.Path == "/keys":
		a.fetches++
		set := []any{}
		for kid, key := range a.keys {
			set = append(set, jwkOf(kid, key))
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": set})
	case r.URL.Path == "/introspect":
		answer := any(map[string]any{"active": false})
		if of := a.opaque[r.FormValue("token")]; of != nil {
			answer = of()
		}
		if text, ok := answer.(string); ok {
			_, _ = io.WriteString(w, text)
			return
		}
		if status, ok := answer.(int); ok {
			w.WriteHeader(status)
			return
		}
		_ = json.NewEncoder(w).Encode(answer)
	default:
		http.NotFound(w, r)
	}
}

var b64 = base64.RawURLEncoding

func jwkOf(kid string, key crypto.Signer) map[string]any {
	switch public := key.Public().(type) {
	case *rsa.PublicKey:
		return map[string]any{"kid": kid, "kty": "RSA", "n": b64.EncodeToString(public.N.Bytes()), "e": b64.EncodeToString(big.NewInt(int64(public.E)).Bytes())}
	case ed25519.PublicKey:
		return map[string]any{"kid": kid, "kty": "OKP", "crv": "Ed25519", "x": b64.EncodeToString(public)}
	}
	return nil
}

func (a *authority) change(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

func (a *authority) fetched() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.fetches
}

// claims are good ones of a token for an audience, with some changed; nil takes
// one away.
func (a *authority) claims(audience string, changes map[string]any) map[string]any {
	now := time.Now().Unix()
	c := map[string]any{"iss": a.issuer, "sub": "alice", "aud": audience, "exp": now + 3600, "iat": now, "jti": rand.Text()}
	for name, value := range changes {
		c[name] = value
		if value == nil {
			delete(c, name)
		}
	}
	return c
}

// token signs good claims with the key of an id.
func (a *authority) token(t *testing.T, kid, audience string, changes map[string]any) string {
	t.Helper()
	a.mu.Lock()
	key := a.keys[kid]
	a.mu.Unlock()
	if key == nil {
		t.Fatalf("no key %s", kid)
	}
	return signed(t, map[string]any{"alg": "EdDSA", "typ": "at+jwt", "kid": kid}, a.claims(audience, changes), key)
}

// signed makes a token. An HMAC key is the bytes of one; no key leaves the
// signature empty.
func signed(t *testing.T, header, claims map[string]any, key any) string {
	t.Helper()
	part := func(v map[string]any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b64.EncodeToString(text)
	}
	text := part(header) + "." + part(claims)
	var signature []byte
	var err error
	switch key := key.(type) {
	case ed25519.PrivateKey:
		signature = ed25519.Sign(key, []byte(text))
	case *rsa.PrivateKey:
		sum := sha256.Sum256([]byte(text))
		signature, err = rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	case []byte:
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(text))
		signature = mac.Sum(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + b64.EncodeToString(signature)
}

// publicPEM is the public key as an attacker finds it.
func publicPEM(t *testing.T, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// response is what a client got.
type response struct {
	status int
	header http.Header
	body   string
}

// challenge returns a parameter of the challenge.
func (r *response) challenge(name string) string {
	_, rest, ok := strings.Cut(r.header.Get("WWW-Authenticate"), name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	if !ok {
		return ""
	}
	return value
}

// visitor is a client of a gateway with the token that it sends.
type visitor struct {
	client *http.Client
	url    string
	token  string
}

func (v visitor) as(token string) visitor {
	v.token = token
	return v
}

// do sends a request with further headers, as name and value.
func (v visitor) do(t *testing.T, method, path, body string, headers ...string) *response {
	t.Helper()
	resp := v.open(t, method, path, body, headers...)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return &response{resp.StatusCode, resp.Header, string(text)}
}

// open is do for an answer that is a stream.
func (v visitor) open(t *testing.T, method, path, body string, headers ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, v.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if v.token != "" {
		r.Header.Set("Authorization", "Bearer "+v.token)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Add(headers[i], headers[i+1])
	}
	resp, err := v.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// modern sends a request of 2026-07-28 to an endpoint.
func (v visitor) modern(t *testing.T, path, method, name, params string, headers ...string) *response {
	t.Helper()
	body, own := modernRequest(method, name, params)
	return v.do(t, http.MethodPost, path, body, append(own, headers...)...)
}

func modernRequest(method, name, params string) (body string, headers []string) {
	body = fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s"_meta":{%q:%q,%q:{}}}}`,
		method, params, mcp.MetaVersion, mcp.LatestModern, mcp.MetaCapabilities)
	headers = []string{mcp.HeaderVersion, string(mcp.LatestModern), mcp.HeaderMethod, method}
	if name != "" {
		headers = append(headers, mcp.HeaderName, name)
	}
	return body, headers
}

// tools lists what the visitor sees.
func (v visitor) tools(t *testing.T) *response {
	t.Helper()
	return v.modern(t, "/mcp", mcp.MethodToolsList, "", "")
}

// use calls a tool on an endpoint.
func (v visitor) use(t *testing.T, path, tool, arguments string) *response {
	t.Helper()
	return v.modern(t, path, mcp.MethodToolsCall, tool, fmt.Sprintf(`"name":%q,"arguments":%s,`, tool, arguments))
}

// session opens a legacy session and returns the headers that name it.
func (v visitor) session(t *testing.T) []string {
	t.Helper()
	got := v.do(t, http.MethodPost, "/mcp", legacyInitialize)
	if got.status != http.StatusOK || got.header.Get(mcp.HeaderSession) == "" {
		t.Fatalf("initialize: %+v", got)
	}
	return []string{mcp.HeaderSession, got.header.Get(mcp.HeaderSession)}
}

const legacyInitialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// webServer is a legacy server over HTTP that keeps all that it was sent.
type webServer struct {
	mu   sync.Mutex
	seen bytes.Buffer
}

func (s *webServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	fmt.Fprintf(&s.seen, "%s %s %v %s\n", r.Method, r.URL, maps.Clone(r.Header), body)
	s.mu.Unlock()
	var msg struct {
		ID     json.RawMessage
		Method string
	}
	_ = json.Unmarshal(body, &msg)
	result := ""
	switch msg.Method {
	case "initialize":
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"web","version":"1"}}`
	case "tools/list":
		result = `{"tools":[{"name":"look","inputSchema":{"type":"object"}}]}`
	case "tools/call":
		result = `{"content":[{"type":"text","text":"seen"}]}`
	}
	if msg.ID == nil || result == "" {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, msg.ID, result)
}

func (s *webServer) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.String()
}
