package proxy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
)

// memoryRegistry is a registry on a store in memory.
func memoryRegistry(t *testing.T, s registry.Rules) (*registry.Registry, *store.Store) {
	t.Helper()
	on, err := store.Open(t.Context(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = on.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		on.Close()
	})
	r := registry.New(registry.Options{Store: on})
	r.Configure(s)
	return r, on
}

// capabilityLines are one of each kind, with a description.
func capabilityLines(description string, changed map[string]bool) []string {
	about := func(name string) string {
		if changed[name] {
			return "changed"
		}
		return description
	}
	return []string{
		fmt.Sprintf(`tool {"name":"t","description":%q,"inputSchema":{"type":"object"}}`, about("t")),
		fmt.Sprintf(`prompt {"name":"p","description":%q}`, about("p")),
		fmt.Sprintf(`resource {"uri":"r://x","name":"r","description":%q}`, about("r")),
		fmt.Sprintf(`template {"uriTemplate":"q://{id}","name":"q","description":%q}`, about("q")),
	}
}

// Every request for something that the registry does not serve gets the same bytes as
// one for something that never existed.
func TestWhatTheCatalogHidesIsUnknown(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 8))
	by := store.Change{Actor: "test"}
	ways := map[string][][2]string{ // by capability: a method and its parameters, with NAME for the name
		"t": {{"tools/call", `"name":"NAME"`}},
		"p": {{"prompts/get", `"name":"NAME"`}, {"completion/complete", `"ref":{"type":"ref/prompt","name":"NAME"},"argument":{"name":"a","value":""}`}},
		"r": {{"resources/read", `"uri":"NAME"`}},
		"q": {{"completion/complete", `"ref":{"type":"ref/resource","uri":"NAME"},"argument":{"name":"id","value":""}`}},
	}
	names := map[string][2]string{ // exposed names, and unknown ones of the same form
		"t": {"s__t", "s__n"}, "p": {"s__p", "s__n"}, "r": {"s+r://x", "n+r://x"}, "q": {"s+q://{id}", "n+q://{id}"},
	}
	for range 12 {
		reg, on := memoryRegistry(t, registry.Rules{DefaultEnabled: true, OnNew: registry.Adopt})
		b := newScript(t, "s", mcp.Modern, capabilityLines("first", nil)...)
		r := newRig(t, mounted(b), func(_ *Options, c *Config) {
			c.Chain, c.Registry = gate.NewChain(gate.Open{}, reg.Phase()), reg
		})
		hidden, changed := map[string]string{}, map[string]bool{}
		for one := range names {
			e, err := reg.Entry(t.Context(), names[one][0], "")
			if err != nil {
				t.Fatal(err)
			}
			switch how := random.IntN(5); how {
			case 0:
				hidden[one], err = "disabled", reg.SetEnabled(t.Context(), e.ID, false, by)
			case 1:
				hidden[one], err = "off for the tenant", reg.Flag(t.Context(), e.ID, gate.DefaultTenant, false, by)
			case 2:
				hidden[one], changed[one] = "held", true
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		b.offer(t, mcp.Modern, everything, capabilityLines("first", changed)...)
		r.publisher.rebuild(t.Context())
		for one, asked := range ways {
			for _, way := range asked {
				ask := func(name string) string {
					w := r.modern("1", way[0], strings.ReplaceAll(way[1], "NAME", name))
					if w.code() != http.StatusOK {
						t.Fatalf("%s of %s: %d", way[0], name, w.code())
					}
					return strings.ReplaceAll(w.text(), name, "NAME")
				}
				got, want := ask(names[one][0]), ask(names[one][1])
				if (got == want) != (hidden[one] != "") {
					t.Errorf("%s of %s (%q):\n%s\nof what never was:\n%s", way[0], names[one][0], hidden[one], got, want)
				}
			}
		}
		if err := on.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
