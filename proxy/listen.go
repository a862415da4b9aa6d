package proxy

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/refusal"
	"github.com/toolgate/toolgate/proxy/stream"
)

// listen is one subscriptions/listen request of a modern client (2026-07-28
// basic/patterns/subscriptions).
type listen struct {
	x       *Exchange
	methods map[string]bool // list changes that the client wants
	meta    []byte          // the member of _meta that names the subscription
	box     *stream.Queue
	revoked chan struct{}   // closed when the caller has lost its access
	tasks   []*followedTask // used by the goroutine that follows them

	mu   sync.Mutex
	subs []*subscription
	told map[string]time.Time // when the client was last told of a change of a list
}

// serveListen answers subscriptions/listen. The request stays open: it acknowledges the
// subscription and then delivers notifications until the client or the gateway ends it.
func serveListen(g *Gateway, ctx context.Context, x *Exchange) response {
	filter := x.Message.Param("notifications")
	if !mcp.IsObject(filter) {
		return errorResponse(mcp.Errorf(mcp.CodeInvalidParams, `Invalid params: "notifications" must be an object`))
	}
	l := &listen{
		x: x, methods: make(map[string]bool), told: make(map[string]time.Time), box: g.newQueue(), revoked: make(chan struct{}),
		meta: append([]byte(`"`+mcp.MetaSubscriptionID+`":`), x.Message.ID...),
	}
	asked := mcp.Lookup(filter, "taskIds")
	if asked != nil && !x.knowsTasks() {
		return errorResponse(errNoTasks)
	}
	if err := g.requests.Take(limit.Lists, x.Identity.Key()); err != nil {
		return g.refuse(x, err)
	}
	if !g.listens.add(l) {
		return g.refuse(x, refusal.TooManySubscriptions)
	}
	defer g.endListen(l)
	l.tasks = g.tasks.tasksIn(ctx, x, asked)
	x.responder.ask(ctx, l.acknowledge(ctx, g, filter)) // waits for room in the queue
	if len(l.tasks) > 0 {
		following, stop := context.WithCancel(ctx)
		var follower sync.WaitGroup
		follower.Go(func() { l.follow(following, g) })
		defer follower.Wait()
		defer stop()
	}
	for {
		select {
		case <-l.box.Waiting():
			if raw := l.box.Take(); raw != nil {
				x.responder.ask(ctx, raw)
			}
		case <-ctx.Done():
			if g.life.Err() != nil {
				continue // on a bidirectional stream both end at once
			}
			return response{silent: true}
		case <-x.inputEnded():
			return response{silent: true}
		case <-l.revoked:
			return response{silent: true}
		case <-g.life.Done():
			return response{result: append(append([]byte(`{"resultType":"complete","_meta":{`), l.meta...), "}}"...)}
		}
	}
}

// acknowledge subscribes to what the filter asks for and returns the notification that
// says which parts are honoured.
func (l *listen) acknowledge(ctx context.Context, g *Gateway, filter []byte) []byte {
	honoured := []byte(`{`)
	member := func(text string) {
		if len(honoured) > 1 {
			honoured = append(honoured, ',')
		}
		honoured = append(honoured, text...)
	}
	for _, kind := range []mcp.Kind{mcp.Tool, mcp.Prompt, mcp.Resource} {
		name := kind.Feature() + "ListChanged"
		if string(mcp.Lookup(filter, name)) == "true" {
			l.mu.Lock()
			l.methods[kind.Changed()] = true
			l.mu.Unlock()
			member(`"` + name + `":true`)
		}
	}
	if asked := mcp.Lookup(filter, "resourceSubscriptions"); mcp.IsArray(asked) {
		list := []byte(`"resourceSubscriptions":[`)
		count := 0
		for e := range mcp.Elements(asked) {
			uri, err := mcp.Unquote(e.Of(asked))
			if err != nil || count == g.opts.Limits.Watches || !l.watch(ctx, g, uri) {
				continue
			}
			if count++; count > 1 {
				list = append(list, ',')
			}
			list = mcp.AppendQuote(list, uri)
		}
		member(string(append(list, ']')))
	}
	if mcp.IsArray(mcp.Lookup(filter, "taskIds")) {
		list := []byte(`"taskIds":[`)
		for i, t := range l.tasks {
			if i > 0 {
				list = append(list, ',')
			}
			list = mcp.AppendQuote(list, t.sealed)
		}
		member(string(append(list, ']')))
	}
	params := append([]byte(`{"_meta":{`), l.meta...)
	params = append(params, `},"notifications":`...)
	params = append(params, honoured...)
	return mcp.AppendNotification(nil, mcp.NotifyAcknowledged, append(params, "}}"...))
}

