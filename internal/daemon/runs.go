package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/operate"
)

// Runs implements [admin.Runs].
func (ctl *Control) Runs(ctx context.Context, q admin.RunQuery) ([]admin.Run, error) {
	ctx, cancel := context.WithTimeout(ctx, operate.StoreTime)
	defer cancel()
	return ctl.d.agents.List(ctx, q)
}

// redactTime bounds the search for secrets in one text that an operator is shown.
const redactTime = time.Second

// Run implements [admin.Runs].
func (ctl *Control) Run(ctx context.Context, id, principal string) (admin.RunDetails, error) {
	ctx, cancel := context.WithTimeout(ctx, operate.StoreTime)
	defer cancel()
	return ctl.d.agents.Show(ctx, id, principal, func(text string) (string, error) {
		clean, _, err := ctl.d.hidden.Text(text, time.Now().Add(redactTime))
		return clean, err
	})
}

// CancelRun implements [admin.Runs].
func (ctl *Control) CancelRun(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, operate.StoreTime)
	defer cancel()
	ok, err := ctl.d.agents.CancelRun(ctx, "", id)
	if err == nil && !ok {
		err = fmt.Errorf("%w that could end: %q", admin.ErrNoRun, id)
	}
	return err
}
