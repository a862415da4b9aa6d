package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// Capability ids that could not be had are asked for again at the next change,
// whatever that is, and not again once there are some.
func TestCapabilityIDsAreAskedForAgain(t *testing.T) {
	down, asked := true, 0
	r := newRig(t, mounted(newScript(t, "s", mcp.Legacy, tool("a")), newScript(t, "empty", mcp.Legacy)), func(o *Options, _ *Config) {
		o.CapabilityIDs = func(_ context.Context, keys []CapabilityKey) ([]string, error) {
			asked++
			if down {
				return nil, errors.New("no answer")
			}
			ids := make([]string, len(keys))
			for i, k := range keys {
				ids[i] = "cap:" + k.Original
			}
			return ids, nil
		}
	})
	id := func() string { return r.snapshot.Load().catalog.lists[mcp.Tool].entries[0].CapabilityID }
	if got := id(); got != "" || asked != 1 {
		t.Errorf("without them: %q after %d questions", got, asked)
	}
	r.publisher.rebuild(t.Context())
	down = false
	r.publisher.rebuild(t.Context())
	if got := id(); got != "cap:a" || asked != 3 {
		t.Errorf("once they can be had: %q after %d questions", got, asked)
	}
	r.publisher.rebuild(t.Context())
	if asked != 3 {
		t.Errorf("asked %d times", asked)
	}
}

// A reload asks only for capability ids that are not known yet. However many servers
// there are, ids that cannot be had delay it no longer than one question may take.
func TestCapabilityIDsOfAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := false
		var asked []string
		b := newScript(t, "s0", mcp.Legacy, tool("a"))
		r := newRig(t, mounted(b), func(o *Options, _ *Config) {
			o.CapabilityIDs = func(ctx context.Context, keys []CapabilityKey) ([]string, error) {
				if down {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				ids := make([]string, len(keys))
				for i, k := range keys {
					ids[i] = "cap:" + k.Original
					asked = append(asked, k.Original)
				}
				return ids, nil
			}
		})
		apply := func(mounts []Mount) {
			c := *r.config.Load()
			c.Mounts = mounts
			r.Apply(c)
		}
		b.offer(t, mcp.Legacy, everything, tool("a"), tool("b"))
		apply(mounted(b))
		if want := []string{"a", "b"}; !slices.Equal(asked, want) {
			t.Errorf("asked for %v, want %v", asked, want)
		}
		down = true
		many := []*script{b}
		for i := range 30 {
			many = append(many, newScript(t, fmt.Sprintf("s%d", i+1), mcp.Legacy, tool("a")))
		}
		began := time.Now()
		apply(mounted(many...))
		if took := time.Since(began); took > capabilityIDTimeout {
			t.Errorf("the reload was in force after %v", took)
		}
		for _, route := range r.snapshot.Load().catalog.byServer["s0"].rendered[mcp.Tool] {
			if route.CapabilityID != "cap:"+route.Original {
				t.Errorf("%s has the id %q", route.Original, route.CapabilityID)
			}
		}
	})
}

// A call that needs more scopes is explained so; what may not be viewed is not.
func TestWhyOfScopes(t *testing.T) {
	rules := &scopeRules{needs: map[string]string{"s__write": "write", "s__secret": "write"}}
	r := newRig(t, mounted(newScript(t, "s", mcp.Legacy, tool("write"), tool("secret"))), hide("secret"), scoped(rules))
	for _, tt := range []struct {
		name   string
		scopes []string
		phase  string // that denies the call; empty for none
	}{
		{"s__write", nil, "scopes"},
		{"s__write", []string{"write"}, ""},
		{"s__secret", nil, "rule"},
	} {
		id := gate.NewIdentity(gate.Identity{Principal: gate.Principal{Subject: "alice"}, Scopes: tt.scopes})
		w := r.Why(t.Context(), id, Scope{}, tt.name, nil)
		if (w.Call.Effect == gate.Allow) != (tt.phase == "") || tt.phase == "scopes" && (w.Call.Reason != errScope.Error() || w.View.Effect != gate.Allow || len(w.Call.Steps) != 1) {
			t.Errorf("%s with %v: %+v", tt.name, tt.scopes, w.Call)
		}
	}
	if len(rules.asked) != 2 {
		t.Errorf("scopes of %v were looked up", rules.asked)
	}
}

// An open breaker hides nothing of what the rules say: it closes by itself, and they do not.
func TestWhyBehindAnOpenBreaker(t *testing.T) {
	var g guarded
	r := newRig(t, mounted(newScript(t, "s", mcp.Legacy, tool("echo"))), behindGuard(&g), func(_ *Options, c *Config) { c.Arguments = locked{} })
	g.trip()
	w := r.Why(t.Context(), person("alice"), Scope{}, "s__echo", nil)
	if w.Call.Effect != gate.Deny || w.Call.Phase != "breaker" || w.Call.Asks {
		t.Fatalf("%+v", w.Call)
	}
	last := w.Call.Steps[len(w.Call.Steps)-1]
	if last.Phase == "breaker" || last.Effect != gate.Deny {
		t.Errorf("the last step is %+v", last)
	}
}

// A call of a prompt is explained by its arguments, as it is decided.
func TestWhyOfAPrompt(t *testing.T) {
	r := newRig(t, mounted(newScript(t, "s", mcp.Legacy, `prompt {"name":"p"}`)), func(_ *Options, config *Config) {
		config.Chain = gate.NewChain(rule(func(_ context.Context, q *gate.Request) (gate.Decision, error) {
			if q.Action == gate.Call && string(q.Args) != `{"topic":"cats"}` {
				return gate.Decision{Effect: gate.Deny, Reason: "cats alone"}, nil
			}
			return gate.Decision{Effect: gate.Allow}, nil
		}))
	})
	for args, want := range map[string]gate.Effect{`{"topic":"cats"}`: gate.Allow, `{"topic":"dogs"}`: gate.Deny} {
		w := r.Why(t.Context(), person("alice"), Scope{}, "s__p", []byte(args))
		if w == nil || w.Call.Effect != want {
			t.Errorf("%s: %+v, want %v", args, w, want)
		}
		got := r.modern("1", "prompts/get", `"name":"s__p","arguments":`+args).text()
		if strings.Contains(got, "cats alone") != (want == gate.Deny) {
			t.Errorf("%s: the call is answered %s, want %v", args, got, want)
		}
	}
}
