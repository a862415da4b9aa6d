package registry_test

import (
	"log/slog"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
)

const joinTool = `{"name":"join","inputSchema":{"type":"object"}}`

// standingIn is what is listed for a server before anybody has signed in; marked is
// false as it was recorded by gateways that took it for the server's.
func standingIn(t *testing.T, marked bool) *gate.Offer {
	o := offer(t, "bank", "tool "+joinTool)
	o.Confirmed, o.Items[0].StandIn = false, marked
	if !marked {
		o.Instructions = new(string)
	}
	return o
}

func standInRig(t *testing.T, on *store.Store) *rig {
	r := rigOn(t, on, closed)
	r.Registry = registry.New(registry.Options{Store: on, Logger: slog.New(slog.DiscardHandler), StandIn: []byte(joinTool)})
	r.Configure(closed)
	r.caches()
	return r
}

// What is listed in place of a server is served and is no list of it: the first real
// one is adopted, and what is added after that is held.
func TestStandInIsNotTheServer(t *testing.T) {
	for _, earlier := range []bool{false, true} {
		on := openStore(t, store.Options{})
		if earlier { // it was recorded
			rigOn(t, on, closed).list(t, standingIn(t, false))
		}
		r := standInRig(t, on)
		r.list(t, standingIn(t, true))
		if entries, err := r.Entries(registry.Filter{}); err != nil || len(entries) != 0 {
			t.Errorf("earlier %v: the catalog has %v, %v", earlier, entries, err)
		}
		passes := func(name string) bool {
			d, err := r.Phase().Check(t.Context(), &gate.Request{
				Identity: &gate.Identity{}, Action: gate.View, Server: "bank", Kind: mcp.Tool, Original: name,
			})
			return err == nil && d.Effect == gate.Abstain
		}
		if !passes("join") {
			t.Errorf("earlier %v: nobody can sign in", earlier)
		}
		said := "use with care"
		real := offer(t, "bank", "tool "+joinTool, `tool {"name":"who","inputSchema":{"type":"object"}}`)
		real.Items[0].StandIn, real.Instructions = true, &said
		r.list(t, real)
		if !passes("who") || !passes("join") {
			t.Errorf("earlier %v: the first list was not adopted", earlier)
		}
		if !r.ShowsInstructions(&gate.Identity{}, "bank", said) {
			t.Errorf("earlier %v: what the server says of itself was not adopted", earlier)
		}
		more := offer(t, "bank", "tool "+joinTool, `tool {"name":"who","inputSchema":{"type":"object"}}`, `tool {"name":"more","inputSchema":{"type":"object"}}`)
		more.Items[0].StandIn, more.Instructions = true, &said
		r.list(t, more)
		if passes("more") {
			t.Errorf("earlier %v: what came later is not held", earlier)
		}
	}
}

// What stands in for a server is recorded nowhere, and has its own title.
func TestStandInHasItsOwnTitle(t *testing.T) {
	t.Parallel()
	r := standInRig(t, newRig(t, closed).store)
	o := standingIn(t, true)
	o.Items[0].CapabilityID = "cap_join"
	r.list(t, o)
	if got := r.Title("cap_join", o.Items[0].Definition); got != "" {
		t.Errorf("%q", got)
	}
}
