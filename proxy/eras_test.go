package proxy

import (
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// newOfTwoEras returns a backend that speaks both eras. It lists both to all clients,
// older to legacy and newer to modern ones. own is the era of the gateway's own
// connection.
func newOfTwoEras(t *testing.T, own mcp.Era) *script {
	legacy := newScript(t, "s", mcp.Legacy, tool("both"), tool("older"))
	modern := newScript(t, "s", mcp.Modern, tool("both"), tool("newer"))
	legacy.listing.Capabilities = []byte(`{"tools":{"listChanged":true},"logging":{}}`)
	modern.listing.Capabilities = []byte(`{"tools":{"listChanged":true},"extensions":{"x.example/a":{}}}`)
	b, other := legacy, modern
	if own == mcp.Modern {
		b, other = modern, legacy
	}
	b.listing.Eras, b.listing.Other = 2, other.listing
	return b
}

// Clients of each era are listed, told and called in their own era, whatever the era of
// the gateway's own connection.
func TestClientsOfBothErasAtOneServer(t *testing.T) {
	for _, own := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		t.Run(own.String(), func(t *testing.T) {
			b := newOfTwoEras(t, own)
			r := newRig(t, mounted(b))
			session := r.openAs(mcp.V20251125, `{"elicitation":{}}`)
			legacy, _ := listed(t, mcp.Tool, r.legacy(session, "1", "tools/list", ""))
			if want := []string{"s__both", "s__older"}; !slices.Equal(legacy, want) {
				t.Errorf("a legacy client is listed %q, want %q", legacy, want)
			}
			modern, _ := listed(t, mcp.Tool, r.modern("1", "tools/list", ""))
			if want := []string{"s__both", "s__newer"}; !slices.Equal(modern, want) {
				t.Errorf("a modern client is listed %q, want %q", modern, want)
			}
			if got := r.modern("1", "server/discover", "").text(); !strings.Contains(got, "x.example/a") || strings.Contains(got, "logging") {
				t.Errorf("a modern client is told %s", got)
			}
			if got := r.legacy(session, "2", "tools/call", `{"name":"s__newer"}`).text(); !strings.Contains(got, "-32602") {
				t.Errorf("a legacy client's call of what it is not listed: %s", got)
			}
			r.legacy(session, "3", "tools/call", `{"name":"s__both"}`)
			r.modern("4", "tools/call", `"name":"s__both"`)
			var eras []mcp.Era
			for _, c := range b.seen(mcp.MethodToolsCall) {
				eras = append(eras, c.Era)
			}
			if want := []mcp.Era{mcp.Legacy, mcp.Modern}; !slices.Equal(eras, want) {
				t.Errorf("called in %v, want %v", eras, want)
			}
			if got := r.Capabilities(); len(got) != 3 {
				t.Errorf("the gateway exposes %+v", got)
			}
		})
	}
}

// A legacy client without client features shares the existing connection, so that it
// sees what other clients did in the same process.
func TestClientsThatCanBeAskedNothingShareTheConnection(t *testing.T) {
	for own, want := range map[mcp.Era][]string{mcp.Legacy: {"s__both", "s__older"}, mcp.Modern: {"s__both", "s__newer"}} {
		b := newOfTwoEras(t, own)
		r := newRig(t, mounted(b))
		session := r.openAs(mcp.V20251125, `{}`)
		if got, _ := listed(t, mcp.Tool, r.legacy(session, "1", "tools/list", "")); !slices.Equal(got, want) {
			t.Errorf("beside a %s connection it is listed %q, want %q", own, got, want)
		}
		r.legacy(session, "2", "tools/call", `{"name":"s__both"}`)
		if calls := b.seen(mcp.MethodToolsCall); len(calls) != 1 || calls[0].Era != mcp.EraUnknown {
			t.Errorf("beside a %s connection it is called as %+v", own, calls)
		}
	}
}

// When a server of both eras varies its legacy lists, each client gets its own list,
// whatever other clients get.
func TestBothErasAndListsWithoutClientFeatures(t *testing.T) {
	b := newOfTwoEras(t, mcp.Legacy)
	b.listing.WithoutCapabilities = newScript(t, "s", mcp.Legacy, tool("both"), tool("fallback")).listing
	b.listing.WithoutCapabilities.Capabilities = b.listing.Capabilities
	r := newRig(t, mounted(b))
	for declared, want := range map[string]string{`{}`: "s__fallback", `{"elicitation":{}}`: "s__older"} {
		if got, _ := listed(t, mcp.Tool, r.legacy(r.openAs(mcp.V20251125, declared), "1", "tools/list", "")); !slices.Equal(got, []string{"s__both", want}) {
			t.Errorf("a legacy client with %s is listed %q, want %s", declared, got, want)
		}
	}
	if got, _ := listed(t, mcp.Tool, r.modern("1", "tools/list", "")); !slices.Equal(got, []string{"s__both", "s__newer"}) {
		t.Errorf("a modern client is listed %q", got)
	}
	r.modern("2", "tools/call", `"name":"s__newer"`)
	if calls := b.seen(mcp.MethodToolsCall); len(calls) != 1 || calls[0].Era != mcp.Modern || calls[0].WithoutCapabilities {
		t.Errorf("a modern client's calls are %+v", calls)
	}
}

// A resource of a server of both eras is watched separately in each.
func TestResourcesAreWatchedPerEra(t *testing.T) {
	b := newOfTwoEras(t, mcp.Modern)
	r := newRig(t, mounted(b))
	snap := r.snapshot.Load()
	keys := make(map[mcp.Era]resourceKey)
	for era, features := range map[mcp.Era]clientFeatures{mcp.Legacy: allFeatures, mcp.Modern: modernFeatures} {
		route := &Route{Capability: &gate.Capability{Kind: mcp.Resource, Server: "s", Original: "file:///a"}, to: snap.byFeatures[features].byServer["s"]}
		keys[era] = route.watchKey()
	}
	for era, key := range keys {
		for _, of := range []mcp.Era{mcp.Legacy, mcp.Modern} {
			if got := key.concerns(&mcp.Event{Server: "s", Era: of}); got != (of == era) {
				t.Errorf("news of a %s connection concern a %s subscriber: %t", of, era, got)
			}
		}
	}
}
