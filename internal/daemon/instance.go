package daemon

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
	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/added"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/hidden"
	"github.com/toolgate/toolgate/internal/daemon/identity"
	"github.com/toolgate/toolgate/internal/daemon/operate"
	"github.com/toolgate/toolgate/internal/daemon/records"
	"github.com/toolgate/toolgate/internal/daemon/signin"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/daemon/tools"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/logs"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/orphan"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/telemetry"
	"github.com/toolgate/toolgate/internal/version"
	"github.com/toolgate/toolgate/native"
	"github.com/toolgate/toolgate/native/queue"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/auth"
	"github.com/toolgate/toolgate/proxy/guard"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/upstream"
	"github.com/toolgate/toolgate/upstream/credential"
)

// removedTime is how long a server that was removed may finish its calls.
const removedTime = 10 * time.Second

// Daemon is one running gateway with all its parts. It is made by
// newInstance and lives as long as run.
type Daemon struct {
	Opts      Options
	Log       *slog.Logger
	logs      *logs.Writer   // behind log
	Hidden    hidden.Secrets // from whoever reads what is shown
	State     *statedir.Dir
	Store     *store.Store
	claim     io.Closer        // keeps other gateways from the state folder where the store does not; nil where it does
	Records   *records.Records // of calls and changes
	keys      *seal.Keyring
	Metrics   *telemetry.Metrics
	Messages  *limit.Bytes // what clients send, as far as it is held
	Gateway   *proxy.Gateway
	saver     *CatalogSaver
	Approvals *approval.Service
	webhook   *approval.Webhook
	Budgets   budgets
	limiter   atomic.Pointer[budget.Limiter] // in force

	host    *native.Host
	Natives nativeTools

	added *added.Servers // by agents
	tools *tools.Tools   // declared elsewhere

	onStore map[string][]func() // by topic of the store; complete before run

	registry   *registry.Registry
	lost       *lostRelations
	rates      *build.Rates
	Operation  *operate.Operation // the mode, and what it needs; see mode.go
	Leave      func()             // ends this gateway for another one; nil where that may not be
	begun      config.Toolgate    // the settings at the start; some stay in force to the end
	Identities *identity.Keeper   // who callers are
	SignIn     *signin.Service    // where people sign in to servers
	fleets     sync.Map           // of servers at which callers sign in by themselves, by server
	generated  string             // hash of the key that was made for the listener; empty for none

	ctx     context.Context // of run
	Running sync.WaitGroup  // servers

	reloading sync.Mutex // one reload at a time; taken before mu

	mu         sync.Mutex
	Config     *config.Config
	servers    map[string]*runningServer
	declared   map[string]*declaredServer // by namespace
	inForce    *config.Config             // config, with the tools that are declared elsewhere
	queue      *queue.Pool                // of the calls that run as tasks
	stopGates  context.CancelFunc
	namespaces map[string]string // by server
	pending    []config.Pending
	later      []string // settings of the file that the next start takes over
	OnChange   func()   // told when a server has changed; nil for nobody
	unguard    func()   // ends the guardian, when every server has ended
	Started    time.Time
}

// runningServer is a server with what ends it.
type runningServer struct {
	federated
	upstream reached        // nil for native tools
	Native   *native.Plugin // nil for everything else

	guard  *guard.Guard
	queued *queue.Backend     // before the guard; nil for everything but native tools
	sink   *serverSink        // nil for native tools
	source *credential.Source // nil where the headers of the file are all
	hash   string
	stop   context.CancelFunc
}

// Options are what a gateway takes from whoever starts it.
type Options struct {
	// Log makes the log of a configuration, and what writes it.
	Log func(*config.Config) (*slog.Logger, *logs.Writer)
	// Read reads a configuration file anew.
	Read func(path string) (*config.Config, error)
	// Awaits has it start without its database, and refuse what needs that until it is
	// there.
	Awaits bool
}

