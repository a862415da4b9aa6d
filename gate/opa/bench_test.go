package opa_test

import (
	"fmt"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/opa"
)

// thousand is data with 1000 tools and 20 tenants, and a view of each tool.
func thousand() (opa.Data, []gate.Request) {
	d := opa.Data{
		ToolCatalog: map[string]opa.Tool{}, TenantToolFlags: map[string]map[string]opa.Flag{},
		TenantRestrictedArgs: map[string]map[string]map[string][]any{"acme": {"tool1": {"path": {"/etc"}}}},
		PersonaToolDeny:      map[string][]string{"bot": {"tool7", "tool8"}}, GlobalToolDeny: []string{"tool9"},
	}
	id := alice()
	rs := make([]gate.Request, 1000)
	for i := range rs {
		name := fmt.Sprint("tool", i)
		d.ToolCatalog[name] = opa.Tool{Enabled: i%3 != 0}
		rs[i] = *view(name)
		rs[i].Identity = id
	}
	for i := range 20 {
		d.TenantToolFlags[fmt.Sprint("tenant", i)] = map[string]opa.Flag{fmt.Sprint("tool", i): {Enabled: true}}
	}
	return d, rs
}

func BenchmarkRequest(b *testing.B) {
	data, _ := thousand()
	r := call("tool1", `{"path": "/tmp", "n": 7}`)
	for name, size := range map[string]int{"values cached": 0, "nothing cached": -1} {
		b.Run(name, func(b *testing.B) {
			p := newPhase(b, opa.Options{Settings: opa.Settings{Path: defaultPolicy}, Data: data, CacheSize: size})
			for b.Loop() {
				if d, err := p.Check(b.Context(), r); err != nil || d.Effect != gate.Allow {
					b.Fatal(d, err)
				}
			}
		})
	}
}

func BenchmarkViewThousand(b *testing.B) {
	data, rs := thousand()
	p := newPhase(b, opa.Options{Settings: opa.Settings{Path: defaultPolicy}, Data: data})
	items := make([]*gate.Capability, len(rs))
	for i, r := range rs {
		items[i] = &gate.Capability{Kind: r.Kind, Server: r.Server, Original: r.Original, Exposed: r.Exposed, CapabilityID: r.CapabilityID}
	}
	of := func(c *gate.Capability) *gate.Capability { return c }
	list := func(c *gate.Chain) {
		allowed := 0
		for _, d := range gate.Views(b.Context(), c, rs[0].Identity, "", items, of) {
			if d.Effect == gate.Allow {
				allowed++
			}
		}
		if allowed == 0 {
			b.Fatal("nothing may be viewed")
		}
	}
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			list(gate.NewChain(p))
		}
	})
	b.Run("cached", func(b *testing.B) {
		chain := gate.NewChain(p)
		for b.Loop() {
			list(chain)
		}
	})
}

func BenchmarkSetData(b *testing.B) {
	data, _ := thousand()
	p := newPhase(b, opa.Options{Settings: opa.Settings{Path: defaultPolicy}, Data: data})
	for i := 0; b.Loop(); i++ {
		data.GlobalToolDeny = []string{fmt.Sprint(i)}
		if err := p.SetData(data); err != nil {
			b.Fatal(err)
		}
	}
}
