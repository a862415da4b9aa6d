package config

import (
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/internal/headroom"
)

// Governance is rules about calls and their arguments.
type Governance struct {
	// Operating mode at the first start; later the store keeps it. Default: NORMAL.
	Mode governance.Mode `config:"mode" enum:"NORMAL|ALERT|DEGRADED|LOCKDOWN|RECOVERY"`
	// Whether path arguments may lead to the gateway's own files: configuration, policies, store, audit log, keys.
	// Default: forbid, with and without authentication.
	OwnFiles string `config:"own_files" enum:"forbid|allow"`
	// When the gateway switches to mode DEGRADED by itself. Default: the default of each setting.
	Degraded headroom.Settings `config:"degraded"`

	governance.Settings
}
