package auth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/proxy/auth"
)

// TestKeysRotate is RS15: the first token that names a new key finds it, and a
// withdrawn key is no longer accepted.
func TestKeysRotate(t *testing.T) {
	t.Parallel()
	first, second := newSigner(t, "k1", "RS256"), newSigner(t, "k2", "ES256")
	a := newAuthority(t, first)
	j := newJWT(t, a, func(o *auth.JWTOptions) { o.Cooldown = time.Nanosecond })
	server := serve(t, j, nil, nil)
	old := a.token(t, first)
	status := func(token string) int {
		resp, _ := post(t, server.Client(), server.URL+"/mcp", "Authorization", "Bearer "+token)
		return resp.StatusCode
	}
	if got := status(old); got != http.StatusOK {
		t.Fatalf("first key: %d", got)
	}
	a.set(func() { a.keys = []signer{second} })
	if got := status(a.token(t, second)); got != http.StatusOK {
		t.Errorf("second key: %d", got)
	}
	if got := status(a.token(t, first, "jti", "t2")); got != http.StatusUnauthorized {
		t.Errorf("a new token of the withdrawn key: %d", got)
	}
	if fetches, _ := a.count(); fetches < 2 || fetches > 3 {
		t.Errorf("%d fetches, want 2 or 3", fetches)
	}
}

func TestKeysWithoutIDRotate(t *testing.T) {
	t.Parallel()
	first, second := newSigner(t, "", "EdDSA"), newSigner(t, "", "EdDSA")
	a := newAuthority(t, first)
	j := newJWT(t, a, func(o *auth.JWTOptions) { o.Cooldown = time.Nanosecond })
	if _, err := try(t, j, "/mcp", a.token(t, first)); err != nil {
		t.Fatal(err)
	}
	a.set(func() { a.keys = []signer{second} })
	if _, err := try(t, j, "/mcp", a.token(t, second)); err != nil {
		t.Error(err)
	}
}

// TestUnknownKeysCoolDown is RS15: whatever clients send, keys are fetched once per
// cooldown.
func TestUnknownKeysCoolDown(t *testing.T) {
	t.Parallel()
	s := newSigner(t, "k1", "EdDSA")
	a := newAuthority(t, s)
	server := serve(t, newJWT(t, a), nil, nil)
	began := time.Now()
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 125 {
				token := s.sign(t, map[string]any{"alg": "EdDSA", "kid": fmt.Sprintf("%d-%d", worker, i)}, a.claims())
				if resp, _ := post(t, server.Client(), server.URL+"/mcp", "Authorization", "Bearer "+token); resp.StatusCode != http.StatusUnauthorized {
					t.Errorf("an unknown key: %d", resp.StatusCode)
				}
			}
		})
	}
	wg.Wait()
	// A busy machine may take longer than the pause between two fetches.
	fetches, _ := a.count()
	if most := 1 + int(time.Since(began)/(30*time.Second)); fetches < 1 || fetches > most {
		t.Errorf("%d fetches for 1000 unknown keys, want 1 each 30 s", fetches)
	}
}

func TestKeysCoolDownEnds(t *testing.T) {
	t.Parallel()
	s, later := newSigner(t, "k1", "EdDSA"), newSigner(t, "k2", "EdDSA")
	synctest.Test(t, func(t *testing.T) {
		a := &authority{issuer: "https://as.example", keys: []signer{s}}
		j := newJWT(t, a, func(o *auth.JWTOptions) { o.Transport = a })
		if _, err := try(t, j, "/mcp", a.token(t, s)); err != nil {
			t.Fatal(err)
		}
		a.set(func() { a.keys = append(a.keys, later) })
		for _, step := range []struct {
			wait    time.Duration
			ok      bool
			fetches int
		}{{0, false, 1}, {29 * time.Second, false, 1}, {time.Second, true, 2}} {
			time.Sleep(step.wait)
			_, err := try(t, j, "/mcp", a.token(t, later))
			if fetches, _ := a.count(); (err == nil) != step.ok || fetches != step.fetches {
				t.Errorf("after %v more: error %v, %d fetches; want accepted %v, %d fetches", step.wait, err, fetches, step.ok, step.fetches)
			}
		}
	})
}

