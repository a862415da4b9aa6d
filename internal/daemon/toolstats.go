package daemon

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/native/enable"
	"github.com/toolgate/toolgate/proxy"
)

// statsScope is the scope with which a caller sees the statistics of its whole tenant.
const statsScope = "toolgate:stats"

// toolStats implements [enable.Stats] on the log of executions.
type toolStats struct{ d *Daemon }

var _ enable.Stats = toolStats{}

// ToolStats implements [enable.Stats].
func (s toolStats) ToolStats(ctx context.Context, since time.Time) ([]enable.Stat, string, error) {
	id, capsule := gate.CallerOf(ctx)
	if id == nil {
		return nil, "", errors.New("the call has no caller")
	}
	of, log := "you", s.d.records.Executions()
	var all []store.ToolStats
	var err error
	if slices.Contains(id.Scopes, statsScope) {
		of = "your tenant"
		all, err = log.StatsOfTenant(ctx, id.Tenant, since)
	} else {
		all, err = log.StatsOf(ctx, id.Key(), since)
	}
	if err != nil {
		return nil, "", err
	}
	var out []enable.Stat
	for i := range all {
		t := &all[i]
		if w := s.d.gateway.Why(ctx, id, proxy.Scope{Capsule: capsule}, t.Tool, nil); w == nil || w.Kind != mcp.Tool || w.View.Effect != gate.Allow {
			continue // it may have been allowed then
		}
		one := enable.Stat{
			Tool: t.Tool, Calls: t.Calls, SuccessRate: float64(t.Calls-t.Failures) / float64(t.Calls),
			MedianMS: milliseconds(t.Median), P95MS: milliseconds(t.P95), LastError: t.LastError,
		}
		if t.LastError != "" {
			one.LastErrorAt = &t.LastErrorAt
		}
		out = append(out, one)
	}
	return out, of, nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
