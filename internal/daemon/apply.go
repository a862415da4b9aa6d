package daemon

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/daemon/added"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/identity"
	"github.com/toolgate/toolgate/internal/daemon/records"
	"github.com/toolgate/toolgate/internal/daemon/servers"
	"github.com/toolgate/toolgate/internal/daemon/tools"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/native/enable"
	"github.com/toolgate/toolgate/proxy"
)

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
}

// applyFirst applies the configuration that the gateway was made of, with what the store
// adds to it. ctx is how long the parts run.
func (d *Daemon) applyFirst(ctx context.Context) error {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	if _, err := d.added.Load(ctx); err != nil {
		return err
	}
	if _, err := d.tools.Load(ctx); err != nil {
		return err
	}
	if err := d.apply(d.Current()); err != nil {
		return err
	}
	d.warnUnconfined(d.settings.inForce())
	d.metrics.Started()
	return nil
}

// applyIf applies the configuration in force once more, if what load reads has
// changed what is served besides.
func (d *Daemon) applyIf(ctx context.Context, load func(context.Context) (changed bool, err error)) error {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	changed, err := load(ctx)
	if err != nil || !changed {
		return err
	}
	return d.apply(d.Current())
}

// apply makes a configuration the running one: equal servers keep their connections,
// others start beside them, removed ones finish their calls. reloading is held.
func (d *Daemon) apply(c *config.Config) error {
	before := d.identities.InForce()
	a, err := d.application(c, before)
	if err != nil {
		return err
	}
	d.tasks.Go(func() { a.known.Prime(d.ctx, d.log) })
	mounts, arguments := d.enabling(a)
	own, retire, err := d.servers.Use(d.ctx, a.plan)
	if err != nil {
		return err
	}
	d.settings.use(a.file, a.c)
	d.use(a, append(mounts, own...), arguments)
	if a.known != before {
		before.Close() // and with them what they knew of tokens
	}
	d.runGates(a)
	if before.Authenticated() { // whoever's key or issuer is gone is served nothing more
		d.gateway.EndSessions(a.known.Knows)
	}
	retire()
	return nil
}

// application makes what a configuration asks for, or says why it cannot be the
// running one.
func (d *Daemon) application(file *config.Config, before *identity.Set) (a *application, err error) {
	a = &application{file: file}
	off := build.KeepOff(file, build.OwnFiles(file, d.state))
	if file.Toolgate.Native.Code != nil { // which takes a while, where a script is in the place of Python
		python := off.Python
		d.tasks.Go(func() { python() })
	}
	a.c, a.sources = d.tools.Beside(file, off)
	off = off.With(a.c)
	a.inForce = a.c.Toolgate
	a.inForce.Listen = d.settings.boot.Listen // to the end
	var owners map[string]string
	a.servers, owners = d.added.Beside(a.c)
	d.hideSecrets(a.c, a.servers)
	if a.limiter, err = d.budgets.limiter(a.c); err != nil {
		return nil, err
	}
	authenticated := before.Authenticated()
	if a.gates, err = build.NewGates(d.ctx, a.c, authenticated && a.inForce.Authenticates(), build.Surroundings{
		Log: d.log, Copies: filepath.Join(d.state.Path, "policy"), Owners: owners,
		Personal: d.servers.Personal(a.servers),
		Decided:  d.gateway.Decided, Reread: d.operation.LookAgain, Failed: d.metrics.PolicyFailed, Registry: d.registry, Relations: &d.operation.Relations, Schemas: d.operation.Schemas,
		Mode: d.operation.Now, Own: off.Own, Native: d.servers.NativeOperator,
	}); err != nil {
		return nil, err
	}
	if a.plan, err = d.servers.Plan(a.c, a.servers, off, authenticated); err != nil {
		return nil, err
	}
	if a.known, err = before.Next(&a.inForce, d.generated); err != nil {
		d.servers.Discard(a.plan)
		return nil, failure.New(failure.Config, fmt.Errorf("%s: %w", a.c.Path, err))
	}
	if authenticated != a.known.Authenticated() {
		d.servers.Discard(a.plan)
		a.known.Close()
		return nil, failure.Newf(failure.Config, "%s: a running gateway cannot begin or cease to ask who callers are; start it again for that", a.c.Path)
	}
	return a, nil
}

// enabling returns what is mounted so that agents can ask for further servers, if the
// configuration has templates of such, and what checks arguments.
func (d *Daemon) enabling(a *application) (mounts []proxy.Mount, arguments proxy.ArgumentChecker) {
	if !slices.ContainsFunc(a.c.Servers, func(s config.Server) bool { return s.Offer != nil }) {
		return nil, a.gates.Examiner
	}
	return []proxy.Mount{{Backend: d.added.Backend(), Namespace: enable.Name, Native: true}},
		added.Checker{Chain: a.gates.Chain, Servers: d.added, Mode: d.operation.Now, Next: a.gates.Examiner}
}

// use has every part of the gateway go by a configuration from now on.
func (d *Daemon) use(a *application, mounts []proxy.Mount, arguments proxy.ArgumentChecker) {
	c := a.c
	d.tools.Use(a.sources)
	d.approvals.use(c, a.known.Authenticated())
	d.added.Use(a.gates.Chain)
	d.orphaned.use(&c.Toolgate.SpiceDB)
	d.renameServers(c)
	d.registry.Configure(a.gates.Catalog)
	applied := proxy.Config{
		Mounts: mounts, Chain: a.gates.Chain, Limiter: a.limiter, Arguments: arguments, Scopes: a.known.Checker(),
		Approver: d.approvals.service, Registry: d.registry, Dependencies: d.needs, Swap: d.identities.SwapTo(a.known),
		Rates: d.rates.Limiter(c), Requests: build.RequestRates(&c.Toolgate.Limits), IdenticalCalls: c.Toolgate.Limits.IdenticalCalls,
		CallsPerPrincipal: c.Toolgate.Limits.CallsPerPrincipal,
		Class:             classOf(a.gates.Examiner), Recording: records.Recording(d.settings.boot.Audit, &d.hidden),
		Outputs: build.OutputChecker{Checker: a.gates.Examiner.Checker},
	}
	d.budgets.inForce.Store(a.limiter)
	d.identities.Tokens.Use(servers.TradesTokens(a.servers))
	if a.gates.Capsules != nil { // a nil pointer would be no nil interface
		applied.Capsules = a.gates.Capsules
	}
	applied.Listed = d.operation.Use(c, a.gates)
	d.gateway.Apply(applied)
}

// runGates runs what the gates of a configuration do by themselves, in place of
// those of the one before. reloading is held.
func (d *Daemon) runGates(a *application) {
	d.operation.Relations.Use(d.ctx, a.gates.Relations, &d.tasks, func(err error) {
		d.log.Error("the relationships are not kept up with any more", "err", err)
	})
	if d.stopGates != nil {
		d.stopGates()
	}
	ctx, stop := context.WithCancel(d.ctx)
	d.stopGates = stop
	d.tasks.Go(func() { a.gates.Run(ctx) })
}
