package proxy

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// This file follows tasks for clients that cannot. 2026-07-28 and 2025-11-25 have
// different kinds of tasks, and other revisions have none. The gateway creates the
// task, polls it in the server's interval, has its questions answered in the client's
// own way, and returns its result as the result of the call.

const (
	// defaultHard bounds the total time of a call whose mount sets no bound.
	defaultHard = 30 * time.Minute
	// A task is polled in the interval that its server asks for, within bounds. Without
	// one it is polled every defaultPoll.
	minPoll, defaultPoll, maxPoll = 100 * time.Millisecond, time.Second, 30 * time.Second
	// maxPollFailures is how many polls in a row may fail before the call does.
	maxPollFailures = 3
)

// taskRun is a task that the gateway follows for a client.
type taskRun struct {
	d     *serverRequests
	route *Route
	id    string    // the server's own
	call  *mcp.Call // requests about the task are derived from it

	lastDecision time.Time // time of the last decision
}

// run sends a call to its server. If the server insists on a task that the client
// cannot use, run follows it to its end.
func (d *serverRequests) run(ctx context.Context, r *Route, call *mcp.Call) (mcp.Answer, error) {
	legacy := r.to.listing.Era == mcp.Legacy
	switch {
	case call.Method != mcp.MethodToolsCall:
	case legacy && r.tasks == tasksRequired && mcp.LookupSpan(call.Params, "task").Absent():
		return d.drive(ctx, r, call, mcp.Legacy)
	case d.x != nil && d.x.Era == mcp.Legacy && (!legacy || r.to.otherEraOf != nil && r.to.otherEraOf.listing.Other == nil):
		if knowTasks(call.Capabilities) {
			return d.drive(ctx, r, call, mcp.Modern)
		}
		got, err := d.send(ctx, r, call)
		switch {
		case err != nil || got.Fault == nil:
			return got, err
		case got.Era == mcp.Legacy && got.Fault.Code == mcp.CodeMethodNotFound && mcp.LookupSpan(call.Params, "task").Absent():
			// A server of both eras may be known by its modern lists alone, which do not say
			// that the tool runs only as a task (2025-11-25 basic/utilities/tasks).
			return d.drive(ctx, r, call, mcp.Legacy)
		case needsTasks(got.Fault):
			call.Capabilities = withTasks(call.Capabilities) // also for later rounds
			return d.drive(ctx, r, call, mcp.Modern)
		}
		return got, nil
	}
	return d.send(ctx, r, call)
}

// send sends a call itself, whose result may lie in the memory of the call.
func (d *serverRequests) send(ctx context.Context, r *Route, call *mcp.Call) (mcp.Answer, error) {
	call.Memory = d.memory
	defer func() { call.Memory = nil }() // requests that are derived from it have none
	return r.to.backend.Call(ctx, call)
}

// needsTasks reports whether a modern server refused a call because the client does not
// declare tasks.
func needsTasks(fault *mcp.Error) bool {
	return fault != nil && fault.Code == mcp.CodeMissingCapability &&
		mcp.Lookup(fault.Data, "requiredCapabilities", "extensions", mcp.ExtensionTasks) != nil
}

func knowTasks(capabilities []byte) bool {
	return mcp.Lookup(capabilities, "extensions", mcp.ExtensionTasks) != nil
}

// withTasks returns client capabilities that declare tasks.
func withTasks(capabilities []byte) []byte {
	extensions := mcp.Lookup(capabilities, "extensions")
	if !mcp.IsObject(extensions) {
		extensions = nil
	}
	return mcp.SetMember(capabilities, "extensions", mcp.SetMember(extensions, mcp.ExtensionTasks, []byte("{}")))
}

// drive sends a call that may become a task, on a connection of an era.
func (d *serverRequests) drive(ctx context.Context, r *Route, call *mcp.Call, era mcp.Era) (mcp.Answer, error) {
	ctx, cancel := r.bounded(ctx, r.taskTimeout())
	defer cancel()
	begin := *call
	if era == mcp.Legacy {
		ttl := strconv.AppendInt([]byte(`{"ttl":`), r.hard().Milliseconds(), 10)
		begin.Params = mcp.SetMember(call.Params, "task", append(ttl, '}'))
	}
	got, err := r.to.backend.Call(ctx, &begin)
	return d.follow(ctx, r, call, got, err)
}

