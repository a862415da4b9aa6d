package daemon

import (
	"context"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/records"
)

// This file declares tools in somebody's name.

// DeclaredTools implements [admin.Declarer].
func (ctl *Control) DeclaredTools(context.Context) ([]admin.DeclaredTool, error) {
	return ctl.d.tools.Stored(), nil
}

// DeclareTools implements [admin.Declarer].
func (ctl *Control) DeclareTools(ctx context.Context, d admin.Declaration) (admin.Declared, error) {
	out, err := ctl.d.tools.Declare(ctx, &d, ctl.by.change(d.Reason))
	return out, ctl.changed(&records.Change{What: "tools.declare", Name: d.File, Reason: d.Reason}, err)
}

// UndeclareTool implements [admin.Declarer].
func (ctl *Control) UndeclareTool(ctx context.Context, name, reason string) error {
	return ctl.changed(&records.Change{What: "tools.undeclare", Name: name, Reason: reason}, ctl.d.tools.Undeclare(ctx, name))
}

// DynamicTools implements [admin.Registrar].
func (ctl *Control) DynamicTools(context.Context) ([]admin.DynamicTool, error) {
	return ctl.d.registered.All(), nil
}

// RemoveDynamicTool implements [admin.Registrar].
func (ctl *Control) RemoveDynamicTool(ctx context.Context, name, reason string) error {
	return ctl.changed(&records.Change{What: "tools.dynamic.remove", Name: name, Reason: reason}, ctl.d.registered.Remove(ctx, name))
}
