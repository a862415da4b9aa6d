package auth_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/proxy/auth"
)

func TestJWTAcceptsEachAlgorithm(t *testing.T) {
	t.Parallel()
	for _, alg := range []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"} {
		for _, kid := range []string{"k1", ""} {
			s := newSigner(t, kid, alg)
			a := newAuthority(t, s)
			id, err := try(t, newJWT(t, a), "/mcp", a.token(t, s))
			if err != nil {
				t.Errorf("%s with the key id %q: %v", alg, kid, err)
				continue
			}
			want := gate.Principal{Issuer: a.issuer, Tenant: gate.DefaultTenant, Subject: "alice"}
			if id.Principal != want || id.Credential != "jwt:t1" {
				t.Errorf("%s: identity %+v", alg, id)
			}
		}
	}
}

// TestJWTRefusesOverHTTP is RS4, RS5, RS12 and RS13: the response is 401, with
// invalid_token unless there was no token; a valid token passes in between.
func TestJWTRefusesOverHTTP(t *testing.T) {
	t.Parallel()
	s, other := newSigner(t, "k1", "RS256"), newSigner(t, "k1", "ES256")
	a := newAuthority(t, s)
	x, err := auth.NewResource(auth.ResourceOptions{PublicURL: "https://gw.example", AuthorizationServers: []string{a.issuer}, Scopes: []string{"mcp:use"}})
	if err != nil {
		t.Fatal(err)
	}
	server := serve(t, newJWT(t, a), x, nil)
	good := a.token(t, s)
	now := time.Now().Unix()
	header := func(changes ...any) map[string]any {
		h := s.header()
		for i := 0; i < len(changes); i += 2 {
			h[changes[i].(string)] = changes[i+1]
		}
		return h
	}
	parts := strings.Split(good, ".")
	tests := map[string][]string{
		"expired":               {"Bearer " + a.token(t, s, "exp", now-61)},
		"nbf in the future":     {"Bearer " + a.token(t, s, "nbf", now+120)},
		"iat in the future":     {"Bearer " + a.token(t, s, "iat", now+120)},
		"no exp":                {"Bearer " + a.token(t, s, "exp", nil)},
		"exp is a string":       {"Bearer " + a.token(t, s, "exp", fmt.Sprint(now+600))},
		"exp without end":       {"Bearer " + a.token(t, s, "exp", json.Number("1e300"))},
		"exp below zero":        {"Bearer " + a.token(t, s, "exp", -1)},
		"bad signature":         {"Bearer " + good[:len(good)-4] + "AAAA"},
		"no signature":          {"Bearer " + parts[0] + "." + parts[1] + "."},
		"claims exchanged":      {"Bearer " + parts[0] + "." + encodePart(t, a.claims("sub", "root")) + "." + parts[2]},
		"another key":           {"Bearer " + other.sign(t, map[string]any{"alg": "ES256", "kid": "k1"}, a.claims())},
		"alg none":              {"Bearer " + encodePart(t, header("alg", "none")) + "." + parts[1] + "."},
		"alg None":              {"Bearer " + encodePart(t, header("alg", "None")) + "." + parts[1] + "." + parts[2]},
		"HS256 by public key":   {"Bearer " + hmacToken(t, s, a.claims())},
		"alg is a number":       {"Bearer " + s.sign(t, header("alg", 1), a.claims())},
		"no alg":                {"Bearer " + s.sign(t, map[string]any{"kid": "k1"}, a.claims())},
		"unknown kid":           {"Bearer " + s.sign(t, header("kid", "k9"), a.claims())},
		"kid is a number":       {"Bearer " + s.sign(t, header("kid", 1), a.claims())},
		"key in the header":     {"Bearer " + other.sign(t, map[string]any{"alg": "ES256", "kid": "k9", "jwk": other.jwk()}, a.claims())},
		"wrong iss":             {"Bearer " + a.token(t, s, "iss", "https://evil.example")},
		"iss with a slash":      {"Bearer " + a.token(t, s, "iss", a.issuer+"/")},
		"no iss":                {"Bearer " + a.token(t, s, "iss", nil)},
		"iss is a list":         {"Bearer " + a.token(t, s, "iss", []string{a.issuer})},
		"unknown crit":          {"Bearer " + s.sign(t, header("crit", []string{"x"}, "x", 1), a.claims())},
		"empty crit":            {"Bearer " + s.sign(t, header("crit", []string{}), a.claims())},
		"zipped":                {"Bearer " + s.sign(t, header("zip", "DEF"), a.claims())},
		"another type":          {"Bearer " + s.sign(t, header("typ", "logout+jwt"), a.claims())},
		"ID-JAG":                {"Bearer " + s.sign(t, header("typ", "oauth-id-jag+jwt"), a.claims())},
		"JWE":                   {"Bearer " + parts[0] + "." + parts[1] + "." + parts[2] + ".AAAA.AAAA"},
		"nested: enc":           {"Bearer " + s.sign(t, header("enc", "A256GCM"), a.claims())},
		"no audience":           {"Bearer " + a.token(t, s, "aud", nil)},
		"no subject":            {"Bearer " + a.token(t, s, "sub", nil)},
		"empty subject":         {"Bearer " + a.token(t, s, "sub", "")},
		"subject is a number":   {"Bearer " + a.token(t, s, "sub", 7)},
		"subject with a break":  {"Bearer " + a.token(t, s, "sub", "alice\nX-Admin: 1")},
		"subject with bidi":     {"Bearer " + a.token(t, s, "sub", "ali\u202ece")},
		"subject not a text":    {"Bearer " + rawToken(t, s, `{"sub":"\ud800"}`, a)},
		"claim twice":           {"Bearer " + rawToken(t, s, `{"sub":"alice","sub":"root"}`, a)},
		"scope with a quote":    {"Bearer " + a.token(t, s, "scope", `a"b`)},
		"scope is a number":     {"Bearer " + a.token(t, s, "scope", 1)},
		"padding":               {"Bearer " + good + "="},
		"bound by DPoP":         {"Bearer " + a.token(t, s, "cnf", map[string]any{"jkt": "x"})},
		"bound to nothing":      {"Bearer " + a.token(t, s, "cnf", "x")},
		"bound to a cert":       {"Bearer " + a.token(t, s, "cnf", map[string]any{"x5t#S256": b64.EncodeToString(make([]byte, 32))})},
		"over 16 KiB":           {"Bearer " + a.token(t, s, "pad", strings.Repeat("x", 16<<10))},
		"512 KiB":               {"Bearer " + strings.Repeat("a", 512<<10)},
		"two headers":           {"Bearer " + good, "Bearer " + good},
		"two tokens":            {"Bearer " + good + " " + good},
		"list of tokens":        {"Bearer " + good + "," + good},
		"Basic":                 {"Basic YTpi"},
		"DPoP":                  {"DPoP " + good},
		"Bearer":                {"Bearer"},
		"Bearer and nothing":    {"Bearer "},
		"empty header":          {""},
		"token without Bearer":  {good},
		"not base64":            {"Bearer a.b.c"},
		"dots":                  {"Bearer .."},
		"header is an array":    {"Bearer " + b64.EncodeToString([]byte("[]")) + "." + parts[1] + "." + parts[2]},
		"trailing JSON":         {"Bearer " + b64.EncodeToString([]byte(`{"alg":"RS256"}{}`)) + "." + parts[1] + "." + parts[2]},
		"line break in a part":  {"Bearer " + parts[0] + "." + parts[1] + ".\t" + parts[2]},
		"spare bits at the end": {"Bearer " + spareBits(good)},
	}
	for name, values := range tests {
		t.Run(name, func(t *testing.T) {
			var headers []string
			for _, v := range values {
				headers = append(headers, "Authorization", v)
			}
			resp, body := post(t, server.Client(), server.URL+"/mcp", headers...)
			want := `Bearer error="invalid_token", scope="mcp:use", resource_metadata="https://gw.example/.well-known/oauth-protected-resource/mcp"`
			if resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("WWW-Authenticate") != want {
				t.Errorf("%d %q, want 401 %q", resp.StatusCode, resp.Header.Get("WWW-Authenticate"), want)
			}
			if body != gate.ErrBadCredential.Error() {
				t.Errorf("the client is told %q", body)
			}
		})
	}
	// The server refuses a megabyte before the authenticator would.
	if _, err := try(t, newJWT(t, a), "/mcp", strings.Repeat("a", 1<<20)); !errors.Is(err, gate.ErrBadCredential) {
		t.Errorf("1 MiB: %v", err)
	}
	for _, query := range []string{"", "?access_token=" + good} {
		resp, _ := post(t, server.Client(), server.URL+"/mcp"+query)
		if got := resp.Header.Get("WWW-Authenticate"); resp.StatusCode != http.StatusUnauthorized || strings.Contains(got, "error") {
			t.Errorf("no header, query %.20q: %d %q", query, resp.StatusCode, got)
		}
	}
	if resp, body := post(t, server.Client(), server.URL+"/mcp", "Authorization", "bearer "+good); resp.StatusCode != http.StatusOK {
		t.Errorf("the good token: %d %s", resp.StatusCode, body)
	}
}

