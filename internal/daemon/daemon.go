package daemon

import (
	"context"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/budget/rate"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/internal/background"
	"github.com/toolgate/toolgate/internal/cluster"
	"github.com/toolgate/toolgate/internal/console"
	"github.com/toolgate/toolgate/internal/daemon/added"
	"github.com/toolgate/toolgate/internal/daemon/agents"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/catalogs"
	"github.com/toolgate/toolgate/internal/daemon/hidden"
	"github.com/toolgate/toolgate/internal/daemon/home"
	"github.com/toolgate/toolgate/internal/daemon/identity"
	"github.com/toolgate/toolgate/internal/daemon/inside"
	"github.com/toolgate/toolgate/internal/daemon/learning"
	"github.com/toolgate/toolgate/internal/daemon/listen"
	"github.com/toolgate/toolgate/internal/daemon/operate"
	"github.com/toolgate/toolgate/internal/daemon/placed"
	"github.com/toolgate/toolgate/internal/daemon/queued"
	"github.com/toolgate/toolgate/internal/daemon/records"
	"github.com/toolgate/toolgate/internal/daemon/registered"
	"github.com/toolgate/toolgate/internal/daemon/replay"
	"github.com/toolgate/toolgate/internal/daemon/schedule"
	"github.com/toolgate/toolgate/internal/daemon/servers"
	"github.com/toolgate/toolgate/internal/daemon/signin"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/daemon/tools"
	"github.com/toolgate/toolgate/internal/daemon/tries"
	"github.com/toolgate/toolgate/internal/descent"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/logs"
	"github.com/toolgate/toolgate/internal/loopback"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/orphan"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/telemetry"
	"github.com/toolgate/toolgate/internal/version"
	"github.com/toolgate/toolgate/native/plugins/notify"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/auth"
	"github.com/toolgate/toolgate/proxy/find"
	"github.com/toolgate/toolgate/proxy/find/vectors"
	"github.com/toolgate/toolgate/proxy/findview"
	"github.com/toolgate/toolgate/proxy/intercept"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/upstream"
)

// Options are what a gateway takes from whoever starts it.
type Options struct {
	// Log makes the log of a configuration, and what writes it.
	Log func(*config.Config) (*slog.Logger, *logs.Writer)
	// Read reads a configuration file anew.
	Read func(path string) (*config.Config, error)
	// Awaits has it start without its database, and refuse what needs that until it is
	// there.
	Awaits bool
	// WaitFirst is how long initialize and the first lists wait for servers that have
	// never been seen; zero is the gateway's own choice.
	WaitFirst time.Duration
	// HomeClients returns the clients that the page at the gateway's address has entries
	// for; nil is none. See [home.Options].
	HomeClients func(url string, keys bool) []home.Client
}

// Daemon is one running gateway with all its parts. Make it with [New] and run it with
// [Daemon.Run]; [Daemon.Close] closes one that is not run. It is safe for concurrent use.
type Daemon struct {
	opts    Options
	log     *slog.Logger
	logs    *logs.Writer // behind log
	started time.Time

	// What the parts stand on.
	state     *statedir.Dir
	store     *store.Store
	claim     io.Closer // keeps other gateways from the state folder where the store does not; nil where it does
	keys      *seal.Keyring
	metrics   *telemetry.Metrics
	hidden    hidden.Secrets // from whoever reads what is shown
	settings  settings
	reloads   reloads
	generated string // hash of the key that was made for the listener; empty for none

	// The parts. Most have their own state, their own lock and their own Run.
	records     *records.Records // of calls and changes
	gateway     *proxy.Gateway
	cluster     *cluster.Cluster // nil where this gateway is alone
	places      *placed.Places   // of servers that several gateways share
	servers     *servers.Table
	queues      *queued.Link // to the engine of the queues
	catalogs    *catalogs.Saver
	added       *added.Servers    // by agents
	tools       *tools.Tools      // declared elsewhere
	registered  *registered.Tools // by agents, from templates
	registry    *registry.Registry
	operation   *operate.Operation     // the mode, and what the gateway needs to decide
	signIn      *signin.Service        // where people sign in to servers
	inside      *inside.Groups         // of tools that the gateway serves itself
	agents      *agents.Host           // runs the agents of the configuration
	schedule    *schedule.Runner       // makes the calls that callers have planned
	vectors     *vectors.Vectors       // by which tools are found
	definitions *intercept.Definitions // what interceptors say of what is listed
	learning    *learning.Service      // from searches
	tries       *tries.Service         // calls by hand
	replays     *replay.Service        // of recorded calls, with other policies
	approvals   approvals
	budgets     budgets

	// Parts with their own lock that have nothing to run.
	identities *identity.Keeper // who callers are
	rates      *build.Rates
	orphaned   *orphanedRelations
	messages   *limit.Bytes // what clients send, as far as it is held

	// Set before Run.
	onStore    map[string][]func() // by topic of the store
	onChange   func()              // told when a server has changed; nil for nobody
	onMakeRoom func()              // ends this gateway for another one; nil where that may not be
	unguard    func()              // ends the guardian, when every server has ended

	ctx     context.Context                 // of Run
	tasks   background.Group                // what is done in the background until ctx ends
	console atomic.Pointer[console.Console] // nil while none is served
}

