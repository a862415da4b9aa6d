package profile

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/version"
	"github.com/toolgate/toolgate/upstream"
)

// poll is how often the state of a server is looked at, where nothing tells of a change.
const poll = 50 * time.Millisecond

// retries is the variable for how often npm asks a registry again, which it does for a
// minute. Without a network that only takes time.
const retries = "npm_config_fetch_retries"

// changes is what a server tells of itself.
type changes chan struct{}

// Changed implements upstream.Sink.
func (c changes) Changed(string) {
	select {
	case c <- struct{}{}:
	default: // it is told already
	}
}

// Happened implements upstream.Sink.
func (changes) Happened(mcp.Event) {}

// try starts the server once with grants, and waits until it has listed its tools or
// failed.
func (s *Search) try(ctx context.Context, g *grants, what string) trial {
	s.trials++
	if s.Log != nil {
		s.Log(what)
	}
	server := *s.Server
	set := g.sandbox()
	server.Sandbox, server.Disabled = &set, false
	if server.Fetched() && !g.network {
		server.Env = maps.Clone(server.Env)
		if server.Env == nil {
			server.Env = map[string]secret.Text{}
		}
		if _, there := server.Env[retries]; !there {
			server.Env[retries] = "0"
		}
	}
	spec := build.UpstreamSpec(&server, s.Config, false)
	spec.Sandbox.Check = s.Off.CheckGrants
	return start(ctx, spec)
}

func start(ctx context.Context, spec upstream.Spec) trial {
	told := make(changes, 1)
	server := upstream.New(spec, upstream.Options{
		Sink: told, Credential: upstream.NewStatic(nil), Logger: slog.New(slog.DiscardHandler),
		Identity: []byte(`{"name":"toolgate","version":` + string(mcp.Quote(version.Version)) + `}`),
		Shown:    func(text string) string { return text },
	})
	ctx, stop := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Run(ctx) // its state says what is wrong
	}()
	patience := time.NewTimer(spec.Timeouts.Start + spec.Timeouts.List)
	defer patience.Stop()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	out := trial{reason: "it does not answer"}
	for done := false; !done; {
		list, status := server.Listing()
		switch status.State {
		case mcp.Ready, mcp.Degraded:
			out.ready, done = true, true
			if list != nil {
				out.tools = len(list.Items[mcp.Tool])
			}
		case mcp.Failed, mcp.Disabled, mcp.Reconnecting, mcp.NeedsLogin:
			out.reason, done = status.Reason, true
		default:
			select {
			case <-told:
			case <-tick.C:
			case <-patience.C:
				done = true
			case <-ctx.Done():
				out.reason, done = ctx.Err().Error(), true
			}
		}
	}
	tail, before := server.Tails()
	out.said = append(append(out.said, before.Lines...), tail.Lines...)
	stop(errStopped)
	<-ended
	return out
}

var _ upstream.Sink = changes(nil)

// sandbox returns grants as settings.
func (g *grants) sandbox() upstream.Sandbox {
	set := upstream.Sandbox{Read: sorted(g.read), Network: "none", RunOwn: g.runOwn}
	if len(g.run) > 0 {
		set.Run = sorted(append(systemFolders(), g.run...))
	}
	if g.network {
		set.Network = "full"
	}
	return set
}
