package proxy

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/inflight"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// taskService finds the tasks that clients name, and keeps an index of each kind of
// tasks.
type taskService struct {
	g         *Gateway
	legacy    taskIndex // of 2025-11-25
	extension taskIndex // of 2026-07-28
}

// taskIndex remembers the owner and the tool of tasks of legacy servers. Their lists
// and notifications name tasks by the server's own id, on connections that may be
// shared. So a task that is not in the index is shown to nobody. The index is bounded.
// Tasks that drop out of it still answer requests with their id. It is safe for
// concurrent use.
type taskIndex struct {
	most, each int // tasks in total and of one principal

	mu    sync.Mutex
	tasks map[taskKey]*indexedTask
	of    map[string][]taskKey // by principal, oldest first
}

// taskPlace is the connection to which a legacy server's tasks belong, as [mcp.Answer]
// names it.
type taskPlace struct{ server, conn string }

func (p taskPlace) compare(q taskPlace) int {
	return cmp.Or(cmp.Compare(p.server, q.server), cmp.Compare(p.conn, q.conn))
}

// taskKey is a task by its server's own id.
type taskKey struct {
	taskPlace
	id string
}

type indexedTask struct {
	principal string
	rights    string // of the request that created it
	session   string // of the client that created it
	tool      string // by its name at the server
	sealed    string
	until     time.Time
	ended     bool // the server has said so
}

// maxTaskMemory is how long a task is remembered at most, and where its server sets no
// limit.
const maxTaskMemory = 24 * time.Hour

func newTaskIndex(most, each int) taskIndex {
	return taskIndex{most: most, each: each, tasks: make(map[taskKey]*indexedTask), of: make(map[string][]taskKey)}
}

// add adds a task that a client has created. state is the server's Task object.
func (b *taskIndex) add(x *Exchange, key taskKey, tool, sealed string, state []byte) {
	keep := maxTaskMemory
	for _, member := range [...]string{"ttl", "ttlMs"} { // of 2025-11-25, of the extension
		if ms, err := strconv.ParseFloat(string(mcp.Lookup(state, member)), 64); err == nil && ms >= 0 && ms < float64(keep.Milliseconds()) {
			keep = time.Duration(ms) * time.Millisecond
		}
	}
	principal := x.Identity.Key()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tasks[key] != nil {
		b.forget(key)
	}
	for len(b.of[principal]) >= b.each {
		b.forget(b.of[principal][0])
	}
	for len(b.tasks) >= b.most {
		b.forget(b.of[b.busiest()][0])
	}
	b.tasks[key] = &indexedTask{
		principal: principal, rights: x.Identity.Rights(), session: x.sessionID(), tool: tool, sealed: sealed, until: time.Now().Add(keep),
	}
	b.of[principal] = append(b.of[principal], key)
}

// busiest returns the principal with the most tasks; mu is held.
func (b *taskIndex) busiest() string {
	most := ""
	for principal, keys := range b.of {
		if n := len(keys); n > len(b.of[most]) || n == len(b.of[most]) && principal < most {
			most = principal
		}
	}
	return most
}

// forget removes a task; mu is held.
func (b *taskIndex) forget(key taskKey) {
	principal := b.tasks[key].principal
	delete(b.tasks, key)
	keys := b.of[principal]
	if i := slices.Index(keys, key); i >= 0 {
		b.of[principal] = slices.Delete(keys, i, i+1)
	}
	if len(b.of[principal]) == 0 {
		delete(b.of, principal)
	}
}

// find returns a task; ok is false when it is unknown.
func (b *taskIndex) find(key taskKey) (known indexedTask, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.tasks[key]; t != nil {
		return *t, true
	}
	return indexedTask{}, false
}

// update records a state of a task that the server reported.
func (b *taskIndex) update(key taskKey, state []byte) {
	if taskOver(state) {
		b.ended(key)
	}
}

// ended marks a task as ended.
func (b *taskIndex) ended(key taskKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.tasks[key]; t != nil {
		t.ended = true
	}
}

// sessions returns the sessions of a principal with tasks that may still run.
func (b *taskIndex) sessions(principal string) map[string]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make(map[string]bool)
	for _, key := range b.of[principal] {
		if t := b.tasks[key]; !t.ended && t.session != "" {
			out[t.session] = true
		}
	}
	return out
}

