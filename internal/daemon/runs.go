package daemon

import (
	"context"
	"fmt"
	"sync"
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

// Run implements [admin.Runs]. The search for secrets in all texts of a run has the time of
// that in one result.
func (ctl *Control) Run(ctx context.Context, id, principal string) (admin.RunDetails, error) {
	ctx, cancel := context.WithTimeout(ctx, operate.StoreTime)
	defer cancel()
	until := sync.OnceValue(func() time.Time { return time.Now().Add(ctl.d.Current().Toolgate.Limits.RedactTime) })
	return ctl.d.agents.Show(ctx, id, principal, func(text string, most int) (string, error) {
		clean, err := ctl.d.hidden.Beginning(text, most, until())
		if err != nil {
			err = fmt.Errorf("%w (limits.redact_time)", err)
		}
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