// New opens everything that a gateway needs. What it opened is closed
// by run, or by close when run is not reached.
func New(ctx context.Context, o Options, c *config.Config, state *statedir.Dir, generatedKey string) (_ *Daemon, err error) {
	in := &Daemon{
		Opts: o, State: state, Config: c, servers: make(map[string]*runningServer),
		Metrics: telemetry.New(version.Version), Started: time.Now(), generated: generatedKey, begun: c.Toolgate,
	}
	in.Log, in.logs = o.Log(c)
	in.hideSecrets(c, c.Servers)
	defer func() {
		if err != nil {
			in.Close()
		}
	}()
	if err := admin.Adopt(); err != nil {
		in.Log.Warn("a server that leaves its descent may reach the control side", "err", err)
	}
	in.unguard = orphan.Guard(func(err error) {
		in.Log.Warn("what servers have started may outlive a gateway that is killed: its guardian does not run, or has ended and is started again",
			"err", err, "try", "have the service manager end the whole control group (systemd: KillMode=control-group), and see that the user may run another process")
	})
	if in.Store, in.claim, err = statedir.OpenStore(ctx, c, state, in.Log, o.Awaits); err != nil {
		return nil, err
	}
	in.Budgets.Store = sqlstore.New(in.Store, in.Log)
	in.lost = &lostRelations{log: in.Log}
	in.registry = registry.New(registry.Options{
		Store: in.Store, Logger: in.Log, OnChange: func() { in.Gateway.Changed("") }, OnRename: in.lost.renamed,
		OnOutdated: func(servers []string) { LookAgain(in.List(), servers) },
		Gateway:    statedir.Sharing(c, state), StandIn: upstream.SignInDefinition(),
	})
	if in.keys, err = state.Keyring(c.Toolgate.Keys); err != nil {
		return nil, failure.New(failure.Config, err)
	}
	known, err := identity.NewSet(&c.Toolgate, generatedKey)
	if err != nil {
		return nil, err
	}
	in.Identities = identity.NewKeeper(known, in.Log)
	if in.Records, err = records.Open(ctx, records.Options{
		Log: in.Log, Metrics: in.Metrics, Store: in.Store, State: state, Hidden: &in.Hidden, Config: in.Current,
	}, c, known.Authenticated()); err != nil {
		return nil, err
	}
	in.Budgets.observe = in.Records.CountCharge
	in.SignIn = in.signInService()
	in.queue = queue.New(build.QueueLimits(c), in.Log)
	in.Approvals = approval.New(in.Store.Approvals(), in.Log)
	in.webhook = approval.NewWebhook(in.Log)
	in.tools = tools.New(tools.Options{
		Log: in.Log, Store: in.Store.Declared(), Keys: in.keys, State: state, Config: in.Current, InForce: in.withDeclared, Apply: in.applyIf,
	})
	in.added = added.New(added.Options{
		Log: in.Log, Store: in.Store.Dynamic(), Config: in.Current, Apply: in.applyIf, Status: in.statusOf,
		Settle: func(ctx context.Context) { in.Gateway.Settle(ctx) },
	})
	in.onStore = map[string][]func(){
		store.TopicApprovals:   {in.Approvals.Changed, in.Records.ApprovalsChanged},
		store.TopicDynamic:     {in.added.StoreChanged},
		store.TopicDeclared:    {in.tools.StoreChanged},
		store.TopicCredentials: {in.credentialsChanged},
		store.TopicRegistry:    {in.registry.Changed}, store.TopicFlags: {in.registry.Changed}, store.TopicRestrictions: {in.registry.Changed},
	}
	if in.host, err = newHost(in); err != nil {
		return nil, err
	}
	in.saver = &CatalogSaver{Store: in.Store, Keys: in.keys, Log: in.Log, Saved: make(map[string]*mcp.Listing), Wake: make(chan struct{}, 1)}

	if in.rates, err = build.NewRates(c, in.Metrics, in.Log); err != nil {
		return nil, failure.New(failure.Config, err)
	}
	if c.Toolgate.BudgetsIn == "redis" {
		in.Budgets.Store = in.rates.Redis.Budgets(build.BudgetEpoch{Meta: in.Store.Meta()})
	}

	if in.Gateway, err = proxy.New(gatewayOptions(in, c, known)); err != nil {
		return nil, err
	}
	if in.Operation, err = operate.New(ctx, operate.Options{
		Log: in.Log, State: state, Calls: in.Gateway, First: c.Toolgate.Governance.Mode, There: in.offered,
		Scopes: func() *auth.Scopes { return in.Identities.InForce().Scopes }, Record: in.Records.Auditor().Append,
		Shown: in.Metrics.Mode, Scarce: in.Messages.Scarce, StoreCame: in.saver.signal,
	}, in.Store.Modes()); err != nil {
		return nil, err
	}
	in.onStore[store.TopicMode] = []func(){in.Operation.ModeChanged}
	return in, nil
}

