package daemon

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"sync"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/daemon/added"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/identity"
	"github.com/toolgate/toolgate/internal/daemon/records"
	"github.com/toolgate/toolgate/internal/daemon/registered"
	"github.com/toolgate/toolgate/internal/daemon/servers"
	"github.com/toolgate/toolgate/internal/daemon/tools"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/native/declared"
	"github.com/toolgate/toolgate/native/enable"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/intercept"
	"github.com/toolgate/toolgate/proxy/result"
)

// reloads puts configurations in force, one at a time: it makes everything that a
// configuration asks for before it touches what runs.
type reloads struct {
	d *Daemon

	mu           sync.Mutex         // held while a configuration is read and applied
	stopGates    context.CancelFunc // ends what the gates in force do by themselves
	chain        *intercept.Chain   // of intercepting
	intercepting []intercept.Settings
	asking       *enable.Backend // of the tools with which agents ask for more; nil before the first
	askingFor    enabled
	misfits      misfits
}

// application is a configuration on its way to be the running one: everything that
// is made of it before anything of the running one is touched.
type application struct {
	file    *config.Config  // as it was read
	c       *config.Config  // with the tools from further files and addresses
	sources tools.Sources   // where those are from
	servers []config.Server // of the file, and those that agents have added
	plan    *servers.Plan
	gates   *build.Gates
	limiter *budget.Limiter
	known   *identity.Set
	inForce config.Toolgate

	hiddenAlone func() // forgets the secrets of the configurations before
}

// first applies the configuration that the gateway was made of, with what the store
// adds to it. ctx is how long the parts run.
func (r *reloads) first(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.d.added.Load(ctx); err != nil {
		return err
	}
	if _, err := r.d.tools.Load(ctx); err != nil {
		return err
	}
	if _, err := r.d.registered.Load(ctx); err != nil {
		return err
	}
	if err := r.apply(r.d.Current()); err != nil {
		return err
	}
	r.warnUnconfined(r.d.settings.inForce())
	r.d.metrics.Started()
	return nil
}