// New opens everything that a gateway needs. generatedKey is the hash of the key that was
// made for the listener, empty for none. What New opened is closed by Run, or by Close
// when Run is not called.
func New(ctx context.Context, o Options, c *config.Config, state *statedir.Dir, generatedKey string) (_ *Daemon, err error) {
	d := &Daemon{opts: o, state: state, metrics: telemetry.New(version.Version), started: time.Now(), generated: generatedKey}
	d.metrics.TellUsersApart(c.Toolgate.Telemetry.Users)
	d.settings, d.reloads = settings{boot: c.Toolgate, file: c}, reloads{d: d}
	d.log, d.logs = o.Log(c)
	d.hideSecrets(c, c.Servers)
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	d.endOrphans()
	if d.store, d.claim, err = statedir.OpenStore(ctx, c, state, d.log, o.Awaits); err != nil {
		return nil, err
	}
	if d.keys, err = state.Keyring(c.Toolgate.Keys); err != nil {
		return nil, failure.New(failure.Config, err)
	}
	known, err := identity.NewSet(&c.Toolgate, generatedKey)
	if err != nil {
		return nil, err
	}
	d.identities = identity.NewKeeper(known, d.log)
	if d.records, err = records.Open(ctx, records.Options{
		Log: d.log, Metrics: d.metrics, Store: d.store, State: state, Hidden: &d.hidden, Config: d.Current,
	}, c, known.Authenticated()); err != nil {
		return nil, err
	}
	if d.rates, err = build.NewRates(c, d.metrics, d.log); err != nil {
		return nil, failure.New(failure.Config, err)
	}
	d.budgets.Store = build.BudgetStore(c.Toolgate.BudgetsIn, build.BudgetParts{Store: d.store, Redis: d.rates.Redis, Log: d.log})
	d.budgets.observe, d.orphaned = d.records.CountCharge, &orphanedRelations{log: d.log}
	d.registry = registry.New(registry.Options{
		Store: d.store, Logger: d.log, OnChange: func() { d.gateway.Changed("") }, OnRename: d.orphaned.renamed,
		OnOutdated: func(keys []string) { d.servers.ListAgain(keys) },
		Gateway:    statedir.Sharing(c, state), StandIn: upstream.SignInDefinition(),
	})
	d.approvals = newApprovals(d.store, d.records, d.log)
	d.tools = tools.New(tools.Options{
		Log: d.log, Store: d.store.Declared(), Keys: d.keys, State: state, Config: d.Current, InForce: d.settings.inForce, Apply: d.reloads.again,
	})
	d.added = added.New(added.Options{
		Log: d.log, Store: d.store.Dynamic(), Config: d.Current, Apply: d.reloads.again,
		Status: func(server string) (mcp.Status, bool) { return d.servers.Status(server) }, Settle: d.Settle,
	})
	d.registered = registered.New(registered.Options{
		Log: d.log, Store: d.store.Dynamic().Tools(), Keys: d.keys, InForce: d.settings.inForce, Apply: d.reloads.again, Settle: d.Settle,
		Off: func(c *config.Config) *build.KeptOff { return build.KeepOff(c, build.OwnFiles(c, state)) },
	})
	d.vectors = build.Vectors(d.store, d.log)
	d.definitions = intercept.NewDefinitions(d.log, d.records.Intercepted, func() { d.gateway.Changed("") })
	d.catalogs = catalogs.NewSaver(d.store, d.keys, d.log)
	d.signIn, d.tries = d.newSignIn(), d.newTries()
	d.replays = replay.New(replay.Options{Log: d.log, Keys: d.keys, Read: d.records.Reader().Since})
	d.serveInside()
	if d.servers, err = d.newServers(c); err != nil {
		return nil, err
	}
	if err := d.newCluster(); err != nil {
		return nil, err
	}
	if d.gateway, err = proxy.New(d.gatewayOptions(c, known)); err != nil {
		return nil, err
	}
	if o.WaitFirst > 0 {
		d.gateway.WaitFirst(o.WaitFirst)
	}
	if d.operation, err = operate.New(ctx, operate.Options{
		Log: d.log, State: state, Calls: d.gateway, First: c.Toolgate.Governance.Mode, There: d.targets,
		Scopes: func() *auth.Scopes { return d.identities.InForce().Scopes }, Record: d.records.Auditor().Append,
		Shown: d.metrics.Mode, Scarce: d.messages.Scarce, StoreCame: d.catalogs.Changed,
	}, d.store.Modes()); err != nil {
		return nil, err
	}
	d.followStore()
	return d, nil
}

