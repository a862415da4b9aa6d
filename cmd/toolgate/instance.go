package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/sqlstore"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/logs"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/orphan"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/telemetry"
	"github.com/toolgate/toolgate/internal/version"
	"github.com/toolgate/toolgate/native"
	"github.com/toolgate/toolgate/native/enable"
	"github.com/toolgate/toolgate/native/queue"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/guard"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/upstream"
	"github.com/toolgate/toolgate/upstream/credential"
)

// removedTime is how long a server that was removed may finish its calls.
const removedTime = 10 * time.Second

// instance is one running gateway with all its parts. It is made by
// newInstance and lives as long as run.
type instance struct {
	opts       daemonOptions
	log        *slog.Logger
	logs       *logs.Writer // behind log
	hidden     hidden       // from whoever reads what is shown
	state      *stateDir
	store      *store.Store
	claim      io.Closer // keeps other gateways from the state folder where the store does not; nil where it does
	audit      *audit.Log
	auditing   sync.Mutex // held while the audit log is read for an administrator
	executions *store.Executions
	keys       *seal.Keyring
	metrics    *telemetry.Metrics
	traces     *telemetry.Traces // nil where nobody takes them
	feeds      feeds
	done       activity
	messages   *limit.Bytes // what clients send, as far as it is held
	gateway    *proxy.Gateway
	saver      *catalogSaver
	desk       *approval.Desk
	webhook    *approval.Webhook
	budgets    budgets
	limiter    atomic.Pointer[budget.Limiter] // in force

	host    *native.Host
	natives nativeTools

	enable       *enable.Backend
	enabling     atomic.Pointer[gate.Chain] // decides who may add what; nil denies
	addedChanged chan struct{}              // capacity 1

	approvalsChanged chan struct{} // capacity 1

	storedChanged chan struct{} // capacity 1

	onStore map[string][]func() // by topic of the store; complete before run

	registry   *registry.Registry
	lost       *lostRelations
	rates      *rates
	operation  *operation                 // the mode, and what it needs; see mode.go
	makeRoom   func()                     // ends this gateway for another one; nil where that may not be
	begun      config.Toolgate            // the settings at the start; some stay in force to the end
	identities atomic.Pointer[identities] // in force; with or without authentication from the start to the end
	swap       swap                       // of the identities, with the gate
	reach      atomic.Pointer[string]     // where browsers of this machine reach the main listener; nil for nowhere
	opening    sync.Mutex                 // of the loopback port for those who come back
	fleets     sync.Map                   // of servers at which callers sign in by themselves, by server
	presented  presented                  // tokens of callers, for servers that they are traded for
	generated  string                     // hash of the key that was made for the listener; empty for none

	ctx     context.Context // of run
	running sync.WaitGroup  // servers

	reloading sync.Mutex // one reload at a time; taken before mu

	mu              sync.Mutex
	config          *config.Config
	servers         map[string]*runningServer
	declared        map[string]*declaredServer // by namespace
	inForce         *config.Config             // config, with the tools that are declared elsewhere
	sources         toolSources                // of those
	stored          storedTools                // and of those in the store
	queue           *queue.Pool                // of the calls that run as tasks
	stopGates       context.CancelFunc
	namespaces      map[string]string // by server
	added           []store.DynamicRecord
	addedGeneration int64
	pending         []config.Pending
	later           []string // settings of the file that the next start takes over
	onChange        func()   // told when a server has changed; nil for nobody
	unguard         func()   // ends the guardian, when every server has ended
	started         time.Time
}

// runningServer is a server with what ends it.
type runningServer struct {
	federated
	upstream reached        // nil for native tools
	native   *native.Plugin // nil for everything else

	guard  *guard.Guard
	queued *queue.Backend     // before the guard; nil for everything but native tools
	sink   *serverSink        // nil for native tools
	source *credential.Source // nil where the headers of the file are all
	hash   string
	stop   context.CancelFunc
}

// daemonOptions are what a gateway takes from whoever starts it.
type daemonOptions struct {
	// log makes the log of a configuration, and what writes it.
	log func(*config.Config) (*slog.Logger, *logs.Writer)
	// read reads a configuration file anew.
	read func(path string) (*config.Config, error)
	// awaits has it start without its database, and refuse what needs that until it is
	// there.
	awaits bool
}

