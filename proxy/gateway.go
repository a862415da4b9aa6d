// Package proxy is the gateway itself. It speaks MCP to clients, merges the lists of
// all backends into one catalog, and takes every call through the same security steps.
//
//	stdio.go  channel.go  http.go       bindings: bytes in, bytes out
//	        \    |    /
//	        Exchange                    one client request and the way back to its client
//	            │
//	        methods.go                  dispatch by method
//	        /        \
//	  list.go     call.go               a call and everything that is known of it
//	       |         │
//	       |      pipeline.go           the one order of steps; plan.go says which of them
//	        \        /                  each kind of request leaves out, and why
//	        Snapshot                    catalog, gate and limits of one generation
//	            │
//	         Backend                    an upstream server or the native host
//
// The package declares the interfaces that it needs ([Backend], [Auditor],
// [Authenticator]) and imports none of their implementations. A [Snapshot] never
// changes once it is published; every change makes a new one.
package proxy

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/background"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/findview"
	"github.com/toolgate/toolgate/proxy/firstlist"
	"github.com/toolgate/toolgate/proxy/inflight"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/refusal"
	"github.com/toolgate/toolgate/proxy/replica"
	"github.com/toolgate/toolgate/proxy/result"
	"github.com/toolgate/toolgate/proxy/reuse"
	"github.com/toolgate/toolgate/proxy/stream"
)

// Gateway serves clients over all transports. Create one with [New], configure it with
// [Gateway.Apply] and run it with [Gateway.Run]. It is safe for concurrent use.
type Gateway struct {
	opts       Options
	log        *slog.Logger
	serverInfo []byte // Implementation object, raw JSON
	serverMeta []byte // member of _meta with serverInfo, raw JSON
	instance   string // prefix of call ids
	calls      atomic.Uint64

	config   atomic.Pointer[Config]
	applied  atomic.Uint64 // configurations so far
	snapshot atomic.Pointer[Snapshot]
	dirty    chan struct{} // capacity 1
	decided  chan struct{} // capacity 1
	throttle atomic.Pointer[limit.Throttle]
	inFlight inflight.Calls

	principals *limit.Principals
	requests   *limit.Requests
	failures   *limit.Failures
	loops      limit.Loops

	revalidations revalidations
	rounds        roundTrips
	replays       *stream.Store
	asked         hourlyCounter
	keptResults   *result.Store
	reused        *reuse.Results

	replicas *replica.Router // nil where this gateway is alone

	first  *firstlist.Wait
	finder finder

	life context.Context // context of Run; ends all sessions
	stop context.CancelCauseFunc
	wg   background.Group // a request may begin something while Run ends

	sessions *sessionTable

	front         httpFront
	publisher     publisher
	tasks         taskService
	listens       listens
	notifications notificationRelay
	watches       resourceSubscriptions
}

// New returns a gateway that serves nothing yet.
func New(opts Options) (*Gateway, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	opts.Limits = opts.Limits.withDefaults()
	if opts.Messages == nil {
		opts.Messages = limit.NewBytes(16*int64(opts.Limits.Body), int64(opts.Limits.Body))
	}
	if opts.Resource == nil {
		opts.Resource = noResource{}
	}
	g := &Gateway{
		opts: opts, log: opts.Logger, dirty: make(chan struct{}, 1), decided: make(chan struct{}, 1), first: firstlist.New(opts.Limits.FirstList, opts.FirstListTimedOut),
		principals: limit.NewPrincipals(), requests: limit.NewRequests(opts.Logger, opts.Metrics.limited),
	}
	g.failures = limit.NewFailures(g.requests)
	if opts.Shared != nil {
		g.requests.Share(opts.Shared)
		g.loops.Share(opts.Shared)
	}
	g.throttle.Store(&limit.Throttle{})
	g.front, g.publisher.g, g.tasks.g = httpFront{g}, g, g
	g.listens = listens{each: opts.Limits.Listens, all: make(map[*listen]bool)}
	g.notifications = notificationRelay{g: g, queues: make(map[string]*notificationQueue)}
	g.watches = resourceSubscriptions{g: g, of: make(map[resourceKey]map[subscriber]*gate.Identity)}
	g.rounds = newRoundTrips(g)
	g.replays = stream.NewStore(int(opts.Limits.Replay), opts.Limits.ReplayTime)
	g.tasks.legacy = newTaskIndex(opts.Limits.Tasks, opts.Limits.TasksPerPrincipal)
	g.tasks.extension = newTaskIndex(opts.Limits.Tasks, opts.Limits.TasksPerPrincipal)
	g.sessions = newSessionTable(g)
	g.finder = finder{g: g, index: findview.NewIndex[*gate.Capability]()}
	g.finder.index.Indexed = opts.Indexed
	g.reused = reuse.New(reuse.Limits{Bytes: 64 << 20, BytesPerPrincipal: 16 << 20, BytesPerResult: 1 << 20})
	g.serverInfo = Implementation(opts.Version)
	g.serverMeta = append([]byte(`"`+mcp.MetaServerInfo+`":`), g.serverInfo...)
	var instance [8]byte
	_, _ = rand.Read(instance[:]) // never fails
	g.instance = hex.EncodeToString(instance[:])
	if opts.Replicas != nil {
		g.instance = opts.Replicas.Self()
		g.replicas = &replica.Router{Peers: opts.Replicas, Keys: opts.Keys}
	}
	g.keptResults = result.NewStore(opts.Limits.StoreLimits, replica.Tag(g.replicas.Self(), ""))
	g.life, g.stop = context.WithCancelCause(context.Background())
	g.config.Store(&Config{})
	g.snapshot.Store(&Snapshot{catalog: newCatalog(nil, nil)})
	return g, nil
}

