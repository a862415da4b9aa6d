package daemon

import (
	"context"
	"strings"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/records"
	"github.com/toolgate/toolgate/internal/store"
)

// What an operator of this machine does, who is known by the admin token alone.

// ResetBreaker implements [admin.BreakerKeeper].
func (in *Daemon) ResetBreaker(server, tool string) error {
	return in.Records.Changed(admin.Operator(), &records.Change{What: "breaker.reset", Name: tool, Server: server}, in.resetBreaker(server, tool))
}

// RebuildBudgets implements [admin.Budgets].
func (in *Daemon) RebuildBudgets(ctx context.Context) (string, error) {
	return in.rebuildBudgetsAs(ctx, admin.Operator(), nil)
}

func (in *Daemon) rebuildBudgetsAs(ctx context.Context, actor string, id *gate.Identity) (string, error) {
	said, err := in.rebuildBudgets(ctx)
	if _, can := in.Budgets.Store.(budget.Rebuilder); !can && err == nil {
		return said, nil // nothing was done
	}
	return said, in.Records.Changed(actor, &records.Change{What: "budget.rebuild", Identity: id}, err)
}

// AddedServers implements [admin.Adder].
func (in *Daemon) AddedServers(context.Context) ([]admin.AddedServer, error) {
	return in.added.All(), nil
}

// PromoteServer implements [admin.Adder].
func (in *Daemon) PromoteServer(ctx context.Context, server, reason string) error {
	err := in.added.Promote(ctx, server, store.Change{Actor: gate.ByOperator, Reason: reason})
	return in.Records.Changed(admin.Operator(), &records.Change{What: "servers.promote", Server: server, Reason: reason}, err)
}

// RemoveServer implements [admin.Adder].
func (in *Daemon) RemoveServer(ctx context.Context, server string) error {
	return in.Records.Changed(admin.Operator(), &records.Change{What: "servers.remove", Server: server}, in.added.RemoveAny(ctx, server))
}

// Reload implements [admin.Gateway].
func (in *Daemon) Reload() (admin.Reloaded, error) { return in.reloadAs(admin.Operator(), nil) }

func (in *Daemon) reloadAs(actor string, id *gate.Identity) (admin.Reloaded, error) {
	did, err := in.TakeFile(true)
	return did, in.Records.Changed(actor, &records.Change{What: "reload", Name: did.File, Reason: strings.Join(did.Applied, "; "), Identity: id}, err)
}

// ChangeCatalog implements [admin.Cataloger].
func (in *Daemon) ChangeCatalog(ctx context.Context, c admin.CatalogChange) (admin.CatalogEntry, error) {
	return in.changeCatalogAs(ctx, c, nil)
}

func (in *Daemon) changeCatalogAs(ctx context.Context, c admin.CatalogChange, id *gate.Identity) (admin.CatalogEntry, error) {
	e, err := in.changeCatalog(ctx, c)
	return e, in.Records.Changed(c.Actor, &records.Change{What: "catalog." + c.Op, Name: c.Name, Server: e.Server, Reason: c.Reason, Identity: id}, err)
}

// SeedCatalog implements [admin.Cataloger].
func (in *Daemon) SeedCatalog(ctx context.Context, s admin.CatalogSeed) (admin.CatalogSeeded, error) {
	return in.seedCatalogAs(ctx, s, nil)
}

func (in *Daemon) seedCatalogAs(ctx context.Context, s admin.CatalogSeed, id *gate.Identity) (admin.CatalogSeeded, error) {
	out, err := in.seedCatalog(ctx, s)
	return out, in.Records.Changed(s.Actor, &records.Change{What: "catalog.seed", Name: s.File, Reason: s.Reason, Identity: id}, err)
}

// answered writes down how a question about a call was answered.
func (in *Daemon) answered(who string, id *gate.Identity, item approval.Item, question, do, reason string, err error) (approval.Item, error) {
	what := "approvals." + do
	if do == admin.Approve {
		what = "approvals.grant"
	}
	name := question
	if item.Tool != "" {
		name = item.Tool + " " + question
	}
	return item, in.Records.Changed(who, &records.Change{What: what, Name: name, Reason: reason, Identity: id}, err)
}

// And what somebody with the admin role does.

// ResetBreaker implements [admin.BreakerKeeper].
func (a administrator) ResetBreaker(server, tool string) error {
	return a.Records.Changed(a.name(), &records.Change{What: "breaker.reset", Name: tool, Server: server, Identity: a.id}, a.resetBreaker(server, tool))
}

// RebuildBudgets implements [admin.Budgets].
func (a administrator) RebuildBudgets(ctx context.Context) (string, error) {
	return a.rebuildBudgetsAs(ctx, a.name(), a.id)
}

// RemoveServer implements [admin.Adder].
func (a administrator) RemoveServer(ctx context.Context, server string) error {
	return a.Records.Changed(a.name(), &records.Change{What: "servers.remove", Server: server, Identity: a.id}, a.added.RemoveAny(ctx, server))
}

// Reload implements [admin.Gateway].
func (a administrator) Reload() (admin.Reloaded, error) { return a.reloadAs(a.name(), a.id) }
