package proxy

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// listened is a task that a subscription follows (SEP-2663, Task Status
// Notifications). Servers may leave notifications out, and a state that was
// missed would not come again; so the gateway looks at the task itself, as its
// client would, in the server's interval and behind the gate and the mode. A subscription
// makes one look at a time.
type listened struct {
	*task
	due  time.Time
	wait time.Duration
	told [sha256.Size]byte // of the state that the client knows
	over bool
}

// tasksIn returns the tasks of a filter that the client may follow, at most so
// many as a subscription may have.
func (ts *taskService) tasksIn(ctx context.Context, x *Exchange, asked []byte) []*listened {
	var out []*listened
	seen := make(map[string]bool)
	for e := range mcp.Elements(asked) {
		sealed, err := mcp.Unquote(e.Of(asked))
		if err != nil || seen[sealed] {
			continue
		}
		if len(out) == ts.g.opts.Limits.ListenTasks {
			break
		}
		t, err := ts.openTask(ts.g.snapshot.Load(), x, sealed)
		if err != nil {
			continue
		}
		if _, err := ts.permitTask(ctx, x, t); err != nil {
			continue
		}
		seen[sealed] = true
		out = append(out, &listened{task: t})
	}
	return out
}

// follow tells the client what becomes of the tasks that it listens for: their
// present state, and each that is another. It returns when all have ended or
// the context has.
func (l *listen) follow(ctx context.Context, g *Gateway) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next := soonest(l.tasks)
		if next == nil {
			return
		}
		timer.Reset(time.Until(next.due))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		state, err := g.observe(ctx, l.x, next.task)
		var fault *mcp.Error
		switch {
		case ctx.Err() != nil:
			return
		case errors.As(orUnknown(err), &fault) && fault.Code == mcp.CodeInvalidParams:
			next.over = true // there is no such task any more, or not for this client
		case err != nil:
			next.wait = min(max(2*next.wait, usualPoll), maxPoll)
		default:
			l.tell(next, state)
			next.wait = pollInterval(state)
		}
		next.due = time.Now().Add(next.wait)
	}
}

// soonest returns the task to look at next, nil when all are over.
func soonest(tasks []*listened) *listened {
	var next *listened
	for _, t := range tasks {
		if !t.over && (next == nil || t.due.Before(next.due)) {
			next = t
		}
	}
	return next
}

// observe returns the state of a task as its client sees it. It costs what it costs
// a client to ask for that.
func (g *Gateway) observe(ctx context.Context, x *Exchange, t *task) ([]byte, error) {
	c := g.newRequest(x, &planObserve, mcp.Tool, t.route.Exposed)
	c.rec.entry.Method = mcp.MethodTaskGet // by which budgets know it
	c.task = t
	defer c.settle() // where the server's side of it panics
	if err := c.pass(ctx); err != nil {
		return nil, err
	}
	return c.answer.result, nil
}

// findObserved finds the task anew, as it may be another since the last look.
func (c *call) findObserved() error {
	t, err := c.g.tasks.openTask(c.snap, c.x, c.task.sealed)
	if err != nil {
		return err
	}
	c.task, c.approved = t, t.approved
	c.found(t.route)
	return nil
}

// prepareObserved makes the request for the state of the task.
func (c *call) prepareObserved() error {
	params := mcp.SetMember(nil, "taskId", mcp.Quote(c.task.id))
	c.request = c.g.newCall(c.x, c.route.to, mcp.MethodTaskGet, params)
	c.request.Progress, c.request.LogLevel, c.request.Conn = false, "", c.task.conn
	return nil
}

// observed asks for the state of the task.
func (c *call) observed() (reply, error) {
	got, err := c.route.to.backend.Call(c.ctx, c.request)
	if err := c.carried(&got, err); err != nil {
		return reply{}, err
	}
	if got.Fault != nil {
		return reply{}, c.g.redaction(c.route, nil).fault(got.Fault)
	}
	state, err := c.exposeTask(got.Result)
	return reply{result: mcp.RewriteMeta(mcp.RemoveMember(state, "resultType"), nil)}, err
}

// tell sends a state that the client does not know yet. One for which there is
// no room is sent with the next look.
func (l *listen) tell(t *listened, state []byte) {
	sum := sha256.Sum256(state)
	if sum != t.told {
		if !l.box.offer(mcp.AppendNotification(nil, mcp.NotifyTask, mcp.RewriteMeta(state, l.meta))) {
			return
		}
		t.told = sum
	}
	t.over = t.over || taskOver(state)
}

// taskOver tells whether a state of a task is one that no other follows.
func taskOver(state []byte) bool {
	status, _ := mcp.LookupString(state, "status")
	return status == "completed" || status == "failed" || status == "cancelled"
}