// followStore says who is told of which changes in the store.
func (d *Daemon) followStore() {
	d.onStore = map[string][]func(){
		store.TopicApprovals:    {d.approvals.service.Changed, d.records.ApprovalsChanged},
		store.TopicDynamic:      {d.added.StoreChanged},
		store.TopicDeclared:     {d.tools.StoreChanged},
		store.TopicDynamicTools: {d.registered.StoreChanged},
		store.TopicSchedules:    {d.schedule.Changed},
		store.TopicRuns:         {d.agents.Changed},
		store.TopicLearning:     {d.learning.Changed},
		store.TopicCredentials:  {d.servers.CredentialsChanged},
		store.TopicRegistry:     {d.registry.Changed},
		store.TopicFlags:        {d.registry.Changed},
		store.TopicRestrictions: {d.registry.Changed},
		store.TopicMode:         {d.operation.ModeChanged},
	}
	if d.cluster != nil {
		d.onStore[cluster.Topic], d.onStore[cluster.TopicLists] = []func(){d.cluster.Changed}, []func(){func() { proxy.ChangedElsewhere(d.gateway) }}
		d.onStore[cluster.TopicOffers] = []func(){d.places.Offered}
	}
}

// endOrphans sees to it that no process outlives the gateway that has started it.
func (d *Daemon) endOrphans() {
	if err := descent.Adopt(); err != nil {
		d.log.Warn("a server that detaches itself from the gateway may reach the control socket", "err", err)
	}
	d.unguard = orphan.Guard(func(err error) {
		d.log.Warn("what servers have started may outlive a gateway that is killed: its guardian does not run, or has ended and is started again",
			"err", err, "try", "have the service manager end the whole control group (systemd: KillMode=control-group), and see that the user may run another process")
	})
}

// newSignIn returns where people sign in to the servers of the gateway.
func (d *Daemon) newSignIn() *signin.Service {
	return signin.New(signin.Options{
		Callers: d.identities, Store: d.store, Keys: d.keys, Log: d.log, PublicURL: d.settings.boot.Listen.PublicURL,
		Servers: func() []signin.Server { return d.servers.SignIns() },
		Changed: func(server, principal string) { d.servers.CredentialChanged(server, principal) },
		Hide:    d.hidden.Learn, Serve: listen.Serve,
	})
}

// serveInside makes the groups of tools that the gateway serves itself.
func (d *Daemon) serveInside() {
	d.serveAgents()
	d.inside = inside.New(inside.Parts{
		Store: d.store, Hidden: &d.hidden, Keys: d.keys, Gateway: func() inside.Gateway { return d.gateway }, Lasts: d.identities.Lasts, Notify: d.notifies,
		Agents: d.agents,
	})
	d.schedule = schedule.New(schedule.Options{
		Log: d.log, Calls: store.NewSchedules(d.store), On: func() bool { return d.Current().Toolgate.Native.Schedule != nil },
		Present: d.identities.Present, Make: d.inside.Make,
	})
}

// notifies returns where messages to users are posted.
func (d *Daemon) notifies() notify.Receiver {
	if set := d.Current().Toolgate.Native.Notify; set != nil {
		return set.Webhook
	}
	return notify.Receiver{}
}

// newServers returns the table of servers, none of which runs yet, with the link to their queues.
func (d *Daemon) newServers(c *config.Config) (_ *servers.Table, err error) {
	if d.queues, err = queued.NewLink(c.Toolgate.Queue, d.keys, d.log); err != nil {
		return nil, err
	}
	return servers.New(servers.Options{
		Placed: d.placed(),
		Log:    d.log, Metrics: d.metrics, State: d.state, SignIn: d.signIn, Shown: d.hidden.Shown,
		Catalogs: d.catalogs, Unanswered: catalogs.NewUnanswered(d.store.Meta(), d.log), Tasks: build.QueueLimits(c),
		Send: d.queues.Send, Queued: d.queues.Queued,
		Inside: d.inside.Plugin,
		Sample: func(ctx context.Context, id *gate.Identity, agent string, params []byte) ([]byte, *mcp.Error) {
			return d.agents.Sample(ctx, id, agent, params)
		},
		Changed: d.serverChanged,
		NativeChanged: func() {
			d.rates.Renew(func() (file, own []rate.Rule) {
				return build.RateRules(d.settings.inForce()), d.servers.NativeRates(d.Current())
			})
		},
		Relisted: func() { d.gateway.Decided() },

		CredentialChanged: func(server string) { d.gateway.CredentialChanged(server) },
		Happened:          func(ev mcp.Event) { d.gateway.Happened(ev) },
		BreakerChanged:    d.noteBreaker,
	})
}

