package daemon

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/daemon/added"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/identity"
	"github.com/toolgate/toolgate/internal/daemon/records"
	"github.com/toolgate/toolgate/internal/daemon/tools"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native"
	"github.com/toolgate/toolgate/native/enable"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/guard"
	"github.com/toolgate/toolgate/upstream"
	"github.com/toolgate/toolgate/upstream/transport"
	"github.com/toolgate/toolgate/upstream/credential"
)

// application is a configuration on its way to be the running one: everything that
// is made of it before anything of the running one is touched.
type application struct {
	file    *config.Config // as it was read
	c       *config.Config // with the tools from further files and addresses
	sources tools.Sources  // where those are from
	servers []config.Server
	mounts  []build.MountOf // of servers
	native  map[string]native.Spec
	tools   map[string]*declaredServer
	gates   *build.Gates
	limiter *budget.Limiter
	known   *identity.Set
	inForce config.Toolgate
}

// apply makes a configuration the running one: equal servers keep their
// connections, others start beside them, removed ones finish their calls.
func (in *Daemon) apply(c *config.Config) error {
	before := in.Identities.InForce()
	a, err := in.application(c, before)
	if err != nil {
		return err
	}
	in.Running.Go(func() { a.known.Prime(in.ctx, in.Log) })
	in.mu.Lock()
	defer in.mu.Unlock()
	mounts, arguments, err := in.beside(a)
	if err != nil {
		return err
	}
	next, own := in.nextServers(a, before.Authenticated())
	removed := in.replaced(next)
	in.servers, in.Config, in.inForce, in.namespaces = next, a.file, a.c, namespaces(a.servers)
	in.use(a, next, append(mounts, own...), arguments)
	if a.known != before {
		before.Close() // and with them what they knew of tokens
	}
	in.runGates(a)
	if before.Authenticated() { // whoever's key or issuer is gone is served nothing more
		in.Gateway.EndSessions(a.known.Knows)
	}
	for _, old := range removed {
		in.Running.Go(func() {
			ctx, cancel := context.WithTimeout(in.ctx, removedTime)
			defer cancel()
			old.Drain(ctx)
			old.stop()
		})
	}
	return nil
}

// application makes what a configuration asks for, or says why it cannot be the
// running one.
func (in *Daemon) application(file *config.Config, before *identity.Set) (a *application, err error) {
	a = &application{file: file}
	off := build.KeepOff(file, build.OwnFiles(file, in.State))
	if file.Toolgate.Native.Code != nil { // which takes a while, where a script is in the place of Python
		python := off.Python
		in.Running.Go(func() { python() })
	}
	a.c, a.sources = in.tools.Beside(file, off)
	off = off.With(a.c)
	a.inForce = a.c.Toolgate
	a.inForce.Listen = in.begun.Listen // to the end
	servers, owners := in.added.Beside(a.c)
	a.servers = servers
	in.hideSecrets(a.c, servers)
	if a.limiter, err = in.Budgets.limiter(a.c); err != nil {
		return nil, err
	}
	authenticated := before.Authenticated()
	if a.gates, err = build.NewGates(in.ctx, a.c, authenticated && a.inForce.Authenticates(), build.Surroundings{
		Log: in.Log, Copies: filepath.Join(in.State.Path, "policy"), Owners: owners,
		Personal: in.personal(servers),
		Decided:  in.Gateway.Decided, Reread: in.Operation.LookAgain, Failed: in.Metrics.PolicyFailed, Registry: in.registry, Relations: &in.Operation.Relations, Schemas: in.Operation.Schemas,
		Mode: in.Operation.Now, Own: off.Own, Native: in.NativeOperator,
	}); err != nil {
		return nil, err
	}
	if a.mounts, err = build.NewMounts(a.c, servers); err != nil {
		return nil, err
	}
	if a.tools, err = in.declaredFor(a.c, off); err != nil {
		return nil, err
	}
	if a.native, err = build.NativeSpecs(servers, a.c, off); err != nil {
		return nil, err
	}
	if a.known, err = before.Next(&a.inForce, in.generated); err != nil {
		return nil, failure.New(failure.Config, fmt.Errorf("%s: %w", a.c.Path, err))
	}
	if authenticated != a.known.Authenticated() {
		a.known.Close()
		return nil, failure.Newf(failure.Config, "%s: a running gateway cannot begin or cease to ask who callers are; start it again for that", a.c.Path)
	}
	return a, nil
}

