package daemon

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/failure"
)

// statusTime bounds how long a status waits for the catalog.
const statusTime = time.Second

// Status implements admin.Gateway.
func (ctl *Control) Status() admin.Status {
	ctx, cancel := context.WithTimeout(context.Background(), statusTime)
	defer cancel()
	ctl.d.gateway.Settle(ctx) // what is shown as ready can be called
	out := admin.Status{Servers: ctl.Servers(), Pending: []string{}, AtNextStart: []string{}}
	ctl.d.operation.Status(&out, append(ctl.d.orphaned.problems(), ctl.d.registry.Stricter())...)
	if ctl.d.rates.Meter.Down() {
		out.Alarms = append(out.Alarms, "Redis did not answer when it was asked last: rates are held by each gateway by itself")
	}
	if problem := ctl.d.vectors.Problem(); problem != "" {
		out.Alarms = append(out.Alarms, "find.embeddings: "+problem)
	}
	if why := ctl.d.settings.whyRefused(); why != "" {
		out.Alarms = append(out.Alarms, ctl.d.hidden.Shown("reload refused; the old configuration stays in force: "+why))
	}
	pending, later := ctl.d.settings.waiting()
	for _, p := range pending {
		if p.Server == "" {
			out.Pending = append(out.Pending, p.What)
		}
	}
	out.Pending = append(out.Pending, ctl.d.tools.Pending()...)
	out.AtNextStart = append(out.AtNextStart, later...)
	return out
}

// Servers returns the state of every server, sorted by name.
func (ctl *Control) Servers() []admin.Server {
	pending, _ := ctl.d.settings.waiting()
	waiting := make(map[string][]string) // by server
	for _, p := range pending {
		if p.Server != "" {
			waiting[p.Server] = append(waiting[p.Server], p.What)
		}
	}
	out := ctl.d.servers.Rows()
	unreviewed := ctl.d.registry.Unreviewed()
	for i := range out {
		out[i].Pending = waiting[out[i].Name]
		delete(waiting, out[i].Name)
		if of, ok := unreviewed[out[i].Name]; ok {
			out[i].Unreviewed = unreviewedOf(&of)
			out[i].Reason = strings.TrimPrefix(out[i].Reason+"; "+unreviewedReason(&of), "; ")
		}
	}
	out = append(out, ctl.d.tools.Rows()...)
	for i := range out {
		row := &out[i]
		if len(row.Pending) > 0 {
			row.Reason = strings.TrimPrefix(row.Reason+"; "+pendingReason(row.Pending), "; ")
		}
		row.Reason = ctl.d.hidden.Shown(row.Reason) // what servers print is in it
	}
	for name, changes := range waiting {
		out = append(out, admin.Server{Name: name, State: "pending", Reason: pendingReason(changes), Pending: changes})
	}
	slices.SortFunc(out, func(a, b admin.Server) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// pendingReason says what an automatic reload has left undone.
func pendingReason(changes []string) string {
	return "waits for `toolgate reload`: " + strings.Join(changes, ", ")
}

// Activity implements [admin.Watched].
func (ctl *Control) Activity() admin.Activity {
	sessions, _ := ctl.d.gateway.Load()
	return admin.Activity{Now: time.Now(), Sessions: sessions, Tools: ctl.d.records.Tools()}
}

// Logs implements [admin.Watched].
func (ctl *Control) Logs(server string, previous bool) (admin.ServerLogs, error) {
	if logs, ok := ctl.d.servers.Logs(server, previous); ok {
		return ctl.d.hidden.Lines(logs), nil
	}
	return admin.ServerLogs{}, failure.Newf(failure.Usage, "there is no server %q; `toolgate ls` lists them", server)
}

// Capabilities implements [admin.CatalogLister].
func (ctl *Control) Capabilities(ctx context.Context) ([]admin.Capability, error) {
	ctl.d.gateway.Settle(ctx)
	all := []admin.Capability{}
	for _, c := range ctl.d.gateway.Capabilities() {
		all = append(all, admin.Capability{
			Kind: c.Kind.String(), Name: c.Exposed, Unsuffixed: c.Unsuffixed, Server: c.Server, Original: c.Original, CapabilityID: c.CapabilityID, Schema: c.Schema,
		})
	}
	return all, nil
}