// Implementation is the object by which toolgate names itself to clients and servers.
func Implementation(version string) []byte {
	return fmt.Appendf(nil, `{"name":"toolgate","title":"toolgate","version":%s}`, mcp.Quote(version))
}

// Apply puts a configuration into force. Requests under way keep the one that they
// began with.
func (g *Gateway) Apply(c Config) {
	c.generation = g.applied.Add(1)
	g.config.Store(&c)
	g.reused.Clear()
	g.principals.Resize(c.CallsPerPrincipal)
	g.requests.Apply(c.Requests)
	g.loops.Apply(c.IdenticalCalls)
	g.publisher.rebuild(g.life)
}

// Changed reports that the listing or status of a backend has changed.
func (g *Gateway) Changed(string) { signal(g.dirty) }

// Run maintains the catalog and the sessions until the context ends. It then ends every
// session and subscription, and returns when their goroutines have ended.
func (g *Gateway) Run(ctx context.Context) error {
	defer g.shutdown()
	var views sync.WaitGroup
	defer views.Wait()
	views.Go(func() { g.watchDecisions(ctx) })
	views.Go(func() { g.finder.index.Run(ctx, g.log) })
	sweep := time.NewTicker(max(g.opts.Limits.Idle/20, 10*time.Millisecond))
	defer sweep.Stop()
	var elsewhere <-chan time.Time // never, for a gateway alone
	if g.replicas != nil {
		tick := time.NewTicker(elsewhereEvery)
		defer tick.Stop()
		elsewhere = tick.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-elsewhere:
			endElsewhere(g)
		case <-g.dirty:
			began := time.Now()
			g.publisher.rebuild(ctx)
			select { // changes that follow at once share one more rebuild
			case <-time.After(min(max(rebuildDelay, rebuildShare*time.Since(began)), maxRebuildDelay)):
			case <-ctx.Done():
				return nil
			}
		case now := <-sweep.C:
			g.sessions.endIdle(now, g.opts.Limits.Idle)
			g.rounds.sweep(now)
			g.replays.Sweep(now)
			g.asked.sweep(now)
			g.tasks.legacy.sweep(now)
			g.tasks.extension.sweep(now)
			g.loops.Sweep(now)
			g.keptResults.Sweep(now)
			g.reused.Sweep(now)
		}
	}
}

func (g *Gateway) shutdown() {
	g.stop(errSessionEnded)
	for _, s := range g.sessions.list() {
		s.end(errSessionEnded)
	}
	g.notifications.close()
	g.wg.Wait()
	g.rounds.closeAll()
}

// Load returns how many sessions are open and how many calls are in flight.
func (g *Gateway) Load() (sessions, calls int) {
	return g.sessions.count(), g.inFlight.Count()
}

// CancelCalls cancels the calls under way for which which returns a refusal, and
// answers them with it. It returns their number. Calls that wait for input from their
// clients are included. which is called without any lock that a call needs to begin.
func (g *Gateway) CancelCalls(which func(*inflight.Call) *refusal.Error) int {
	n := 0
	for call, cancel := range g.inFlight.List() {
		if why := which(call); why != nil {
			cancel(why)
			n++
		}
	}
	for call, p := range g.rounds.waiting() {
		if why := which(call); why != nil {
			p.cancel(why)
			n++
		}
	}
	return n
}

// Throttle sets from now on how much load the gateway accepts. Calls under way go on.
func (g *Gateway) Throttle(t limit.Throttle) {
	g.publisher.mu.Lock() // so that no server is added meanwhile
	defer g.publisher.mu.Unlock()
	g.throttle.Store(&t)
	for _, s := range g.snapshot.Load().catalog.servers {
		s.permits.Throttle(t)
	}
}

// cutTimeout bounds the wait for cancelled calls to answer their clients.
const cutTimeout = 2 * time.Second

// Drain stops new calls and waits until those under way have ended. When ctx ends it
// cancels the rest, with a response that says so, and returns their number. Calls that
// wait for input from their client are not waited for. Drain may be called once, before
// the context of [Gateway.Run] ends.
func (g *Gateway) Drain(ctx context.Context) (cut int) {
	empty := g.inFlight.Close()
	select {
	case <-empty:
		return 0
	case <-ctx.Done():
	}
	cut = g.CancelCalls(func(*inflight.Call) *refusal.Error { return refusal.ShutDown })
	timer := time.NewTimer(cutTimeout)
	defer timer.Stop()
	select {
	case <-empty:
	case <-timer.C:
	}
	return cut
}

// newQueue returns the queue of messages to one client.
func (g *Gateway) newQueue() *stream.Queue {
	return stream.NewQueue(g.opts.Limits.Queue, g.opts.Limits.QueueBytes)
}

// signal sends to a channel of capacity 1 without blocking.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
