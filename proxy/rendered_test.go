package proxy

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/revision"
	"github.com/toolgate/toolgate/proxy/schemas"
)

// TestRoutesAreReused changes what a server lists and what is said of it. The entry that
// reuses routes is what one made anew would be, and the pointer of a capability stays
// exactly as long as what clients see of it.
func TestRoutesAreReused(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	b := newScript(t, "s", mcp.Legacy)
	titles := map[string]string{}
	mounts := mounted(b)
	mounts[0].Tools = map[string]ToolShape{"t1": {Rename: "renamed"}, "t2": {Title: "Written"}}
	mounts[0].Describe = func(c *gate.Capability, _ []byte) Description { return Description{Title: titles[c.Original]} }
	r := newRig(t, mounts)
	known := map[*gate.Capability][]byte{}
	reused := 0
	for range 300 {
		var items []string
		for i := range 6 {
			name := fmt.Sprintf("t%d", i)
			if random.IntN(8) == 0 {
				titles[name] = fmt.Sprint("title ", random.IntN(3))
			}
			if random.IntN(5) > 0 {
				items = append(items, fmt.Sprintf(
					`tool {"name":"%s","description":"%d","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`, name, random.IntN(2)))
			}
			items = append(items, fmt.Sprintf(`prompt {"name":"%s","description":"%d"}`, name, random.IntN(3)))
		}
		era, capabilities := mcp.Legacy, everything
		if random.IntN(4) == 0 {
			capabilities = `{"tools":{},"prompts":{},"tasks":{"requests":{"tools":{"call":{}}}}}`
		}
		if random.IntN(6) == 0 {
			era = mcp.Modern
		}
		b.offer(t, era, capabilities, items...)
		r.publisher.rebuild(t.Context())
		entry := r.snapshot.Load().catalog.byServer["s"]
		fresh := *entry
		fresh.renderSets(nil)
		for _, kind := range mcp.Kinds {
			if len(entry.rendered[kind]) != len(fresh.rendered[kind]) || entry.digest[kind] != fresh.digest[kind] {
				t.Fatalf("%v: %d routes, anew %d", kind, len(entry.rendered[kind]), len(fresh.rendered[kind]))
			}
			for i, got := range entry.rendered[kind] {
				want := fresh.rendered[kind][i]
				if *got.Capability != *want.Capability || got.to != entry || got.tasks != want.tasks || !bytes.Equal(got.input, want.input) {
					t.Fatalf("%+v, anew %+v", got, want)
				}
				rev, mode := revision.Of(mcp.V20250618), []schemas.Mode{schemas.Verbatim, schemas.CompactMode, schemas.StrictMode}[random.IntN(3)]
				if !bytes.Equal(got.listed(rev, mode), want.listed(rev, mode)) || !bytes.Equal(got.raw, want.raw) {
					t.Fatalf("%s\nanew %s", got.listed(rev, mode), want.listed(rev, mode))
				}
				before, kept := known[got.Capability]
				if kept && !bytes.Equal(before, got.raw) {
					t.Fatalf("the capability of another definition: %s\n%s", before, got.raw)
				}
				if kept {
					reused++
				}
				known[got.Capability] = got.raw
			}
		}
	}
	if reused < 500 {
		t.Errorf("%d routes were reused", reused)
	}
}

// TestListsAreUpdated changes what servers list, also by names that another one has. The
// lists that are updated are those that would be made anew.
func TestListsAreUpdated(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	backends := []*script{newScript(t, "a", mcp.Legacy), newScript(t, "b", mcp.Legacy), newScript(t, "c", mcp.Legacy)}
	mounts := mounted(backends...)
	mounts[1].Namespace, mounts[2].Namespace = "", "a__x"
	r := newRig(t, mounts)
	updated := 0
	for range 300 {
		prefix := []string{"", "", "", "a__", "a__x__"}[random.IntN(5)]
		var items []string
		for i := range 5 {
			items = append(items, fmt.Sprintf(`tool {"name":"%s%d","description":"%d","inputSchema":{"type":"object"}}`, prefix, i, random.IntN(2)))
			items = append(items, fmt.Sprintf(`prompt {"name":"x__%d","description":"%d"}`, i, random.IntN(2)))
		}
		backends[random.IntN(3)].offer(t, mcp.Legacy, everything, items[:2*(5-random.IntN(6)/5)]...)
		before := r.snapshot.Load().catalog
		r.publisher.rebuild(t.Context())
		got := r.snapshot.Load().catalog
		want := newCatalog(got.servers, nil)
		for _, kind := range mcp.Kinds {
			if !slices.Equal(got.lists[kind].entries, want.lists[kind].entries) || !maps.Equal(got.lists[kind].places, want.lists[kind].places) {
				t.Fatalf("%v: %d routes, anew %d", kind, len(got.lists[kind].entries), len(want.lists[kind].entries))
			}
			if got.updated(kind, before) != nil {
				updated++
			}
		}
		if !slices.Equal(got.shadowed, want.shadowed) {
			t.Fatalf("%d routes are not offered, anew %d", len(got.shadowed), len(want.shadowed))
		}
	}
	if updated < 100 {
		t.Errorf("%d lists were updated", updated)
	}
}