// places returns the places of a principal's tasks for which are returns true, sorted
// and without duplicates.
func (b *taskIndex) places(principal string, are func(key taskKey, t *indexedTask) bool) []taskPlace {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []taskPlace
	for _, key := range b.of[principal] {
		if are(key, b.tasks[key]) {
			out = append(out, key.taskPlace)
		}
	}
	slices.SortFunc(out, taskPlace.compare)
	return slices.Compact(out)
}

// forgetPlace removes the tasks of a principal at a connection that is gone.
func (b *taskIndex) forgetPlace(principal string, at taskPlace) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range slices.Clone(b.of[principal]) {
		if key.taskPlace == at {
			b.forget(key)
		}
	}
}

// sweep removes expired tasks.
func (b *taskIndex) sweep(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, t := range b.tasks {
		if now.After(t.until) {
			b.forget(key)
		}
	}
}

// taskOf returns the task that a notification is about, if it belongs to the connection
// that the notification came over.
func (n *notificationRelay) taskOf(ev *mcp.Event) (known indexedTask, ok bool) {
	id, ok := mcp.LookupString(ev.Params, "taskId")
	if !ok {
		return indexedTask{}, false
	}
	t, ok := n.g.tasks.legacy.find(taskKey{taskPlace{ev.Server, ev.Conn}, id})
	if !ok || ev.Principal != "" && ev.Principal != t.principal || ev.Session != "" && ev.Session != t.session ||
		ev.Rights != "" && ev.Rights != t.rights {
		return indexedTask{}, false
	}
	return t, true
}

// taskStatus tells the client that created a task its new state.
func (n *notificationRelay) taskStatus(ev *mcp.Event) {
	t, ok := n.taskOf(ev)
	if !ok {
		return
	}
	s := n.g.sessions.get(t.session)
	if to := n.g.snapshot.Load().catalog.byServer[ev.Server]; s != nil && to != nil && s.hasRights(ev.Rights) && n.viewsTool(s, ev.Server, t.tool) {
		state := to.redaction(n.g).state(ev.Params)
		s.notify(mcp.AppendNotification(nil, mcp.NotifyTaskStatus, mcp.RewriteMeta(withTaskID(state, t.sealed), nil)))
	}
}

// viewsTool reports whether all recipients of a session may view a tool of a server.
func (n *notificationRelay) viewsTool(s *Session, server, tool string) bool {
	snap := n.g.snapshot.Load()
	return allOf(s.recipients(), func(id *gate.Identity) bool {
		route := snap.catalogOf(id, s.clientFeatures()).tool(server, tool, s.scope)
		if route == nil {
			return false
		}
		x := &Exchange{Identity: id, Scope: s.scope, Session: s, Era: mcp.Legacy}
		d := snap.view(n.g.life, x, route)
		return d.Err == nil && d.Effect == gate.Allow
	})
}

// cancelsAtOnce bounds the concurrent cancellations of tasks.
const cancelsAtOnce = 16

// CancelTasks cancels the tasks for which which returns a refusal at their servers, and
// returns their number. It covers tasks that clients follow themselves, so that no call
// is under way; see [Gateway.CancelCalls] for the others. Tasks that another gateway
// created, or this one before its last start, are unknown here. CancelTasks waits for
// the servers until ctx ends. A server may ignore the cancellation, or have finished
// the task.
func (g *Gateway) CancelTasks(ctx context.Context, which func(*inflight.Call) *refusal.Error) int {
	catalogs := g.snapshot.Load().everyCatalog()
	var all sync.WaitGroup
	defer all.Wait()
	places := make(chan struct{}, cancelsAtOnce)
	n := 0
	for _, book := range [...]*taskIndex{&g.tasks.legacy, &g.tasks.extension} {
		for key, t := range book.all() {
			var route *Route
			for _, c := range catalogs { // its client may see things that others do not
				if route = c.tool(key.server, t.tool, Scope{}); route != nil {
					break
				}
			}
			if route == nil {
				continue
			}
			who, _ := gate.ParsePrincipal(t.principal) // nothing else is known of the caller
			question := route.question(gate.Call, gate.NewIdentity(gate.Identity{Principal: who}), Scope{})
			if which(&inflight.Call{Request: question, Listed: route.item}) == nil {
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
func (ts *taskService) cancelTask(ctx context.Context, r *Route, key taskKey, t *indexedTask) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
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

// all returns everything in the index.
func (b *taskIndex) all() map[taskKey]indexedTask {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make(map[taskKey]indexedTask, len(b.tasks))
	for key, t := range maps.All(b.tasks) {
		out[key] = *t
	}
	return out
}
