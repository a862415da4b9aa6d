package queue

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Server is the backend behind the queue.
type Server interface {
	Name() string
	Listing() (*mcp.Listing, mcp.Status)
	Call(ctx context.Context, call *mcp.Call) (mcp.Answer, error)
	Probe(ctx context.Context) error
}

// Backend is a server of 2026-07-28 with queued tools. Everything else passes through.
// It has two kinds of tasks: those of the extension, and those of 2025-11-25
// (basic/utilities/tasks) for calls that ask for one in that way.
type Backend struct {
	pool   *Pool
	server Server
	queued func(tool string) bool

	mu     sync.Mutex
	of, as *mcp.Listing // a listing of the server, and the one listing made of it
}

// On returns a backend that queues the tools for which queued is true. The answer of
// queued must not change while the listing of the server stays the same.
func (p *Pool) On(s Server, queued func(tool string) bool) *Backend {
	return &Backend{pool: p, server: s, queued: queued}
}

func withTasks(capabilities []byte) []byte {
	extensions := mcp.Lookup(capabilities, "extensions")
	if !mcp.IsObject(extensions) {
		extensions = nil
	}
	capabilities = mcp.SetMember(capabilities, "tasks", []byte(`{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`))
	return mcp.SetMember(capabilities, "extensions", mcp.SetMember(extensions, mcp.ExtensionTasks, []byte("{}")))
}

// knowsTasks reports whether the sender of a request supports the extension.
func knowsTasks(call *mcp.Call) bool {
	return mcp.Lookup(call.Capabilities, "extensions", mcp.ExtensionTasks) != nil
}

// Name returns the server's key.
func (b *Backend) Name() string { return b.server.Name() }

// Listing returns the listing of the server. If one of its tools is queued, tasks are
// added to the capabilities. All callers get the same listing of one of the server, since a
// list is known to be in force by its identity.
func (b *Backend) Listing() (*mcp.Listing, mcp.Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l, status := b.server.Listing() // with the lock, or an old one could take the place of a newer one
	if l == nil || l.Era != mcp.Modern {
		return l, status
	}
	if b.of == l {
		return b.as, status
	}
	as := l
	if slices.ContainsFunc(l.Items[mcp.Tool], func(i mcp.Item) bool { return b.queued(i.Key) }) {
		own := *l
		own.Capabilities = withTasks(l.Capabilities)
		own.Items = maps.Clone(l.Items)
		own.Items[mcp.Tool] = slices.Clone(l.Items[mcp.Tool])
		for i, item := range own.Items[mcp.Tool] {
			if b.queued(item.Key) {
				own.Items[mcp.Tool][i].Raw = mcp.SetMember(item.Raw, "execution", []byte(`{"taskSupport":"optional"}`))
			}
		}
		as = &own
	}
	b.of, b.as = l, as
	return as, status
}

// Probe checks the health of the server.
func (b *Backend) Probe(ctx context.Context) error { return b.server.Probe(ctx) }

// EndSession tells the server that a client session has ended, if it needs that.
func (b *Backend) EndSession(principal, session string) {
	if s, ok := b.server.(interface {
		EndSession(principal, session string)
	}); ok {
		s.EndSession(principal, session)
	}
}

// Connected tells the server the capabilities of a principal's client, if it needs them.
func (b *Backend) Connected(principal string, capabilities []byte) {
	if s, ok := b.server.(interface {
		Connected(principal string, capabilities []byte)
	}); ok {
		s.Connected(principal, capabilities)
	}
}

// Call forwards a request. The call of a queued tool waits for a worker. It becomes a
// task if the caller supports tasks of 2026-07-28 or has asked for one in the way of
// 2025-11-25. If the queue is full, the call fails with [mcp.FailBusy].
func (b *Backend) Call(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
	asked := false
	switch call.Method {
	case mcp.MethodTaskGet, mcp.MethodTaskCancel, mcp.MethodTaskUpdate, mcp.MethodTaskResult:
		id, _ := mcp.LookupString(call.Params, "taskId")
		return b.pool.about(call.Method, b.Name(), call.Principal, id, knowsTasks(call)), nil
	case mcp.MethodTaskList:
		return b.pool.list(b.Name(), call.Principal), nil
	case mcp.MethodToolsCall:
		asked = mcp.IsObject(mcp.Lookup(call.Params, "task"))
		if name, _ := mcp.LookupString(call.Params, "name"); !b.queued(name) {
			if asked { // 2025-11-25 basic/utilities/tasks, Tool-Level Negotiation
				return mcp.Answer{Era: mcp.Legacy, Fault: mcp.Errorf(mcp.CodeMethodNotFound, "The tool %s does not run as a task", name)}, nil
			}
			return b.server.Call(ctx, call)
		}
		if l, _ := b.server.Listing(); !asked && !knowsTasks(call) && l != nil && l.Asks {
			return b.server.Call(ctx, call) // its caller waits with it, and it may wait for others of its kind
		}
	default:
		return b.server.Call(ctx, call)
	}
	task := asked || knowsTasks(call)
	if task {
		ctx, call = call.Detached(ctx)
		call.Params = mcp.RemoveMember(call.Params, "task")
	}
	t, err := b.pool.enter(b.Name(), call.Principal)
	if err != nil {
		return mcp.Answer{}, err
	}
	run := func(ctx context.Context) (mcp.Answer, error) { return b.run(ctx, t, call) }
	if task {
		return b.pool.begin(ctx, b.Name(), t, asked, run)
	}
	return b.pool.work(ctx, t, run)
}

// run runs a call that has a worker. Policies and credentials may have changed while it
// waited for that, so it is decided on once more.
func (b *Backend) run(ctx context.Context, t *permit, call *mcp.Call) (mcp.Answer, error) {
	if t.waited && call.StillAllowed != nil {
		if err := call.StillAllowed(ctx); err != nil {
			return mcp.Answer{}, &refusedError{err}
		}
	}
	return b.server.Call(ctx, call)
}

// refusedError is why a call is no longer allowed.
type refusedError struct{ error }

// Unwrap returns the refusal.
func (e *refusedError) Unwrap() error { return e.error }
