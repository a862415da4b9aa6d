package auth_test

import (
	"errors"
	"fmt"
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

func newIntrospection(t *testing.T, a *authority, change ...func(*auth.IntrospectionOptions)) *auth.Introspection {
	t.Helper()
	o := auth.IntrospectionOptions{
		IntrospectionSettings: auth.IntrospectionSettings{Endpoint: a.issuer + "/introspect", ClientID: "gw", ClientSecret: "s:cret", Issuer: a.issuer, Audience: []string{audience}},
	}
	for _, c := range change {
		c(&o)
	}
	x, err := auth.NewIntrospection(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	return x
}

func (a *authority) answer(changes ...any) map[string]any {
	return a.claims(append([]any{"active", true, "token_type", "Bearer", "client_id", "c1"}, changes...)...)
}

func TestIntrospectionJudges(t *testing.T) {
	t.Parallel()
	now := time.Now().Unix()
	tests := []struct {
		name    string
		changes []any
		want    error
	}{
		{"active", nil, nil},
		{"least", []any{"iss", nil, "exp", nil, "iat", nil, "nbf", nil, "jti", nil, "token_type", nil}, nil},
		{"token type in lower case", []any{"token_type", "bearer"}, nil},
		{"access token by use", []any{"token_use", "access_token"}, nil},
		{"inactive", []any{"active", false}, gate.ErrBadCredential},
		{"active is a string", []any{"active", "true"}, auth.ErrUnavailable},
		{"active is a number", []any{"active", 1}, auth.ErrUnavailable},
		{"no active", []any{"active", nil}, auth.ErrUnavailable},
		{"no audience", []any{"aud", nil}, gate.ErrBadCredential},
		{"other audience", []any{"aud", "https://other.example"}, gate.ErrBadCredential},
		{"other issuer", []any{"iss", "https://other.example"}, gate.ErrBadCredential},
		{"issuer is a number", []any{"iss", 1}, gate.ErrBadCredential},
		{"other client", []any{"client_id", "c2"}, gate.ErrBadCredential},
		{"no client", []any{"client_id", nil}, gate.ErrBadCredential},
		{"expired", []any{"exp", now - 100}, gate.ErrBadCredential},
		{"exp is a string", []any{"exp", "1"}, gate.ErrBadCredential},
		{"nbf in the future", []any{"nbf", now + 100}, gate.ErrBadCredential},
		{"no subject", []any{"sub", nil}, gate.ErrBadCredential},
		{"DPoP", []any{"token_type", "DPoP"}, gate.ErrBadCredential},
		{"refresh token", []any{"token_use", "refresh_token"}, gate.ErrBadCredential},
		{"bound to a certificate", []any{"cnf", map[string]any{"x5t#S256": b64.EncodeToString(make([]byte, 32))}}, gate.ErrBadCredential},
		{"bound to a key", []any{"cnf", map[string]any{"jkt": "x"}}, gate.ErrBadCredential},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newAuthority(t)
			a.active = map[string]map[string]any{"opaque": a.answer(tt.changes...)}
			x := newIntrospection(t, a, func(o *auth.IntrospectionOptions) { o.Clients = []string{"c1"} })
			for range 2 {
				id, err := try(t, x, "/mcp", "opaque")
				if !errors.Is(err, tt.want) {
					t.Fatalf("error %v, want %v", err, tt.want)
				}
				if err == nil && (id.Principal != gate.Principal{Issuer: a.issuer, Tenant: gate.DefaultTenant, Subject: "alice"}) {
					t.Errorf("identity %+v", id)
				}
			}
			if _, asked := a.count(); asked != 1 && !errors.Is(tt.want, auth.ErrUnavailable) {
				t.Errorf("asked %d times, want 1", asked)
			}
		})
	}
}

