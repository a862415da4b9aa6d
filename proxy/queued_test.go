package proxy

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/budget/budgettest"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// revocable are callers whose credentials can be revoked.
type revocable struct {
	bearers
	revoked atomic.Bool
}

func (a *revocable) Authenticate(r *http.Request) (*gate.Identity, error) {
	return a.bearers.Authenticate(r)
}
func (a *revocable) Knows(*gate.Identity) bool { return !a.revoked.Load() }

// A backend that lets a call wait learns whether it is still allowed: by the gate, by
// the rules and the mode, and by the credential of its caller, as they are then. A call
// that is refused so was not delivered.
func TestCallThatWaitsAtItsBackend(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(c *Config, a *revocable)
		want   string // part of the answer
	}{
		"nothing":    {func(*Config, *revocable) {}, `"ran":true`},
		"hidden":     {func(c *Config, _ *revocable) { hide("a")(nil, c) }, "Unknown tool: s__a"},
		"forbidden":  {func(c *Config, _ *revocable) { forbid("a")(nil, c) }, `"kind":"denied"`},
		"rule":       {func(c *Config, _ *revocable) { c.Arguments = locked{} }, `"kind":"governance"`},
		"credential": {func(_ *Config, a *revocable) { a.revoked.Store(true) }, "credential"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newScript(t, "s", mcp.Modern, tool("a"))
			a := &revocable{bearers: bearers{"alice": person("alice")}}
			r := newRig(t, mounted(b), func(o *Options, _ *Config) { o.Authenticator = a })
			b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
				c := *r.config.Load()
				tt.change(&c, a)
				r.Apply(c)
				if err := call.StillAllowed(ctx); err != nil {
					return mcp.Answer{}, err
				}
				return answered(mcp.Modern, `{"resultType":"complete","content":[],"ran":true}`), nil
			}
			if got := r.modern("1", "tools/call", `"name":"s__a","arguments":{}`, "Authorization", "Bearer alice").text(); !strings.Contains(got, tt.want) {
				t.Errorf("answered %s, want %s", got, tt.want)
			}
		})
	}
}

// A call that was refused while it waited at its backend costs nothing.
func TestRefusedWhileItWaitsCostsNothing(t *testing.T) {
	store := new(budgettest.Memory)
	b := newScript(t, "s", mcp.Modern, tool("a"))
	r := charging(t, b, store, tariff(10, 10, 10_000, 100)...)
	b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
		r.lock()
		return mcp.Answer{}, call.StillAllowed(ctx)
	}
	requireKind(t, r.modern("1", "tools/call", `"name":"s__a","arguments":{}`), "governance")
	wantUsed(t, store, map[string]int64{})
}
