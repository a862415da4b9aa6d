package daemon

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/mcp"
)

// statusTime bounds how long a status waits for the catalog.
const statusTime = time.Second

// Status implements admin.Gateway.
func (ctl *Control) Status() admin.Status {
	ctx, cancel := context.WithTimeout(context.Background(), statusTime)
	defer cancel()
	ctl.in.Gateway.Settle(ctx) // what is shown as ready can be called
	out := admin.Status{Servers: ctl.Servers(), Pending: []string{}, AtNextStart: []string{}}
	ctl.in.Operation.Status(&out, append(ctl.in.lost.problems(), ctl.in.registry.Stricter())...)
	if ctl.in.rates.Meter.Down() {
		out.Alarms = append(out.Alarms, "Redis did not answer when it was asked last: rates are held by each gateway by itself")
	}
	ctl.in.mu.Lock()
	defer ctl.in.mu.Unlock()
	for _, p := range ctl.in.pending {
		if p.Server == "" {
			out.Pending = append(out.Pending, p.What)
		}
	}
	out.Pending = append(out.Pending, ctl.in.tools.Pending()...)
	out.AtNextStart = append(out.AtNextStart, ctl.in.later...)
	return out
}

// Servers returns the state of every server, sorted by name.
func (ctl *Control) Servers() []admin.Server {
	running := ctl.in.List()
	ctl.in.mu.Lock()
	namespaces := ctl.in.namespaces
	waiting := make(map[string][]string) // by server
	for _, p := range ctl.in.pending {
		if p.Server != "" {
			waiting[p.Server] = append(waiting[p.Server], p.What)
		}
	}
	ctl.in.mu.Unlock()
	out := make([]admin.Server, 0, len(running))
	for _, s := range running {
		l, status := s.Listing()
		row := admin.Server{
			Name: s.Name(), Kind: s.Kind(), State: status.State.String(), Reason: status.Reason,
			Seconds: time.Since(status.Since).Seconds(), Tokens: build.ListingTokens(l),
		}
		row.Namespace, row.Sandbox = namespaces[s.Name()], layersOf(s)
		if l != nil {
			row.Stale, row.Era, row.Version = l.Stale, l.Era.String(), string(l.Version)
			row.Tools, row.Prompts = len(l.Items[mcp.Tool]), len(l.Items[mcp.Prompt])
			row.Resources, row.Templates = len(l.Items[mcp.Resource]), len(l.Items[mcp.Template])
		}
		row.SignIns = s.signIns()
		row.Reason = because(row.Reason, row.SignIns)
		var why string
		if row.Breaker, why = breakerState(s.guard); why != "" {
			row.Reason = strings.TrimPrefix(row.Reason+"; "+why, "; ")
		}
		if changes := waiting[s.Name()]; changes != nil {
			row.Pending = changes
			row.Reason = strings.TrimPrefix(row.Reason+"; "+pendingReason(changes), "; ")
			delete(waiting, s.Name())
		}
		out = append(out, row)
	}
	out = append(out, ctl.in.declaredRows()...)
	for _, row := range ctl.in.tools.Rows() {
		if len(row.Pending) > 0 {
			row.Reason = strings.TrimPrefix(row.Reason+"; "+pendingReason(row.Pending), "; ")
		}
		out = append(out, row)
	}
	for i := range out { // what servers print is in it
		out[i].Reason = ctl.in.Hidden.Shown(out[i].Reason)
	}
	for name, changes := range waiting {
		out = append(out, admin.Server{Name: name, State: "pending", Reason: pendingReason(changes), Pending: changes})
	}
	slices.SortFunc(out, func(a, b admin.Server) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// pendingReason says what an automatic reload has left undone (DESIGN 7).
func pendingReason(changes []string) string {
	return "waits for `toolgate reload`: " + strings.Join(changes, ", ")
}

// Activity implements [admin.Watched].
func (ctl *Control) Activity() admin.Activity {
	out := admin.Activity{Now: time.Now(), Sessions: ctl.in.Gateway.Sessions(), Tools: ctl.in.Records.Tools()}
	return out
}

// Logs implements [admin.Watched].
func (ctl *Control) Logs(server string) (admin.ServerLogs, error) {
	for _, s := range ctl.in.List() {
		if s.Name() != server {
			continue
		}
		if s.upstream == nil {
			return ctl.in.Hidden.Lines(nativeLogs(s)), nil
		}
		tail := s.upstream.Tail()
		return ctl.in.Hidden.Lines(admin.ServerLogs{Server: server, Process: tail.Process, Ended: tail.Ended, Lines: tail.Lines}), nil
	}
	return admin.ServerLogs{}, failure.Newf(failure.Usage, "there is no server %q; `toolgate ls` lists them", server)
}

// Capabilities implements [admin.CatalogLister].
func (ctl *Control) Capabilities(ctx context.Context) ([]admin.Capability, error) {
	ctl.in.Gateway.Settle(ctx)
	all := []admin.Capability{}
	for _, c := range ctl.in.Gateway.Capabilities() {
		all = append(all, admin.Capability{
			Kind: c.Kind.String(), Name: c.Exposed, Plain: c.Plain, Server: c.Server, Original: c.Original, CapabilityID: c.CapabilityID, Schema: c.Schema,
		})
	}
	return all, nil
}
