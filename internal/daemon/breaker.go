package daemon

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/proxy/guard"
)

// Breakers implements [admin.BreakerKeeper].
func (ctl *Control) Breakers() []admin.Breaker {
	out := []admin.Breaker{}
	guards := ctl.in.guards()
	for _, server := range slices.Sorted(maps.Keys(guards)) {
		for _, b := range guards[server].Breakers() {
			one := admin.Breaker{
				Server: b.Backend, Tool: b.Tool, State: b.State.String(), Since: b.Since, Failures: b.Failures, Opens: b.Opens, Why: b.Why,
			}
			if !b.Until.IsZero() {
				one.Until = &b.Until
			}
			out = append(out, one)
		}
	}
	return out
}

func (ctl *Control) resetBreaker(server, tool string) error {
	guard := ctl.in.guards()[server]
	if guard == nil {
		return fmt.Errorf("there is no server %q; see `toolgate ls`", server)
	}
	if !guard.Reset(tool) {
		return fmt.Errorf("the tool %q of the server %s has no circuit breaker of its own; leave it out to reset all of the server", tool, server)
	}
	ctl.in.Log.Info("circuit breaker reset by the operator", "server", server, "tool", tool)
	return nil
}

// guards are those before servers, native tools and namespaces of declared tools, by
// name.
func (in *Daemon) guards() map[string]*guard.Guard {
	out := make(map[string]*guard.Guard)
	for _, s := range in.List() {
		out[s.Name()] = s.guard
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for namespace, s := range in.declared {
		if s.guard != nil {
			out[namespace] = s.guard
		}
	}
	return out
}

// breakerState is what `ls` shows of the breaker of a whole server: nothing while
// it is closed.
func breakerState(g *guard.Guard) (state, reason string) {
	b := g.Breakers()[0]
	switch b.State {
	case guard.Open:
		reason = "it keeps failing, so it is not called before " + b.Until.Local().Format(time.TimeOnly) + " unless it gives a sign of life"
	case guard.HalfOpen:
		reason = "it kept failing; the next call shows whether it still does"
	case guard.Closed:
		return "", ""
	}
	if b.Why != "" {
		reason += " (" + b.Why + ")"
	}
	return b.State.String(), reason
}
