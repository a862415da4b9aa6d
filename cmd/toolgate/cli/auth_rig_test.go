//go:build !windows

package cli

import (
	"crypto/rand"
	"crypto/rsa"
	"maps"
	"net/http/httptest"
	"testing"

	"github.com/toolgate/toolgate/internal/testport"
)

// protected is a gateway that takes API keys, the tokens of two issuers and
// opaque ones, with everything around it.
type protected struct {
	*home
	visitor // without a token
	process *process

	a, b, c *authority // a and b sign; c is asked
	web     *webServer
	good    map[string]any // changes of claims that make a caller who sees all
}

const public = "https://gw.example"

func newProtected(t *testing.T) *protected {
	t.Helper()
	p := &protected{
		home: newHome(t), a: newAuthority(t, "a1"), b: newAuthority(t, "b1"), c: newAuthority(t), web: &webServer{},
		good: map[string]any{"groups": []string{"staff"}, "scope": "basic"},
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p.a.keys["rsa"] = rsaKey
	server := httptest.NewServer(p.web)
	t.Cleanup(server.Close)
	list, section := p.settings(server.URL)
	p.write(t, list, section)
	address := testport.Address(t) // what the gateway says is the public one
	p.process, _ = p.up(t, "--listen", address)
	p.visitor = visitor{client: newClient(t), url: "http://" + address}
	return p
}

func (p *protected) settings(web string) (servers, map[string]any) {
	claims := map[string]any{"tenant": "org", "groups": "groups"}
	return servers{"a": fake("one"), "web": {"type": "http", "url": web}}, map[string]any{
		"listen":  map[string]any{"public_url": public, "origins": []string{"https://app.example"}},
		"servers": map[string]any{"web": map[string]any{"protocol": "legacy"}},
		"auth": map[string]any{
			"keys": []any{map[string]any{"id": "ci", "sha256": sum("key-of-ci"), "subject": "alice", "groups": []string{"staff"}, "scopes": []string{"basic"}}},
			"jwt": []any{
				map[string]any{"issuer": p.a.issuer, "claims": claims, "cooldown": "1s"},
				map[string]any{"issuer": p.b.issuer, "jwks": p.b.issuer + "/keys", "claims": claims},
			},
			"introspection": map[string]any{
				"endpoint": p.c.issuer + "/introspect", "client_id": "gw", "client_secret": "secret-of-gw", "issuer": p.c.issuer,
				"clients": []string{"ide"}, "claims": claims,
			},
			"scopes": map[string]any{
				"required": []any{
					map[string]any{"match": "a__fail", "scopes": []string{"read", "write"}},
					map[string]any{"match": "a__f*", "scopes": "basic"},
				},
				"hierarchy": map[string]any{"admin": []string{"read", "write"}},
				"challenge": []string{"basic"},
				"supported": []string{"basic", "read", "write"},
			},
		},
		"capsules": map[string]any{
			"all":  map[string]any{"visible": []string{"*"}, "callable": []string{"*"}, "groups": []string{"staff"}},
			"some": map[string]any{"visible": []string{"web__*"}, "callable": []string{"web__*"}, "groups": []string{"guests"}},
		},
	}
}

// with are the good claims with some changed.
func (p *protected) with(changes ...any) map[string]any {
	out := map[string]any{}
	maps.Copy(out, p.good)
	for i := 0; i < len(changes); i += 2 {
		out[changes[i].(string)] = changes[i+1]
	}
	return out
}

// token is a good one of the first issuer for the main endpoint.
func (p *protected) token(t *testing.T, changes ...any) string {
	t.Helper()
	return p.a.token(t, "a1", public+"/mcp", p.with(changes...))
}

func (p *protected) opaque(token string, answer func() any) string {
	p.c.change(func() { p.c.opaque[token] = answer })
	return token
}

// active is a good answer of introspection.
func (p *protected) active(changes ...any) func() any {
	return func() any {
		claims := p.c.claims(public+"/mcp", p.with("active", true, "client_id", "ide"))
		for i := 0; i < len(changes); i += 2 {
			claims[changes[i].(string)] = changes[i+1]
		}
		return claims
	}
}

// runAs runs a command as whom a key or a token stands for.
func (h *home) runAs(t *testing.T, key string, args ...string) outcome {
	t.Helper()
	other := *h
	other.env = map[string]string{"TOOLGATE_API_KEY": key}
	maps.Copy(other.env, h.env)
	return other.run(t, args...)
}
