package records

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
)

// watchedTime is how long calls are kept for somebody who has asked for them.
const watchedTime = 10 * time.Second

// live keeps the last calls while somebody watches. Otherwise a call costs one look at an
// atomic number. The zero value is watched by nobody.
type live struct {
	until atomic.Int64 // nanoseconds since 1970: nobody watches after that

	mu   sync.Mutex
	last uint64 // number of the latest call
	ring [admin.MaxLiveCalls]admin.Call
}

// add keeps a closed call.
func (l *live) add(e *audit.Entry) {
	until := l.until.Load()
	if until == 0 || e.Method != mcp.MethodToolsCall || e.Server == "" || time.Now().UnixNano() > until {
		return
	}
	call := admin.Call{
		At: e.Time, ID: e.CallID, Server: e.Server, Tool: e.Name, Tenant: e.Principal.Tenant, Persona: e.Principal.Persona, Error: errorClass(e),
		DurationUS: e.DurationUS, UpstreamUS: e.UpstreamUS, BytesIn: e.BytesIn, BytesOut: e.BytesOut,
	}
	l.mu.Lock()
	l.last++
	l.ring[l.last%admin.MaxLiveCalls] = call
	l.mu.Unlock()
}

// since returns the calls after the one of a number.
func (l *live) since(after uint64) admin.LiveCalls {
	l.until.Store(time.Now().Add(watchedTime).UnixNano())
	l.mu.Lock()
	defer l.mu.Unlock()
	out := admin.LiveCalls{Last: l.last, Calls: []admin.Call{}}
	if after > l.last { // of a gateway that ran before
		after = 0
	}
	first := after + 1
	if l.last-after > admin.MaxLiveCalls {
		first = l.last - admin.MaxLiveCalls + 1
		out.Missed = first - after - 1
	}
	for n := first; n <= l.last; n++ {
		out.Calls = append(out.Calls, l.ring[n%admin.MaxLiveCalls])
	}
	return out
}

// LiveCalls implements [admin.CallReader].
func (from Reader) LiveCalls(after uint64) admin.LiveCalls { return from.r.live.since(after) }

// Calls implements [admin.CallReader].
func (from Reader) Calls(ctx context.Context, q admin.CallQuery) ([]admin.Call, error) {
	found, err := from.r.executions.Find(ctx, &store.ExecutionQuery{
		Server: q.Server, Tool: q.Tool, Tenant: q.Tenant, Class: q.Error, Since: q.Since, Principal: q.Principal,
		BeforeAt: q.Before.At, BeforeRow: q.Before.Row, Limit: min(cmp.Or(q.Limit, 50), admin.MaxCalls),
	})
	if err != nil {
		return nil, err
	}
	out := make([]admin.Call, len(found))
	for i := range found {
		x := &found[i]
		out[i] = admin.Call{
			Row: x.Row, At: x.At, ID: x.CallID, Server: x.Server, Tool: x.Tool, Tenant: x.Tenant, Persona: x.Persona, Error: x.ErrorClass,
			DurationUS: x.Duration.Microseconds(), UpstreamUS: x.Upstream.Microseconds(), BytesIn: x.RequestSize, BytesOut: x.ResponseSize,
		}
	}
	return out, nil
}

// CallsOver implements [admin.CallReader].
func (from Reader) CallsOver(ctx context.Context, since time.Time, step time.Duration) ([]admin.CallBucket, error) {
	found, err := from.r.executions.CountOver(ctx, since, step)
	if err != nil {
		return nil, err
	}
	out := make([]admin.CallBucket, len(found))
	for i, c := range found {
		out[i] = admin.CallBucket{At: c.At, Calls: c.Calls, Failures: c.Failures}
	}
	return out, nil
}
