package proxy

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/refusal"
)

const (
	// taskListTimeout bounds the wait for one server's page of tasks.
	taskListTimeout = 10 * time.Second
	// maxTaskPages is how many pages of servers make up one page of the gateway. Such a
	// page may be short, or empty, and still have a next one.
	maxTaskPages = 16
)

// checkTaskList validates a request for a list of tasks and counts it as one of a list.
func checkTaskList(c *call) error {
	if err := c.x.mayUseTasks(c.snap.Catalog(c.x)); err != nil {
		return err
	}
	return c.g.requests.Take(limit.Lists, c.x.Identity.Key())
}

// findTaskPage opens the cursor of the request.
func findTaskPage(c *call) (err error) {
	c.page, err = c.g.tasks.openTaskCursor(c.x)
	return err
}

// listTasks answers tasks/list of 2025-11-25 with the caller's own tasks at all servers
// in scope. It asks one connection after the other, because a legacy server keeps tasks
// per connection. Servers that do not answer are left out.
func listTasks(c *call) (_ response, err error) {
	g, x, from := c.g, c.x, c.page
	places := g.tasks.taskPlaces(c.snap, x, from.at)
	tasks := []byte(`{"tasks":[`)
	some := false
	add := func(task []byte) {
		if some {
			tasks = append(tasks, ',')
		}
		tasks, some = append(tasks, task...), true
	}
	for asked := 0; len(places) > 0 && asked < maxTaskPages && len(tasks) < g.opts.Limits.PageBytes; asked++ {
		if places[0] != from.at {
			from = taskCursor{at: places[0]}
		}
		if from.behind, err = g.tasks.tasksAt(c.ctx, c.snap, x, from, add); err != nil {
			return response{}, err
		}
		if from.behind == "" {
			places = places[1:]
		}
	}
	tasks = append(tasks, ']')
	if len(places) > 0 {
		if places[0] != from.at {
			from = taskCursor{at: places[0]}
		}
		next, err := g.opts.Keys.Seal(seal.Cursor, taskCursorContext(x), from.encode())
		if err != nil {
			return g.internalError("seal a cursor", err), nil
		}
		tasks = mcp.AppendQuote(append(tasks, `,"nextCursor":`...), next)
	}
	return response{result: append(tasks, '}')}, nil
}

// taskCursor is where a page of tasks begins: at a place, after the server's own
// cursor. An empty cursor is the beginning.
type taskCursor struct {
	at     taskPlace
	behind string
}

func (c *taskCursor) encode() []byte {
	return []byte(c.at.server + "\x00" + c.at.conn + "\x00" + c.behind)
}

func taskCursorContext(x *Exchange) string {
	return mcp.MethodTaskList + "\x00" + x.Scope.key() + "\x00" + x.Identity.Key()
}

func (ts *taskService) openTaskCursor(x *Exchange) (taskCursor, error) {
	raw := x.Message.Param("cursor")
	if raw == nil || string(raw) == "null" {
		return taskCursor{}, nil
	}
	text, err := mcp.Unquote(raw)
	if err == nil {
		var opened []byte
		if opened, err = ts.g.opts.Keys.Open(seal.Cursor, taskCursorContext(x), text); err == nil {
			server, rest, _ := strings.Cut(string(opened), "\x00")
			conn, behind, _ := strings.Cut(rest, "\x00")
			return taskCursor{taskPlace{server, conn}, behind}, nil
		}
	}
	return taskCursor{}, mcp.Errorf(mcp.CodeInvalidParams, "Invalid cursor")
}

// taskPlaces returns the places of the caller's tasks, beginning with from: at servers
// in scope that list tasks, and only of the caller's session where a server keeps
// sessions apart.
func (ts *taskService) taskPlaces(snap *Snapshot, x *Exchange, from taskPlace) []taskPlace {
	catalog := snap.Catalog(x)
	return ts.legacy.places(x.Identity.Key(), func(key taskKey, t *indexedTask) bool {
		s := catalog.byServer[key.server]
		return s != nil && s.hasTasks() && s.listing.Declares("tasks", "list") &&
			x.Scope.has(key.server) &&
			(!s.mount.PerSession || t.session == x.sessionID()) && key.compare(from) >= 0
	})
}

// tasksAt adds one page of the tasks at a place, and returns the server's cursor after
// it. Only tasks that the caller created, and whose tool it may view by the newest gate,
// are added. The error is that of the gate or of the context.
func (ts *taskService) tasksAt(ctx context.Context, snap *Snapshot, x *Exchange, from taskCursor, add func([]byte)) (behind string, err error) {
	catalog := snap.Catalog(x)
	s := catalog.byServer[from.at.server]
	if err := s.permits.Acquire(ctx, from.at.server, x.Identity.Key()); err != nil {
		return "", context.Cause(ctx)
	}
	defer s.permits.Release(x.Identity.Key())
	var params []byte
	if from.behind != "" {
		params = mcp.SetMember(nil, "cursor", mcp.Quote(from.behind))
	}
	call := ts.g.newCall(x, s, mcp.MethodTaskList, params)
	call.Progress, call.Timeout, call.Conn = false, taskListTimeout, from.at.conn
	got, err := s.backend.Call(ctx, call)
	if err != nil || got.Fault != nil {
		ts.g.log.Debug("tasks not listed", "server", from.at.server, "err", err, "fault", got.Fault)
		if errors.Is(orUnknown(err), errTask) {
			ts.legacy.forgetPlace(x.Identity.Key(), from.at)
		}
		return "", context.Cause(ctx)
	}
	tasks := mcp.Lookup(got.Result, "tasks")
	for e := range mcp.Elements(tasks) {
		state := e.Of(tasks)
		id, _ := mcp.LookupString(state, "taskId")
		known, ok := ts.legacy.find(taskKey{from.at, id})
		if !ok || known.principal != x.Identity.Key() {
			continue
		}
		ts.legacy.update(taskKey{from.at, id}, state)
		route := catalog.tool(from.at.server, known.tool, x.Scope)
		if route == nil {
			continue
		}
		d := ts.g.snapshot.Load().view(ctx, x, route)
		if d.Err != nil && !d.Undecidable() {
			return "", refusal.Undecided(d)
		}
		if d.Effect == gate.Allow {
			add(withTaskID(ts.g.redaction(route, nil).state(state), known.sealed))
		}
	}
	if behind, _ = mcp.LookupString(got.Result, "nextCursor"); behind == from.behind {
		behind = ""
	}
	return behind, nil
}
