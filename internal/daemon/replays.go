package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/records"
)

// Policy implements [admin.PolicyReplayer].
func (ctl *Control) Policy(context.Context) (admin.Policy, error) { return ctl.d.replays.Policy(), nil }

// ReplayPolicy implements [admin.PolicyReplayer]. The audit log says who has done it, because
// a policy can tell what the calls of others carried.
func (ctl *Control) ReplayPolicy(ctx context.Context, q admin.PolicyReplay) (admin.PolicyReplayed, error) {
	if q.Since.IsZero() {
		q.Since = time.Now().Add(-admin.ReplaySince)
	}
	got, err := ctl.d.replays.Replay(ctx, q)
	if len(got.Problems) > 0 { // no call was looked at
		return got, nil
	}
	for i := range got.Changed {
		got.Changed[i].Reason = ctl.d.hidden.Shown(got.Changed[i].Reason)
	}
	what := fmt.Sprintf("%d calls since %s", got.Calls, q.Since.UTC().Format(time.RFC3339))
	if got.Arguments {
		what += ", with their arguments"
	}
	return got, ctl.changed(&records.Change{What: "policy.replay", Reason: what}, err)
}