// newInstance opens everything that a gateway needs. What it opened is closed
// by run, or by close when run is not reached.
func newInstance(ctx context.Context, o daemonOptions, c *config.Config, state *stateDir, generatedKey string) (_ *instance, err error) {
	in := &instance{
		opts: o, state: state, config: c, servers: make(map[string]*runningServer),
		metrics: telemetry.New(version.Version), started: time.Now(), generated: generatedKey, begun: c.Toolgate,
	}
	in.log, in.logs = o.log(c)
	in.hideSecrets(c, c.Servers)
	defer func() {
		if err != nil {
			in.close()
		}
	}()
	if err := admin.Adopt(); err != nil {
		in.log.Warn("a server that leaves its descent may reach the control side", "err", err)
	}
	in.unguard = orphan.Guard(func(err error) {
		in.log.Warn("what servers have started may outlive a gateway that is killed: its guardian does not run, or has ended and is started again",
			"err", err, "try", "have the service manager end the whole control group (systemd: KillMode=control-group), and see that the user may run another process")
	})
	if in.store, in.claim, err = openStore(ctx, c, state, in.log, o.awaits); err != nil {
		return nil, err
	}
	in.budgets.store = sqlstore.New(in.store, in.log)
	in.budgets.observe = in.countCharge
	in.lost = &lostRelations{log: in.log}
	in.registry = registry.New(registry.Options{
		Store: in.store, Logger: in.log, OnChange: func() { in.gateway.Changed("") }, OnRename: in.lost.renamed,
		OnOutdated: func(servers []string) { lookAgain(in.list(), servers) },
		Gateway:    sharing(c, state), StandIn: upstream.SignInDefinition(),
	})
	if in.keys, err = state.keyring(c.Toolgate.Keys); err != nil {
		return nil, failure.New(failure.Config, err)
	}
	known, err := newIdentities(&c.Toolgate, generatedKey)
	if err != nil {
		return nil, err
	}
	in.identities.Store(known)
	if in.audit, err = in.openAudit(c, known.authenticated()); err != nil {
		return nil, err
	}
	in.metrics.WatchAudit(in.auditStats)
	in.queue = queue.New(queueLimits(c), in.log)
	in.desk = approval.New(in.store.Approvals(), in.log)
	in.webhook = approval.NewWebhook(in.log)
	in.enable, in.addedChanged = enable.New(shelf{in}), make(chan struct{}, 1)
	in.approvalsChanged, in.storedChanged = make(chan struct{}, 1), make(chan struct{}, 1)
	in.onStore = map[string][]func(){
		store.TopicApprovals:   {in.desk.Changed, func() { nudge(in.approvalsChanged) }},
		store.TopicDynamic:     {func() { nudge(in.addedChanged) }},
		store.TopicDeclared:    {func() { nudge(in.storedChanged) }},
		store.TopicCredentials: {in.credentialsChanged},
		store.TopicRegistry:    {in.registry.Changed}, store.TopicFlags: {in.registry.Changed}, store.TopicRestrictions: {in.registry.Changed},
	}
	if in.host, err = newHost(in); err != nil {
		return nil, err
	}
	in.sources.wake = make(chan struct{}, 1)
	in.saver = &catalogSaver{store: in.store, keys: in.keys, log: in.log, saved: make(map[string]*mcp.Listing), wake: make(chan struct{}, 1)}

	if in.rates, err = newRates(c, in.metrics, in.log); err != nil {
		return nil, failure.New(failure.Config, err)
	}
	if c.Toolgate.BudgetsIn == "redis" {
		in.budgets.store = in.rates.redis.Budgets(budgetEpoch{in.store.Meta()})
	}
	if in.operation, err = newOperation(ctx, in); err != nil {
		return nil, err
	}
	in.onStore[store.TopicMode] = []func(){in.operation.stored}

	g := gatewayOptions(c)
	g.Authenticator, g.Resource, g.Auditor, g.Keys, g.Logger = in, in, in.audit, in.keys, in.log
	in.messages = messages(&c.Toolgate.Limits)
	g.Messages = in.messages
	g.LocalOrigins = known.authenticated()
	g.AnyHost = known.authenticated() && !loopback(c.Toolgate.Listen.HTTP)
	g.CapabilityIDs = in.capabilityIDs
	in.executions = in.store.Executions(c.Toolgate.Retention.Executions)
	g.UseRound = in.store.Rounds().Use
	g.FirstMissed = func(servers []string) {
		in.running.Go(func() {
			unheard{in.store.Meta(), in.log}.missed(context.WithoutCancel(in.ctx), specsOf(in.list(), servers))
		})
	}
	g.Metrics = in.counting()
	if in.traces, err = in.tracing(ctx, c); err != nil {
		return nil, err
	}
	if in.feeds, err = in.newFeeds(c); err != nil {
		return nil, err
	}
	if in.traces != nil { // a nil pointer would be no nil interface
		g.Tracer = tracer{in.traces}
	}
	if in.gateway, err = proxy.New(g); err != nil {
		return nil, err
	}
	return in, nil
}

