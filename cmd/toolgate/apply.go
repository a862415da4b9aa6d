package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/native"
	"github.com/toolgate/toolgate/native/enable"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/guard"
	"github.com/toolgate/toolgate/upstream"
	"github.com/toolgate/toolgate/upstream/credential"
)

// application is a configuration on its way to be the running one: everything that
// is made of it before anything of the running one is touched.
type application struct {
	file    *config.Config // as it was read
	c       *config.Config // with the tools from further files and addresses
	sources []*toolSource  // where those are from
	servers []config.Server
	mounts  []mountOf // of servers
	native  map[string]native.Spec
	tools   map[string]*declaredServer
	gates   *gates
	limiter *budget.Limiter
	known   *identities
	inForce config.Toolgate
}

// apply makes a configuration the running one: equal servers keep their
// connections, others start beside them, removed ones finish their calls.
func (in *instance) apply(c *config.Config) error {
	before := in.identities.Load()
	a, err := in.application(c, before)
	if err != nil {
		return err
	}
	in.running.Go(func() { a.known.prime(in.ctx, in.log) })
	in.mu.Lock()
	defer in.mu.Unlock()
	mounts, arguments, err := in.beside(a)
	if err != nil {
		return err
	}
	next, own := in.nextServers(a, before.authenticated())
	removed := in.replaced(next)
	in.servers, in.config, in.inForce, in.namespaces = next, a.file, a.c, namespaces(a.servers)
	in.use(a, next, append(mounts, own...), arguments)
	if a.known != before {
		before.close() // and with them what they knew of tokens
	}
	in.runGates(a)
	if before.authenticated() { // whoever's key or issuer is gone is served nothing more
		in.gateway.EndSessions(a.known.chain.Knows)
	}
	for _, old := range removed {
		in.running.Go(func() {
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
func (in *instance) application(file *config.Config, before *identities) (a *application, err error) {
	a = &application{file: file}
	off := keepOff(file, ownFiles(file, in.state))
	if file.Toolgate.Native.Code != nil { // which takes a while, where a script is in the place of Python
		python := off.python
		in.running.Go(func() { python() })
	}
	a.c, a.sources = in.withTools(file, off)
	off = off.with(a.c)
	a.inForce = a.c.Toolgate
	a.inForce.Listen = in.begun.Listen // to the end
	servers, owners := in.withAdded(a.c)
	a.servers = servers
	in.hideSecrets(a.c, servers)
	if a.limiter, err = in.budgets.limiter(a.c); err != nil {
		return nil, err
	}
	authenticated := before.authenticated()
	if a.gates, err = newGates(in.ctx, a.c, authenticated && a.inForce.Authenticates(), surroundings{
		log: in.log, copies: filepath.Join(in.state.path, "policy"), owners: owners,
		personal: in.personal(servers),
		decided:  in.gateway.Decided, reread: in.operation.lookAgain, failed: in.metrics.PolicyFailed, registry: in.registry, relations: &in.operation.relations, schemas: in.operation.schemas,
		mode: in.operation.now, own: off.own, native: in.nativeOperator,
	}); err != nil {
		return nil, err
	}
	if a.mounts, err = newMounts(a.c, servers); err != nil {
		return nil, err
	}
	if a.tools, err = in.declaredFor(a.c, off); err != nil {
		return nil, err
	}
	if a.native, err = nativeSpecs(servers, a.c, off); err != nil {
		return nil, err
	}
	if a.known, err = before.next(&a.inForce, in.generated); err != nil {
		return nil, failure.New(failure.Config, fmt.Errorf("%s: %w", a.c.Path, err))
	}
	if authenticated != a.known.authenticated() {
		a.known.close()
		return nil, failure.Newf(failure.Config, "%s: a running gateway cannot begin or cease to ask who callers are; start it again for that", a.c.Path)
	}
	return a, nil
}

// beside returns what is mounted beside the servers of the file: the tool that asks
// for further ones, and those that are declared; and what checks arguments. mu is
// held.
func (in *instance) beside(a *application) (mounts []proxy.Mount, arguments proxy.ArgumentChecker, err error) {
	arguments = a.gates.examiner
	if slices.ContainsFunc(a.c.Servers, func(s config.Server) bool { return s.Offer != nil }) {
		mounts = append(mounts, proxy.Mount{Backend: in.enable, Namespace: enable.Name, Native: true})
		arguments = enabling{a.gates.chain, shelf{in}, in.operation.now, a.gates.examiner}
	}
	in.queue.Configure(queueLimits(a.c))
	declared, err := in.useDeclared(a.c, a.tools)
	return append(mounts, declared...), arguments, err
}

// nextServers returns the servers of a configuration, those that are as they were
// and those that are started now, with their mounts. mu is held.
func (in *instance) nextServers(a *application, authenticated bool) (next map[string]*runningServer, mounts []proxy.Mount) {
	next = make(map[string]*runningServer, len(a.servers))
	for i := range a.servers {
		s := &a.servers[i]
		running := in.servers[s.Key]
		if s.Native != nil {
			if spec := a.native[s.Key]; !running.reuse(spec.Hash()) {
				running = in.startNative(spec, resilience(s))
			}
			a.mounts[i].Native = true
		} else if spec := upstreamSpec(s, a.c, authenticated); !running.reuse(fingerprint(spec)) {
			running = in.startAfter(running, s, &spec)
		}
		running.guard.Configure(resilience(s))
		next[s.Key] = running
		m := a.mounts[i].on(running.backend())
		if to := running.upstream; to != nil {
			m.Asked, m.Fetched = func(id *gate.Identity) { to.Asked(holder(to, id)) }, s.Fetched()
			if l, _ := to.Listing(); l == nil {
				spec := to.Spec()
				m.Unheard = unheard{in.store.Meta(), in.log}.was(in.ctx, &spec)
			}
		}
		mounts = append(mounts, in.signedInTo(m, running.source, running.upstream))
	}
	return next, mounts
}

// startAfter starts a server in the place of one, which may be nil. It knows what
// that knew of its breaker, where it is the same server. mu is held.
func (in *instance) startAfter(before *runningServer, s *config.Server, spec *upstream.Spec) *runningServer {
	shown, err := in.credentialOf(s, spec)
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
func (in *instance) replaced(next map[string]*runningServer) (removed []*runningServer) {
	for key, old := range in.servers {
		if next[key] == old {
			continue
		}
		removed = append(removed, old)
		if old.sink != nil {
			old.sink.leave()
		}
		if next[key] == nil {
			in.metrics.Forget(key)
		}
	}
	return removed
}

// use has every part of the gateway go by a configuration from now on. mu is held.
func (in *instance) use(a *application, next map[string]*runningServer, mounts []proxy.Mount, arguments proxy.ArgumentChecker) {
	c := a.c
	in.sources.use(a.sources, in.state.path)
	in.natives.use(next)
	in.desk.Set(in.approvalSettings(c, a.known.authenticated()))
	in.enabling.Store(a.gates.chain)
	in.lost.use(&c.Toolgate.SpiceDB)
	in.renameServers(c)
	in.registry.Configure(a.gates.catalog)
	applied := proxy.Config{
		Mounts: mounts, Chain: a.gates.chain, Limiter: a.limiter, Arguments: arguments, Scopes: a.known.checker(),
		Approver: in.desk, Registry: in.registry, Needs: in.needs, Swap: in.swapTo(a.known),
		Rates: in.rates.limiter(c), Floods: floods(&c.Toolgate.Limits), CallsPerPrincipal: c.Toolgate.Limits.CallsPerPrincipal,
		Class: a.gates.examiner.classForBudgets, Recording: recording(in.begun.Audit, &in.hidden),
		Outputs: outputChecker{a.gates.examiner.checker},
	}
	in.limiter.Store(a.limiter)
	in.presented.use(trades(a.servers))
	if a.gates.capsules != nil { // a nil pointer would be no nil interface
		applied.Capsules = a.gates.capsules
	}
	applied.Listed = in.operation.use(c, a.gates)
	in.gateway.Apply(applied)
}

// runGates runs what the gates of a configuration do by themselves, in place of
// those of the one before. mu is held.
func (in *instance) runGates(a *application) {
	in.operation.relations.use(in.ctx, a.gates.relations, &in.running, func(err error) {
		in.log.Error("the relationships are not kept up with any more", "err", err)
	})
	if in.stopGates != nil {
		in.stopGates()
	}
	ctx, stop := context.WithCancel(in.ctx)
	in.stopGates = stop
	in.running.Go(func() { a.gates.run(ctx) })
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
func (in *instance) start(spec upstream.Spec, set guard.Settings, shown upstream.Credential) *runningServer {
	sink := &serverSink{in: in}
	source, _ := shown.(*credential.Source)
	server := in.newServer(spec, sink, shown, source)
	ctx, stop := context.WithCancel(in.ctx)
	guard := in.guard(server, set)
	sink.guard = guard
	sink.count() // before its first change
	in.running.Go(func() {
		_ = server.Run(ctx)
		if source != nil {
			source.Close()
		}
	})
	in.running.Go(func() { _ = guard.Run(ctx) })
	return &runningServer{federated: serverOf{server}, upstream: server, guard: guard, source: source, sink: sink, hash: fingerprint(spec), stop: stop}
}
