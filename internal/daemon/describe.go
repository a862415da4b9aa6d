package daemon

import (
	"cmp"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/internal/daemon/servers"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
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
