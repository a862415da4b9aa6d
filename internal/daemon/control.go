package daemon

import (
	"errors"
	"net/http"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/console"
	"github.com/toolgate/toolgate/internal/daemon/operate"
	"github.com/toolgate/toolgate/internal/daemon/records"
	"github.com/toolgate/toolgate/internal/daemon/signin"
	"github.com/toolgate/toolgate/internal/daemon/tries"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/proxy/auth"
)

// Control is a gateway as somebody administers it: all that is changed has their name.
// It implements [admin.Gateway] and what else a gateway may be asked.
type Control struct {
	signin.Commands
	records.Reader
	operate.Modes
	tries.Caller
	d  *Daemon
	by actor
}

// Control returns the gateway as an operator of this machine administers it.
func (d *Daemon) Control() *Control { return d.control(actor{}) }

func (d *Daemon) control(by actor) *Control {
	return &Control{Commands: d.signIn.Commands(), Reader: d.records.Reader(), Modes: d.operation.Modes(), Caller: d.tries.Caller(by.id), d: d, by: by}
}

// actor is who administers a gateway: somebody with the admin role, or where there is
// no identity an operator of this machine, who is known by the admin token alone.
type actor struct{ id *gate.Identity }

// name is the actor for people.
func (a actor) name() string {
	if a.id == nil {
		return admin.Operator()
	}
	return approval.Name(a.id)
}

// change is what the store keeps of a change by the actor.
func (a actor) change(reason string) store.Change {
	if a.id == nil {
		return store.Change{Actor: gate.ByOperator, Reason: reason}
	}
	return store.Change{Actor: a.name(), Reason: reason}
}

// changed writes into the audit log what the actor has done, or has tried to, and
// returns err.
func (ctl *Control) changed(c *records.Change, err error) error {
	c.Identity = ctl.by.id
	return ctl.d.records.Changed(ctl.by.name(), c, err)
}

// Admit implements [admin.Admitter]. A token is judged as one of the main
// endpoint.
func (ctl *Control) Admit(r *http.Request) (admin.Gateway, error) {
	if !ctl.d.identities.Authenticated() {
		return nil, gate.ErrBadCredential
	}
	g, err := ctl.d.identities.Bearer(r)
	switch {
	case errors.Is(err, auth.ErrUnavailable):
		return nil, errors.Join(admin.ErrLater, err)
	case err != nil:
		return nil, err
	case !ctl.d.Current().Toolgate.Auth.Admins.Has(g.Identity):
		ctl.d.log.Warn("the administration is refused to a caller without the role", "principal", g.Identity)
		return nil, admin.ErrNotAdmin
	}
	return ctl.d.control(actor{g.Identity}), nil
}

// What a gateway may be asked.
var (
	_ admin.Gateway        = (*Control)(nil)
	_ admin.Admitter       = (*Control)(nil)
	_ admin.Explainer      = (*Control)(nil)
	_ admin.PolicyReplayer = (*Control)(nil)
	_ admin.Finder         = (*Control)(nil)
	_ admin.Learner        = (*Control)(nil)
	_ admin.Cataloger      = (*Control)(nil)
	_ admin.ModeKeeper     = (*Control)(nil)
	_ admin.BreakerKeeper  = (*Control)(nil)
	_ admin.Restarter      = (*Control)(nil)
	_ admin.Replicas       = (*Control)(nil)
	_ admin.CatalogLister  = (*Control)(nil)
	_ admin.Approvals      = (*Control)(nil)
	_ admin.UsageReader    = (*Control)(nil)
	_ admin.Adder          = (*Control)(nil)
	_ admin.Watched        = (*Control)(nil)
	_ admin.Logins         = (*Control)(nil)
	_ admin.Declarer       = (*Control)(nil)
	_ admin.Budgets        = (*Control)(nil)
	_ admin.Runs           = (*Control)(nil)
	_ admin.AuditReader    = (*Control)(nil)
	_ admin.CallReader     = (*Control)(nil)
	_ admin.ConsoleOpener  = (*Control)(nil)
	_ admin.Tries          = (*Control)(nil)
	_ console.Model        = (*Control)(nil)
)