func (in *instance) capabilityIDs(ctx context.Context, keys []proxy.CapabilityKey) ([]string, error) {
	own := make([]store.CapabilityKey, len(keys))
	for i, k := range keys {
		own[i] = store.CapabilityKey{Server: k.Server, Kind: k.Kind, Original: k.Original}
	}
	return in.store.Capabilities().IDs(ctx, own)
}

// run starts the parts, applies the configuration, calls serve and ends
// everything when that returns, or when the context has ended and the calls under
// way have too (see drain).
func (in *instance) run(ctx context.Context, serve func(context.Context) error) error {
	defer in.close()
	parts, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	// What others still need while they end runs on until they have.
	last, stopLast := context.WithCancel(context.WithoutCancel(parts))
	var late errgroup.Group
	late.Go(func() error { return in.store.Run(last) })
	late.Go(func() error { return in.audit.Run(last) })
	late.Go(func() error { return in.runTraces(last) })
	late.Go(func() error { return in.executions.Run(last) })
	late.Go(func() error { return in.feeds.run(last) })

	group, gctx := errgroup.WithContext(parts)
	in.ctx = gctx
	_, err := in.loadAdded(gctx)
	if err == nil {
		_, err = in.loadDeclared(gctx)
	}
	if err == nil {
		err = in.apply(in.config)
	}
	if err != nil {
		stopLast()
		return errors.Join(err, late.Wait())
	}
	in.warnUnconfined(in.withDeclared())
	in.metrics.Started()
	group.Go(func() error { return in.store.Watch(gctx, in.storeChanged) })
	group.Go(func() error { return in.webhook.Run(gctx) })
	group.Go(func() error { return admin.SweepAdopted(gctx) })
	group.Go(func() error { return in.followAdded(gctx) })
	group.Go(func() error { return in.followTools(gctx) })
	group.Go(func() error { return in.followDeclared(gctx) })
	group.Go(func() error { return in.gateway.Run(gctx) })
	group.Go(func() error { return in.saver.run(gctx, in) })
	group.Go(func() error { return in.budgets.run(gctx) })
	group.Go(func() error { return in.registry.Run(gctx) })
	group.Go(func() error { return in.operation.run(gctx) })
	group.Go(func() error { return in.countApprovals(gctx) })
	group.Go(func() error { return rest(gctx) })
	group.Go(func() error {
		select {
		case <-ctx.Done():
			in.drain(gctx)
			end()
		case <-gctx.Done():
		}
		return nil
	})
	group.Go(func() error {
		serving, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		defer context.AfterFunc(gctx, func() { stop(context.Cause(gctx)) })()
		err := serve(serving)
		if ctx.Err() == nil { // its clients have left, and nobody asked for the end
			end()
		}
		return err
	})
	err = group.Wait()
	in.queue.Drain(parts) // which has ended
	in.running.Wait()
	stopLast()
	return errors.Join(err, late.Wait())
}

func (in *instance) close() {
	if in.unguard != nil {
		in.unguard()
	}
	if known := in.identities.Load(); known != nil {
		known.close()
	}
	in.rates.close()
	if in.audit != nil {
		if err := in.audit.Close(); err != nil {
			in.log.Error("close the audit log", "err", err)
		}
	}
	if in.store != nil {
		if err := in.store.Close(); err != nil {
			in.log.Error("close the store", "err", err)
		}
	}
	if in.claim != nil {
		in.claim.Close()
	}
}

// storeChanged is told what has changed in the store, by whichever gateway that
// shares it. It does not block.
func (in *instance) storeChanged(topic string, _ int64) {
	for _, tell := range in.onStore[topic] {
		tell()
	}
}

// nudge leaves a token unless one is there: the reader of one looks at
// everything.
func nudge(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// Changed implements upstream.Sink.
func (in *instance) Changed(server string) {
	in.gateway.Changed(server)
	in.saver.signal()
	if in.onChange != nil {
		in.onChange()
	}
}

// Happened implements upstream.Sink.
func (in *instance) Happened(ev mcp.Event) { in.gateway.Happened(ev) }

// list returns the servers in the order of their keys.
func (in *instance) list() []*runningServer {
	in.mu.Lock()
	defer in.mu.Unlock()
	out := make([]*runningServer, 0, len(in.servers))
	for _, key := range slices.Sorted(maps.Keys(in.servers)) {
		out = append(out, in.servers[key])
	}
	return out
}

// current returns the configuration in force.
func (in *instance) current() *config.Config {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.config
}

// settled tells whether every server has been heard of.
func (in *instance) settled() bool {
	for _, s := range in.list() {
		if _, status := s.Listing(); status.State == mcp.Starting {
			return false
		}
	}
	return true
}