// TestIntrospectionFaults is RS14: whatever fails there, nobody is accepted, and the
// client learns that its token is not the problem.
func TestIntrospectionFaults(t *testing.T) {
	t.Parallel()
	write := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
	}
	for name, fault := range map[string]http.HandlerFunc{
		"500":          func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"401":          func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"204":          func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"not JSON":     write(`active`),
		"empty":        write(``),
		"null":         write(`null`),
		"list":         write(`[{"active":true}]`),
		"active twice": write(`{"active":false,"active":true}`),
		"Active":       write(`{"Active":true}`),
		"two answers":  write(`{"active":true,"sub":"a","aud":"` + audience + `"}{}`),
		"cut":          write(`{"active":true`),
		"over 1 MiB":   write(`{"active":true,"sub":"a","aud":"` + audience + `","pad":"` + strings.Repeat("x", 1<<20) + `"}`),
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/good", http.StatusTemporaryRedirect)
		},
		"broken off": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			a := newAuthority(t)
			a.oddity = fault
			a.broken = func(http.ResponseWriter, *http.Request) { t.Error("the token went elsewhere") }
			server := serve(t, newIntrospection(t, a), nil, nil)
			resp, body := post(t, server.Client(), server.URL+"/mcp", "Authorization", "Bearer opaque")
			if resp.StatusCode != http.StatusServiceUnavailable || body != auth.ErrUnavailable.Error() || resp.Header.Get("WWW-Authenticate") != "" {
				t.Errorf("%d %s", resp.StatusCode, body)
			}
		})
	}
	gone := newAuthority(t)
	x := newIntrospection(t, gone, func(o *auth.IntrospectionOptions) { o.Endpoint = "http://127.0.0.1:1/introspect" })
	if _, err := try(t, x, "/mcp", "opaque"); !errors.Is(err, auth.ErrUnavailable) || strings.Contains(err.Error(), "cret") {
		t.Errorf("nobody there: %v", err)
	}
}

func TestIntrospectionTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &authority{issuer: "https://as.example"}
		x := newIntrospection(t, a, func(o *auth.IntrospectionOptions) { o.Transport = a })
		start := time.Now()
		a.active = map[string]map[string]any{"long": a.answer("exp", nil), "short": a.answer("exp", start.Add(20*time.Second).Unix())}
		for _, step := range []struct {
			at    time.Duration
			token string
			ok    bool
			asked int // in all
		}{
			{0, "long", true, 1},
			{0, "short", true, 2},
			{0, "bad", false, 3},
			{4 * time.Second, "bad", false, 3},
			{5 * time.Second, "bad", false, 4},
			{19 * time.Second, "short", true, 4},
			{20 * time.Second, "short", true, 5}, // the leeway
			{59 * time.Second, "long", true, 5},
			{60 * time.Second, "long", true, 6},
		} {
			time.Sleep(step.at - time.Since(start))
			_, err := try(t, x, "/mcp", step.token)
			if _, asked := a.count(); (err == nil) != step.ok || asked != step.asked {
				t.Errorf("%s after %v: error %v, asked %d times; want accepted %v, %d times", step.token, step.at, err, asked, step.ok, step.asked)
			}
		}
		a.set(func() { a.active = nil }) // revoked
		x.Forget()
		if _, err := try(t, x, "/mcp", "long"); !errors.Is(err, gate.ErrBadCredential) {
			t.Errorf("a revoked token: %v", err)
		}
	})
}

func TestIntrospectionAsksOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &authority{issuer: "https://as.example"}
		x := newIntrospection(t, a, func(o *auth.IntrospectionOptions) { o.Transport = a })
		a.active = map[string]map[string]any{"opaque": a.answer()}
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				if _, err := try(t, x, "/mcp", "opaque"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if _, asked := a.count(); asked != 1 {
			t.Errorf("asked %d times, want 1", asked)
		}
	})
}

