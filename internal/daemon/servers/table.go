// Package servers is the table of everything that the gateway stands in front of:
// configured servers, native tools and namespaces of declared tools. It starts, reuses,
// drains, ends and lists them.
package servers

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/background"
	"github.com/toolgate/toolgate/internal/backoff"
	"github.com/toolgate/toolgate/internal/daemon/catalogs"
	"github.com/toolgate/toolgate/internal/daemon/signin"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/telemetry"
	"github.com/toolgate/toolgate/native"
	"github.com/toolgate/toolgate/native/queue"
	"github.com/toolgate/toolgate/native/toolapi"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/guard"
	"github.com/toolgate/toolgate/upstream"
	"github.com/toolgate/toolgate/upstream/credential"
	"github.com/toolgate/toolgate/upstream/transport"
)

// Options are what a table takes from the gateway around it. Functions are called from
// many goroutines, and never while the table holds its lock.
type Options struct {
	Log        *slog.Logger
	Metrics    *telemetry.Metrics
	State      *statedir.Dir
	SignIn     *signin.Service
	Catalogs   *catalogs.Saver
	Unanswered catalogs.Unanswered
	Tasks      queue.Limits
	// Send returns a backend that has workers elsewhere run the tools of a namespace that
	// are in a queue.
	Send func(namespace string, of proxy.Backend) proxy.Backend
	// Queued tells whether workers elsewhere run a tool.
	Queued func(namespace, tool string) bool

	// Placed returns how the process of a server is reached that runs at copies of the gateways
	// which share it; nil where this gateway is alone.
	Placed func(copies int, exclusive bool) transport.Placed
	// Inside returns the tools of a group that the gateway serves itself, by its key.
	Inside func(group string) *toolapi.Plugin
	// Sample answers a server's request for sampling by the model of an agent.
	Sample func(ctx context.Context, id *gate.Identity, agent string, params []byte) (result []byte, fault *mcp.Error)
	// Shown hides the secrets in a text that clients may read.
	Shown func(string) string
	// Changed is told that a server is in another state, or lists something else.
	Changed func(server string)
	// NativeChanged is told the same of native tools, before Changed.
	NativeChanged func()
	// CredentialChanged is told that a server may be called with another credential.
	CredentialChanged func(server string)
	// Relisted is told that a caller is listed something else by its own server.
	Relisted func()
	// Happened is told what servers say by themselves.
	Happened func(mcp.Event)
	// BreakerChanged is told the new state of a circuit breaker; tool is empty for that
	// of the whole server.
	BreakerChanged func(server, tool string, state guard.State, at time.Time)
}

// Table is what the gateway stands in front of. It is safe for concurrent use.
type Table struct {
	o       Options
	host    *native.Host
	tasks   *queue.Pool      // of the calls that run as tasks
	running background.Group // everything that was started

	mu  sync.Mutex // one generation is put in force at a time
	now atomic.Pointer[generation]
}

// generation is what runs of one plan. It does not change once it is in force.
type generation struct {
	plan     *Plan
	servers  map[string]*server
	declared map[string]*namespace // by name
}

// New returns a table in which nothing runs.
func New(o Options) (*Table, error) {
	t := &Table{o: o, tasks: queue.New(o.Tasks, o.Log)}
	t.now.Store(&generation{plan: &Plan{}})
	var err error
	t.host, err = newHost(t)
	return t, err
}

// Run waits until the context ends, which is that of [Table.Use], and then until
// everything that was started has ended.
func (t *Table) Run(ctx context.Context) error {
	<-ctx.Done()
	t.tasks.Drain(ctx)
	t.running.Wait()
	return nil
}

// DrainTasks takes no call any more that runs as a task, waits until the context ends
// for those under way, and returns how many were cut.
func (t *Table) DrainTasks(ctx context.Context) int { return t.tasks.Drain(ctx) }

// list returns the servers in the order of their keys.
func (g *generation) list() []*server {
	out := make([]*server, 0, len(g.servers))
	for _, key := range slices.Sorted(maps.Keys(g.servers)) {
		out = append(out, g.servers[key])
	}
	return out
}

