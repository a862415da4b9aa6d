package servers

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/proxy/guard"
)

// Breakers returns the state of every circuit breaker, sorted by server.
func (t *Table) Breakers() []admin.Breaker {
	out := []admin.Breaker{}
	guards := t.guards()
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

// ResetBreaker closes a circuit breaker; an empty tool is all those of the server.
func (t *Table) ResetBreaker(server, tool string) error {
	guard := t.guards()[server]
	if guard == nil {
		return fmt.Errorf("there is no server %q; `toolgate ls` lists them", server)
	}
	if !guard.Reset(tool) {
		return fmt.Errorf("the tool %q of the server %s has no circuit breaker of its own; leave it out to reset all of the server", tool, server)
	}
	t.o.Log.Info("circuit breaker reset by the operator", "server", server, "tool", tool)
	return nil
}

// BreakerElsewhere says that another gateway has stopped calling a server.
func (t *Table) BreakerElsewhere(server string) {
	if guard := t.guards()[server]; guard != nil {
		guard.Hint()
	}
}

// guards are those in front of servers, native tools and namespaces of declared tools, by
// name.
func (t *Table) guards() map[string]*guard.Guard {
	now := t.now.Load()
	out := make(map[string]*guard.Guard)
	for _, s := range now.servers {
		out[s.Name()] = s.guard
	}
	for name, n := range now.declared {
		out[name] = n.guard
	}
	return out
}

// breakerState is what `ls` shows of the breaker of a whole server: nothing while
// it is closed.
func breakerState(g *guard.Guard) (state, reason string) {
	b := g.Breakers()[0]
	switch b.State {
	case guard.Open:
		reason = "it keeps failing, so it is not called before " + b.Until.Local().Format(time.TimeOnly) + " unless it responds sooner"
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