// again applies the configuration in force once more, if what load reads has
// changed what is served besides.
func (r *reloads) again(ctx context.Context, load func(context.Context) (changed bool, err error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed, err := load(ctx)
	if err != nil || !changed {
		return err
	}
	return r.apply(r.d.Current())
}

// apply makes a configuration the running one: equal servers keep their connections,
// others start beside them, removed ones finish their calls. mu is held.
func (r *reloads) apply(c *config.Config) error {
	before := r.d.identities.InForce()
	a, err := r.application(c, before)
	if err != nil {
		return err
	}
	r.use(a, before)
	return nil
}

// restart starts one server of the configuration in force again. Calls in flight finish
// at the old one.
func (r *reloads) restart(server string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, runs := r.d.servers.Status(server); !runs {
		return fmt.Errorf("there is no server %q; `toolgate ls` lists them", server)
	}
	before := r.d.identities.InForce()
	a, err := r.application(r.d.Current(), before)
	if err != nil {
		return err
	}
	a.plan.Restart(server)
	r.use(a, before)
	return nil
}

// use puts an application in force. It cannot fail. mu is held.
func (r *reloads) use(a *application, before *identity.Set) {
	r.d.tasks.Go(func() { a.known.Prime(r.d.ctx, r.d.log) })
	own, retire := r.d.servers.Use(r.d.ctx, a.plan)
	mounts, arguments := r.enabling(a, own)
	r.d.settings.use(a.file, a.c)
	r.configure(a, append(mounts, own...), arguments)
	if a.known != before {
		before.Close() // and with them what they knew of tokens
	}
	r.runGates(a)
	if before.Authenticated() { // whoever's key or issuer is gone is served nothing more
		r.d.gateway.EndSessions(a.known.Knows)
	}
	retire(a.hiddenAlone)
}

// application makes what a configuration asks for, or says why it cannot be the
// running one.
func (r *reloads) application(file *config.Config, before *identity.Set) (a *application, err error) {
	a = &application{file: file}
	off := build.KeepOff(file, build.OwnFiles(file, r.d.state))
	if file.Toolgate.Native.Code != nil { // which takes a while, where a script is in the place of Python
		python := off.Python
		r.d.tasks.Go(func() { python() })
	}
	a.c, a.sources = r.d.tools.Beside(file, off)
	owned := r.d.registered.Beside(a.c, off)
	off = off.With(a.c)
	a.inForce = a.c.Toolgate
	a.inForce.Listen = r.d.settings.boot.Listen // to the end
	var owners map[string]string
	a.servers, owners = r.d.added.Beside(a.c)
	a.hiddenAlone = r.d.hideSecrets(a.c, a.servers)
	if a.limiter, err = r.d.budgets.limiter(a.c); err != nil {
		return nil, err
	}
	authenticated := before.Authenticated()
	if a.gates, err = build.NewGates(r.d.ctx, a.c, authenticated && a.inForce.Authenticates(), build.Surroundings{
		Log: r.d.log, Copies: filepath.Join(r.d.state.Path, "policy"), Owners: owners, ToolOwners: owned,
		Personal: r.d.servers.Personal(a.servers),
		Decided:  r.d.gateway.Decided, Reread: r.d.operation.LookAgain, Failed: r.d.metrics.PolicyFailed, Registry: r.d.registry, Relations: &r.d.operation.Relations, Schemas: r.d.operation.Schemas,
		Mode: r.d.operation.Now, Own: off.Own, Native: r.d.servers.NativeOperator,
	}); err != nil {
		return nil, err
	}
	if a.plan, err = r.d.servers.Plan(a.c, a.servers, off, authenticated); err != nil {
		return nil, err
	}
	if a.known, err = before.Next(&a.inForce, r.d.generated); err != nil {
		r.d.servers.Discard(a.plan)
		return nil, failure.New(failure.Config, fmt.Errorf("%s: %w", a.c.Path, err))
	}
	if authenticated != a.known.Authenticated() {
		r.d.servers.Discard(a.plan)
		a.known.Close()
		return nil, failure.Newf(failure.Config, "%s: a running gateway cannot begin or cease to ask who callers are; start it again for that", a.c.Path)
	}
	return a, nil
}

// enabling returns what is mounted beside others so that agents can ask for further servers
// and register tools, if the configuration has templates of such, and read kept results, if
// there are any; and what checks arguments.
func (r *reloads) enabling(a *application, others []proxy.Mount) (mounts []proxy.Mount, arguments proxy.ArgumentChecker) {
	arguments = a.gates.Examiner
	with := enabled{
		servers: slices.ContainsFunc(a.c.Servers, func(s config.Server) bool { return s.Offer != nil }),
		tools:   slices.ContainsFunc(a.c.Toolgate.Tools, func(t declared.Settings) bool { return t.Template }),
		stats:   a.c.Toolgate.Native.Memory != nil,
		results: slices.ContainsFunc(others, func(m proxy.Mount) bool { return m.Keeps() }),
	}
	if with.tools {
		arguments = registered.Checker{Tools: r.d.registered, Mode: r.d.operation.Now, Next: arguments}
	}
	if with.servers {
		arguments = added.Checker{Chain: a.gates.Chain, Servers: r.d.added, Mode: r.d.operation.Now, Next: arguments}
	}
	if with == (enabled{}) {
		return nil, arguments
	}
	return []proxy.Mount{{Backend: r.enable(with), Namespace: enable.Name, Native: true}}, arguments
}

// enabled tells what agents may ask for.
type enabled struct{ servers, tools, stats, results bool }

// enable returns the backend of the tools with which agents ask: the same one for the
// same tools. mu is held.
func (r *reloads) enable(with enabled) *enable.Backend {
	if r.asking == nil || r.askingFor != with {
		var c enable.Catalog
		var t enable.Tools
		if with.servers {
			c = r.d.added
		}
		if with.tools {
			t = r.d.registered
		}
		r.asking, r.askingFor = enable.New(c, t), with
		if with.stats {
			r.asking = r.asking.WithStats(toolStats{r.d})
		}
		if with.results {
			r.asking = r.asking.WithResults(result.Query)
		}
	}
	return r.asking
}

// configure has every part of the gateway go by a configuration from now on.
func (r *reloads) configure(a *application, mounts []proxy.Mount, arguments proxy.ArgumentChecker) {
	c := a.c
	r.d.tools.Use(a.sources)
	r.d.approvals.use(c, a.known.Authenticated())
	r.d.added.Use(a.gates.Chain)
	r.d.registered.Use(a.gates.Chain)
	r.d.vectors.Use(&c.Toolgate.Find.Embeddings)
	r.d.orphaned.use(&c.Toolgate.SpiceDB)
	r.renameServers(c)
	catalog := a.gates.Catalog
	catalog.Describe = describing(c, a.gates.Examiner.Rules, r.d.servers)
	r.d.registry.Configure(catalog)
	describe := r.d.noting(presenting(c, a.gates.Examiner, r.d.registry))
	for i := range mounts {
		mounts[i].Describe = describe
	}
	applied := proxy.Config{
		Mounts: mounts, Chain: a.gates.Chain, Limiter: a.limiter, Arguments: arguments, Scopes: a.known.Checker(),
		Approver: r.d.approvals.service, Registry: r.d.registry, Dependencies: r.d.needs, Swap: r.d.identities.SwapTo(a.known),
		Interceptors: r.interceptors(c),
		Rates:        r.d.rates.Limiter(c, r.d.servers.NativeRates(a.file)), Requests: c.Toolgate.Limits.Rates, IdenticalCalls: c.Toolgate.Limits.IdenticalCalls,
		CallsPerPrincipal: c.Toolgate.Limits.CallsPerPrincipal,
		Class:             classOf(a.gates.Examiner), Recording: records.Recording(r.d.settings.boot.Audit, &r.d.hidden),
		Pins: build.Pins(&c.Toolgate.Find, a.gates.Capsules), AnswerTokens: c.Toolgate.Find.AnswerTokens, Schemas: c.Toolgate.Schemas,
		Outputs: build.OutputChecker{Checker: a.gates.Examiner.Checker}, Reusable: a.gates.Examiner.Reusable,
	}
	r.d.budgets.inForce.Store(a.limiter)
	r.d.identities.Tokens.Use(servers.TradesTokens(a.servers))
	if a.gates.Steps != nil {
		applied.Offered = func(offers []*gate.Offer) {
			a.gates.Steps.Learn(offers)
			for _, text := range r.misfits.news(a.gates.Steps.Misfits()) {
				r.d.log.Warn("a step of a tool cannot do its call", "why", text)
			}
		}
	}
	if a.gates.Capsules != nil { // a nil pointer would be no nil interface
		applied.Capsules = a.gates.Capsules
	}
	applied.Listed = r.d.operation.Use(c, a.gates)
	r.d.replays.Use(a.gates.Policy, c.Toolgate.OPA, c.Toolgate.Limits.InputLimits)
	r.d.gateway.Apply(applied)
	r.d.schedule.Changed()
}

// interceptors returns those of a configuration: the ones in force where nothing of them
// has changed, with what they have said of definitions. mu is held.
func (r *reloads) interceptors(c *config.Config) *intercept.Chain {
	if set := c.Toolgate.Interceptors; !reflect.DeepEqual(set, r.intercepting) {
		r.intercepting, r.chain = set, build.Interceptors(set, r.d.servers)
		r.d.definitions.Use(r.chain)
	}
	return r.chain
}

// runGates runs what the gates of a configuration do by themselves, in place of
// those of the one before. mu is held.
func (r *reloads) runGates(a *application) {
	r.d.operation.Relations.Use(r.d.ctx, a.gates.Relations, &r.d.tasks, func(err error) {
		r.d.log.Error("changes of relationships are no longer followed", "err", err)
	})
	if r.stopGates != nil {
		r.stopGates()
	}
	ctx, stop := context.WithCancel(r.d.ctx)
	r.stopGates = stop
	r.d.tasks.Go(func() { a.gates.Run(ctx) })
}