// follow returns the result of a call. If the call created a task of a kind that the
// client does not know, it returns the task's result, and cancels the task when the
// call ends before. It decides on the task again while it runs, and before its result
// is delivered.
func (d *serverRequests) follow(ctx context.Context, r *Route, call *mcp.Call, made mcp.Answer, err error) (mcp.Answer, error) {
	state := taskOf(&made)
	if err != nil || state == nil {
		return made, err
	}
	d.delivered.Store(true)
	id, _ := mcp.LookupString(state, "taskId")
	if id == "" {
		return mcp.Answer{}, badTask(r)
	}
	ctx, cancel := r.bounded(ctx, r.taskTimeout())
	defer cancel()
	about := *call
	about.Conn = made.Conn
	run := &taskRun{d: d, route: r, id: id, call: &about, lastDecision: time.Now()}
	d.relatedUp = relatedTask(id)
	end := run.awaitLegacyTask
	if made.Era == mcp.Modern {
		end = run.awaitModernTask
	}
	got, err := end(ctx, state)
	if err == nil {
		err = d.decideAgain(ctx)
	}
	if err != nil {
		run.cancel(ctx)
		return mcp.Answer{}, err
	}
	return got, nil
}

// taskOf returns the state of the task that a call created, nil when it created none.
func taskOf(made *mcp.Answer) []byte {
	if made.Era == mcp.Legacy {
		if state := mcp.Lookup(made.Result, "task"); mcp.IsObject(state) {
			return state
		}
		return nil
	}
	if kind, _ := mcp.LookupString(made.Result, "resultType"); kind == mcp.ResultTask {
		return made.Result
	}
	return nil
}

// hard bounds the total time of one call of the route.
func (r *Route) hard() time.Duration {
	own := time.Duration(0)
	if r.shape != nil {
		own = r.shape.Hard
	}
	return cmp.Or(own, r.to.mount.Hard, defaultHard)
}

// taskTimeout bounds a call that the gateway follows as a task. It is the tool's own
// timeout where it has one, because nothing tells whether a task makes progress.
func (r *Route) taskTimeout() time.Duration {
	if r.shape != nil && r.shape.Timeout > 0 {
		return min(r.shape.Timeout, r.hard())
	}
	return r.hard()
}

// bounded returns a context that ends with the timeout of a task.
func (r *Route) bounded(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, &mcp.Failure{
		Kind: mcp.FailTimeout, Origin: mcp.OriginServer, Server: r.Server, Delivered: true,
		Reason: "The task of the server " + r.Server + " did not end within " + limit.String() + ".",
	})
}

// awaitLegacyTask waits until a task of 2025-11-25 has ended and returns the result of
// its call. The server asks its questions on an open tasks/result request. That request
// is only opened once there are questions, so that waiting for the end holds nothing.
func (t *taskRun) awaitLegacyTask(ctx context.Context, state []byte) (mcp.Answer, error) {
	for lost := 1; ; lost++ {
		if status, _ := mcp.LookupString(state, "status"); status == "working" {
			lost--
		} else {
			call := t.request(mcp.MethodTaskResult, nil)
			call.Kind, call.Key, call.Timeout = mcp.Tool, t.route.Original, t.route.hard()
			call.Notify, call.Progress = t.call.Notify, t.call.Progress
			call.Ask, call.Askable = t.call.Ask, t.call.Askable
			got, err := t.route.to.backend.Call(ctx, call)
			if lost > maxPollFailures || !isTransient(ctx, err) {
				return got, err
			}
		}
		got, err := t.pollNext(ctx, state)
		if err != nil || got.Fault != nil {
			return got, err
		}
		state = got.Result
	}
}

// awaitModernTask waits until a task of the extension has ended and returns the result
// of its call. It puts each question of the task to the legacy client once.
func (t *taskRun) awaitModernTask(ctx context.Context, state []byte) (mcp.Answer, error) {
	answered := make(map[string]bool)
	for rounds := 0; ; {
		switch status, _ := mcp.LookupString(state, "status"); status {
		case "completed":
			if result := mcp.Lookup(state, "result"); mcp.IsObject(result) {
				return mcp.Answer{Result: result, Era: mcp.Modern}, nil
			}
			return mcp.Answer{}, badTask(t.route)
		case "failed":
			if fault := mcp.Lookup(state, "error"); mcp.IsObject(fault) {
				return mcp.Answer{Fault: mcp.ParseError(fault), Era: mcp.Modern}, nil
			}
			return mcp.Answer{}, badTask(t.route)
		case "cancelled":
			return mcp.Answer{}, refusal.TaskCancelled(t.route.Server)
		case "input_required":
			open := unanswered(mcp.Lookup(state, "inputRequests"), answered)
			if open == nil {
				break // the task has not processed its answers yet
			}
			if rounds++; rounds > maxRounds {
				return mcp.Answer{}, tooManyRounds(t.route)
			}
			if fault, err := t.answer(ctx, open); err != nil || fault != nil {
				return mcp.Answer{Fault: fault, Era: mcp.Modern}, err
			}
		}
		got, err := t.pollNext(ctx, state)
		if err != nil || got.Fault != nil {
			return got, err
		}
		state = got.Result
	}
}