func (l *listen) watch(ctx context.Context, g *Gateway, uri string) bool {
	sub, err := g.listenTo(ctx, l.x, l, uri)
	if err != nil {
		return false
	}
	l.mu.Lock()
	l.subs = append(l.subs, sub)
	l.mu.Unlock()
	return true
}

func (l *listen) owner() (principal, session string) {
	return l.x.Identity.Key(), l.x.sessionID()
}

// exchanges implements [subscriber].
func (l *listen) exchanges() []*Exchange { return []*Exchange{l.x} }

// updated implements [subscriber].
func (l *listen) updated(params []byte) {
	l.box.Offer(mcp.AppendNotification(nil, mcp.NotifyResourceUpdated, mcp.RewriteMeta(params, l.meta)))
}

// wants reports whether the client listens for changes of a list.
func (l *listen) wants(method string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.methods[method]
}

// listChanged tells the client about a changed list, if it listens for that.
func (l *listen) listChanged(method string) {
	if !l.wants(method) {
		return
	}
	l.mu.Lock()
	l.told[method] = time.Now()
	l.mu.Unlock()
	l.offerChanged(method)
}

func (l *listen) offerChanged(method string) {
	l.box.Offer(mcp.AppendNotification(nil, method, mcp.RewriteMeta(nil, l.meta)))
}

// repeat tells the client again what it was told after a time.
func (l *listen) repeat(after time.Time) {
	l.mu.Lock()
	var again []string
	for method, at := range l.told {
		if at.After(after) {
			again = append(again, method)
		}
	}
	l.mu.Unlock()
	for _, method := range again {
		l.offerChanged(method)
	}
}

// listens are the open subscriptions. It is safe for concurrent use.
type listens struct {
	each int // most of one principal

	mu  sync.Mutex
	all map[*listen]bool
}

// add registers a subscription, within the limit of its principal.
func (t *listens) add(l *listen) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := 0
	for other := range t.all {
		if other.x.Identity.Key() == l.x.Identity.Key() {
			own++
		}
	}
	if own >= t.each {
		return false
	}
	t.all[l] = true
	return true
}

// remove unregisters a subscription.
func (t *listens) remove(l *listen) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, l)
}

// list returns the open subscriptions.
func (t *listens) list() []*listen {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.all))
}

// revoke ends the subscriptions of callers for whom keep returns false.
func (t *listens) revoke(keep func(*gate.Identity) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for l := range t.all {
		if !keep(l.x.Identity) {
			close(l.revoked)
			delete(t.all, l)
		}
	}
}

// endListen ends a subscription and everything that it watches.
func (g *Gateway) endListen(l *listen) {
	g.listens.remove(l)
	l.mu.Lock()
	subs := l.subs
	l.subs = nil
	l.mu.Unlock()
	if len(subs) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	for _, sub := range subs {
		g.watches.unwatch(ctx, l, sub)
	}
}

// followedTask is a task that a subscription follows (SEP-2663, Task Status
// Notifications). Servers may omit notifications, and a missed state would not come
// again. So the gateway polls the task as its client would: in the server's interval,
// and through the gate and the mode. A subscription polls one task at a time.
type followedTask struct {
	*task
	due  time.Time
	wait time.Duration
	told [sha256.Size]byte // the last state that the client was sent
	over bool
}

