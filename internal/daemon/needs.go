package daemon

import (
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/proxy"
)

// Words for what a gateway needs to decide.
const (
	needStore   = "store"
	needSpiceDB = "spicedb"
)

// needs is what the gateway needs to decide, and whether it is there: the SpiceDB
// only where the configuration has one.
func (d *Daemon) needs() []proxy.Dependency {
	all := []proxy.Dependency{
		{Name: needStore, OK: d.operation.StoreDown() == nil},
		{Name: registry.Name, OK: d.registry.Healthy() == nil},
	}
	if s := d.operation.Relations.Status(); s != nil {
		all = append(all, proxy.Dependency{Name: needSpiceDB, OK: s.OK})
	}
	return all
}