// TestKeysOutliveTheirIssuer is RS15: while the issuer is down the cached keys are
// used, until they are stale. Without keys the response is 503, never 200.
func TestKeysOutliveTheirIssuer(t *testing.T) {
	t.Parallel()
	s := newSigner(t, "k1", "EdDSA")
	down := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	synctest.Test(t, func(t *testing.T) {
		a := &authority{issuer: "https://as.example", keys: []signer{s}, broken: down}
		j := newJWT(t, a, func(o *auth.JWTOptions) { o.Transport, o.Stale = a, 2*time.Hour })
		for range 10 {
			if _, err := try(t, j, "/mcp", a.token(t, s)); !errors.Is(err, auth.ErrUnavailable) || errors.Is(err, gate.ErrBadCredential) {
				t.Fatalf("without keys: %v", err)
			}
		}
		if fetches, _ := a.count(); fetches != 1 {
			t.Errorf("%d fetches without keys, want 1", fetches)
		}
		time.Sleep(5 * time.Second)
		a.set(func() { a.broken = nil })
		if _, err := try(t, j, "/mcp", a.token(t, s)); err != nil {
			t.Fatalf("5 s later: %v", err)
		}
		a.set(func() { a.broken = down })
		for range 23 {
			time.Sleep(5 * time.Minute)
			if _, err := try(t, j, "/mcp", a.token(t, s)); err != nil {
				t.Fatalf("with the keys at hand: %v", err)
			}
			synctest.Wait()
		}
		if st := j.Status(); len(st) != 1 || st[0].Keys != 1 || st[0].Err == nil || st[0].Fetched.IsZero() {
			t.Errorf("status %+v", st)
		}
		if _, err := try(t, j, "/mcp", s.sign(t, map[string]any{"alg": "EdDSA", "kid": "new"}, a.claims())); !errors.Is(err, auth.ErrUnavailable) {
			t.Errorf("a key that cannot be asked for: %v", err)
		}
		time.Sleep(5 * time.Minute)
		if _, err := try(t, j, "/mcp", a.token(t, s)); !errors.Is(err, auth.ErrUnavailable) {
			t.Errorf("with stale keys: %v", err)
		}
		time.Sleep(time.Minute)
		a.set(func() { a.broken = nil })
		if _, err := try(t, j, "/mcp", a.token(t, s)); err != nil {
			t.Errorf("when the issuer is back: %v", err)
		}
	})
}

