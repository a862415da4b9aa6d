package proxy

import (
	"context"
	"maps"
	"sync"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// cancelsAtOnce is how many tasks are cancelled at the same time.
const cancelsAtOnce = 16

// CancelTasks has the tasks cancelled at their servers for which which returns a
// refusal, and returns how many they were. These are tasks that clients drive
// themselves, so that no call is under way; of the others see
// [Gateway.CancelCalls]. Tasks that another gateway began, or this one before its
// last start, are not known here. It waits for the servers until the context
// ends. What came of a task is up to its server, which may have ended it.
func (g *Gateway) CancelTasks(ctx context.Context, which func(*RunningCall) *refusal.Error) int {
	catalogs := g.snapshot.Load().everyCatalog()
	var all sync.WaitGroup
	defer all.Wait()
	places := make(chan struct{}, cancelsAtOnce)
	n := 0
	for _, book := range [...]*taskBook{&g.tasks.legacy, &g.tasks.extension} {
		for key, t := range book.all() {
			var route *Route
			for _, c := range catalogs { // its client may be shown what others are not
				if route = c.tool(key.server, t.tool, Scope{}); route != nil {
					break
				}
			}
			if route == nil {
				continue
			}
			who, _ := gate.ParsePrincipal(t.principal) // all that is known of the caller
			question := route.question(gate.Call, gate.NewIdentity(gate.Identity{Principal: who}), Scope{})
			if which(&RunningCall{Request: question, Listed: route.item}) == nil {
				continue
			}
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
				return n
			}
			n++
			all.Go(func() { // ends with its deadline
				defer func() { <-places }()
				g.tasks.cancelTask(ctx, route, key, &t)
			})
		}
	}
	return n
}

// cancelTask cancels a task at its server.
func (ts *taskService) cancelTask(ctx context.Context, r *Route, key taskKey, t *bookedTask) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	call := &mcp.Call{
		Method: mcp.MethodTaskCancel, Params: mcp.SetMember(nil, "taskId", mcp.Quote(key.id)),
		Principal: t.principal, Session: t.session, Rights: t.rights, Conn: key.conn,
	}
	if l := r.to.listing; l != nil && (l.Era == mcp.Modern || l.Eras == 2) && key.conn == "" {
		call.Era = mcp.Modern
		call.Exact, call.Capabilities = true, withTasks(nil)
	}
	if _, err := r.to.backend.Call(ctx, call); err != nil {
		ts.g.log.Warn("a task was not cancelled at its server", "server", r.Server, "tool", r.Exposed, "err", err)
	}
}

// all returns what is remembered now.
func (b *taskBook) all() map[taskKey]bookedTask {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make(map[taskKey]bookedTask, len(b.tasks))
	for key, t := range maps.All(b.tasks) {
		out[key] = *t
	}
	return out
}
