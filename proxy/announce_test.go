package proxy

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// Each client is told once of a changed list, if its own view has changed, whether by
// the server or by the gate.
func TestListChangedByView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owner := func(owners map[string]string) *gate.Chain { // of a tool; else it is everyone's
			return gate.NewChain(rule(func(_ context.Context, r *gate.Request) (gate.Decision, error) {
				if who := owners[r.Original]; who != "" && r.Identity.Subject != who {
					return gate.Decision{Effect: gate.Deny}, nil
				}
				return gate.Decision{Effect: gate.Allow}, nil
			}))
		}
		b := newScript(t, "s", mcp.Modern, tool("a"), tool("b"), tool("all"))
		r := newRig(t, mounted(b), func(_ *Options, c *Config) { c.Chain = owner(map[string]string{"a": "alice", "b": "bob"}) }).run()
		streams := map[string]*recorder{}
		for _, who := range []string{"alice", "bob"} {
			auth := []string{"Authorization", "Bearer " + who}
			streams[who+" legacy"], _ = r.begin(httpRequest("GET", "/mcp", "", append(auth, "Mcp-Session-Id", r.open(auth...))...))
			streams[who+" modern"], _ = r.begin(modernRequest(modernBody("1", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, ""), auth...))
		}
		hears := func(when string, want ...string) {
			t.Helper()
			time.Sleep(time.Second)
			for name, w := range streams {
				told := strings.Count(w.next(), `"method":"notifications/tools/list_changed"`)
				expected := 0
				for _, who := range want {
					if strings.HasPrefix(name, who) {
						expected = 1
					}
				}
				if told != expected {
					t.Errorf("%s: %s was told %d times, want %d", when, name, told, expected)
				}
			}
		}
		hears("at the beginning")
		changed := func(name string) string {
			return strings.Replace(tool(name), `"name"`, `"description":"new","name"`, 1)
		}
		b.offer(t, mcp.Modern, everything, changed("a"), tool("b"), tool("all"))
		r.Changed("s")
		hears("a is another", "alice")
		b.offer(t, mcp.Modern, everything, changed("a"), tool("all"))
		r.Changed("s")
		hears("b is gone", "bob")
		b.offer(t, mcp.Modern, everything, changed("a"), changed("all"))
		r.Changed("s")
		hears("everyone's is another", "alice", "bob")
		next := *r.config.Load()
		next.Chain = owner(map[string]string{"a": "bob"})
		r.Apply(next)
		hears("a goes from alice to bob", "alice", "bob")
		next.Chain = owner(map[string]string{"a": "bob", "all": "bob"})
		r.Apply(next)
		hears("all is bob's alone", "alice")
		next.Chain = owner(map[string]string{"a": "bob", "all": "bob", "more": "alice"})
		r.Apply(next)
		hears("another rule, to the same effect")
	})
}

// Callers that the gate does not tell apart are one class.
func TestViewClass(t *testing.T) {
	alice, bob := person("alice"), person("bob")
	open := gate.NewChain(gate.Open{})
	if open.ViewClass(alice) != open.ViewClass(bob) {
		t.Error("an open gate tells callers apart")
	}
	own := gate.NewChain(gate.Open{}, rule(nil))
	if own.ViewClass(alice) == own.ViewClass(bob) {
		t.Error("a phase of unknown kind does not tell callers apart")
	}
}
