package servers

import (
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/mcp"
)

// Rows returns the state of every server and of every namespace of declared tools.
// Reasons may hold what servers have printed.
func (t *Table) Rows() []admin.Server {
	now := t.now.Load()
	out := make([]admin.Server, 0, len(now.servers)+len(now.declared))
	for _, s := range now.list() {
		l, status := s.Listing()
		row := admin.Server{
			Name: s.Name(), Kind: s.Kind(), State: status.State.String(), Reason: status.Reason,
			Seconds: time.Since(status.Since).Seconds(), Namespace: now.plan.namespace(s.Name()), Sandbox: layersOf(s),
		}
		row.Tokens = build.ListingTokens(l, row.Namespace, row.Name)
		if l != nil {
			row.Stale, row.Era, row.Version = l.Stale, l.Era.String(), string(l.Version)
			row.Tools, row.Prompts = len(l.Items[mcp.Tool]), len(l.Items[mcp.Prompt])
			row.Resources, row.Templates = len(l.Items[mcp.Resource]), len(l.Items[mcp.Template])
		}
		if shared, ok := s.upstream.(alone); ok {
			row.Gateway, row.Moving = shared.At(), shared.Moving()
		}
		row.SignIns = s.signIns()
		row.Reason = because(row.Reason, row.SignIns)
		var why string
		if row.Breaker, why = breakerState(s.guard); why != "" {
			row.Reason = strings.TrimPrefix(row.Reason+"; "+why, "; ")
		}
		out = append(out, row)
	}
	return append(out, now.declaredRows()...)
}

// Logs returns the last lines that the process of a server has written to stderr, or those
// of the process before it; false where there is no such server.
func (t *Table) Logs(name string, previous bool) (admin.ServerLogs, bool) {
	s := t.now.Load().servers[name]
	if s == nil {
		return admin.ServerLogs{}, false
	}
	switch {
	case s.upstream == nil && previous: // what they wrote is kept together
		return admin.ServerLogs{Server: name}, true
	case s.upstream == nil:
		return nativeLogs(s), true
	}
	tail, before := s.upstream.Tails()
	switch {
	case !previous:
	case before.Process != 0:
		tail = before
	case s.replaced.Process != 0 || tail.Cause == "":
		tail = s.replaced
	} // else the only one has ended, and the next one has not answered yet
	return admin.ServerLogs{Server: name, Process: tail.Process, Ended: tail.Ended, Lines: tail.Lines, Cause: tail.Cause}, true
}
