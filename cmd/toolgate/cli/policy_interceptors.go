package cli

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/intercept"
)

// verdictChange is that of a call whose arguments an interceptor has changed.
const verdictChange = "change"

// replayedInterceptors asks the interceptors of a file about the calls of an audit log. Only
// webhooks can be asked without a gateway.
type replayedInterceptors struct {
	chain *intercept.Chain
	keys  *seal.Keyring
}

// interceptorsOf returns what asks the interceptors of a file; nil where it has none.
func interceptorsOf(c *config.Config, keys *seal.Keyring) *replayedInterceptors {
	chain := build.Interceptors(c.Toolgate.Interceptors, nil)
	if chain == nil {
		return nil
	}
	return &replayedInterceptors{chain, keys}
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
		if order := []string{"pass", verdictChange, verdictAsk, verdictError, "deny"}; slices.Index(order, s.Verdict) > max(slices.Index(order, said), 0) {
			said = s.Verdict
		}
	}
	if !reached {
		return ""
	}
	return said
}

// now asks about a call. decided is false if its arguments were not recorded, or if one that
// it meets is hosted by a plugin or a server.
func (i *replayedInterceptors) now(ctx context.Context, r *audit.Record) (verdict, reason string, decided bool) {
	for _, e := range i.chain.Met(intercept.Before, r.Name) {
		if e.Webhook.URL == "" {
			return "", "", false
		}
	}
	args, err := proxy.OpenInputs(i.keys, r.CallID, r.Inputs)
	if err != nil {
		return "", "", false
	}
	ruled := i.chain.Run(ctx, intercept.Before, &intercept.Call{
		ID: r.CallID, Method: r.Method, Principal: r.Principal.Subject, Tenant: r.Principal.Tenant, Server: r.Server, Name: r.Name,
	}, args, nil)
	switch d := ruled.Denied; {
	case d != nil && d.Err != nil:
		return verdictError, d.Reason, true
	case d != nil:
		return "deny", d.Reason, true
	case len(ruled.Demands) > 0:
		return verdictAsk, ruled.Demands[0].Reason, true
	case !bytes.Equal(ruled.Payload, args):
		return verdictChange, "", true
	}
	return "allow", "", true
}

// replay asks about the calls again.
func (i *replayedInterceptors) replay(ctx context.Context, l replayedLog) (replayed, error) {
	got := replayed{Changed: []replayedCall{}}
	err := l.each(func(r *audit.Record) error {
		was := i.was(r)
		if was == "" {
			got.NotAsked++
			return nil
		}
		now, reason, decided := i.now(ctx, r)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !decided, now == verdictError:
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