// gatewayOptions are those of the gateway that belongs to a daemon.
func gatewayOptions(in *Daemon, c *config.Config, known *identity.Set) proxy.Options {
	g := build.GatewayOptions(c)
	g.Authenticator, g.Resource, g.Auditor, g.Keys, g.Logger = in.Identities, in.Identities, in.Records.Auditor(), in.keys, in.Log
	in.Messages = build.Messages(&c.Toolgate.Limits)
	g.Messages = in.Messages
	g.LocalOrigins = known.Authenticated()
	g.AnyHost = known.Authenticated() && !build.Loopback(c.Toolgate.Listen.HTTP)
	g.CapabilityIDs = capabilityIDs(in.Store)
	g.UseRound = in.Store.Rounds().Use
	g.FirstMissed = func(servers []string) {
		in.Running.Go(func() {
			Unheard{in.Store.Meta(), in.Log}.Missed(context.WithoutCancel(in.ctx), specsOf(in.List(), servers))
		})
	}
	g.Metrics, g.Tracer = in.Records.Counting(), in.Records.Tracer()
	return g
}

// capabilityIDs has the store name what servers offer.
func capabilityIDs(s *store.Store) func(context.Context, []proxy.CapabilityKey) ([]string, error) {
	return func(ctx context.Context, keys []proxy.CapabilityKey) ([]string, error) {
		own := make([]store.CapabilityKey, len(keys))
		for i, k := range keys {
			own[i] = store.CapabilityKey{Server: k.Server, Kind: k.Kind, Original: k.Original}
		}
		return s.Capabilities().IDs(ctx, own)
	}
}

// Run starts the parts, applies the configuration, calls serve and ends
// everything when that returns, or when the context has ended and the calls under
// way have too (see drain).
func (in *Daemon) Run(ctx context.Context, serve func(context.Context) error) error {
	defer in.Close()
	parts, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	// What others still need while they end runs on until they have.
	last, stopLast := context.WithCancel(context.WithoutCancel(parts))
	var late errgroup.Group
	late.Go(func() error { return in.Store.Run(last) })
	late.Go(func() error { return in.Records.Run(last) })

	group, gctx := errgroup.WithContext(parts)
	in.ctx = gctx
	_, err := in.added.Load(gctx)
	if err == nil {
		_, err = in.tools.Load(gctx)
	}
	if err == nil {
		err = in.apply(in.Config)
	}
	if err != nil {
		stopLast()
		return errors.Join(err, late.Wait())
	}
	in.warnUnconfined(in.withDeclared())
	in.Metrics.Started()
	group.Go(func() error { return in.Store.Watch(gctx, in.storeChanged) })
	group.Go(func() error { return in.webhook.Run(gctx) })
	group.Go(func() error { return admin.SweepAdopted(gctx) })
	group.Go(func() error { return in.added.Run(gctx) })
	group.Go(func() error { return in.tools.Run(gctx) })
	group.Go(func() error { return in.Gateway.Run(gctx) })
	group.Go(func() error { return in.SignIn.Run(gctx) })
	group.Go(func() error { return in.saver.Run(gctx, in) })
	group.Go(func() error { return in.Budgets.run(gctx) })
	group.Go(func() error { return in.registry.Run(gctx) })
	group.Go(func() error { return in.Operation.Run(gctx) })
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
	in.Running.Wait()
	stopLast()
	return errors.Join(err, late.Wait())
}

func (in *Daemon) Close() {
	if in.unguard != nil {
		in.unguard()
	}
	if in.Identities != nil {
		in.Identities.InForce().Close()
	}
	in.rates.Close()
	if in.Records != nil {
		in.Records.Close()
	}
	if in.Store != nil {
		if err := in.Store.Close(); err != nil {
			in.Log.Error("close the store", "err", err)
		}
	}
	if in.claim != nil {
		in.claim.Close()
	}
}

// storeChanged is told what has changed in the store, by whichever gateway that
// shares it. It does not block.
func (in *Daemon) storeChanged(topic string, _ int64) {
	for _, tell := range in.onStore[topic] {
		tell()
	}
}

// Changed implements upstream.Sink.
func (in *Daemon) Changed(server string) {
	in.Gateway.Changed(server)
	in.saver.signal()
	if in.OnChange != nil {
		in.OnChange()
	}
}

// Happened implements upstream.Sink.
func (in *Daemon) Happened(ev mcp.Event) { in.Gateway.Happened(ev) }

// List returns the servers in the order of their keys.
func (in *Daemon) List() []*runningServer {
	in.mu.Lock()
	defer in.mu.Unlock()
	out := make([]*runningServer, 0, len(in.servers))
	for _, key := range slices.Sorted(maps.Keys(in.servers)) {
		out = append(out, in.servers[key])
	}
	return out
}

// Current returns the configuration in force.
func (in *Daemon) Current() *config.Config {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.Config
}

// Settled tells whether every server has been heard of.
func (in *Daemon) Settled() bool {
	for _, s := range in.List() {
		if _, status := s.Listing(); status.State == mcp.Starting {
			return false
		}
	}
	return true
}