// hmacToken is signed with HS256, with the RSA public key as the secret.
func hmacToken(t *testing.T, s signer, claims map[string]any) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(s.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	text := encodePart(t, map[string]any{"alg": "HS256", "kid": s.kid}) + "." + encodePart(t, claims)
	mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	mac.Write([]byte(text))
	return text + "." + b64.EncodeToString(mac.Sum(nil))
}

// rawToken signs claims, some of them written by hand, in front.
func rawToken(t *testing.T, s signer, raw string, a *authority) string {
	t.Helper()
	rest, err := json.Marshal(a.claims("sub", nil))
	if err != nil {
		t.Fatal(err)
	}
	text := encodePart(t, s.header()) + "." + b64.EncodeToString([]byte(strings.TrimSuffix(raw, "}")+","+string(rest[1:])))
	return text + "." + b64.EncodeToString(s.signature(t, text))
}

// spareBits sets bits of the last character that decode to nothing.
func spareBits(token string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, token[len(token)-1])
	return token[:len(token)-1] + string(alphabet[last|1])
}

// TestJWTAudience is RS6 and RS18: exact, except for the case of scheme and host.
func TestJWTAudience(t *testing.T) {
	t.Parallel()
	s := newSigner(t, "k1", "EdDSA")
	a := newAuthority(t, s)
	x, err := auth.NewResource(auth.ResourceOptions{PublicURL: "https://GW.example/", AuthorizationServers: []string{a.issuer}, Views: []string{"/find", "/strict", "/strict/find"}})
	if err != nil {
		t.Fatal(err)
	}
	j := newJWT(t, a, func(o *auth.JWTOptions) {
		o.Resource, o.Issuers[0].Audience = x, []string{"toolgate", "https://gw.example/api"}
	})
	tests := []struct {
		name, path string
		aud        any
		ok         bool
	}{
		{"configured name", "/mcp", "toolgate", true},
		{"configured name, other endpoint", "/mcp/s/files", "toolgate", true},
		{"name in another case", "/mcp", "Toolgate", false},
		{"name and more", "/mcp", "toolgate2", false},
		{"configured URI", "/anything", "https://gw.example/api", true},
		{"endpoint", "/mcp", "https://gw.example/mcp", true},
		{"upper case scheme and host", "/mcp", "HTTPS://GW.Example/mcp", true},
		{"upper case path", "/mcp", "https://gw.example/MCP", false},
		{"Kelvin sign", "/mcp", "https://gw.example/ap\u212a", false},
		{"trailing slash", "/mcp", "https://gw.example/mcp/", false},
		{"prefix", "/mcp", "https://gw.example/mcp.evil", false},
		{"below", "/mcp", "https://gw.example/mcp/s", false},
		{"the base alone", "/mcp", "https://gw.example", false},
		{"default port", "/mcp", "https://gw.example:443/mcp", false},
		{"other scheme", "/mcp", "http://gw.example/mcp", false},
		{"user", "/mcp", "https://x@gw.example/mcp", false},
		{"query", "/mcp", "https://gw.example/mcp?", false},
		{"fragment", "/mcp", "https://gw.example/mcp#", false},
		{"host below ours", "/mcp", "https://gw.example.evil.example/mcp", false},
		{"sibling endpoint", "/mcp/s/files", "https://gw.example/mcp/s/mail", false},
		{"main endpoint at another", "/mcp/s/files", "https://gw.example/mcp", false},
		{"other endpoint at the main one", "/mcp", "https://gw.example/mcp/s/files", false},
		{"own endpoint", "/mcp/s/files", "https://gw.example/mcp/s/files", true},
		{"alias", "/message", "https://gw.example/sse", true},
		{"alias as audience", "/message", "https://gw.example/message", false},
		{"a view of it", "/mcp/find", "https://gw.example/mcp/find", true},
		{"the endpoint of a view", "/mcp/find", "https://gw.example/mcp", true},
		{"a view at its endpoint", "/mcp", "https://gw.example/mcp/find", false},
		{"a view of another", "/mcp/s/files/find", "https://gw.example/mcp/find", false},
		{"the main endpoint at a view of another", "/mcp/s/files/find", "https://gw.example/mcp", false},
		{"messages of a view", "/message", "https://gw.example/sse/find", true},
		{"list with ours", "/mcp", []string{"x", "https://gw.example/mcp"}, true},
		{"list without", "/mcp", []string{"x", "y"}, false},
		{"empty list", "/mcp", []string{}, false},
		{"list with a number", "/mcp", []any{"toolgate", 1}, false},
		{"empty", "/mcp", "", false},
		{"object", "/mcp", map[string]any{"toolgate": "toolgate"}, false},
		{"none", "/mcp", nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			token := a.token(t, s, "aud", tt.aud)
			for range 2 { // the second may come from the cache
				if _, err := try(t, j, tt.path, token); (err == nil) != tt.ok || err != nil && !errors.Is(err, gate.ErrBadCredential) {
					t.Errorf("error %v, want accepted %v", err, tt.ok)
				}
			}
		})
	}
	token := a.token(t, s, "aud", "https://gw.example/mcp/s/files")
	if _, err := try(t, j, "/mcp/s/files", token); err != nil {
		t.Fatal(err)
	}
	if _, err := try(t, j, "/mcp/s/mail", token); !errors.Is(err, gate.ErrBadCredential) {
		t.Errorf("a remembered token at the sibling: %v", err)
	}
}