// beside returns what is mounted beside the servers of the file: the tool that asks
// for further ones, and those that are declared; and what checks arguments. mu is
// held.
func (in *Daemon) beside(a *application) (mounts []proxy.Mount, arguments proxy.ArgumentChecker, err error) {
	arguments = a.gates.Examiner
	if slices.ContainsFunc(a.c.Servers, func(s config.Server) bool { return s.Offer != nil }) {
		mounts = append(mounts, proxy.Mount{Backend: in.added.Backend(), Namespace: enable.Name, Native: true})
		arguments = added.Checker{Chain: a.gates.Chain, Servers: in.added, Mode: in.Operation.Now, Next: a.gates.Examiner}
	}
	in.queue.Configure(build.QueueLimits(a.c))
	declared, err := in.useDeclared(a.c, a.tools)
	return append(mounts, declared...), arguments, err
}

// nextServers returns the servers of a configuration, those that are as they were
// and those that are started now, with their mounts. mu is held.
func (in *Daemon) nextServers(a *application, authenticated bool) (next map[string]*runningServer, mounts []proxy.Mount) {
	next = make(map[string]*runningServer, len(a.servers))
	for i := range a.servers {
		s := &a.servers[i]
		running := in.servers[s.Key]
		if s.Native != nil {
			if spec := a.native[s.Key]; !running.reuse(spec.Hash()) {
				running = in.startNative(spec, resilience(s))
			}
			a.mounts[i].Native = true
		} else if spec := build.UpstreamSpec(s, a.c, authenticated); !running.reuse(fingerprint(spec)) {
			running = in.startAfter(running, s, &spec)
		}
		running.guard.Configure(resilience(s))
		next[s.Key] = running
		m := a.mounts[i].On(running.Backend())
		if to := running.upstream; to != nil {
			m.Asked, m.Fetched = func(id *gate.Identity) { to.Asked(holder(to, id)) }, s.Fetched()
			if l, _ := to.Listing(); l == nil {
				spec := to.Spec()
				m.Unheard = Unheard{in.Store.Meta(), in.Log}.Was(in.ctx, &spec)
			}
		}
		mounts = append(mounts, in.signedInTo(m, running.source, running.upstream))
	}
	return next, mounts
}

// startAfter starts a server in the place of one, which may be nil. It knows what
// that knew of its breaker, where it is the same server. mu is held.
func (in *Daemon) startAfter(before *runningServer, s *config.Server, spec *upstream.Spec) *runningServer {
	shown, err := in.SignIn.Credential(s, spec)
	if err != nil && spec.Refused == "" {
		spec.Refused = err.Error()
	}
	running := in.start(*spec, resilience(s), shown)
	if before != nil && before.upstream != nil && sameServer(before.upstream.Spec(), *spec) {
		running.guard.Inherit(before.guard)
	}
	return running
}

// replaced returns the servers that run and are not among the next ones. mu is held.
func (in *Daemon) replaced(next map[string]*runningServer) (removed []*runningServer) {
	for key, old := range in.servers {
		if next[key] == old {
			continue
		}
		removed = append(removed, old)
		if old.sink != nil {
			old.sink.leave()
		}
		if next[key] == nil {
			in.Metrics.Forget(key)
		}
	}
	return removed
}

