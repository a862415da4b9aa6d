// Package oauthtest has an authorization server and a protected MCP server for
// tests of more than one package. Both are on this machine.
package oauthtest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"
)

// Request is what an authorization server was asked.
type Request struct {
	Path string
	Form url.Values // of its query or its body
	Auth string     // Authorization header
	Body string
}

// Authority is an authorization server. Its fields are set before it is asked.
type Authority struct {
	Issuer string
	// Metadata changes what it says of itself.
	Metadata func(map[string]any)
	// Authorize changes where a browser is sent back to.
	Authorize func(back *url.URL)
	// Token answers a token request instead of the authority where it returns true.
	Token func(w http.ResponseWriter, r *http.Request) bool
	// Life is how long tokens are good; an hour when zero.
	Life time.Duration
	// NoRefresh gives no refresh tokens; Rotate makes each good for one use.
	NoRefresh, Rotate bool
	// Proofs checks proofs of keys, which then tokens are bound to; nil knows nothing of
	// such. Algorithms are those that it names; ES256 where there are none.
	Proofs     *Proofs
	Algorithms []string
	// Unbound gives tokens that are bound to nothing, whatever it names; ProofsOnly gives
	// no others than bound ones.
	Unbound, ProofsOnly bool
	// OpenID gives ID tokens with the tokens of a code; nil gives none.
	OpenID *OpenID
	// User is whom the next login is of.
	User string

	server   *httptest.Server
	mu       sync.Mutex
	requests []Request
	codes    map[string]url.Values
	refresh  map[string]Grant
	access   map[string]Grant
	clients  map[string]bool
}

// Grant is what a token was given for.
type Grant struct {
	User, Resource, Scope, Client string
	Key                           string // thumbprint of the key that it is bound to
	Expires                       time.Time

	idToken string // that goes with it
}

// New starts an authorization server that ends with the test.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{
		User: "somebody", codes: map[string]url.Values{}, refresh: map[string]Grant{}, access: map[string]Grant{}, clients: map[string]bool{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", a.metadata)
	mux.HandleFunc("POST /register", a.register)
	mux.HandleFunc("GET /keys", a.keys)
	mux.HandleFunc("GET /authorize", a.authorize)
	mux.HandleFunc("POST /token", a.token)
	mux.HandleFunc("POST /revoke", func(http.ResponseWriter, *http.Request) {})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.note(r)
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	a.Issuer, a.server = s.URL, s
	return a
}

// Close has the authority answer nobody any more.
func (a *Authority) Close() { a.server.Close() }

func (a *Authority) note(r *http.Request) {
	_ = r.ParseForm()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests = append(a.requests, Request{Path: r.URL.Path, Form: r.Form, Auth: r.Header.Get("Authorization")})
}

// Requests returns what was asked at a path.
func (a *Authority) Requests(path string) []Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []Request
	for _, r := range a.requests {
		if r.Path == path {
			out = append(out, r)
		}
	}
	return out
}

// Secrets returns every token, code and refresh token that was given.
func (a *Authority) Secrets() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Concat(slices.Collect(maps.Keys(a.access)), slices.Collect(maps.Keys(a.refresh)), slices.Collect(maps.Keys(a.codes)))
}

// Revoke ends every token; with refresh also those that renew.
func (a *Authority) Revoke(refresh bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for token, g := range a.access {
		g.Expires = time.Time{}
		a.access[token] = g
	}
	if refresh {
		for token := range a.refresh {
			a.refresh[token] = Grant{}
		}
	}
}

// Knows returns what an access token was given for, if it is good.
func (a *Authority) Knows(token string) (Grant, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	g, ok := a.access[token]
	return g, ok && time.Now().Before(g.Expires)
}

func (a *Authority) metadata(w http.ResponseWriter, _ *http.Request) {
	m := map[string]any{
		"issuer": a.Issuer, "authorization_endpoint": a.Issuer + "/authorize", "token_endpoint": a.Issuer + "/token",
		"registration_endpoint": a.Issuer + "/register", "revocation_endpoint": a.Issuer + "/revoke",
		"code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none", "client_secret_basic", "private_key_jwt"},
		"authorization_response_iss_parameter_supported": true,
	}
	if a.Proofs != nil {
		m["dpop_signing_alg_values_supported"] = []string{"ES256"}
		if a.Algorithms != nil {
			m["dpop_signing_alg_values_supported"] = a.Algorithms
		}
	}
	if a.OpenID != nil {
		m["jwks_uri"] = a.Issuer + "/keys"
	}
	a.mu.Lock()
	change := a.Metadata
	a.mu.Unlock()
	if change != nil {
		change(m)
	}
	reply(w, http.StatusOK, m)
}

