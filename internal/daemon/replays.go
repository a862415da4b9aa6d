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

// ReplayPolicy implements [admin.PolicyReplayer]. The audit log says who has run a policy, also
// one that has failed, because it can tell what the calls of others and the data files hold.
func (ctl *Control) ReplayPolicy(ctx context.Context, q admin.PolicyReplay) (admin.PolicyReplayed, error) {
	if q.Since.IsZero() {
		q.Since = time.Now().Add(-admin.ReplaySince)
	}
	got, begun, err := ctl.d.replays.Replay(ctx, q)
	if !begun {
		return got, err
	}
	for i := range got.Problems {
		got.Problems[i].Text = ctl.d.hidden.Shown(got.Problems[i].Text)
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
