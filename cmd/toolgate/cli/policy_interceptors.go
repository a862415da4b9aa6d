package cli

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/hosted"
	"github.com/toolgate/toolgate/internal/daemon/replay"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/intercept"
)

// verdictChange is that of a call whose arguments an interceptor has changed.
const verdictChange = "change"

// replayedInterceptors asks the interceptors of a file about the calls of an audit log.
type replayedInterceptors struct {
	chain *intercept.Chain
	keys  *seal.Keyring
}

// replayInterceptors asks the interceptors of a file about the calls of a log. What hosts them
// runs meanwhile for the command alone.
func replayInterceptors(ctx context.Context, c *config.Config, state *statedir.Dir, keys *seal.Keyring, l replayedLog) (replayed, error) {
	if len(c.Toolgate.Interceptors) == 0 {
		return replayed{}, failure.Newf(failure.Config, "%s has no interceptors", c.Path)
	}
	hosts, err := hosted.Start(ctx, c, build.KeepOff(c, build.OwnFiles(c, state)), slog.New(slog.DiscardHandler))
	if err != nil {
		return replayed{}, failure.New(failure.Config, err)
	}
	defer hosts.Close()
	without := hosts.Without()
	for _, key := range slices.Sorted(maps.Keys(without)) {
		output.Note("the interceptors of %s are not asked: %s", key, without[key])
	}
	asked := &replayedInterceptors{build.Interceptors(c.Toolgate.Interceptors, hosts), keys}
	return asked.replay(ctx, l)
}

// was returns what interceptors have said of a call before it was delivered; empty if it did
// not reach them.
func (*replayedInterceptors) was(r *audit.Record) string {
	said, reached := "allow", false
	for _, s := range r.Steps {
		name, is := strings.CutPrefix(s.Phase, "interceptor/")
		reached = reached || is || s.Phase == "rates"
		if !is || strings.HasSuffix(name, "/after") {
			continue
		}
		said = stronger(said, s.Verdict)
	}
	if !reached {
		return ""
	}
	return said
}

// stronger returns which of two verdicts says more about a call. Those of audit mode say
// less than all others.
func stronger(said, next string) string {
	order := []string{"pass", "would " + verdictChange, "would " + replay.Asks, "would deny", verdictChange, replay.Asks, replay.Failed, "deny"}
	if slices.Index(order, next) > max(slices.Index(order, said), 0) {
		return next
	}
	return said
}

// recorded reports whether a record has all that interceptors were asked about: arguments
// that one of them has changed are recorded as changed, and the capsule is not recorded.
func recorded(r *audit.Record) bool {
	return !slices.ContainsFunc(r.Steps, func(s audit.Step) bool {
		intercepted := strings.HasPrefix(s.Phase, "interceptor/") && !strings.HasSuffix(s.Phase, "/after")
		return intercepted && s.Verdict == verdictChange || s.Phase == "capsule" && s.Verdict == gate.Allow.String()
	})
}

// delivered reports whether a call has a result, or a server's error in place of it.
func delivered(r *audit.Record) bool {
	return r.Event != audit.EventBegin && (r.Outcome == audit.OutcomeOK || r.Outcome == audit.OutcomeToolError || r.Outcome == audit.OutcomeError && r.UpstreamUS > 0)
}

// now asks about a call. decided is false if what they were asked about was not recorded, or
// if one of them fails.
func (i *replayedInterceptors) now(ctx context.Context, r *audit.Record) (verdict, reason string, decided bool) {
	if !recorded(r) {
		return "", "", false
	}
	args, err := proxy.OpenInputs(i.keys, r.CallID, r.Inputs)
	if err != nil {
		return "", "", false
	}
	verdict, decided = "allow", true
	i.chain.Run(ctx, intercept.Before, &intercept.Call{
		ID: r.CallID, Method: r.Method, Principal: r.Principal.Subject, Tenant: r.Principal.Tenant, Server: r.Server, Name: r.Name,
	}, args, func(e intercept.Event) {
		decided = decided && e.Verdict != replay.Failed
		if next := stronger(verdict, e.Outcome()); next != verdict {
			verdict, reason = next, e.Reason
		}
	})
	return verdict, reason, decided
}

// replay asks about the calls again.
func (i *replayedInterceptors) replay(ctx context.Context, l replayedLog) (replayed, error) {
	got := replayed{Changed: []replayedCall{}}
	err := l.each(func(r *audit.Record) error {
		if delivered(r) && len(i.chain.Met(intercept.After, r.Name)) > 0 {
			got.Results++
		}
		was := i.was(r)
		if was == "" {
			got.NotAsked++
			return nil
		}
		now, reason, decided := i.now(ctx, r)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !decided:
			got.Undecidable++
		case now == was:
			got.Same++
		default:
			got.Changed = append(got.Changed, replayedCall{
				ID: r.CallID, Time: r.Time, Who: r.Principal.Subject, Tenant: r.Principal.Tenant, Tool: r.Name, Was: was, Now: now, Reason: reason,
			})
		}
		return nil
	})
	return got, told(err)
}
