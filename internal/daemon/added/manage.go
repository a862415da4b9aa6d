package added

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/store"
)

// All returns the added servers, for an administrator.
func (s *Servers) All() []admin.AddedServer {
	added := s.records()
	out := make([]admin.AddedServer, 0, len(added))
	for i := range added {
		r := &added[i]
		who, _ := gate.ParsePrincipal(r.Owner.Principal)
		a := s.describe(r)
		arguments := make([]string, 0, len(a.Arguments))
		for _, name := range slices.Sorted(maps.Keys(a.Arguments)) {
			arguments = append(arguments, name+"="+a.Arguments[name])
		}
		out = append(out, admin.AddedServer{
			Server: r.Server, Offer: r.Entry, Arguments: arguments, State: a.State, Reason: a.Reason,
			Tenant: who.Tenant, Subject: who.Subject, Issuer: who.Issuer, Promoted: r.Promoted, CreatedAt: r.CreatedAt,
		})
	}
	return out
}

// Promote makes an added server available to everyone.
func (s *Servers) Promote(ctx context.Context, server string, by store.Change) error {
	ok, err := s.o.Store.Promote(ctx, server, by)
	return s.hasChanged(ctx, server, ok, err)
}

// RemoveAny removes an added server, whoever added it.
func (s *Servers) RemoveAny(ctx context.Context, server string) error {
	ok, err := s.o.Store.Remove(ctx, server)
	return s.hasChanged(ctx, server, ok, err)
}

// hasChanged applies a change of the store.
func (s *Servers) hasChanged(ctx context.Context, server string, ok bool, err error) error {
	if err == nil && !ok {
		err = fmt.Errorf("%w: %s; `toolgate servers ls` lists those that were added", admin.ErrNoServer, cmp.Or(server, "(none)"))
	}
	if err != nil {
		return err
	}
	return s.rows.Apply(ctx)
}