// unanswered returns the questions that are not in answered, and adds them to it. It
// returns nil when there are none. Keys are unique during the life of a task.
func unanswered(requests []byte, answered map[string]bool) []byte {
	if !mcp.IsObject(requests) {
		return requests
	}
	var edits []string
	some := false
	for m := range mcp.Members(requests) {
		key, err := mcp.Unquote(m.Key(requests))
		if err == nil && answered[key] {
			edits = append(edits, key)
			continue
		}
		some = true
		if len(answered) < maxRounds*maxInputs {
			answered[key] = true
		}
	}
	if !some {
		return nil
	}
	for _, key := range edits {
		requests = mcp.RemoveMember(requests, key)
	}
	return requests
}

// answer has the questions of a task answered, behind the gate, and sends the answers
// to the server.
func (t *taskRun) answer(ctx context.Context, requests []byte) (*mcp.Error, error) {
	responses, err := t.d.askInputRequests(ctx, t.route, mcp.SetMember(nil, "inputRequests", requests))
	if err != nil {
		return nil, err
	}
	if err := t.d.decideAgain(ctx); err != nil {
		return nil, err
	}
	got, err := t.route.to.backend.Call(ctx, t.request(mcp.MethodTaskUpdate, responses))
	return got.Fault, err
}

// request returns a request about the task.
func (t *taskRun) request(method string, responses []byte) *mcp.Call {
	params := append(append([]byte(`{"taskId":`), mcp.Quote(t.id)...), '}')
	if responses != nil {
		params = mcp.SetMember(params, "inputResponses", responses)
	}
	return &mcp.Call{
		Method: method, Params: params, Capabilities: t.call.Capabilities, LogLevel: t.call.LogLevel,
		Principal: t.call.Principal, Session: t.call.Session, Rights: t.call.Rights, Token: t.call.Token, Exact: t.call.Exact, Era: t.call.Era, Conn: t.call.Conn,
	}
}

// poll asks for the state of the task.
func (t *taskRun) poll(ctx context.Context) (mcp.Answer, error) {
	return t.route.to.backend.Call(ctx, t.request(mcp.MethodTaskGet, nil))
}

// pollNext waits for the interval of the task and polls it. A failed poll is repeated,
// because it changes nothing.
func (t *taskRun) pollNext(ctx context.Context, state []byte) (mcp.Answer, error) {
	for lost := 1; ; lost++ {
		if err := t.pause(ctx, pollInterval(state)); err != nil {
			return mcp.Answer{}, err
		}
		if got, err := t.poll(ctx); lost > maxPollFailures || !isTransient(ctx, err) {
			if err == nil {
				err = t.decideIfOld(ctx)
			}
			return got, err
		}
	}
}

// decideIfOld decides again on a running task, unless that was done just now. When the gate
// cannot decide at the moment, the task goes on: nothing is delivered until it can.
func (t *taskRun) decideIfOld(ctx context.Context) error {
	if time.Since(t.lastDecision) <= maxDecisionAge {
		return nil
	}
	err := t.d.decideAgain(ctx)
	t.lastDecision = time.Now()
	if refused, ok := errors.AsType[*refusal.Error](err); ok && refused.Code == refusal.CodeUnavailable && refused.Err != nil {
		return nil //nolint:nilerr // it goes on
	}
	return err
}

// isTransient reports whether a failed request may succeed when it is repeated.
func isTransient(ctx context.Context, err error) bool {
	failure, ok := errors.AsType[*mcp.Failure](err)
	if !ok || ctx.Err() != nil {
		return false
	}
	return failure.Kind == mcp.FailUnavailable || failure.Kind == mcp.FailTimeout || failure.Kind == mcp.FailBusy
}

// pause waits. Meanwhile the call holds no permit for the server, except for a
// suspended call, whose permit belongs to the waiting request.
func (t *taskRun) pause(ctx context.Context, wait time.Duration) error {
	if t.d.suspended == nil {
		t.d.releaseWhileAsking(+1)
		defer t.d.releaseWhileAsking(-1)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pollInterval is how long to wait before the next poll of a task.
func pollInterval(state []byte) time.Duration {
	for _, member := range [...]string{"pollIntervalMs", "pollInterval"} {
		if ms, err := strconv.ParseFloat(string(mcp.Lookup(state, member)), 64); err == nil {
			return time.Duration(min(max(ms, float64(minPoll.Milliseconds())), float64(maxPoll.Milliseconds()))) * time.Millisecond
		}
	}
	return defaultPoll
}

// cancel tells the server that nobody waits for the task any more.
func (t *taskRun) cancel(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if _, err := t.route.to.backend.Call(ctx, t.request(mcp.MethodTaskCancel, nil)); err != nil {
		t.d.g.log.Debug("task not cancelled", "server", t.route.Server, "err", err)
	}
}