func (t *Table) list() []*server { return t.now.Load().list() }

// Settled tells whether every server has been heard of.
func (t *Table) Settled() bool {
	for _, s := range t.list() {
		if _, status := s.Listing(); status.State == mcp.Starting {
			return false
		}
	}
	return true
}

// Status tells how a server does that runs.
func (t *Table) Status(name string) (status mcp.Status, runs bool) {
	s := t.now.Load().servers[name]
	if s == nil {
		return mcp.Status{}, false
	}
	_, status = s.Listing()
	return status, true
}

// Known is a server with its namespace, and whether it has listed what it offers.
type Known struct {
	Name, Namespace string
	Listed          bool
}

// Known returns all servers, sorted by name.
func (t *Table) Known() []Known {
	now := t.now.Load()
	list := now.list()
	out := make([]Known, len(list))
	for i, s := range list {
		l, _ := s.Listing()
		out[i] = Known{Name: s.Name(), Namespace: now.plan.namespace(s.Name()), Listed: l != nil}
	}
	return out
}

// Specs returns the specifications of those of some servers that run.
func (t *Table) Specs(keys []string) (specs []upstream.Spec) {
	for _, s := range t.list() {
		if s.upstream != nil && slices.Contains(keys, s.Name()) {
			specs = append(specs, s.upstream.Spec())
		}
	}
	return specs
}

// Listed returns what servers list, for the saver of catalogs. Native tools are those of
// the program that runs, and not among them.
func (t *Table) Listed() []catalogs.Listed {
	var out []catalogs.Listed
	for _, s := range t.list() {
		if s.upstream != nil {
			out = append(out, catalogs.Listed{Spec: s.upstream.Spec(), Listings: s.upstream.Listings()})
		}
	}
	return out
}

// ListAgain has some servers list again what they offer.
func (t *Table) ListAgain(keys []string) {
	for _, s := range t.list() {
		if s.upstream != nil && slices.Contains(keys, s.Name()) {
			s.upstream.LookAgain()
		}
	}
}

// server is what stands behind one key of the configuration, with its guard and what
// ends it.
type server struct {
	backend
	upstream reached     // nil for native tools
	native   nativeTools // nil for everything else

	guard  *guard.Guard
	queued *queue.Backend     // in front of the guard; nil for everything but native tools
	sink   *sink              // nil for native tools
	source *credential.Source // nil where the headers of the file are all
	hash   string
	// replaced is what the process wrote of the server that this one took the place of.
	replaced transport.Tail
	stop     context.CancelFunc
	ended    chan struct{} // closed when it has ended
}

// backend is a server, or tools of the gateway's own.
type backend interface {
	proxy.Backend
	Kind() string
	Drain(ctx context.Context)
}

// mounted is what is mounted of a server.
func (s *server) mounted() proxy.Backend {
	if s.queued != nil {
		return s.queued
	}
	return s.guard
}

// fits tells whether a running server is the one of a specification, and fit to go on.
// Native tools that have failed for good are started again by every reload.
func (s *server) fits(hash string) bool {
	if s == nil || s.hash != hash {
		return false
	}
	_, status := s.Listing()
	return s.native == nil || status.State != mcp.Failed
}

const (
	// retireTime is how long a server that was removed may finish its calls.
	retireTime = 10 * time.Second
	// lateTime is how long one over HTTP waits for calls at least: those that were decided on
	// while it was there may not have come to it yet. A process ends at once, since another one
	// in its place may need what it holds, such as a port.
	lateTime = time.Second
)

// retire lets servers finish their calls and ends them. It calls ended when all have
// ended.
func (t *Table) retire(ctx context.Context, removed []*server, ended func()) {
	t.running.Go(func() {
		var all sync.WaitGroup
		for _, s := range removed {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, retireTime)
				defer cancel()
				if s.upstream != nil && s.upstream.Spec().Command == "" {
					_ = backoff.Sleep(ctx, lateTime) // an end of ctx ends Drain as well
				}
				s.Drain(ctx)
				s.stop()
				<-s.ended
			})
		}
		all.Wait()
		ended()
	})
}
