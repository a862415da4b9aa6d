package queue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/toolgate/toolgate/internal/cancel"
	"github.com/toolgate/toolgate/internal/mcp"
)

// The states of a task.
const (
	working   = "working"
	completed = "completed"
	failed    = "failed"
	cancelled = "cancelled"
)

// pollInterval is the shortest interval at which clients should poll.
const pollInterval = 500 * time.Millisecond

// task is a call that runs as a task.
type task struct {
	id, server, principal string
	cancel                context.CancelCauseFunc
	legacy                bool // of 2025-11-25, else of the extension
	created, updated      time.Time

	status string     // by the pool's mu, like what follows
	end    mcp.Answer // set when it has ended; without a result or fault if it was cancelled
}

// size returns how many bytes a task that has ended keeps.
func (t *task) size() int {
	if t.end.Fault != nil {
		return len(t.end.Fault.Append(nil))
	}
	return len(t.end.Result)
}

// begin starts a task for a call with a permit and answers with the task. legacy makes
// it a task of 2025-11-25.
func (p *Pool) begin(ctx context.Context, server string, place *permit, legacy bool, run func(context.Context) (mcp.Answer, error)) (mcp.Answer, error) {
	now := time.Now()
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		p.leave(place)
		return mcp.Answer{}, busy(server, "the gateway is about to end")
	}
	within := cancel.New(context.WithoutCancel(ctx))
	ctx, stop := cancel.WithTimeoutCause(within, p.limits.Hard, errTooLong)
	t := &task{
		id: rand.Text(), server: server, principal: place.principal, legacy: legacy, cancel: within.Cancel, created: now, updated: now, status: working,
	}
	p.trim(now)
	p.tasks[t.id] = t
	answer := p.state(t, mcp.ResultTask)
	if legacy { // CreateTaskResult
		answer.Result = mcp.SetMember(nil, "task", answer.Result)
	}
	p.live.Add(1)
	p.mu.Unlock()
	go func() { // ends with its call, which ends with its context; as many as the pool has permits
		defer p.live.Done()
		defer within.Cancel(nil)
		defer stop()
		got, err := p.work(ctx, place, run)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		p.finish(t, got, err)
	}()
	return answer, nil
}

// finish records how a task has ended.
func (p *Pool) finish(t *task, got mcp.Answer, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t.updated = time.Now()
	switch {
	case t.status == cancelled: // even if it has produced a result
	case err != nil:
		t.status, t.end = failed, mcp.Answer{Era: mcp.Modern, Fault: mcp.Errorf(mcp.CodeInternal, "%s", reason(err))}
		p.log.Warn("a queued call failed", "server", t.server, "err", err)
	case got.Fault != nil:
		t.status, t.end = failed, got
	default:
		t.status, t.end = completed, got
	}
	p.keep(t)
	p.trim(t.updated)
}

// reason returns an error for the caller.
func reason(err error) string {
	if f, ok := errors.AsType[*mcp.Failure](err); ok {
		return f.Error()
	}
	if fault, ok := errors.AsType[*mcp.Error](err); ok {
		return fault.Message
	}
	if refused, ok := errors.AsType[*refusedError](err); ok {
		return refused.Error()
	}
	if errors.Is(err, ErrStopped) || errors.Is(err, errTooLong) {
		return err.Error()
	}
	return "the tool could not do it"
}

// state returns an answer with the task, in the form of its kind; mu is held.
func (p *Pool) state(t *task, kind string) mcp.Answer {
	if t.legacy {
		return mcp.Answer{Era: mcp.Legacy, Result: p.legacyState(t)}
	}
	out := fmt.Appendf(nil, `{"resultType":%q,"taskId":%q,"status":%q,"createdAt":%q,"lastUpdatedAt":%q,"ttlMs":%d,"pollIntervalMs":%d`,
		kind, t.id, t.status, t.created.UTC().Format(time.RFC3339Nano), t.updated.UTC().Format(time.RFC3339Nano),
		(p.limits.Hard + p.limits.Keep).Milliseconds(), pollInterval.Milliseconds())
	switch {
	case t.end.Fault != nil:
		out = t.end.Fault.Append(append(out, `,"error":`...))
	case t.end.Result != nil:
		out = append(append(out, `,"result":`...), t.end.Result...)
	}
	return mcp.Answer{Era: mcp.Modern, Result: append(out, '}')}
}

// about answers a request about a task. Tasks of other callers are unknown. So are those
// of the other kind, except that they can be cancelled: a mode ends tasks of both.
func (p *Pool) about(method, server, principal, id string, modern bool) mcp.Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trim(time.Now())
	t := p.tasks[id]
	cancels := method == mcp.MethodTaskCancel
	if t == nil || t.server != server || t.principal != principal || t.legacy == modern && !cancels {
		return mcp.Answer{Era: mcp.Modern, Fault: mcp.Errorf(mcp.CodeInvalidParams, "Unknown task")}
	}
	if method == mcp.MethodTaskGet {
		return p.state(t, mcp.ResultComplete)
	}
	if method == mcp.MethodTaskResult {
		return t.outcome()
	}
	if cancels && t.status == working {
		t.status, t.updated = cancelled, time.Now()
		t.cancel(errCancelled)
	} else if cancels && t.legacy {
		return mcp.Answer{Era: mcp.Legacy, Fault: mcp.Errorf(mcp.CodeInvalidParams, "The task is %s already", t.legacyStatus())}
	}
	if t.legacy {
		return p.state(t, mcp.ResultComplete)
	}
	return mcp.Answer{Era: mcp.Modern, Result: []byte(`{"resultType":"complete"}`)}
}