func TestJWTClaims(t *testing.T) {
	t.Parallel()
	s := newSigner(t, "k1", "EdDSA")
	a := newAuthority(t, s)
	claims := auth.Claims{Subject: "user.id", Tenant: "org", Persona: "agent", Groups: "realm_access.roles", Plan: "https://gw.example/plan"}
	j := newJWT(t, a, func(o *auth.JWTOptions) { o.Issuers[0].Claims = claims })
	user := map[string]any{"id": "u-1"}
	tests := []struct {
		name    string
		changes []any
		want    *gate.Identity // nil: refused
	}{
		{"least", []any{"user", user}, &gate.Identity{Principal: gate.Principal{Tenant: "default", Subject: "u-1"}}},
		{
			"all",
			[]any{
				"user", user, "org", "acme", "agent", "bot", "realm_access",
				map[string]any{"roles": []string{"a", "b"}},
				"https://gw.example/plan", "team", "scope", " read  write ",
			},
			&gate.Identity{
				Principal: gate.Principal{Tenant: "acme", Subject: "u-1"}, Persona: "bot", Groups: []string{"a", "b"},
				Plan: "team", Scopes: []string{"read", "write"},
			},
		},
		{"scp list", []any{"user", user, "scp", []string{"read"}}, &gate.Identity{Principal: gate.Principal{Tenant: "default", Subject: "u-1"}, Scopes: []string{"read"}}},
		{"one group", []any{"user", user, "realm_access", map[string]any{"roles": "a b"}}, &gate.Identity{Principal: gate.Principal{Tenant: "default", Subject: "u-1"}, Groups: []string{"a b"}}},
		{"name with a dot first", []any{"user", user, "user.id", "top"}, &gate.Identity{Principal: gate.Principal{Tenant: "default", Subject: "top"}}},
		{"empty tenant", []any{"user", user, "org", ""}, &gate.Identity{Principal: gate.Principal{Tenant: "default", Subject: "u-1"}}},
		{"no subject there", []any{}, nil},
		{"way is a string", []any{"user", "u-1"}, nil},
		{"way to groups is a string", []any{"user", user, "realm_access", "roles"}, nil},
		{"tenant is a number", []any{"user", user, "org", 1}, nil},
		{"tenant is a list", []any{"user", user, "org", []string{"acme"}}, nil},
		{"tenant is null", []any{"user", user, "org", json.RawMessage("null")}, nil},
		{"persona is a bool", []any{"user", user, "agent", true}, nil},
		{"groups is an object", []any{"user", user, "realm_access", map[string]any{"roles": map[string]any{}}}, nil},
		{"group is a number", []any{"user", user, "realm_access", map[string]any{"roles": []any{"a", 1}}}, nil},
		{"empty group", []any{"user", user, "realm_access", map[string]any{"roles": []any{""}}}, nil},
		{"plan is a number", []any{"user", user, "https://gw.example/plan", 3}, nil},
		{"scope list with a space", []any{"user", user, "scope", []string{"a b"}}, nil},
		{"long subject", []any{"user", map[string]any{"id": strings.Repeat("x", 1025)}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id, err := try(t, j, "/mcp", a.token(t, s, tt.changes...))
			if tt.want == nil {
				if !errors.Is(err, gate.ErrBadCredential) {
					t.Fatalf("error %v, want a bad credential", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if id.Tenant != tt.want.Tenant || id.Subject != tt.want.Subject || id.Persona != tt.want.Persona || id.Plan != tt.want.Plan ||
				!slices.Equal(id.Groups, tt.want.Groups) || !slices.Equal(id.Scopes, tt.want.Scopes) || id.Issuer != a.issuer {
				t.Errorf("identity %+v, want %+v", id, tt.want)
			}
		})
	}
}

func TestJWTIssuersAreApart(t *testing.T) {
	t.Parallel()
	s1, s2 := newSigner(t, "k", "ES256"), newSigner(t, "k", "ES256")
	a1, a2 := newAuthority(t, s1), newAuthority(t, s2)
	j := newJWT(t, a1, func(o *auth.JWTOptions) {
		o.Issuers = append(o.Issuers, auth.Issuer{Issuer: a2.issuer, JWKS: a2.issuer + "/keys", Audience: []string{"two"}, Algorithms: []string{"ES256"}})
	})
	one, err := try(t, j, "/mcp", a1.token(t, s1))
	if err != nil {
		t.Fatal(err)
	}
	two, err := try(t, j, "/mcp", a2.token(t, s2, "aud", "two"))
	if err != nil {
		t.Fatal(err)
	}
	if one.Key() == two.Key() || one.Subject != two.Subject {
		t.Errorf("%q and %q", one.Key(), two.Key())
	}
	for name, token := range map[string]string{
		"signed by the other":   a1.token(t, s2),
		"audience of the other": a2.token(t, s2),
	} {
		if _, err := try(t, j, "/mcp", token); !errors.Is(err, gate.ErrBadCredential) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestJWTAlgorithmsOfAnIssuer(t *testing.T) {
	t.Parallel()
	rs, ps := newSigner(t, "k", "RS256"), newSigner(t, "k", "PS256")
	a := newAuthority(t, rs)
	j := newJWT(t, a, func(o *auth.JWTOptions) { o.Issuers[0].Algorithms = []string{"PS256"} })
	if _, err := try(t, j, "/mcp", a.token(t, ps)); err != nil {
		t.Error(err)
	}
	if _, err := try(t, j, "/mcp", a.token(t, rs)); !errors.Is(err, gate.ErrBadCredential) {
		t.Errorf("an algorithm that is not configured: %v", err)
	}
}

// TestJWTVerdictsEnd follows a token through its cache: it is cached for 60 s, until
// its end, and through the leeway.
func TestJWTVerdictsEnd(t *testing.T) {
	t.Parallel()
	s := newSigner(t, "k1", "EdDSA")
	synctest.Test(t, func(t *testing.T) {
		a := &authority{issuer: "https://as.example", keys: []signer{s}}
		j := newJWT(t, a, func(o *auth.JWTOptions) { o.Transport, o.Refresh, o.Stale = a, time.Hour, 2*time.Hour })
		start := time.Now()
		token := a.token(t, s, "exp", start.Add(150*time.Second).Unix())
		ask := func() (auth.Grant, error) {
			return j.Identify(newRequest(t, "192.0.2.1:1", "Authorization", "Bearer "+token))
		}
		for _, step := range []struct {
			at    time.Duration // since the start
			until time.Duration // since the start; 0: refused
		}{
			{0, 60 * time.Second},
			{59 * time.Second, 60 * time.Second}, // remembered
			{60 * time.Second, 120 * time.Second},
			{130 * time.Second, 150 * time.Second}, // its end is near
			{150 * time.Second, 210 * time.Second}, // only the leeway is left
			{209 * time.Second, 210 * time.Second},
			{210 * time.Second, 0},
		} {
			time.Sleep(step.at - time.Since(start))
			g, err := ask()
			if step.until == 0 {
				if !errors.Is(err, gate.ErrBadCredential) {
					t.Errorf("after %v: error %v", step.at, err)
				}
				continue
			}
			if err != nil || g.Until.Sub(start) != step.until || g.Expires.Sub(start) != 150*time.Second {
				t.Errorf("after %v: until %v, expires %v, error %v; want until %v", step.at, g.Until.Sub(start), g.Expires.Sub(start), err, step.until)
			}
		}
	})
}

func TestJWTForgets(t *testing.T) {
	t.Parallel()
	s := newSigner(t, "k1", "EdDSA")
	synctest.Test(t, func(t *testing.T) {
		a := &authority{issuer: "https://as.example", keys: []signer{s}}
		j := newJWT(t, a, func(o *auth.JWTOptions) { o.Transport, o.Cooldown = a, time.Second })
		token := a.token(t, s)
		if _, err := try(t, j, "/mcp", token); err != nil {
			t.Fatal(err)
		}
		a.set(func() { a.keys = nil }) // withdrawn
		time.Sleep(2 * time.Second)
		if _, err := try(t, j, "/mcp", s.sign(t, map[string]any{"alg": "EdDSA", "kid": "k2"}, a.claims())); !errors.Is(err, gate.ErrBadCredential) {
			t.Fatalf("unknown key: %v", err)
		}
		if _, err := try(t, j, "/mcp", token); err != nil {
			t.Errorf("the verdict was not remembered: %v", err)
		}
		j.Forget()
		if _, err := try(t, j, "/mcp", token); !errors.Is(err, gate.ErrBadCredential) {
			t.Errorf("with the key withdrawn and the verdict dropped: %v", err)
		}
	})
}

func TestJWTCacheIsBounded(t *testing.T) {
	t.Parallel()
	s := newSigner(t, "k1", "EdDSA")
	synctest.Test(t, func(t *testing.T) {
		a := &authority{issuer: "https://as.example", keys: []signer{s}}
		j := newJWT(t, a, func(o *auth.JWTOptions) { o.Transport, o.Cooldown, o.Cache = a, time.Second, 2 })
		var tokens []string
		for i := range 3 {
			tokens = append(tokens, a.token(t, s, "sub", fmt.Sprint("u", i)))
			if _, err := try(t, j, "/mcp", tokens[i]); err != nil {
				t.Fatal(err)
			}
			if _, err := try(t, j, "/mcp", tokens[0]); err != nil { // stays in use
				t.Fatal(err)
			}
		}
		a.set(func() { a.keys = nil })
		time.Sleep(2 * time.Second)
		_, _ = try(t, j, "/mcp", s.sign(t, map[string]any{"alg": "EdDSA", "kid": "k2"}, a.claims()))
		for i, want := range []bool{true, false, true} {
			if _, err := try(t, j, "/mcp", tokens[i]); (err == nil) != want {
				t.Errorf("token %d: error %v, want remembered %v", i, err, want)
			}
		}
	})
}

func TestNewJWTRefuses(t *testing.T) {
	t.Parallel()
	aud := []string{"x"}
	for name, issuers := range map[string][]auth.Issuer{
		"none":              nil,
		"no audience":       {{Issuer: "https://as.example"}},
		"empty audience":    {{Issuer: "https://as.example", Audience: []string{""}}},
		"no issuer":         {{Audience: aud}},
		"http":              {{Issuer: "http://as.example", Audience: aud}},
		"http, like local":  {{Issuer: "http://localhost.evil.example", Audience: aud}},
		"file":              {{Issuer: "file:///etc/passwd", Audience: aud}},
		"toolgate's own":    {{Issuer: auth.KeyIssuer, Audience: aud}},
		"user":              {{Issuer: "https://u:p@as.example", Audience: aud}},
		"query":             {{Issuer: "https://as.example?x", Audience: aud}},
		"fragment":          {{Issuer: "https://as.example#x", Audience: aud}},
		"twice":             {{Issuer: "https://as.example", Audience: aud}, {Issuer: "https://as.example", Audience: aud}},
		"keys over http":    {{Issuer: "https://as.example", JWKS: "http://as.example/keys", Audience: aud}},
		"none as algorithm": {{Issuer: "https://as.example", Algorithms: []string{"none"}, Audience: aud}},
		"HMAC":              {{Issuer: "https://as.example", Algorithms: []string{"HS256"}, Audience: aud}},
	} {
		if _, err := auth.NewJWT(auth.JWTOptions{Issuers: issuers}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, j := range []*auth.JWT{nil, {}} {
		if _, err := j.Identify(newRequest(t, "192.0.2.1:1", "Authorization", "Bearer a.b.c")); !errors.Is(err, gate.ErrBadCredential) {
			t.Errorf("without issuers: %v", err)
		}
	}
}

// TestLeewayOfAnIssuer: a clock may differ by as much as the options say, and no more.
func TestLeewayOfAnIssuer(t *testing.T) {
	t.Parallel()
	s := newSigner(t, "k1", "EdDSA")
	a := newAuthority(t, s)
	short := newJWT(t, a, func(o *auth.JWTOptions) { o.Issuers[0].Leeway = 10 * time.Second })
	usual := newJWT(t, a)
	now := time.Now().Unix()
	expired := a.token(t, s, "exp", now-30)
	if _, err := try(t, usual, "/mcp", expired); err != nil {
		t.Errorf("within the usual leeway: %v", err)
	}
	if _, err := try(t, short, "/mcp", expired); !errors.Is(err, gate.ErrBadCredential) {
		t.Errorf("beyond a short leeway: %v", err)
	}
	if _, err := try(t, short, "/mcp", a.token(t, s, "exp", now-5)); err != nil {
		t.Errorf("within a short leeway: %v", err)
	}
	if _, err := try(t, short, "/mcp", a.token(t, s, "nbf", now+30)); !errors.Is(err, gate.ErrBadCredential) {
		t.Errorf("from the future: %v", err)
	}
}