// TestWithdrawnKeysSignNobodyIn: after the refresh time nobody is accepted with a
// withdrawn key, however long nobody came, nor with an earlier key of the same name.
func TestWithdrawnKeysSignNobodyIn(t *testing.T) {
	t.Parallel()
	first, second := newSigner(t, "k1", "EdDSA"), newSigner(t, "k2", "EdDSA")
	again := newSigner(t, "k1", "EdDSA")
	for name, idle := range map[string]time.Duration{"refresh": 10 * time.Minute, "a night": 10 * time.Hour, "a week": 7 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			a := &authority{issuer: "https://as.example", keys: []signer{first}}
			j := newJWT(t, a, func(o *auth.JWTOptions) { o.Transport = a })
			if _, err := try(t, j, "/mcp", a.token(t, first)); err != nil {
				t.Fatal(err)
			}
			a.set(func() { a.keys = []signer{second} })
			time.Sleep(idle)
			if _, err := try(t, j, "/mcp", a.token(t, first, "jti", "t2")); !errors.Is(err, gate.ErrBadCredential) {
				t.Errorf("%s: a token of the withdrawn key: %v", name, err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		a := &authority{issuer: "https://as.example", keys: []signer{first}}
		j := newJWT(t, a, func(o *auth.JWTOptions) { o.Transport = a })
		if _, err := try(t, j, "/mcp", a.token(t, first)); err != nil {
			t.Fatal(err)
		}
		a.set(func() { a.keys = []signer{again} })
		time.Sleep(30 * time.Second) // the cooldown
		if _, err := try(t, j, "/mcp", a.token(t, again, "jti", "t2")); err != nil {
			t.Errorf("the next key of the same name: %v", err)
		}
		if _, err := try(t, j, "/mcp", a.token(t, first, "jti", "t3")); !errors.Is(err, gate.ErrBadCredential) {
			t.Errorf("the key before of the same name: %v", err)
		}
		if fetches, _ := a.count(); fetches != 2 {
			t.Errorf("%d fetches, want 2", fetches)
		}
	})
}

// TestKeysAreFetchedAgain: shortly before the refresh time a fetch runs in the
// background. After it, all requests wait for one fetch, up to its timeout; then the
// cached keys are used.
func TestKeysAreFetchedAgain(t *testing.T) {
	t.Parallel()
	s := newSigner(t, "k1", "EdDSA")
	hangs := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for _, tt := range []struct {
		age, waits time.Duration
		broken     func(http.ResponseWriter, *http.Request)
		fetches    int // in all
	}{
		{7 * time.Minute, 0, nil, 1},
		{8 * time.Minute, 0, nil, 2},
		{8 * time.Minute, 0, hangs, 2},
		{10 * time.Minute, 0, nil, 2},
		{10 * time.Minute, 5 * time.Second, hangs, 2},
		{23 * time.Hour, 5 * time.Second, hangs, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := &authority{issuer: "https://as.example", keys: []signer{s}}
			j := newJWT(t, a, func(o *auth.JWTOptions) { o.Transport = a })
			if _, err := try(t, j, "/mcp", a.token(t, s)); err != nil {
				t.Fatal(err)
			}
			a.set(func() { a.broken = tt.broken })
			time.Sleep(tt.age)
			begun := time.Now()
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() {
					if _, err := try(t, j, "/mcp", a.token(t, s, "jti", fmt.Sprint(i))); err != nil || time.Since(begun) != tt.waits {
						t.Errorf("after %v: waited %v, want %v; error %v", tt.age, time.Since(begun), tt.waits, err)
					}
				})
			}
			all.Wait()
			synctest.Wait()
			if fetches, _ := a.count(); fetches != tt.fetches {
				t.Errorf("after %v: %d fetches, want %d", tt.age, fetches, tt.fetches)
			}
			if tt.broken == nil {
				return
			}
			begun = time.Now()
			unknown := s.sign(t, map[string]any{"alg": "EdDSA", "kid": "k2"}, a.claims())
			if _, err := try(t, j, "/mcp", unknown); !errors.Is(err, auth.ErrUnavailable) || time.Since(begun) > 5*time.Second {
				t.Errorf("an unknown key waited %v, error %v", time.Since(begun), err)
			}
		})
	}
}

func TestClosingEndsFetches(t *testing.T) {
	t.Parallel()
	s := newSigner(t, "k1", "EdDSA")
	synctest.Test(t, func(t *testing.T) {
		a := &authority{issuer: "https://as.example", broken: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
		j := newJWT(t, a, func(o *auth.JWTOptions) { o.Transport = a })
		done := make(chan error, 1)
		go func() {
			_, err := try(t, j, "/mcp", a.token(t, s))
			done <- err
		}()
		synctest.Wait()
		begun := time.Now()
		j.Close()
		if err := <-done; !errors.Is(err, auth.ErrUnavailable) || time.Since(begun) != 0 {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		if _, err := try(t, j, "/mcp", a.token(t, s)); !errors.Is(err, auth.ErrUnavailable) {
			t.Errorf("when closed: %v", err)
		}
	})
}

// TestKeySetFaults: an invalid key set is an error, and a key of a wrong kind or
// strength verifies nothing.
func TestKeySetFaults(t *testing.T) {
	t.Parallel()
	s := newSigner(t, "k1", "ES256")
	good := s.jwk()
	with := func(changes ...any) string {
		k := maps.Clone(good)
		for i := 0; i < len(changes); i += 2 {
			k[changes[i].(string)] = changes[i+1]
		}
		data, err := json.Marshal(map[string]any{"keys": []any{k}})
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	plain := with()
	tests := []struct {
		name, body string
		want       error // nil: the token is accepted
	}{
		{"good", plain, nil},
		{"beside unusable ones", strings.Replace(plain, `[`, `[{"kty":"oct","k":"AAAA","kid":"k1"},{"kty":"XX"},{"kty":"RSA","kid":"k1","n":"AQ","e":"AQAB"},`, 1), nil},
		{"verify", with("key_ops", []string{"verify"}), nil},
		{"own alg", with("alg", "ES256"), nil},
		{"empty set", `{"keys":[]}`, gate.ErrBadCredential},
		{"for encryption", with("use", "enc"), gate.ErrBadCredential},
		{"for signing only", with("key_ops", []string{"sign"}), gate.ErrBadCredential},
		{"alg of another", with("alg", "ES384"), gate.ErrBadCredential},
		{"off the curve", with("y", good["x"]), gate.ErrBadCredential},
		{"short coordinate", with("x", "AAAA"), gate.ErrBadCredential},
		{"curve not offered", with("crv", "secp256k1"), gate.ErrBadCredential},
		{"id is a number", with("kid", 1), gate.ErrBadCredential},
		{"not JSON", `<html>`, auth.ErrUnavailable},
		{"two sets", plain + plain, auth.ErrUnavailable},
		{"member twice", `{"keys":[],` + plain[1:], auth.ErrUnavailable},
		{"no keys", `{}`, auth.ErrUnavailable},
		{"keys is an object", `{"keys":{}}`, auth.ErrUnavailable},
		{"key is a string", `{"keys":["k"]}`, auth.ErrUnavailable},
		{"101 keys", `{"keys":[` + strings.Repeat(`{},`, 100) + `{}]}`, auth.ErrUnavailable},
		{"over 1 MiB", plain + strings.Repeat(" ", 1<<20), auth.ErrUnavailable},
		{"deep", `{"keys":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}`, auth.ErrUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newAuthority(t)
			a.broken = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(tt.body)) }
			if _, err := try(t, newJWT(t, a), "/mcp", a.token(t, s)); !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
		})
	}
}

