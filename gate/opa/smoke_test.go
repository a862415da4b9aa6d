package opa_test

import (
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/internal/mcp"
)

func TestSmoke(t *testing.T) {
	p, err := opa.New(t.Context(), opa.Options{Path: "../../examples/policies", Data: opa.Data{ToolCatalog: map[string]opa.Tool{"fs__read": {Enabled: true}}}})
	if err != nil {
		t.Fatal(err)
	}
	id := gate.NewIdentity(gate.Identity{Principal: gate.Principal{Subject: "alice"}})
	for _, n := range []string{"fs__read", "x"} {
		d, err := p.Check(t.Context(), &gate.Request{Action: gate.Call, Kind: mcp.Tool, Exposed: n, Identity: id, Args: []byte(`{"a":1}`)})
		t.Logf("%+v %v", d, err)
	}
}
