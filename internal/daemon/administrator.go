package daemon

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/records"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/proxy/auth"
)

// administrator is a gateway as somebody with the admin role administers it: all
// that is changed has their name.
type administrator struct {
	*Daemon
	id *gate.Identity
}

// Admit implements [admin.Admitter]. A token is judged as one of the main
// endpoint.
func (in *Daemon) Admit(r *http.Request) (admin.Gateway, error) {
	if !in.Identities.Authenticated() {
		return nil, gate.ErrBadCredential
	}
	g, err := in.Identities.Bearer(r)
	switch {
	case errors.Is(err, auth.ErrUnavailable):
		return nil, errors.Join(admin.ErrLater, err)
	case err != nil:
		return nil, err
	case !Administers(in.Current().Toolgate.Auth.Admins, g.Identity):
		in.Log.Warn("the administration is refused to a caller without the role", "principal", g.Identity)
		return nil, admin.ErrNotAdmin
	}
	return administrator{in, g.Identity}, nil
}

// Administers tells whether somebody has the admin role.
func Administers(admins []config.Admin, id *gate.Identity) bool {
	return slices.ContainsFunc(admins, func(a config.Admin) bool {
		switch {
		case id.Issuer != cmp.Or(a.Issuer, auth.KeyIssuer), id.Tenant != cmp.Or(a.Tenant, gate.DefaultTenant):
			return false
		case a.Subject != "":
			return a.Subject == id.Subject
		}
		return a.Group != "" && slices.Contains(id.Groups, a.Group)
	})
}

func (a administrator) name() string { return approval.Name(a.id) }

func (a administrator) by(reason string) store.Change {
	return store.Change{Actor: a.name(), Reason: reason}
}

// SetMode implements [admin.ModeKeeper].
func (a administrator) SetMode(ctx context.Context, mode, reason string) (admin.Mode, error) {
	return a.Set(ctx, mode, a.by(reason))
}

// ChangeCatalog implements [admin.Cataloger], whoever the request says makes the
// change.
func (a administrator) ChangeCatalog(ctx context.Context, c admin.CatalogChange) (admin.CatalogEntry, error) {
	c.Actor = a.name()
	return a.changeCatalogAs(ctx, c, a.id)
}

// SeedCatalog implements [admin.Cataloger].
func (a administrator) SeedCatalog(ctx context.Context, s admin.CatalogSeed) (admin.CatalogSeeded, error) {
	s.Actor = a.name()
	return a.seedCatalogAs(ctx, s, a.id)
}

// PromoteServer implements [admin.Adder].
func (a administrator) PromoteServer(ctx context.Context, server, reason string) error {
	err := a.added.Promote(ctx, server, a.by(reason))
	return a.Records.Changed(a.name(), &records.Change{What: "servers.promote", Server: server, Reason: reason, Identity: a.id}, err)
}

// Answer implements [admin.Approvals]: as an operator and as whoever it is, so
// that it never counts for a call of their own.
func (a administrator) Answer(ctx context.Context, id string, said admin.Answer) (approval.Item, error) {
	return a.answerAs(ctx, id, said, approval.Answerer{Name: a.name(), Operator: true, Identity: a.id, Hash: said.Hash})
}
