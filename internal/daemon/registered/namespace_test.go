package registered

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/native/enable"
	"github.com/toolgate/toolgate/native/toolapi"
)

// Two principals whose names have one hash never share a namespace: the tools of the
// second one are not served, and new ones are refused.
func TestNamespaceOfTwoOwners(t *testing.T) {
	first, second := gate.Principal{Tenant: "default", Subject: "p0382247"}.Key(), gate.Principal{Tenant: "default", Subject: "p0751277"}.Key()
	if Namespace(first) != Namespace(second) {
		t.Fatal("these names no longer have one hash; find two others")
	}
	c, err := config.Parse("toolgate.yaml", []byte(`
mcpServers: {}
toolgate:
  tools:
    - name: look
      type: http
      url: "https://api.example/{id}"
      template: true
      input_schema: { type: object, properties: { id: { type: string, maxLength: 20 } }, required: [id], additionalProperties: false }
`), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	template := Templates(c)["tools__look"]
	if template == nil {
		t.Fatalf("the templates are %v", Templates(c))
	}
	pin, err := template.Pin()
	if err != nil {
		t.Fatal(err)
	}
	all := New(Options{Log: slog.New(slog.DiscardHandler), InForce: func() *config.Config { return c }})
	schema := []byte(`{"type":"object","properties":{"id":{"type":"string","maxLength":20}},"required":["id"],"additionalProperties":false}`)
	for _, owner := range []string{first, second} {
		all.list = append(all.list, tool{
			record: store.DynamicTool{Name: Namespace(owner) + "__mine", Template: "tools__look", Owner: store.Owner{Principal: owner}},
			of:     registration{Name: "mine", Description: "Looks.", InputSchema: schema, Template: "tools__look", Pin: pin, Principal: []byte(owner)},
		})
	}
	owners := all.Beside(c, build.KeepOff(c, nil))
	if len(owners) != 1 || owners[Namespace(first)] != first {
		t.Errorf("the owners are %v", owners)
	}
	if all.list[0].problem != "" || all.list[1].problem != errOthersNamespace.Error() {
		t.Errorf("problems: %q and %q", all.list[0].problem, all.list[1].problem)
	}
	served := 0
	for i := range c.Toolgate.Tools {
		if c.Toolgate.Tools[i].Of != "" {
			served++
		}
	}
	if served != 1 {
		t.Errorf("%d registered tools are served", served)
	}
	var problem toolapi.Problem
	if _, err := all.examine(second, &enable.Registration{Name: "more", Description: "Looks.", Template: "tools__look", InputSchema: schema}); !errors.As(err, &problem) {
		t.Errorf("a tool in the namespace of another owner: %v", err)
	}
}
