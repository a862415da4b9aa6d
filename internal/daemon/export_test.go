package daemon

import (
	"context"

	"github.com/toolgate/toolgate/budget/rate"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/internal/console"
	"github.com/toolgate/toolgate/internal/daemon/hidden"
	"github.com/toolgate/toolgate/internal/daemon/identity"
	"github.com/toolgate/toolgate/internal/daemon/operate"
	"github.com/toolgate/toolgate/internal/daemon/servers"
	"github.com/toolgate/toolgate/internal/daemon/signin"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/daemon/tries"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/limit"
)

// Parts are those of a running gateway that tests look into.
type Parts struct {
	Gateway    *proxy.Gateway
	Store      *store.Store
	State      *statedir.Dir
	Identities *identity.Keeper
	Operation  *operate.Operation
	Table      *servers.Table
	SignIn     *signin.Service
	Hidden     *hidden.Secrets
	Budgets    *budgets
	Messages   *limit.Bytes
	Opts       Options
	d          *Daemon
}

// Parts returns those of a gateway.
func (d *Daemon) Parts() Parts {
	return Parts{
		Gateway: d.gateway, Store: d.store, State: d.state, Identities: d.identities, Operation: d.operation, Table: d.servers,
		SignIn: d.signIn, Hidden: &d.hidden, Budgets: &d.budgets, Messages: d.messages, Opts: d.opts, d: d,
	}
}

// Keys are those that seal.
func (p *Parts) Keys() *seal.Keyring { return p.d.keys }

// Tries are the calls by hand of a caller.
func (p *Parts) Tries(id *gate.Identity) tries.Caller { return p.d.tries.Caller(id) }

// SetApprovals sets how questions to people are asked.
func (p *Parts) SetApprovals(o approval.Options) { p.d.approvals.service.Set(o) }

// NativeRates are the rates that native tools have of themselves.
func (p *Parts) NativeRates() []rate.Rule { return p.Table.NativeRates(p.d.Current()) }

// NativeOperator is what is known of a native tool.
func (p *Parts) NativeOperator(server, tool string) governance.Operator {
	return p.Table.NativeOperator(server, tool)
}

// LoadRegistered has the tools that agents have registered served as they are in the store.
func (p *Parts) LoadRegistered(ctx context.Context) error {
	return p.d.reloads.again(ctx, p.d.registered.Load)
}

// NativePID is the process of native tools.
func (p *Parts) NativePID(key string) int { return p.Table.NativePID(key) }

// NativeListing is what native tools list.
func (p *Parts) NativeListing(key string) *mcp.Listing { return p.Table.NativeListing(key) }

// ListAgain has servers list again.
func (p *Parts) ListAgain(keys []string) { p.Table.ListAgain(keys) }

// StartOnly tells whether a setting is read only at the start.
var StartOnly = startOnly

// ChangedSettings are the paths of the settings that differ.
var ChangedSettings = changedSettings

// Console returns the console of a gateway at a URL; live views end with the context.
func (p *Parts) Console(ctx context.Context, at string, local bool) *console.Console {
	return p.d.pages(at, local, ctx.Done())
}
