package daemon

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/servers"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/intercept"
)

// describing returns what is said of a tool beside its definition: its category by the
// operator, else by its plugin, and the operator's settings for it.
func describing(c *config.Config, rules *governance.Rules, table *servers.Table) func(store.CapabilityKey, gate.Names) registry.Description {
	return func(k store.CapabilityKey, names gate.Names) registry.Description {
		if k.Kind != mcp.Tool.String() {
			return registry.Description{}
		}
		var out registry.Description
		for _, name := range names.All() {
			out.Category = cmp.Or(out.Category, rules.Category(name))
		}
		out.Category = cmp.Or(out.Category, table.NativeCategory(k.Server, k.Original))
		if s, ok := c.Server(k.Server); ok {
			if shape, ok := s.Tools[k.Original]; ok {
				out.Config = decode.Encode(shape)
			}
		}
		return out
	}
}

// presenting returns what clients see of an item beside what its server lists: the title
// that a seed gives, and where the operator wants it, what is known of a tool.
func presenting(c *config.Config, e *build.Examiner, r *registry.Registry) func(*gate.Capability, []byte) proxy.Description {
	return func(of *gate.Capability, listed []byte) proxy.Description {
		out := proxy.Description{
			Title:      r.Title(of.CapabilityID, listed),
			AlwaysLoad: of.Kind == mcp.Tool && slices.Contains(c.Toolgate.Find.Pins, of.Exposed),
		}
		if !c.Toolgate.Registry.ToolMetadata || of.Kind != mcp.Tool {
			return out
		}
		call := &gate.Request{
			Action: gate.Call, Kind: of.Kind, Server: of.Server, Original: of.Original, Exposed: of.Exposed, Unsuffixed: of.Unsuffixed,
			CapabilityID: of.CapabilityID,
		}
		class := e.Class(call, listed)
		known := toolMetadata{
			Category: r.Category(of.CapabilityID), Class: classWord(class), Risk: string(class.Risk), HighCost: class.HighCost, Cost: 1,
			Approval: e.InMode(call, listed, governance.Normal) == governance.Ask,
		}
		if s, ok := c.Server(of.Server); ok {
			if cost := s.Tools[of.Original].Cost; cost > 0 {
				known.Cost = cost
			}
		}
		if text, err := json.Marshal(known); err == nil {
			out.Meta = string(text)
		}
		return out
	}
}

// toolMetadata is what a planner may want to know of a tool. It says nothing of who may
// call it.
type toolMetadata struct {
	Category string `json:"category,omitempty"`
	Class    string `json:"class"`
	Risk     string `json:"risk,omitempty"`
	HighCost bool   `json:"high_cost,omitempty"`
	Cost     int64  `json:"cost"`     // units of a call
	Approval bool   `json:"approval"` // a person is asked in mode NORMAL
}

// noting adds to what clients see of an item what interceptors say of it.
func (d *Daemon) noting(describe func(*gate.Capability, []byte) proxy.Description) func(*gate.Capability, []byte) proxy.Description {
	return func(of *gate.Capability, listed []byte) proxy.Description {
		out := describe(of, listed)
		said := d.definitions.Look(&intercept.Definition{Method: of.Kind.ListMethod(), Server: of.Server, Name: of.Exposed, Raw: listed})
		out.Withheld = said.Withheld
		if len(said.Notes) > 0 {
			notes := make(map[string]string, len(said.Notes))
			for _, n := range said.Notes {
				notes[n.By] = n.Text
			}
			if text, err := json.Marshal(notes); err == nil {
				out.Notes = string(text)
			}
		}
		return out
	}
}
