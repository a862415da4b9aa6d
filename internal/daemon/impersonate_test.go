//go:build !windows

package daemon_test

import (
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/admin"
)

// With several issuers the one that is meant has to be said; with none, whoever is
// not known is misspelt; without authentication there is nobody to assume.
func TestWhoIsAssumed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		section map[string]any
		who     admin.Caller
		want    string // of the error; empty for none
	}{
		"two issuers":        {taking(oneIssuer, otherIssuer), admin.Caller{Subject: "alice"}, "--issuer with one of " + oneIssuer + ", " + otherIssuer + ", toolgate:keys"},
		"one of them":        {taking(oneIssuer, otherIssuer), admin.Caller{Subject: "alice", Issuer: otherIssuer}, ""},
		"none of them":       {taking(oneIssuer), admin.Caller{Subject: "alice", Issuer: otherIssuer}, "no token of the issuer"},
		"keys alone":         {taking(), admin.Caller{Subject: "alice"}, ""},
		"nobody":             {taking(oneIssuer), admin.Caller{Groups: []string{"dev"}}, "--as SUBJECT"},
		"no authentication":  {nil, admin.Caller{Subject: "alice"}, "everyone is local"},
		"the gateway's word": {taking(), admin.Caller{Subject: "alice", Issuer: "toolgate"}, "no token of the issuer"},
	} {
		h := newHome(t)
		h.write(t, servers{"a": fake()}, tt.section)
		r := h.newRunning(t)
		_, err := r.Why(t.Context(), admin.WhyQuestion{Name: "a__pid", Assumed: &tt.who})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		_, err = r.Why(t.Context(), admin.WhyQuestion{Name: "a__pid", As: "misspelt"})
		if name == "keys alone" && (err == nil || !strings.Contains(err.Error(), "write one of ci")) {
			t.Errorf("a misspelt key: %v", err)
		}
	}
}

// taking is a section whose callers come with tokens of issuers that do not
// answer, and with the API key of ci.
func taking(issuers ...string) map[string]any {
	var jwt []any
	for _, issuer := range issuers {
		jwt = append(jwt, map[string]any{"issuer": issuer, "audience": "x", "jwks": issuer + "/keys", "claims": map[string]any{"tenant": "org"}})
	}
	auth := map[string]any{
		"keys":   []any{map[string]any{"id": "ci", "sha256": sum("k"), "subject": "builder", "groups": []string{"dev"}}},
		"scopes": map[string]any{"required": []any{map[string]any{"match": "a__echo", "scopes": "write"}}},
	}
	if jwt != nil {
		auth["jwt"] = jwt
	}
	return map[string]any{
		"auth": auth,
		"capsules": map[string]any{
			"dev": map[string]any{"visible": []string{"a__*"}, "callable": []string{"a__pid", "a__echo"}, "groups": []string{"dev"}},
			"bot": map[string]any{"visible": []string{"a__fail"}, "callable": []string{"a__fail"}, "personas": []string{"bot"}},
		},
	}
}

const (
	oneIssuer   = "http://127.0.0.1:1/one"
	otherIssuer = "http://127.0.0.1:1/two"
)
