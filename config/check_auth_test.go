package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/config/tree"
)

// parsed reads the toolgate section of a good file.
func parsed(t *testing.T, section string) *Config {
	t.Helper()
	c, err := Parse("x.yaml", []byte("mcpServers: { a: { command: x } }\ntoolgate: "+section), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const (
	keyA = `{ id: a, sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", subject: a }`
	keyB = `{ id: b, sha256: "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752", subject: b, tenant: acme }`
	jwtA = `{ issuer: "https://a.example", audience: x }`
	jwtB = `{ issuer: "https://b.example", audience: x }`
)

func TestAuthenticates(t *testing.T) {
	t.Parallel()
	tests := []struct {
		section        string
		authenticates  bool
		tokens         bool
		audit, address string
	}{
		{`{}`, false, false, "best_effort", "http://127.0.0.1:7777"},
		{`{ auth: { introspection: {}, mtls: {} } }`, false, false, "best_effort", "http://127.0.0.1:7777"},
		{`{ auth: { keys: [ ` + keyA + ` ], jwt: [] } }`, true, false, "required", "http://127.0.0.1:7777"},
		{`{ auth: { jwt: ` + jwtA + ` } }`, true, true, "required", "http://127.0.0.1:7777"},
		{`{ auth: { jwt: [ ` + jwtA + `, ` + jwtB + ` ] }, listen: { public_url: "https://x.example/t/" } }`, true, true, "required", "https://x.example/t"},
		{`{ auth: { introspection: { endpoint: "https://a.example", client_id: a, client_secret: b, issuer: "https://a.example", audience: x } }, listen: { http: "localhost:0" } }`, true, true, "required", ""},
		{`{ listen: { http: "[::1]:80", tls: { cert: a, key: b, client_ca: c } } }`, true, false, "required", "https://[::1]:80"},
		{`{ listen: { http: "" } }`, false, false, "best_effort", ""},
		{`{ listen: { http: "0.0.0.0:80" } }`, false, false, "best_effort", ""},
	}
	for _, tt := range tests {
		c := parsed(t, tt.section).Toolgate
		got := []any{c.Authenticates(), c.TakesTokens(), string(c.Audit.Mode), c.PublicURL()}
		if diff := cmp.Diff([]any{tt.authenticates, tt.tokens, tt.audit, tt.address}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.section, diff)
		}
	}
}

// TestNobodyLeft: a list from which the last entry was taken does not let
// everyone in.
func TestNobodyLeft(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"keys", "jwt"} {
		_, err := Parse("x.yaml", []byte("mcpServers: { a: { command: x } }\ntoolgate: { auth: { "+key+": [] } }"), Options{})
		if err == nil || !strings.Contains(err.Error(), "x.yaml:2") || !strings.Contains(err.Error(), "auth."+key) || !strings.Contains(err.Error(), "is empty") {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestOneOrAList: what may be a list is the same as one element alone.
func TestOneOrAList(t *testing.T) {
	t.Parallel()
	one := parsed(t, `{ auth: { jwt: { issuer: "https://a.example", audience: x } } }`)
	list := parsed(t, `{ auth: { jwt: [ { issuer: "https://a.example", audience: [x] } ] } }`)
	if diff := cmp.Diff(one.Toolgate.Auth, list.Toolgate.Auth); diff != "" {
		t.Errorf("one and a list of one (-one +list):\n%s", diff)
	}
	if len(one.Toolgate.Auth.JWT) != 1 || one.Toolgate.Auth.JWT[0].Leeway.String() != "1m0s" || one.Toolgate.Auth.JWT[0].Claims.Subject != "sub" {
		t.Errorf("defaults: %+v", one.Toolgate.Auth.JWT)
	}
}

func TestSubjectTemplate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, auth, template string
		want                 []string // parts that are asked for
	}{
		{"one issuer", `jwt: ` + jwtA, "{subject}", nil},
		{"nobody", ``, "", nil},
		{"two issuers", `jwt: [ ` + jwtA + `, ` + jwtB + ` ]`, "{subject}", []string{"{issuer}"}},
		{"two issuers that are told apart", `jwt: [ ` + jwtA + `, ` + jwtB + ` ]`, "{issuer}/{subject}", nil},
		{"keys and tokens", `jwt: ` + jwtA + `, keys: [ ` + keyA + ` ]`, "", []string{"{issuer}"}},
		{"a tenant claim", `jwt: { issuer: "https://a.example", audience: x, claims: { tenant: org } }`, "{subject}", []string{"{tenant}"}},
		{"a tenant claim that is carried", `jwt: { issuer: "https://a.example", audience: x, claims: { tenant: org } }`, "{tenant}/{subject}", nil},
		{"keys of two tenants", `keys: [ ` + keyA + `, ` + keyB + ` ]`, "{subject}", []string{"{tenant}"}},
		{"keys of one tenant", `keys: [ ` + keyA + ` ]`, "{subject}", nil},
		{"everything", `keys: [ ` + keyA + ` ], jwt: { issuer: "https://a.example", audience: x, claims: { tenant: org } }`, "{persona}", []string{"{issuer}", "{tenant}"}},
	}
	for _, tt := range tests {
		c := parsed(t, "{ auth: { "+tt.auth+" } }").Toolgate
		checked := func() string {
			p := &tree.Problems{File: "x.yaml"}
			checkSubjectTemplate(p, &tree.Node{Kind: tree.KindMap, Line: 7}, &c)
			if p.Err() == nil {
				return ""
			}
			return p.Err().Error()
		}
		c.SpiceDB.SubjectID = tt.template
		if got := checked(); got != "" {
			t.Errorf("%s, without SpiceDB: %s", tt.name, got)
		}
		c.SpiceDB.Endpoint = "spicedb.example:50051"
		got := checked()
		for _, part := range tt.want {
			if !strings.Contains(got, "x.yaml:7: spicedb.subject_id: lacks "+part) {
				t.Errorf("%s: %s is not asked for: %s", tt.name, part, got)
			}
		}
		if len(tt.want) == 0 && got != "" {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
}

// TestMergeOfWaysIn: what lets nobody in any more does so at once; what lets
// somebody in waits for a person.
func TestMergeOfWaysIn(t *testing.T) {
	t.Parallel()
	opaque := `introspection: { endpoint: "https://c.example", client_id: a, client_secret: b, issuer: "https://c.example", audience: x }`
	tests := []struct {
		name, old, next string
		issuers         []string
		now, pending    []string
	}{
		{"the same", `jwt: ` + jwtA, `jwt: [ ` + jwtA + ` ]`, []string{"https://a.example"}, nil, nil},
		{"another issuer", `jwt: ` + jwtA, `jwt: [ ` + jwtA + `, ` + jwtB + ` ]`, []string{"https://a.example"}, nil, []string{"auth.jwt.https://b.example"}},
		{"an issuer less", `jwt: [ ` + jwtA + `, ` + jwtB + ` ]`, `jwt: ` + jwtB, []string{"https://b.example"}, []string{"auth.jwt.https://a.example"}, nil},
		{"another audience", `jwt: ` + jwtA, `jwt: { issuer: "https://a.example", audience: y }`, []string{"https://a.example"}, nil, []string{"auth.jwt.https://a.example"}},
		{"the last one", `jwt: ` + jwtA, ``, []string{"https://a.example"}, nil, []string{"auth.jwt"}},
		{"the last of several kinds", `keys: [ ` + keyA + ` ], jwt: ` + jwtA + `, ` + opaque, ``, []string{"https://a.example"}, nil, []string{"auth.keys", "auth.jwt", "auth.introspection"}},
		{"introspection begins", `jwt: ` + jwtA, `jwt: ` + jwtA + `, ` + opaque, []string{"https://a.example"}, nil, []string{"auth.introspection"}},
		{"introspection ends", `jwt: ` + jwtA + `, ` + opaque, `jwt: ` + jwtA, []string{"https://a.example"}, []string{"auth.introspection"}, nil},
		{"scopes", `jwt: ` + jwtA, `jwt: ` + jwtA + `, scopes: { challenge: [a] }`, []string{"https://a.example"}, nil, []string{"auth.scopes"}},
	}
	for _, tt := range tests {
		merged, parts := mergeSettings(parsed(t, "{ auth: { "+tt.old+" }, audit: { mode: required } }").Toolgate, parsed(t, "{ auth: { "+tt.next+" }, audit: { mode: required } }").Toolgate)
		var issuers []string
		for i := range merged.Auth.JWT {
			issuers = append(issuers, merged.Auth.JWT[i].Issuer)
			if merged.Auth.JWT[i].Audience[0] != "x" {
				t.Errorf("%s: a changed issuer did not wait", tt.name)
			}
		}
		if diff := cmp.Diff([][]string{tt.issuers, tt.now, tt.pending}, [][]string{issuers, parts.Now, parts.Pending}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