func TestWeakKeysVerifyNothing(t *testing.T) {
	t.Parallel()
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []signer{{"k1", "RS256", small}, {"k1", "ES384", p384}} {
		a := newAuthority(t, s)
		token := a.token(t, s)
		if s.alg == "ES384" { // the right key under another algorithm
			token = signer{"k1", "ES256", newSigner(t, "k1", "ES256").key}.sign(t, map[string]any{"alg": "ES256", "kid": "k1"}, a.claims())
		}
		if _, err := try(t, newJWT(t, a), "/mcp", token); !errors.Is(err, gate.ErrBadCredential) {
			t.Errorf("%s: %v", s.alg, err)
		}
	}
}

func TestKeysAreFoundThroughTheIssuer(t *testing.T) {
	t.Parallel()
	s := newSigner(t, "k1", "EdDSA")
	const oauth, oidc = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	tests := []struct {
		name, path, meta string
		change           func(a *authority, metadata map[string]any)
		ok               bool
	}{
		{"OAuth", "", oauth, nil, true},
		{"OpenID", "", oidc, nil, true},
		{"OAuth, path", "/tenant1", oauth + "/tenant1", nil, true},
		{"OpenID, path inserted", "/tenant1", oidc + "/tenant1", nil, true},
		{"OpenID, path appended", "/tenant1", "/tenant1" + oidc, nil, true},
		{"slash at the end", "/", oauth, nil, true},
		{"path with a slash", "/t/", "/t" + oidc, nil, true},
		{"elsewhere", "", "/other", nil, false},
		{"other issuer", "", oauth, func(_ *authority, m map[string]any) { m["issuer"] = "https://honest.example" }, false},
		{"issuer with a slash", "", oauth, func(_ *authority, m map[string]any) { m["issuer"] = m["issuer"].(string) + "/" }, false},
		{"no issuer", "", oauth, func(_ *authority, m map[string]any) { delete(m, "issuer") }, false},
		{"no keys", "", oauth, func(_ *authority, m map[string]any) { delete(m, "jwks_uri") }, false},
		{"keys over http", "", oauth, func(_ *authority, m map[string]any) { m["jwks_uri"] = "http://192.0.2.1/keys" }, false},
		{"keys in a file", "", oauth, func(_ *authority, m map[string]any) { m["jwks_uri"] = "file:///keys" }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newAuthority(t, s)
			base := a.issuer
			a.issuer += tt.path
			a.meta, a.metadata = tt.meta, map[string]any{"issuer": a.issuer, "jwks_uri": base + "/keys"}
			if tt.change != nil {
				tt.change(a, a.metadata)
			}
			j := newJWT(t, a, func(o *auth.JWTOptions) { o.Issuers[0].JWKS = "" })
			err := j.Prime(t.Context())
			if (err == nil) != tt.ok || err != nil && !errors.Is(err, auth.ErrUnavailable) {
				t.Fatalf("Prime: %v, want found %v", err, tt.ok)
			}
			if _, err := try(t, j, "/mcp", a.token(t, s)); (err == nil) != tt.ok {
				t.Errorf("token: %v, want accepted %v", err, tt.ok)
			}
		})
	}
}

