package proxy

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// recording records the offers, and the catalog at that time.
type recording struct {
	gateway *Gateway
	offers  []*gate.Offer
	served  []string // names in the catalog when the last offers came
}

func (r *recording) Record(_ context.Context, offers []*gate.Offer) {
	r.offers = offers
	r.served = r.gateway.Names()
}

func (*recording) ShowsInstructions(*gate.Identity, string, string) bool { return true }
func (*recording) ShowsInstructionsToAll(string, string) bool            { return true }
func (*recording) Held(*gate.Request) bool                               { return false }

// The registry gets every list before any client does, as the server sent it, under the
// names that clients will see.
func TestRegistryKnowsBeforeClients(t *testing.T) {
	t.Parallel()
	b, silent := newScript(t, "s", mcp.Modern, tool("a")), &script{name: "silent"}
	noted := &recording{}
	r := newRig(t, mounted(b, silent), func(_ *Options, c *Config) {
		c.Mounts[0].Tools = map[string]ToolShape{"a": {Rename: "renamed", Description: "ours"}, "hidden": {Hidden: true}}
	})
	noted.gateway = r.Gateway
	config := *r.config.Load()
	config.Registry = noted
	r.Apply(config)
	first := slices.Clone(noted.offers)
	if len(first) != 2 || first[0].Server != "s" || !first[0].Confirmed || len(first[0].Items) != 1 || first[1].Server != "silent" || first[1].Confirmed {
		t.Fatalf("offers: %+v", first)
	}
	if got := first[0].Items[0]; got.Original != "a" || !strings.HasSuffix(got.Exposed, "renamed") || string(got.Definition) != strings.TrimPrefix(tool("a"), "tool ") {
		t.Errorf("offered: %+v, %s", got, got.Definition)
	}
	b.offer(t, mcp.Modern, everything, tool("a"), tool("b"), tool("hidden"), `prompt {"name":"p"}`)
	r.publisher.rebuild(t.Context())
	if len(noted.offers[0].Items) != 3 || noted.offers[0] == first[0] || noted.offers[1] != first[1] {
		t.Errorf("offers after a change: %+v", noted.offers)
	}
	if len(noted.served) != 1 || len(r.Names()) != 3 {
		t.Errorf("served %q when the registry was told of it, then %q", noted.served, r.Names())
	}
	last := noted.offers[0]
	r.publisher.rebuild(t.Context())
	if noted.offers[0] != last {
		t.Error("an offer that has not changed is another one")
	}
}

// switchable is a phase whose rules change during use: it hides a tool from one caller.
type switchable struct{ now atomic.Pointer[hiding] }

type hiding struct{ tool, from string }

func (h *hiding) Part() gate.Part {
	return gate.Part{Name: "hiding", Check: h.Check, ViewClass: h.ViewClass}
}

func (h *hiding) Check(_ context.Context, r *gate.Request) (gate.Decision, error) {
	if r.Original == h.tool && r.Identity.Subject == h.from {
		return gate.Decision{Effect: gate.Deny}, nil
	}
	return gate.Decision{Effect: gate.Allow}, nil
}

func (h *hiding) ViewClass(id *gate.Identity) (class string, cacheable bool) {
	if id.Subject == h.from {
		return h.tool, true
	}
	return "", true
}

func (s *switchable) Part() gate.Part {
	return gate.Part{Name: "switchable", Check: s.Check, Pin: func() (gate.Part, any) {
		now := s.now.Load()
		return now.Part(), now
	}}
}

func (s *switchable) Check(ctx context.Context, r *gate.Request) (gate.Decision, error) {
	return s.now.Load().Check(ctx, r)
}

// When a phase changes by itself, the views are compared: a caller with another view is
// told once, and nobody else.
func TestListChangedByAPhaseThatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		phase := &switchable{}
		phase.now.Store(&hiding{})
		b := newScript(t, "s", mcp.Modern, tool("a"), tool("b"))
		r := newRig(t, mounted(b), func(_ *Options, c *Config) { c.Chain = gate.NewChain(phase) }).run()
		streams := map[string]*recorder{}
		for _, who := range []string{"alice", "bob"} {
			auth := []string{"Authorization", "Bearer " + who}
			streams[who], _ = r.begin(httpRequest("GET", "/mcp", "", append(auth, "Mcp-Session-Id", r.open(auth...))...))
		}
		hears := func(when string, next *hiding, want ...string) {
			t.Helper()
			phase.now.Store(next)
			r.Changed("")
			time.Sleep(time.Second)
			for who, w := range streams {
				told := strings.Count(w.next(), `"method":"notifications/tools/list_changed"`)
				if expected := map[bool]int{true: 1}[slices.Contains(want, who)]; told != expected {
					t.Errorf("%s: %s was told %d times, want %d", when, who, told, expected)
				}
			}
		}
		hears("nothing changed", phase.now.Load())
		hears("a is hidden from alice", &hiding{"a", "alice"}, "alice")
		hears("the same by another rule", &hiding{"a", "alice"})
		hears("from bob instead", &hiding{"a", "bob"}, "alice", "bob")
		hears("b is hidden from nobody here", &hiding{"b", "carol"}, "bob")
		hears("b is hidden from bob", &hiding{"b", "bob"}, "bob")
		hears("nothing is hidden from anybody", &hiding{}, "bob")
	})
}
