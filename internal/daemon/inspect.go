package daemon

import (
	"github.com/toolgate/toolgate/budget/rate"
	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/internal/mcp"
)

// What tests of other packages look at.

func (d *Daemon) ListAgain(keys []string)             { d.servers.ListAgain(keys) }
func (d *Daemon) SetApprovals(o approval.Options)     { d.Approvals.service.Set(o) }
func (d *Daemon) NativePID(key string) int            { return d.servers.NativePID(key) }
func (d *Daemon) NativeListing(k string) *mcp.Listing { return d.servers.NativeListing(k) }
func (d *Daemon) NativeRates() []rate.Rule            { return d.servers.NativeRates(d.Current()) }
func (d *Daemon) NativeOperator(server, tool string) governance.Operator {
	return d.servers.NativeOperator(server, tool)
}
