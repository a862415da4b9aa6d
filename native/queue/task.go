package queue

import (
	"container/list"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// The states of a task.
const (
	working   = "working"
	completed = "completed"
	failed    = "failed"
	cancelled = "cancelled"
)

// pollInterval is how often a client is asked to look at most.
const pollInterval = 500 * time.Millisecond

// task is a call that became one.
type task struct {
	id, server, principal string
	cancel                context.CancelCauseFunc
	created, updated      time.Time

	status string // by the pool's mu, like what follows
	end    []byte // the member with its result or error, once it has one
	kept   *list.Element
}

// begin makes a task of a call that has a ticket and answers with it.
func (p *Pool) begin(ctx context.Context, server string, place *ticket, run func(context.Context) (mcp.Answer, error)) (mcp.Answer, error) {
	now := time.Now()
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		p.leave(place)
		return mcp.Answer{}, busy(server, "the gateway is about to end")
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	ctx, stop := context.WithTimeoutCause(ctx, p.limits.Hard, errTooLong)
	t := &task{id: rand.Text(), server: server, principal: place.principal, cancel: cancel, created: now, updated: now, status: working}
	p.trim(now)
	p.tasks[t.id] = t
	answer := p.state(t, mcp.ResultTask)
	p.live.Add(1)
	p.mu.Unlock()
	go func() { // ends with its call, which ends with its context; as many as the pool has tickets
		defer p.live.Done()
		defer cancel(nil)
		defer stop()
		got, err := p.work(ctx, place, run)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		p.finish(t, got, err)
	}()
	return answer, nil
}

// finish notes how a task has ended.
func (p *Pool) finish(t *task, got mcp.Answer, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t.updated = time.Now()
	switch {
	case errors.Is(err, errCancelled):
		t.status = cancelled
	case err != nil:
		t.status, t.end = failed, errorMember(mcp.Errorf(mcp.CodeInternal, "%s", reason(err)))
		p.log.Warn("a queued call failed", "server", t.server, "err", err)
	case got.Fault != nil:
		t.status, t.end = failed, errorMember(got.Fault)
	default:
		t.status, t.end = completed, append([]byte(`"result":`), got.Result...)
	}
	t.kept = p.ended.PushBack(t)
	p.bytes += len(t.end)
	p.trim(t.updated)
}

// reason is an error for the caller.
func reason(err error) string {
	if f, ok := errors.AsType[*mcp.Failure](err); ok {
		return f.Error()
	}
	if errors.Is(err, errStopped) || errors.Is(err, errTooLong) {
		return err.Error()
	}
	return "the tool could not do it"
}

func errorMember(e *mcp.Error) []byte { return e.Append([]byte(`"error":`)) }

// trim forgets results that were kept long enough, or that are too many; mu is
// held.
func (p *Pool) trim(now time.Time) {
	for at := p.ended.Front(); at != nil; at = p.ended.Front() {
		t := at.Value.(*task) //nolint:forcetypeassert // nothing else is in it
		if p.ended.Len() <= p.limits.Kept && p.bytes <= p.limits.KeptBytes && now.Sub(t.updated) < p.limits.Keep {
			return
		}
		p.ended.Remove(at)
		p.bytes -= len(t.end)
		delete(p.tasks, t.id)
	}
}

// state is a task as an answer; mu is held.
func (p *Pool) state(t *task, kind string) mcp.Answer {
	out := fmt.Appendf(nil, `{"resultType":%q,"taskId":%q,"status":%q,"createdAt":%q,"lastUpdatedAt":%q,"ttlMs":%d,"pollIntervalMs":%d`,
		kind, t.id, t.status, t.created.UTC().Format(time.RFC3339Nano), t.updated.UTC().Format(time.RFC3339Nano),
		(p.limits.Hard + p.limits.Keep).Milliseconds(), pollInterval.Milliseconds())
	if t.end != nil {
		out = append(append(out, ','), t.end...)
	}
	return mcp.Answer{Era: mcp.Modern, Result: append(out, '}')}
}

// about answers a request about a task. One of somebody else's is unknown.
func (p *Pool) about(method, server, principal, id string) mcp.Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trim(time.Now())
	t := p.tasks[id]
	if t == nil || t.server != server || t.principal != principal {
		return mcp.Answer{Era: mcp.Modern, Fault: mcp.Errorf(mcp.CodeInvalidParams, "Unknown task")}
	}
	if method == mcp.MethodTaskGet {
		return p.state(t, "complete")
	}
	if method == mcp.MethodTaskCancel && t.status == working {
		t.cancel(errCancelled)
	}
	return mcp.Answer{Era: mcp.Modern, Result: []byte(`{"resultType":"complete"}`)}
}
