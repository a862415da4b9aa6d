package auth_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/proxy/auth"
)

func newScopes(t *testing.T) *auth.Scopes {
	t.Helper()
	s, err := auth.NewScopes(auth.ScopeSettings{
		Required: []auth.ScopeRule{
			{Match: "gh__*", Scopes: []string{"gh"}},
			{Match: "*__delete_*", Scopes: []string{"write", "danger"}},
			{Match: "fs__write", Scopes: []string{"write"}},
			{Match: "v?__list", Scopes: []string{"list"}},
			{Match: "typo__*", Scopes: []string{"x"}},
		},
		Hierarchy: map[string][]string{"admin": {"write", "gh"}, "write": {"read"}, "root": {"admin", "danger"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestScopes(t *testing.T) {
	t.Parallel()
	s := newScopes(t)
	tests := []struct {
		name, tool string
		granted    []string
		needed     string
		lacks      string
	}{
		{"no rule", "web__get", nil, "", ""},
		{"exact", "fs__write", nil, "write", "write"},
		{"exact has no more", "fs__write2", nil, "", ""},
		{"any one byte", "v2__list", nil, "list", "list"},
		{"more than one byte", "v10__list", nil, "", ""},
		{"has it", "fs__write", []string{"write"}, "write", ""},
		{"rules add up", "gh__delete_repo", []string{"write"}, "danger gh write", "danger gh"},
		{"broader", "fs__write", []string{"admin"}, "write", ""},
		{"two steps broader", "fs__write", []string{"root"}, "write", ""},
		{"narrower", "fs__write", []string{"read"}, "write", "write"},
		{"broader for some", "gh__delete_repo", []string{"admin"}, "danger gh write", "danger"},
		{"other case", "fs__write", []string{"Write"}, "write", "write"},
		{"all", "gh__delete_repo", []string{"root"}, "danger gh write", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id := gate.NewIdentity(gate.Identity{Principal: gate.Local, Scopes: tt.granted})
			if got := strings.Join(s.Needed(gate.Names{Exposed: tt.tool}), " "); got != tt.needed {
				t.Errorf("needed %q, want %q", got, tt.needed)
			}
			if got := strings.Join(s.Lacks(id, gate.Names{Exposed: tt.tool}), " "); got != tt.lacks {
				t.Errorf("lacks %q, want %q", got, tt.lacks)
			}
			err := s.Check(id, gate.Names{Exposed: tt.tool})
			lacking, ok := errors.AsType[*auth.ScopeError](err)
			if ok != (tt.lacks != "") || ok && (strings.Join(lacking.Lacks, " ") != tt.lacks || strings.Join(lacking.Needed, " ") != tt.needed) {
				t.Errorf("error %v", err)
			}
			if errors.Is(err, gate.ErrBadCredential) {
				t.Error("a good token is called bad")
			}
		})
	}
	if got := s.Unmatched([]gate.Names{{Exposed: "gh__delete_repo"}, {Exposed: "fs__write"}, {Exposed: "v1__list"}}); !slices.Equal(got, []string{"typo__*"}) {
		t.Errorf("unmatched %q", got)
	}
}

func TestZeroScopesRefuse(t *testing.T) {
	t.Parallel()
	id := gate.NewIdentity(gate.Identity{Principal: gate.Local})
	for _, s := range []*auth.Scopes{nil, {}} {
		if err := s.Check(id, gate.Names{Exposed: "x"}); err == nil {
			t.Error("the zero Scopes let a call pass")
		}
	}
	none, err := auth.NewScopes(auth.ScopeSettings{})
	if err != nil {
		t.Fatal(err)
	}
	if err := none.Check(id, gate.Names{Exposed: "x"}); err != nil {
		t.Errorf("without rules: %v", err)
	}
	if err := none.Check(nil, gate.Names{Exposed: "x"}); err == nil {
		t.Error("nobody passed")
	}
}

func TestNewScopesRefuses(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]auth.ScopeSettings{
		"no name":        {Required: []auth.ScopeRule{{Scopes: []string{"a"}}}},
		"no scope":       {Required: []auth.ScopeRule{{Match: "*"}}},
		"bad scope":      {Required: []auth.ScopeRule{{Match: "*", Scopes: []string{"a b"}}}},
		"offline":        {Required: []auth.ScopeRule{{Match: "*", Scopes: []string{"offline_access"}}}},
		"circle":         {Hierarchy: map[string][]string{"a": {"b"}, "b": {"a"}}},
		"itself":         {Hierarchy: map[string][]string{"a": {"a"}}},
		"bad in the end": {Hierarchy: map[string][]string{"a": {`"`}}},
		"long circle":    {Hierarchy: map[string][]string{"x": {"a"}, "a": {"b"}, "b": {"c"}, "c": {"a"}}},
	} {
		if _, err := auth.NewScopes(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestScopesOverHTTP is RS9 and RS10: one challenge with everything to ask for.
func TestScopesOverHTTP(t *testing.T) {
	t.Parallel()
	s := newSigner(t, "k1", "EdDSA")
	a := newAuthority(t, s)
	server := serve(t, newJWT(t, a), newResource(t), newScopes(t))
	call := func(scope string) *http.Response {
		resp, _ := post(t, server.Client(), server.URL+"/mcp", "Authorization", "Bearer "+a.token(t, s, "scope", scope), "Mcp-Name", "gh__delete_repo")
		return resp
	}
	resp := call("mail gh offline_access")
	want := `Bearer error="insufficient_scope", scope="danger gh write mail", resource_metadata="https://gw.example/.well-known/oauth-protected-resource/mcp"`
	if got := resp.Header.Get("WWW-Authenticate"); resp.StatusCode != http.StatusForbidden || got != want {
		t.Errorf("%d %q, want 403 %q", resp.StatusCode, got, want)
	}
	for _, scope := range []string{"danger gh write mail", "root"} {
		if resp := call(scope); resp.StatusCode != http.StatusOK {
			t.Errorf("scope %q: %d", scope, resp.StatusCode)
		}
	}
}

func TestKeysHaveScopes(t *testing.T) {
	t.Parallel()
	text, sum := auth.Generate()
	keys, err := auth.NewKeys([]auth.Key{{ID: "a", SHA256: sum, Scopes: []string{"write"}}})
	if err != nil {
		t.Fatal(err)
	}
	s := newScopes(t)
	if err := s.Check(keys.Lookup(text), gate.Names{Exposed: "fs__write"}); err != nil {
		t.Error(err)
	}
	if err := s.Check(keys.Lookup(text), gate.Names{Exposed: "gh__x"}); err == nil {
		t.Error("a key without the scope passed")
	}
	if _, err := auth.NewKeys([]auth.Key{{ID: "a", SHA256: sum, Scopes: []string{"a b"}}}); err == nil {
		t.Error("a scope with a space was accepted")
	}
}
