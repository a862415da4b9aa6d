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
	"github.com/toolgate/toolgate/proxy/refusal"
)

// taskService finds the tasks that clients name, and keeps a book of those of each
// kind.
type taskService struct {
	g         *Gateway
	legacy    taskIndex // of 2025-11-25
	extension taskIndex // of 2026-07-28
}

// taskIndex remembers whose the tasks of legacy servers are and which tool they
// came of. Their lists and notifications name tasks by the server's own id, on
// connections that may be shared, so that what is not in the book is shown to
// nobody. It is bounded: beyond that the oldest are forgotten, and can still be
// asked about by who has their id. It is safe for concurrent use.
type taskIndex struct {
	most, each int // tasks in all and of one principal

	mu    sync.Mutex
	tasks map[taskKey]*indexedTask
	of    map[string][]taskKey // by principal, oldest first
}

// taskPlace is where a legacy server keeps tasks: a connection, as [mcp.Answer]
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
	rights    string // of the request that made it
	session   string // of the client that made it
	tool      string // by its name at the server
	sealed    string
	until     time.Time
	ended     bool // its server has said so
}

// maxTaskMemory is how long a task is remembered at most, and where its server
// sets no limit.
const maxTaskMemory = 24 * time.Hour

func newTaskIndex(most, each int) taskIndex {
	return taskIndex{most: most, each: each, tasks: make(map[taskKey]*indexedTask), of: make(map[string][]taskKey)}
}

// add notes a task that a client has made. state is the server's Task.
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

// x returns the principal with the most tasks; mu is held.
func (b *taskIndex) busiest() string {
	most := ""
	for principal, keys := range b.of {
		if n := len(keys); n > len(b.of[most]) || n == len(b.of[most]) && principal < most {
			most = principal
		}
	}
	return most
}

// forget takes a task out; mu is held.
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

// find returns a task, with ok false when it is not known.
func (b *taskIndex) find(key taskKey) (known indexedTask, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.tasks[key]; t != nil {
		return *t, true
	}
	return indexedTask{}, false
}

// update notes what a server has said of a task.
func (b *taskIndex) update(key taskKey, state []byte) {
	if taskOver(state) {
		b.ended(key)
	}
}

// ended notes that a task runs no more.
func (b *taskIndex) ended(key taskKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.tasks[key]; t != nil {
		t.ended = true
	}
}

// sessions returns the sessions of a principal with tasks of which the end is not
// known.
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

// places returns where the tasks of a principal are of which are says so, each
// once and sorted.
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

// forgetPlace forgets the tasks of a principal at a place that is no more.
func (b *taskIndex) forgetPlace(principal string, at taskPlace) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range slices.Clone(b.of[principal]) {
		if key.taskPlace == at {
			b.forget(key)
		}
	}
}

// sweep forgets the tasks whose time is over.
func (b *taskIndex) sweep(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, t := range b.tasks {
		if now.After(t.until) {
			b.forget(key)
		}
	}
}

// taskOf returns the task that some news of a server is about, if that belongs to the
// connection which it came over.
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

// taskStatus tells the client that made a task what has become of it.
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

// viewsTool tells whether all who hear a session may view a tool of a server.
func (n *notificationRelay) viewsTool(s *Session, server, tool string) bool {
	snap := n.g.snapshot.Load()
	return allOf(s.recipients(), func(id *gate.Identity) bool {
		route := snap.catalogOf(id, s.clientFeatures()).tool(server, tool, s.scope)
		if route == nil {
			return false
		}
		x := &Exchange{Identity: id, Scope: s.scope, Session: s, Era: mcp.Legacy}
		d := snap.decide(n.g.life, gate.View, x, route, nil, nil)
		return d.Err == nil && d.Effect == gate.Allow
	})
}

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
	for _, book := range [...]*taskIndex{&g.tasks.legacy, &g.tasks.extension} {
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

// all returns what is remembered now.
func (b *taskIndex) all() map[taskKey]indexedTask {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make(map[taskKey]indexedTask, len(b.tasks))
	for key, t := range maps.All(b.tasks) {
		out[key] = *t
	}
	return out
}