// use has every part of the gateway go by a configuration from now on. mu is held.
func (in *Daemon) use(a *application, next map[string]*runningServer, mounts []proxy.Mount, arguments proxy.ArgumentChecker) {
	c := a.c
	in.tools.Use(a.sources)
	in.Natives.use(next)
	in.Approvals.Set(in.approvalSettings(c, a.known.Authenticated()))
	in.added.Use(a.gates.Chain)
	in.lost.use(&c.Toolgate.SpiceDB)
	in.renameServers(c)
	in.registry.Configure(a.gates.Catalog)
	applied := proxy.Config{
		Mounts: mounts, Chain: a.gates.Chain, Limiter: a.limiter, Arguments: arguments, Scopes: a.known.Checker(),
		Approver: in.Approvals, Registry: in.registry, Needs: in.needs, Swap: in.Identities.SwapTo(a.known),
		Rates: in.rates.Limiter(c), Requests: build.RequestRates(&c.Toolgate.Limits), IdenticalCalls: c.Toolgate.Limits.IdenticalCalls,
		CallsPerPrincipal: c.Toolgate.Limits.CallsPerPrincipal,
		Class:             classOf(a.gates.Examiner), Recording: records.Recording(in.begun.Audit, &in.Hidden),
		Outputs: build.OutputChecker{Checker: a.gates.Examiner.Checker},
	}
	in.limiter.Store(a.limiter)
	in.Identities.Tokens.Use(tradesTokens(a.servers))
	if a.gates.Capsules != nil { // a nil pointer would be no nil interface
		applied.Capsules = a.gates.Capsules
	}
	applied.Listed = in.Operation.Use(c, a.gates)
	in.Gateway.Apply(applied)
}

// runGates runs what the gates of a configuration do by themselves, in place of
// those of the one before. mu is held.
func (in *Daemon) runGates(a *application) {
	in.Operation.Relations.Use(in.ctx, a.gates.Relations, &in.Running, func(err error) {
		in.Log.Error("the relationships are not kept up with any more", "err", err)
	})
	if in.stopGates != nil {
		in.stopGates()
	}
	ctx, stop := context.WithCancel(in.ctx)
	in.stopGates = stop
	in.Running.Go(func() { a.gates.Run(ctx) })
}

// namespaces returns the namespace of each server.
func namespaces(servers []config.Server) map[string]string {
	out := make(map[string]string, len(servers))
	for i := range servers {
		out[servers[i].Key] = servers[i].Namespace
	}
	return out
}

// fingerprint tells whether a server must be started anew.
func fingerprint(s upstream.Spec) string {
	return fmt.Sprintf("%s %v %v %v %s %s", s.Hash(), s.Timeouts, s.Limits, s.Off, s.Refused, s.Plain)
}

// start makes a server and runs it; mu is held.
func (in *Daemon) start(spec upstream.Spec, set guard.Settings, shown transport.Credential) *runningServer {
	sink := &serverSink{in: in}
	source, _ := shown.(*credential.Source)
	server := in.newServer(spec, sink, shown, source)
	ctx, stop := context.WithCancel(in.ctx)
	guard := in.guard(server, set)
	sink.guard = guard
	sink.count() // before its first change
	in.Running.Go(func() {
		_ = server.Run(ctx)
		if source != nil {
			source.Close()
		}
	})
	in.Running.Go(func() { _ = guard.Run(ctx) })
	return &runningServer{federated: serverOf{server}, upstream: server, guard: guard, source: source, sink: sink, hash: fingerprint(spec), stop: stop}
}

// tradesTokens tells whether some server is shown what callers' own tokens are traded
// for.
func tradesTokens(list []config.Server) bool {
	return slices.ContainsFunc(list, func(s config.Server) bool { return build.TradesCallers(&s) })
}

// applyIf applies the configuration in force once more, if what load reads has
// changed what is served besides.
func (in *Daemon) applyIf(ctx context.Context, load func(context.Context) (changed bool, err error)) error {
	in.reloading.Lock()
	defer in.reloading.Unlock()
	changed, err := load(ctx)
	if err != nil || !changed {
		return err
	}
	return in.apply(in.Current())
}

// statusOf tells how a server does that runs.
func (in *Daemon) statusOf(server string) (status mcp.Status, runs bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	s := in.servers[server]
	if s == nil {
		return mcp.Status{}, false
	}
	_, status = s.Listing()
	return status, true
}

// withDeclared is the configuration in force, with the tools that are declared
// elsewhere.
func (in *Daemon) withDeclared() *config.Config {
	in.mu.Lock()
	defer in.mu.Unlock()
	return cmp.Or(in.inForce, in.Config)
}
