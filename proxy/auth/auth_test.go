package auth_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/proxy/auth"
)

func newRequest(t *testing.T, remote string, headers ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/mcp", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.RemoteAddr = remote
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func TestKeys(t *testing.T) {
	alice, aliceSum := auth.Generate()
	bob, bobSum := auth.Generate()
	keys, err := auth.NewKeys([]auth.Key{
		{ID: "a", SHA256: aliceSum, Subject: "alice", Tenant: "acme", Groups: []string{"dev"}},
		{ID: "b", SHA256: bobSum},
	})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		headers []string
		subject string
		tenant  string
		err     error
	}{
		{"none", nil, "", "", gate.ErrNoCredential},
		{"alice", []string{"Authorization", "Bearer " + alice}, "alice", "acme", nil},
		{"bob, lower case scheme", []string{"Authorization", "bearer " + bob}, "b", gate.DefaultTenant, nil},
		{"unknown", []string{"Authorization", "Bearer tgk_x"}, "", "", gate.ErrBadCredential},
		{"cut", []string{"Authorization", "Bearer " + alice[:20]}, "", "", gate.ErrBadCredential},
		{"empty", []string{"Authorization", "Bearer "}, "", "", gate.ErrBadCredential},
		{"no scheme", []string{"Authorization", alice}, "", "", gate.ErrBadCredential},
		{"basic", []string{"Authorization", "Basic " + alice}, "", "", gate.ErrBadCredential},
		{"two tokens", []string{"Authorization", "Bearer " + alice + " " + bob}, "", "", gate.ErrBadCredential},
		{"two headers", []string{"Authorization", "Bearer " + alice, "Authorization", "Bearer " + alice}, "", "", gate.ErrBadCredential},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id, err := keys.Authenticate(newRequest(t, "192.0.2.1:1", tt.headers...))
			if !errors.Is(err, tt.err) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if err == nil && (id.Subject != tt.subject || id.Tenant != tt.tenant || id.Issuer != auth.KeyIssuer) {
				t.Errorf("identity %+v", id)
			}
		})
	}
	if _, err := (&auth.Keys{}).Authenticate(newRequest(t, "127.0.0.1:1", "Authorization", "Bearer "+alice)); err == nil {
		t.Error("the zero Keys accepted a key")
	}
}

func TestNewKeysRefusesBadKeys(t *testing.T) {
	_, sum := auth.Generate()
	for name, keys := range map[string][]auth.Key{
		"no digits":  {{ID: "a", SHA256: "zz"}},
		"short":      {{ID: "a", SHA256: sum[:10]}},
		"same twice": {{ID: "a", SHA256: sum}, {ID: "b", SHA256: sum}},
		"nobody":     {{SHA256: sum}},
	} {
		if _, err := auth.NewKeys(keys); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestLoopback(t *testing.T) {
	tests := []struct {
		name, remote string
		headers      []string
		ok           bool
	}{
		{"IPv4", "127.0.0.1:99", nil, true},
		{"IPv6", "[::1]:99", nil, true},
		{"other host", "192.0.2.7:99", nil, false},
		{"no address", "", nil, false},
		{"forwarded", "127.0.0.1:99", []string{"X-Forwarded-For", "127.0.0.1"}, false},
		{"via", "127.0.0.1:99", []string{"Via", "1.1 x"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id, err := (auth.Loopback{}).Authenticate(newRequest(t, tt.remote, tt.headers...))
			if (err == nil) != tt.ok {
				t.Fatalf("error %v", err)
			}
			if err == nil && id.Principal != gate.Local {
				t.Errorf("identity %+v", id)
			}
		})
	}
}