// TestRemoteIssuerHasNoLocalKeys: the metadata of a remote issuer cannot make the
// gateway ask its own machine.
func TestRemoteIssuerHasNoLocalKeys(t *testing.T) {
	t.Parallel()
	s := newSigner(t, "k1", "EdDSA")
	for _, keys := range []string{"http://127.0.0.1/keys", "https://localhost/keys", "http://[::1]:80/keys"} {
		a := &authority{
			issuer: "https://as.example", keys: []signer{s}, meta: "/.well-known/oauth-authorization-server",
			metadata: map[string]any{"issuer": "https://as.example", "jwks_uri": keys},
		}
		j := newJWT(t, a, func(o *auth.JWTOptions) { o.Transport, o.Issuers[0].JWKS = a, "" })
		if err := j.Prime(t.Context()); !errors.Is(err, auth.ErrUnavailable) {
			t.Errorf("%s: %v", keys, err)
		}
		if fetches, _ := a.count(); fetches != 0 {
			t.Errorf("%s was asked", keys)
		}
	}
}

func TestFetchesStayWithTheirHost(t *testing.T) {
	t.Parallel()
	s := newSigner(t, "k1", "EdDSA")
	elsewhere := newAuthority(t, s)
	tests := map[string]struct {
		to func(a *authority) string
		ok bool
	}{
		"same host":    {func(*authority) string { return "/moved" }, true},
		"other host":   {func(*authority) string { return elsewhere.issuer + "/keys" }, false},
		"round and on": {func(*authority) string { return "/keys" }, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := newAuthority(t, s)
			a.broken = func(w http.ResponseWriter, r *http.Request) {
				for _, leaked := range []string{"Authorization", "Cookie", "X-Forwarded-For", "Mcp-Session-Id"} {
					if r.Header.Get(leaked) != "" {
						t.Errorf("the request for keys carries %s", leaked)
					}
				}
				if r.URL.Path == "/moved" {
					_ = json.NewEncoder(w).Encode(map[string]any{"keys": []any{s.jwk()}})
					return
				}
				http.Redirect(w, r, tt.to(a), http.StatusTemporaryRedirect)
			}
			server := serve(t, newJWT(t, a), nil, nil)
			resp, _ := post(t, server.Client(), server.URL+"/mcp", "Authorization", "Bearer "+a.token(t, s),
				"Cookie", "a=b", "X-Forwarded-For", "192.0.2.1", "Mcp-Session-Id", "x")
			want := http.StatusServiceUnavailable
			if tt.ok {
				want = http.StatusOK
			}
			if resp.StatusCode != want {
				t.Errorf("status %d, want %d", resp.StatusCode, want)
			}
			if !tt.ok && resp.Header.Get("Retry-After") != "5" {
				t.Errorf("Retry-After %q", resp.Header.Get("Retry-After"))
			}
		})
	}
	if fetches, _ := elsewhere.count(); fetches != 0 {
		t.Error("the other host was asked")
	}
}

// TestClientThatLeavesSpoilsNothing: the fetch that a cancelled request began serves
// the next one.
func TestClientThatLeavesSpoilsNothing(t *testing.T) {
	t.Parallel()
	s := newSigner(t, "k1", "EdDSA")
	a := newAuthority(t, s)
	begun, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	gated := &authority{issuer: a.issuer, keys: []signer{s}}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(begun) })
		<-release
		gated.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	j := newJWT(t, a, func(o *auth.JWTOptions) { o.Issuers[0].JWKS = front.URL + "/keys" })
	server := serve(t, j, nil, nil)
	ctx, leave := context.WithCancel(t.Context())
	gone, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/mcp", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	gone.Header.Set("Authorization", "Bearer "+a.token(t, s))
	left := make(chan error, 1)
	go func() {
		_, err := server.Client().Do(gone)
		left <- err
	}()
	<-begun
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatalf("the first client: %v", err)
	}
	close(release)
	if resp, body := post(t, server.Client(), server.URL+"/mcp", "Authorization", "Bearer "+a.token(t, s)); resp.StatusCode != http.StatusOK {
		t.Errorf("the next client: %d %s", resp.StatusCode, body)
	}
	if fetches, _ := gated.count(); fetches != 1 {
		t.Errorf("%d fetches, want 1", fetches)
	}
}
