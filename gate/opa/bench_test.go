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
	p := newPhase(b, opa.Options{Settings: opa.Settings{Path: defaultPolicy}, Data: data})
	r := call("tool1", `{"path": "/tmp", "n": 7}`)
	for b.Loop() {
		if d, err := p.Check(b.Context(), r); err != nil || d.Effect != gate.Allow {
			b.Fatal(d, err)
		}
	}
}

func BenchmarkViewThousand(b *testing.B) {
	data, rs := thousand()
	for name, size := range map[string]int{"cold": -1, "cached": 0} {
		b.Run(name, func(b *testing.B) {
			p := newPhase(b, opa.Options{Settings: opa.Settings{Path: defaultPolicy}, Data: data, CacheSize: size})
			for b.Loop() {
				if _, err := p.CheckAll(b.Context(), rs); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
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
