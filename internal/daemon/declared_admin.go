package daemon

import (
	"context"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/records"
	"github.com/toolgate/toolgate/internal/store"
)

// This file declares tools in somebody's name.

// DeclaredTools implements [admin.Declarer].
func (in *Daemon) DeclaredTools(context.Context) ([]admin.DeclaredTool, error) {
	return in.tools.Stored(), nil
}

// DeclareTools implements [admin.Declarer].
func (in *Daemon) DeclareTools(ctx context.Context, d admin.Declaration) (admin.Declared, error) {
	out, err := in.tools.Declare(ctx, &d, store.Change{Actor: gate.ByOperator, Reason: d.Reason})
	return out, in.Records.Changed(admin.Operator(), &records.Change{What: "tools.declare", Name: d.File, Reason: d.Reason}, err)
}

// UndeclareTool implements [admin.Declarer].
func (in *Daemon) UndeclareTool(ctx context.Context, name, reason string) error {
	return in.Records.Changed(admin.Operator(), &records.Change{What: "tools.undeclare", Name: name, Reason: reason}, in.tools.Undeclare(ctx, name))
}

// DeclareTools implements [admin.Declarer].
func (a administrator) DeclareTools(ctx context.Context, d admin.Declaration) (admin.Declared, error) {
	out, err := a.tools.Declare(ctx, &d, a.by(d.Reason))
	return out, a.Records.Changed(a.name(), &records.Change{What: "tools.declare", Name: d.File, Reason: d.Reason, Identity: a.id}, err)
}

// UndeclareTool implements [admin.Declarer].
func (a administrator) UndeclareTool(ctx context.Context, name, reason string) error {
	return a.Records.Changed(a.name(), &records.Change{What: "tools.undeclare", Name: name, Reason: reason, Identity: a.id}, a.tools.Undeclare(ctx, name))
}
