package inside

import (
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/daemon/hidden"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/native/agents"
	"github.com/toolgate/toolgate/native/plugins/memory"
	"github.com/toolgate/toolgate/native/plugins/notify"
	"github.com/toolgate/toolgate/native/plugins/schedule"
	"github.com/toolgate/toolgate/native/toolapi"
)

// Parts are those of a running gateway that groups need. All are required.
type Parts struct {
	Store  *store.Store
	Hidden *hidden.Secrets
	Keys   *seal.Keyring
	// Gateway returns the gateway, once it is made.
	Gateway func() Gateway
	// Notify returns where messages to users are posted, with an empty address for nowhere.
	Notify func() notify.Receiver
	// Agents runs the agents of the configuration.
	Agents agents.Host
	// Lasts tells whether the rights of a caller can be looked up when it is not there.
	Lasts func(id *gate.Identity) bool
}

// groups makes each group, by its key in the configuration. This line and a field of
// config.Native, or the section of agents, are the registration of a group.
var groups = map[string]func(*Parts) *toolapi.Plugin{
	agents.ServerKey: func(p *Parts) *toolapi.Plugin { return agents.Plugin(p.Agents) },

	memory.Name:   memories,
	schedule.Name: schedules,
	notify.Name:   notices,
}

// Groups are the groups of a gateway.
type Groups struct{ parts Parts }

// New returns the groups of a gateway with such parts.
func New(p Parts) *Groups { return &Groups{p} }

// Plugin returns the tools of a group by its key. A key without a group has none.
func (g *Groups) Plugin(key string) *toolapi.Plugin {
	if make := groups[key]; make != nil {
		return make(&g.parts)
	}
	return toolapi.New(key, "")
}
