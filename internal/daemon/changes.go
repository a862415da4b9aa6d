package daemon

import (
	"context"
	"strings"
	"time"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/daemon/operate"
	"github.com/toolgate/toolgate/internal/daemon/records"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/proxy/guard"
)

// Breakers implements [admin.BreakerKeeper].
func (ctl *Control) Breakers() []admin.Breaker { return ctl.d.servers.Breakers() }

// ResetBreaker implements [admin.BreakerKeeper].
func (ctl *Control) ResetBreaker(server, tool string) error {
	return ctl.changed(&records.Change{What: "breaker.reset", Name: tool, Server: server}, ctl.d.servers.ResetBreaker(server, tool))
}

// RestartServer implements [admin.Restarter].
func (ctl *Control) RestartServer(server string) error {
	return ctl.changed(&records.Change{What: "servers.restart", Server: server}, ctl.d.reloads.restart(server))
}

// RebuildBudgets implements [admin.Budgets].
func (ctl *Control) RebuildBudgets(ctx context.Context) (string, error) {
	said, err := ctl.rebuildBudgets(ctx)
	if _, can := ctl.d.budgets.Store.(budget.Rebuilder); !can && err == nil {
		return said, nil // nothing was done
	}
	return said, ctl.changed(&records.Change{What: "budget.rebuild"}, err)
}

// AddedServers implements [admin.Adder].
func (ctl *Control) AddedServers(context.Context) ([]admin.AddedServer, error) {
	return ctl.d.added.All(), nil
}

// PromoteServer implements [admin.Adder].
func (ctl *Control) PromoteServer(ctx context.Context, server, reason string) error {
	err := ctl.d.added.Promote(ctx, server, ctl.by.change(reason))
	return ctl.changed(&records.Change{What: "servers.promote", Server: server, Reason: reason}, err)
}

// RemoveServer implements [admin.Adder].
func (ctl *Control) RemoveServer(ctx context.Context, server string) error {
	return ctl.changed(&records.Change{What: "servers.remove", Server: server}, ctl.d.added.RemoveAny(ctx, server))
}

// SetMode implements [admin.ModeKeeper].
func (ctl *Control) SetMode(ctx context.Context, mode, reason string) (admin.Mode, error) {
	return ctl.Set(ctx, mode, store.Change{Actor: ctl.by.name(), Reason: reason})
}

// Reload implements [admin.Gateway].
func (ctl *Control) Reload() (admin.Reloaded, error) {
	return ctl.d.reloads.as(ctl.by.name(), ctl.by.id)
}

// as reads the file again for somebody, and writes that into the audit log.
func (r *reloads) as(actor string, id *gate.Identity) (admin.Reloaded, error) {
	did, err := r.d.TakeFile(true)
	return did, r.d.records.Changed(actor, &records.Change{What: "reload", Name: did.File, Reason: strings.Join(did.Applied, "; "), Identity: id}, err)
}

// ChangeCatalog implements [admin.Cataloger]. Who has the admin role makes the change,
// whoever the request says does.
func (ctl *Control) ChangeCatalog(ctx context.Context, c admin.CatalogChange) (admin.CatalogEntry, error) {
	if ctl.by.id != nil {
		c.Actor = ctl.by.name()
	}
	e, err := ctl.changeCatalog(ctx, c)
	return e, ctl.d.records.Changed(c.Actor, &records.Change{What: "catalog." + c.Op, Name: c.Name, Server: e.Server, Reason: c.Reason, Identity: ctl.by.id}, err)
}

// SeedCatalog implements [admin.Cataloger], as ChangeCatalog does.
func (ctl *Control) SeedCatalog(ctx context.Context, s admin.CatalogSeed) (admin.CatalogSeeded, error) {
	if ctl.by.id != nil {
		s.Actor = ctl.by.name()
	}
	out, err := ctl.seedCatalog(ctx, s)
	return out, ctl.d.records.Changed(s.Actor, &records.Change{What: "catalog.seed", Name: s.File, Reason: s.Reason, Identity: ctl.by.id}, err)
}

// noteBreaker writes the new state of a circuit breaker into the audit log.
func (d *Daemon) noteBreaker(server, tool string, state guard.State, at time.Time) {
	entry := audit.Entry{
		Event: audit.EventChange, Time: at, Principal: audit.Principal{Subject: operate.Automatic}, Method: "toolgate/breaker", Kind: "breaker",
		Server: server, OriginalName: tool, Name: state.String(), Outcome: audit.OutcomeOK, Reason: "the circuit breaker is " + state.String(),
	}
	if err := d.records.Auditor().Append(&entry); err != nil {
		d.log.Error("audit entry not kept", "breaker", server, "tool", tool, "state", state, "err", err)
	}
	if state == guard.Open && tool == "" {
		d.announceBreaker(server)
	}
}
