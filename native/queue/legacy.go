package queue

import (
	"fmt"
	"slices"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// This file is about the tasks of 2025-11-25 (basic/utilities/tasks).

// legacyStatus returns the status of a task. A task has failed if the result of the tool
// is an error (Task Status Lifecycle).
func (t *task) legacyStatus() string {
	if t.status == completed && string(mcp.Lookup(t.end.Result, "isError")) == "true" {
		return failed
	}
	return t.status
}

// legacyState returns a task as its client sees it; mu is held.
func (p *Pool) legacyState(t *task) []byte {
	return fmt.Appendf(nil, `{"taskId":%q,"status":%q,"createdAt":%q,"lastUpdatedAt":%q,"ttl":%d,"pollInterval":%d}`,
		t.id, t.legacyStatus(), t.created.UTC().Format(time.RFC3339Nano), t.updated.UTC().Format(time.RFC3339Nano),
		(p.limits.Hard + p.limits.Keep).Milliseconds(), pollInterval.Milliseconds())
}

// outcome returns the answer to the call of a task (Result Retrieval). The caller has
// checked that the task has ended; the mutex of the pool is held.
func (t *task) outcome() mcp.Answer {
	switch t.status {
	case working:
		return mcp.Answer{Era: mcp.Legacy, Fault: mcp.Errorf(mcp.CodeInvalidParams, "The task has not ended yet")}
	case cancelled:
		return mcp.Answer{Era: mcp.Legacy, Fault: mcp.Errorf(mcp.CodeInternal, "The task was cancelled")}
	}
	return t.end
}

// list returns the tasks of a caller at a server, oldest first. The limits of the pool
// bound their number.
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