// tasksIn returns the tasks of a filter that the client may follow, up to the limit of
// a subscription.
func (ts *taskService) tasksIn(ctx context.Context, x *Exchange, asked []byte) []*followedTask {
	var out []*followedTask
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
		out = append(out, &followedTask{task: t})
	}
	return out
}

// follow tells the client the current state of its tasks, and then each new state. It
// returns when all tasks have ended or the context has.
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
		state, err := g.pollTask(ctx, l.x, next.task)
		var fault *mcp.Error
		switch {
		case ctx.Err() != nil:
			return
		case errors.As(orUnknown(err), &fault) && fault.Code == mcp.CodeInvalidParams:
			next.over = true // the task is gone, or hidden from this client
		case err != nil:
			next.wait = min(max(2*next.wait, defaultPoll), maxPoll)
		default:
			l.sendTaskState(next, state)
			next.wait = pollInterval(state)
		}
		next.due = time.Now().Add(next.wait)
	}
}

// soonest returns the task to poll next, nil when all have ended.
func soonest(tasks []*followedTask) *followedTask {
	var next *followedTask
	for _, t := range tasks {
		if !t.over && (next == nil || t.due.Before(next.due)) {
			next = t
		}
	}
	return next
}

// pollTask returns the state of a task as its client sees it. It costs as much as a
// client's own request for it.
func (g *Gateway) pollTask(ctx context.Context, x *Exchange, t *task) ([]byte, error) {
	c := g.newRequest(x, &planPollTask, mcp.Tool, t.route.Exposed)
	c.rec.entry.Method = mcp.MethodTaskGet // the method under which budgets know it
	c.task = t
	defer c.settle() // in case the server's side panics
	if err := c.pass(ctx); err != nil {
		return nil, err
	}
	return c.answer.result, nil
}

// findPolledTask resolves the task again, because it may have changed since the last
// poll.
func findPolledTask(c *call) error {
	t, err := c.g.tasks.openTask(c.snap, c.x, c.task.sealed)
	if err != nil {
		return err
	}
	c.task, c.approved = t, t.approved
	c.setRoute(t.route)
	return nil
}

// preparePoll makes the request for the state of the task.
func preparePoll(c *call) error {
	params := mcp.SetMember(nil, "taskId", mcp.Quote(c.task.id))
	c.request = c.g.newCall(c.x, c.route.to, mcp.MethodTaskGet, params)
	c.request.Progress, c.request.LogLevel, c.request.Conn = false, "", c.task.conn
	return nil
}

// executePoll asks for the state of the task.
func executePoll(c *call) (response, error) {
	defer c.noteChange()()
	got, err := c.route.to.backend.Call(c.ctx, c.request)
	if err := c.settleRound(&got, err); err != nil {
		return response{}, err
	}
	if got.Fault != nil {
		return response{}, c.g.redaction(c.route, nil).fault(got.Fault)
	}
	// The server may have taken its time, and this state may be the last, with the result.
	if err := c.decideAgain(); err != nil {
		return response{}, err
	}
	state, err := c.exposeTask(got.Result)
	return response{result: mcp.RewriteMeta(mcp.RemoveMember(state, "resultType"), nil)}, err
}

// sendTaskState sends a state that the client does not know yet. If the queue is full,
// the next poll sends it.
func (l *listen) sendTaskState(t *followedTask, state []byte) {
	sum := sha256.Sum256(state)
	if sum != t.told {
		if !l.box.Offer(mcp.AppendNotification(nil, mcp.NotifyTask, mcp.RewriteMeta(state, l.meta))) {
			return
		}
		t.told = sum
	}
	t.over = t.over || taskOver(state)
}

// taskOver reports whether a task in this state has ended.
func taskOver(state []byte) bool {
	status, _ := mcp.LookupString(state, "status")
	return status == "completed" || status == "failed" || status == "cancelled"
}