func (a *Authority) register(w http.ResponseWriter, r *http.Request) {
	var d map[string]any
	if json.NewDecoder(r.Body).Decode(&d) != nil {
		fail(w, "invalid_client_metadata")
		return
	}
	id := "client-" + rand.Text()
	a.mu.Lock()
	a.clients[id] = true
	body, _ := json.Marshal(d)
	a.requests[len(a.requests)-1].Body = string(body)
	a.mu.Unlock()
	d["client_id"] = id
	reply(w, http.StatusCreated, d)
}

func (a *Authority) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || q.Get("code_challenge_method") != "S256" || q.Get("state") == "" {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	code := "code-" + rand.Text()
	a.mu.Lock()
	q.Set("user", a.User)
	a.codes[code] = q
	a.mu.Unlock()
	back.RawQuery = url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {a.Issuer}}.Encode()
	if a.Authorize != nil {
		a.Authorize(back)
	}
	http.Redirect(w, r, back.String(), http.StatusFound)
}

// ChangeMetadata sets Metadata, while requests may be under way.
func (a *Authority) ChangeMetadata(by func(map[string]any)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Metadata = by
}

// AnswerTokens sets Token, while requests may be under way.
func (a *Authority) AnswerTokens(by func(w http.ResponseWriter, r *http.Request) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Token = by
}

func (a *Authority) token(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	answer := a.Token
	a.mu.Unlock()
	if answer != nil && answer(w, r) {
		return
	}
	key, ok := a.proven(w, r)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	form := r.PostForm
	client := form.Get("client_id")
	if id, _, ok := r.BasicAuth(); ok {
		client = id
	}
	switch form.Get("grant_type") {
	case "authorization_code":
		q, ok := a.codes[form.Get("code")]
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		if !ok || q == nil || q.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) ||
			q.Get("dpop_jkt") != "" && q.Get("dpop_jkt") != key || q.Get("redirect_uri") != form.Get("redirect_uri") || q.Get("client_id") != client || q.Get("resource") != form.Get("resource") {
			fail(w, "invalid_grant")
			return
		}
		a.codes[form.Get("code")] = nil
		g := Grant{User: q.Get("user"), Resource: q.Get("resource"), Scope: q.Get("scope"), Client: client, Key: key}
		if a.OpenID != nil && !a.OpenID.None {
			g.idToken = a.OpenID.idToken(a.Issuer, &g, q.Get("nonce"))
		}
		a.give(w, g, true)
	case "refresh_token":
		g, ok := a.refresh[form.Get("refresh_token")]
		if !ok || g.User == "" || g.Key != key || g.Client != client || g.Resource != form.Get("resource") {
			fail(w, "invalid_grant")
			return
		}
		if a.Rotate {
			a.refresh[form.Get("refresh_token")] = Grant{}
		}
		a.give(w, g, a.Rotate)
	case "client_credentials":
		a.give(w, Grant{User: client, Resource: form.Get("resource"), Scope: form.Get("scope"), Client: client, Key: key}, false)
	case "urn:ietf:params:oauth:grant-type:token-exchange", "urn:ietf:params:oauth:grant-type:jwt-bearer":
		who := form.Get("subject_token") + form.Get("assertion")
		a.give(w, Grant{User: "exchanged " + who[:min(len(who), 40)], Resource: form.Get("resource"), Scope: form.Get("scope"), Client: client, Key: key}, false)
	default:
		fail(w, "unsupported_grant_type")
	}
}

// proven returns whose key a token request proves, empty for none; where ok is false
// it has answered the request.
func (a *Authority) proven(w http.ResponseWriter, r *http.Request) (key string, ok bool) {
	if a.Proofs == nil {
		return "", true
	}
	if r.Header.Get("Dpop") == "" && !a.ProofsOnly {
		return "", true
	}
	key, code := a.Proofs.check(r, a.Issuer+"/token", "")
	if a.Proofs.Next != nil {
		w.Header().Set("DPoP-Nonce", a.Proofs.Next())
	}
	if code != "" {
		fail(w, code)
		return "", false
	}
	if a.Unbound {
		key = ""
	}
	return key, true
}

// give gives a token; mu is held.
func (a *Authority) give(w http.ResponseWriter, g Grant, refresh bool) {
	life := a.Life
	if life == 0 {
		life = time.Hour
	}
	g.Expires = time.Now().Add(life)
	token := "access-" + rand.Text()
	a.access[token] = g
	out := map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": int(life.Seconds())}
	if g.Key != "" {
		out["token_type"] = "DPoP"
	}
	if g.idToken != "" {
		out["id_token"] = g.idToken
	}
	if g.Scope != "" {
		out["scope"] = g.Scope
	}
	if refresh && !a.NoRefresh {
		again := "refresh-" + rand.Text()
		a.refresh[again] = g
		out["refresh_token"] = again
	}
	reply(w, http.StatusOK, out)
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func fail(w http.ResponseWriter, code string) {
	reply(w, http.StatusBadRequest, map[string]any{"error": code, "error_description": "canary-of-the-description"})
}
