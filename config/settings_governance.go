package config

import (
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/internal/headroom"
)

// Governance is the rules about calls and their arguments, and the operating mode.
type Governance struct {
	governance.Settings

	// When the gateway switches to mode DEGRADED by itself. Default: the default of each setting.
	Degraded headroom.Settings `config:"degraded"`
}