// TestIntrospectionIsBounded: many tokens cause a bounded number of requests, each with
// an end.
func TestIntrospectionIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &authority{issuer: "https://as.example", oddity: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
		x := newIntrospection(t, a, func(o *auth.IntrospectionOptions) { o.Transport = a })
		begun := time.Now()
		var wg sync.WaitGroup
		for i := range 500 {
			wg.Go(func() {
				if _, err := try(t, x, "/mcp", fmt.Sprint("token-", i)); !errors.Is(err, auth.ErrUnavailable) {
					t.Errorf("error %v", err)
				}
			})
		}
		wg.Wait()
		if _, asked := a.count(); asked != 32 || time.Since(begun) != 5*time.Second {
			t.Errorf("%d questions, %v; want 32, 5 s", asked, time.Since(begun))
		}
	})
}

func TestNewIntrospectionRefuses(t *testing.T) {
	t.Parallel()
	good := auth.IntrospectionOptions{IntrospectionSettings: auth.IntrospectionSettings{Endpoint: "https://as.example/i", ClientID: "a", ClientSecret: "b", Issuer: "https://as.example", Audience: []string{"x"}}}
	for name, change := range map[string]func(*auth.IntrospectionOptions){
		"no endpoint":    func(o *auth.IntrospectionOptions) { o.Endpoint = "" },
		"http":           func(o *auth.IntrospectionOptions) { o.Endpoint = "http://as.example/i" },
		"no client":      func(o *auth.IntrospectionOptions) { o.ClientID = "" },
		"no secret":      func(o *auth.IntrospectionOptions) { o.ClientSecret = "" },
		"no issuer":      func(o *auth.IntrospectionOptions) { o.Issuer = "" },
		"own issuer":     func(o *auth.IntrospectionOptions) { o.Issuer = auth.KeyIssuer },
		"no audience":    func(o *auth.IntrospectionOptions) { o.Audience = nil },
		"empty audience": func(o *auth.IntrospectionOptions) { o.Audience = []string{""} },
	} {
		o := good
		change(&o)
		if _, err := auth.NewIntrospection(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, x := range []*auth.Introspection{nil, {}} {
		if _, err := x.Identify(newRequest(t, "192.0.2.1:1", "Authorization", "Bearer a")); !errors.Is(err, gate.ErrBadCredential) {
			t.Errorf("without an endpoint: %v", err)
		}
	}
}

// An empty list of clients means nobody, never everybody.
func TestIntrospectionOfNobodysClients(t *testing.T) {
	t.Parallel()
	o := auth.IntrospectionOptions{
		IntrospectionSettings: auth.IntrospectionSettings{Endpoint: "https://issuer.example/introspect", ClientID: "gate", ClientSecret: "secret", Issuer: "https://issuer.example", Audience: []string{"a"}},
	}
	x, err := auth.NewIntrospection(o)
	if err != nil {
		t.Fatal(err)
	}
	x.Close()
	o.Clients = []string{}
	if x, err := auth.NewIntrospection(o); err == nil {
		x.Close()
		t.Error("an empty list is taken")
	}
}

// A kept connection that its server closes just when it is reused does not fail the
// caller.
func TestIntrospectionOnAClosedConnection(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.active = map[string]map[string]any{"one": a.answer(), "two": a.answer()}
	var mu sync.Mutex
	used, closed := map[string]bool{}, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		again := used[r.RemoteAddr]
		used[r.RemoteAddr] = true
		if again {
			closed++
		}
		mu.Unlock()
		if r.Header.Values("Idempotency-Key") != nil {
			t.Error("a header that is nobody's business")
		}
		if again {
			panic(http.ErrAbortHandler)
		}
		a.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	x := newIntrospection(t, a, func(o *auth.IntrospectionOptions) { o.Endpoint = server.URL + "/introspect" })
	for _, token := range []string{"one", "two"} {
		if _, err := try(t, x, "/mcp", token); err != nil {
			t.Errorf("%s: %v", token, err)
		}
	}
	if closed != 1 {
		t.Errorf("%d connections were closed in use", closed)
	}
}
