package queue

import (
	"fmt"
	"slices"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// This file is about the tasks of 2025-11-25 (basic/utilities/tasks).

// legacyStatus is the status of a task. A tool that says it has failed makes a
// task that has (Task Status Lifecycle).
func (t *task) legacyStatus() string {
	if t.status == completed && string(mcp.Lookup(t.end.Result, "isError")) == "true" {
		return failed
	}
	return t.status
}

// legacyState is a task as its client sees it; mu is held.
func (p *Pool) legacyState(t *task) []byte {
	return fmt.Appendf(nil, `{"taskId":%q,"status":%q,"createdAt":%q,"lastUpdatedAt":%q,"ttl":%d,"pollInterval":%d}`,
		t.id, t.legacyStatus(), t.created.UTC().Format(time.RFC3339Nano), t.updated.UTC().Format(time.RFC3339Nano),
		(p.limits.Hard + p.limits.Keep).Milliseconds(), pollInterval.Milliseconds())
}

// outcome is what the call of a task has been answered with (Result Retrieval). One
// that goes on is asked about first; the mutex of the pool is held.
func (t *task) outcome() mcp.Answer {
	switch t.status {
	case working:
		return mcp.Answer{Era: mcp.Legacy, Fault: mcp.Errorf(mcp.CodeInvalidParams, "The task has not ended yet")}
	case cancelled:
		return mcp.Answer{Era: mcp.Legacy, Fault: mcp.Errorf(mcp.CodeInternal, "The task was cancelled")}
	}
	return t.end
}

// list returns the tasks that a caller has at a server, the oldest first. They are
// as many as the pool has places.
func (p *Pool) list(server, principal string) mcp.Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trim(time.Now())
	var own []*task
	for _, t := range p.tasks {
		if t.legacy && t.server == server && t.principal == principal {
			own = append(own, t)
		}
	}
	slices.SortFunc(own, func(a, b *task) int { return a.created.Compare(b.created) })
	out := []byte(`{"tasks":[`)
	for i, t := range own {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, p.legacyState(t)...)
	}
	return mcp.Answer{Era: mcp.Legacy, Result: append(out, "]}"...)}
}
