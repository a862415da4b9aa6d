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

// ResetBreaker implements [admin.BreakerKeeper].
func (ctl *Control) ResetBreaker(server, tool string) error {
	return ctl.changed(&records.Change{What: "breaker.reset", Name: tool, Server: server}, ctl.resetBreaker(server, tool))
}

// RebuildBudgets implements [admin.Budgets].
func (ctl *Control) RebuildBudgets(ctx context.Context) (string, error) {
	said, err := ctl.rebuildBudgets(ctx)
	if _, can := ctl.in.Budgets.Store.(budget.Rebuilder); !can && err == nil {
		return said, nil // nothing was done
	}
	return said, ctl.changed(&records.Change{What: "budget.rebuild"}, err)
}

// AddedServers implements [admin.Adder].
func (ctl *Control) AddedServers(context.Context) ([]admin.AddedServer, error) {
	return ctl.in.added.All(), nil
}

// PromoteServer implements [admin.Adder].
func (ctl *Control) PromoteServer(ctx context.Context, server, reason string) error {
	err := ctl.in.added.Promote(ctx, server, ctl.by.change(reason))
	return ctl.changed(&records.Change{What: "servers.promote", Server: server, Reason: reason}, err)
}

// RemoveServer implements [admin.Adder].
func (ctl *Control) RemoveServer(ctx context.Context, server string) error {
	return ctl.changed(&records.Change{What: "servers.remove", Server: server}, ctl.in.added.RemoveAny(ctx, server))
}

// SetMode implements [admin.ModeKeeper].
func (ctl *Control) SetMode(ctx context.Context, mode, reason string) (admin.Mode, error) {
	return ctl.Set(ctx, mode, store.Change{Actor: ctl.by.name(), Reason: reason})
}

// Reload implements [admin.Gateway].
func (ctl *Control) Reload() (admin.Reloaded, error) {
	return ctl.in.reloadAs(ctl.by.name(), ctl.by.id)
}

func (in *Daemon) reloadAs(actor string, id *gate.Identity) (admin.Reloaded, error) {
	did, err := in.TakeFile(true)
	return did, in.Records.Changed(actor, &records.Change{What: "reload", Name: did.File, Reason: strings.Join(did.Applied, "; "), Identity: id}, err)
}

// ChangeCatalog implements [admin.Cataloger]. Who has the admin role makes the change,
// whoever the request says does.
func (ctl *Control) ChangeCatalog(ctx context.Context, c admin.CatalogChange) (admin.CatalogEntry, error) {
	if ctl.by.id != nil {
		c.Actor = ctl.by.name()
	}
	e, err := ctl.changeCatalog(ctx, c)
	return e, ctl.in.Records.Changed(c.Actor, &records.Change{What: "catalog." + c.Op, Name: c.Name, Server: e.Server, Reason: c.Reason, Identity: ctl.by.id}, err)
}

// SeedCatalog implements [admin.Cataloger], as ChangeCatalog does.
func (ctl *Control) SeedCatalog(ctx context.Context, s admin.CatalogSeed) (admin.CatalogSeeded, error) {
	if ctl.by.id != nil {
		s.Actor = ctl.by.name()
	}
	out, err := ctl.seedCatalog(ctx, s)
	return out, ctl.in.Records.Changed(s.Actor, &records.Change{What: "catalog.seed", Name: s.File, Reason: s.Reason, Identity: ctl.by.id}, err)
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
