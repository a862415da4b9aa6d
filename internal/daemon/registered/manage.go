package registered

import (
	"context"
	"fmt"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/admin"
)

// All returns the registered tools, for an administrator.
func (t *Tools) All() []admin.DynamicTool {
	list := t.tools()
	out := make([]admin.DynamicTool, 0, len(list))
	for i := range list {
		one := &list[i]
		who, _ := gate.ParsePrincipal(one.record.Owner.Principal)
		out = append(out, admin.DynamicTool{
			Name: one.record.Name, Template: one.record.Template, Problem: one.problem, Description: one.of.Description,
			Tenant: who.Tenant, Subject: who.Subject, Issuer: who.Issuer, CreatedAt: one.record.CreatedAt,
		})
	}
	return out
}

// Remove removes a registered tool, whoever registered it.
func (t *Tools) Remove(ctx context.Context, name string) error {
	ok, err := t.o.Store.Remove(ctx, name)
	if err == nil && !ok {
		err = fmt.Errorf("%w: %.100q; `toolgate tools dynamic ls` lists those that were registered", admin.ErrNoTool, name)
	}
	if err != nil {
		return err
	}
	return t.rows.Apply(ctx)
}