// gatewayOptions are those of the gateway that belongs to a daemon.
func (d *Daemon) gatewayOptions(c *config.Config, known *identity.Set) proxy.Options {
	g := build.GatewayOptions(c)
	g.Authenticator, g.Resource, g.Auditor, g.Keys, g.Logger = d.identities, d.identities, d.records.CallAuditor(c.Toolgate.Log.Calls), d.keys, d.log
	d.messages = build.Messages(&c.Toolgate.Limits)
	g.Messages = d.messages
	g.LocalOrigins = known.Authenticated()
	g.AnyHost = known.Authenticated() && !loopback.Address(c.Toolgate.Listen.HTTP)
	g.CapabilityIDs = capabilityIDs(d.store)
	g.UseRound = d.store.Rounds().Use
	g.FirstListTimedOut = func(keys []string) {
		d.tasks.Go(func() {
			catalogs.NewUnanswered(d.store.Meta(), d.log).Note(context.WithoutCancel(d.ctx), d.servers.Specs(keys))
		})
	}
	g.Advisers, g.Indexed = append(g.Advisers, d.vectors), d.vectors.Indexed
	g.Shared = d.rates.Shared
	g.Metrics, g.Tracer = d.records.Counting(), d.records.Tracer()
	if d.cluster != nil {
		g.Replicas, g.SessionStates = d.cluster, cluster.NewStates(d.store, d.keys, d.log)
		g.ListsChanged = d.announceLists
	}
	d.learn(&g)
	return g
}

// learn has a gateway learn from searches.
func (d *Daemon) learn(g *proxy.Options) {
	d.learning = learning.New(learning.Options{
		Log: d.log, Store: store.NewLearning(d.store), Redact: &d.hidden, Compared: d.metrics.Compared,
		Mode: func() findview.Learning { return d.Current().Toolgate.Find.Learning }, Advisers: func() []find.Adviser { return g.Advisers },
	})
	g.Advisers = append(g.Advisers, d.learning)
	g.Auditor, g.Searched = d.learning.Auditor(g.Auditor), d.learning.Searched
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

// serverChanged is told that a server is in another state, or lists something else.
func (d *Daemon) serverChanged(server string) {
	d.gateway.Changed(server)
	d.catalogs.Changed()
	if d.onChange != nil {
		d.onChange()
	}
}

// OnChange has f called whenever a server has changed, and after each reload. It is set before
// Run.
func (d *Daemon) OnChange(f func()) { d.onChange = f }

// OnMakeRoom lets another gateway take the place of this one: f ends this one. It is set
// before Run; a gateway without it stays.
func (d *Daemon) OnMakeRoom(f func()) { d.onMakeRoom = f }

// Started is when the gateway was made.
func (d *Daemon) Started() time.Time { return d.started }

// Current returns the configuration in force, as it was read.
func (d *Daemon) Current() *config.Config { return d.settings.current() }

// Settled tells whether every server has been heard of.
func (d *Daemon) Settled() bool { return d.servers.Settled() }

// Settle waits, as long as ctx lasts, until clients are shown what servers have listed.
func (d *Daemon) Settle(ctx context.Context) { d.gateway.Settle(ctx) }

// CheckKey tells whether a client with an API key or token would be served; the error
// says why not.
func (d *Daemon) CheckKey(ctx context.Context, key string) error {
	_, err := d.identities.Identity(ctx, key)
	return err
}

// Authenticated tells whether clients have to say who they are.
func (d *Daemon) Authenticated() bool { return d.identities.Authenticated() }

// hideSecrets keeps the secrets of settings out of what is shown, besides those of the
// settings before; see [hidden.Secrets.Use].
func (d *Daemon) hideSecrets(c *config.Config, list []config.Server) (alone func()) {
	alone = d.hidden.Use(build.KnownSecrets(c, list, os.LookupEnv), d.log)
	if d.logs != nil {
		d.logs.Redact(&d.hidden)
	}
	return alone
}
