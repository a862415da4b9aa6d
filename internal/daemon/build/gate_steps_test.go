package build

import (
	"testing"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// The class of a tool with steps is the strictest of what it calls: of a part that is not
// classed, or not there, it is destructive.
func TestClassOfSteps(t *testing.T) {
	t.Parallel()
	c, err := config.Parse("toolgate.yaml", []byte(`
mcpServers: { gh: { command: gh } }
toolgate:
  servers: { gh: { tools: { list: { annotations: { readOnlyHint: true } }, note: { annotations: { readOnlyHint: false, destructiveHint: false } } } } }
  governance: { tools: { tools__strict: { class: destructive, risk: high }, tools__risky: { risk: high } } }
  tools:
    - { name: date, type: command, args: [date], class: read_only, risk: medium }
    - { name: reads, type: steps, steps: [{ id: a, call: gh__list }, { id: b, call: tools__date }] }
    - { name: writes, type: steps, steps: [{ id: a, call: tools__reads }, { id: b, call: gh__note }] }
    - { name: unknown, type: steps, steps: [{ id: a, call: gh__list }, { id: b, call: gh__other }] }
    - { name: missing, type: steps, steps: [{ id: a, call: gh__none }] }
    - { name: strict, type: steps, steps: [{ id: a, call: gh__list }] }
    - { name: risky, type: steps, steps: [{ id: a, call: gh__list }] }
    - { name: outer, type: steps, steps: [{ id: a, call: tools__strict }] }
    - { name: outermost, type: steps, steps: [{ id: a, call: tools__outer }] }
    - { name: daring, type: steps, steps: [{ id: a, call: tools__risky }] }
`), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGates(t.Context(), c, false, Surroundings{})
	if err != nil {
		t.Fatal(err)
	}
	offer := func(server, prefix string, names ...string) *gate.Offer {
		o := &gate.Offer{Server: server}
		for _, name := range names {
			o.Items = append(o.Items, gate.Offered{Kind: mcp.Tool, Original: name, Exposed: prefix + name, Definition: []byte(`{"name":"` + name + `"}`)})
		}
		return o
	}
	g.Steps.Learn([]*gate.Offer{offer("gh", "gh__", "list", "note", "other"), offer("tools", "tools__", "date", "reads", "writes", "unknown", "missing", "strict", "risky", "outer", "outermost", "daring")})
	for name, want := range map[string]struct {
		readOnly, destructive bool
		risk                  string
	}{
		"reads": {readOnly: true, risk: "medium"}, "writes": {risk: "medium"}, "unknown": {destructive: true}, "missing": {destructive: true},
		"strict": {destructive: true, risk: "high"}, "outer": {destructive: true, risk: "high"}, "outermost": {destructive: true, risk: "high"},
		"risky": {readOnly: true, risk: "high"}, "daring": {readOnly: true, risk: "high"},
	} {
		class := g.Examiner.Class(&gate.Request{Action: gate.Call, Kind: mcp.Tool, Server: "tools", Original: name, Exposed: "tools__" + name}, []byte(`{}`))
		if class.ReadOnly != want.readOnly || class.Destructive != want.destructive || string(class.Risk) != want.risk {
			t.Errorf("%s: %+v", name, class)
		}
	}
}

// A tool with steps is not listed as read-only if the operator classes as stricter what it
// calls, or what that calls.
func TestHintOfSteps(t *testing.T) {
	t.Parallel()
	c, err := config.Parse("toolgate.yaml", []byte(`
toolgate:
  governance: { tools: { tools__strict: { class: destructive } } }
  tools:
    - { name: date, type: command, args: [date], class: read_only }
    - { name: reads, type: steps, steps: [{ id: a, call: tools__date }] }
    - { name: strict, type: steps, steps: [{ id: a, call: tools__date }] }
    - { name: outer, type: steps, steps: [{ id: a, call: tools__strict }] }
    - { name: outermost, type: steps, steps: [{ id: a, call: tools__outer }] }
    - { name: again, type: steps, steps: [{ id: a, call: tools__reads }] }
`), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"reads": true, "again": true, "outer": false, "outermost": false}
	for i := range c.Toolgate.Tools {
		tool := &c.Toolgate.Tools[i]
		if reads, asked := want[tool.Name]; asked && onlyReads(c, tool) != reads {
			t.Errorf("%s: only reads: %v", tool.Name, !reads)
		}
	}
}
