package config

import (
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/internal/headroom"
)

// Governance is rules about calls and their arguments.
type Governance struct {
	// Mode is the operating mode at the first start; after that the store keeps it. Absent: NORMAL.
	Mode governance.Mode `config:"mode" enum:"NORMAL|ALERT|DEGRADED|LOCKDOWN|RECOVERY"`
	// OwnFiles says whether arguments that are paths may lead to the gateway's own files: configuration, policies,
	// store, audit log, keys. Absent: forbid, with authentication and without.
	OwnFiles string `config:"own_files" enum:"forbid|allow"`
	// Degraded says when the gateway goes into the mode DEGRADED by itself. Absent: the defaults of each.
	Degraded headroom.Settings `config:"degraded"`

	governance.Settings
}
