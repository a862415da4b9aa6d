package servers

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native"
	"github.com/toolgate/toolgate/native/declared"
	"github.com/toolgate/toolgate/native/inside"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/upstream"
	"github.com/toolgate/toolgate/upstream/credential"
)

// Plan is what a configuration asks to run: made and checked, and not started.
type Plan struct {
	c             *config.Config
	off           *build.KeptOff
	servers       []config.Server
	mounts        []build.MountOf // of servers
	native        map[string]native.Spec
	inside        map[string]*inside.Backend // those of native that the gateway serves itself
	declared      map[string]*namespace
	declaredOn    []build.MountOf // of declared, sorted by name
	authenticated bool
	restarted     string // the server that starts again though it is the same
}

// Plan makes what a configuration asks to run, or says why that cannot be. list is its
// servers and those that agents have added; authenticated tells whether callers are
// known. Who does not use a plan discards it.
func (t *Table) Plan(c *config.Config, list []config.Server, off *build.KeptOff, authenticated bool) (_ *Plan, err error) {
	p := &Plan{c: c, off: off, servers: list, authenticated: authenticated}
	if p.mounts, err = build.NewMounts(c, list); err != nil {
		return nil, err
	}
	if p.declared, err = t.declaredOf(c, off); err != nil {
		return nil, err
	}
	if p.declaredOn, err = declaredMounts(c, p.declared); err != nil {
		t.Discard(p)
		return nil, err
	}
	if err = build.CheckSandboxes(list, c, off); err != nil {
		t.Discard(p)
		return nil, err
	}
	if p.native, err = build.NativeSpecs(list, c, off); err == nil {
		p.inside, err = t.newInside(p.native)
	}
	if err != nil {
		t.Discard(p)
		return nil, err
	}
	return p, nil
}

// declaredOf returns the declared tools of a configuration: those that run where the
// declarations of a namespace are the same.
func (t *Table) declaredOf(c *config.Config, off *build.KeptOff) (map[string]*namespace, error) {
	// What else there is may be started from what they write.
	if err := off.CheckTools(c.Toolgate.Tools); err != nil {
		return nil, failure.New(failure.Config, fmt.Errorf("%s: %w", c.Path, err))
	}
	now := t.now.Load()
	var before map[string][]declared.Settings
	if now.plan.c != nil {
		before = byNamespace(now.plan.c.Toolgate.Tools)
	}
	same, others := make(map[string]*namespace), *c
	others.Toolgate.Tools = nil
	for name, tools := range byNamespace(c.Toolgate.Tools) {
		if runs := now.declared[name]; runs != nil && reflect.DeepEqual(before[name], tools) {
			same[name] = runs
		} else {
			others.Toolgate.Tools = append(others.Toolgate.Tools, tools...)
		}
	}
	out, err := newDeclared(&others, off)
	if err != nil {
		return nil, err
	}
	maps.Copy(out, same)
	return out, nil
}

func byNamespace(tools []declared.Settings) map[string][]declared.Settings {
	out := make(map[string][]declared.Settings)
	for i := range tools {
		out[tools[i].Namespace] = append(out[tools[i].Namespace], tools[i])
	}
	return out
}

// Restart has one server of the plan start again, although it is as it was. Its circuit
// breaker starts closed.
func (p *Plan) Restart(server string) { p.restarted = server }

// Discard closes what was made for a plan that is not used.
func (t *Table) Discard(p *Plan) {
	now := t.now.Load()
	for name, n := range p.declared {
		if now.declared[name] != n {
			n.Close()
		}
	}
}

// namespace is that of a server.
func (p *Plan) namespace(server string) string {
	for i := range p.servers {
		if p.servers[i].Key == server {
			return p.servers[i].Namespace
		}
	}
	return ""
}

// Use puts a plan in force: servers that are as they were go on, others start and run
// until ctx ends. It returns what is to be mounted. Once the gateway sends no more calls
// to what was mounted before, retire has that finish its calls and ends it in the
// background, and calls ended once its servers have ended. Use does not fail, so that a
// configuration is in force completely or not at all.
func (t *Table) Use(ctx context.Context, p *Plan) (mounts []proxy.Mount, retire func(ended func())) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.now.Load()
	t.tasks.Configure(build.QueueLimits(p.c))
	mounts, run := t.mountDeclared(ctx, p)
	next := &generation{plan: p, servers: make(map[string]*server, len(p.servers)), declared: p.declared}
	for i := range p.servers {
		s, start := t.serverOf(ctx, p, i, before.servers[p.servers[i].Key])
		if start != nil {
			run = append(run, start)
		}
		next.servers[p.servers[i].Key] = s
		mounts = append(mounts, t.mount(ctx, p, i, s))
	}
	removed := t.leave(before, next)
	t.now.Store(next)
	for _, start := range run { // what they tell finds them in the table
		start()
	}
	return mounts, func(ended func()) {
		for name, n := range before.declared {
			if next.declared[name] != n {
				n.stop()
				n.Close()
			}
		}
		t.retire(ctx, removed, ended)
	}
}

// serverOf returns the server of a plan: the one that runs, where that is the same, or
// another one with what starts it.
func (t *Table) serverOf(ctx context.Context, p *Plan, i int, running *server) (s *server, start func()) {
	of, before := &p.servers[i], running
	settings := guardSettings(of)
	if of.Key == p.restarted {
		running = nil
	}
	if of.Native != nil {
		if spec := p.native[of.Key]; !running.fits(spec.Hash()) {
			running, start = t.newNative(ctx, p, spec, settings)
		}
	} else if spec := build.UpstreamSpec(of, p.c, p.authenticated); !running.fits(fingerprint(spec)) {
		running, start = t.newUpstream(ctx, running, of, &spec)
		if before != nil && before.upstream != nil {
			running.replaced, _ = before.upstream.Tails()
		}
	}
	running.guard.Configure(settings)
	return running, start
}

// mount is how a server of a plan is mounted.
func (t *Table) mount(ctx context.Context, p *Plan, i int, s *server) proxy.Mount {
	p.mounts[i].Native = s.native != nil
	m := p.mounts[i].On(s.mounted())
	if agent := p.servers[i].ClientRequests.SamplingAgent; agent != "" {
		m.Sampler = func(ctx context.Context, id *gate.Identity, params []byte) ([]byte, *mcp.Error) {
			return t.o.Sample(ctx, id, agent, params)
		}
	}
	if to := s.upstream; to != nil {
		m.ListsServed, m.Fetched = func(id *gate.Identity) { to.Asked(holder(to, id)) }, p.servers[i].Fetched()
		if l, _ := to.Listing(); l == nil {
			spec := to.Spec()
			m.SkipFirstListWait = t.o.Unanswered.Has(ctx, &spec)
		}
	}
	return t.signedInTo(m, s.source, s.upstream)
}

// leave has the metrics forget what is not in the next generation, and returns its
// servers.
func (t *Table) leave(before, next *generation) (removed []*server) {
	for key, s := range before.servers {
		if next.servers[key] == s {
			continue
		}
		removed = append(removed, s)
		if s.sink != nil {
			s.sink.leave()
		}
		if next.servers[key] == nil {
			t.o.Metrics.Forget(key)
		}
	}
	for name := range before.declared {
		if next.declared[name] == nil {
			t.o.Metrics.Forget(name)
		}
	}
	return removed
}

// newUpstream makes a server in the place of one, which may be nil, and what starts it.
// It knows what that knew of its circuit breaker, where it is the same server.
func (t *Table) newUpstream(ctx context.Context, before *server, of *config.Server, spec *upstream.Spec) (s *server, start func()) {
	shown, err := t.o.SignIn.Credential(of, spec)
	if err != nil && spec.Refused == "" {
		spec.Refused = err.Error()
	}
	if spec.Sandbox != nil {
		spec.Sandbox.Check = t.checkGrants
	}
	source, _ := shown.(*credential.Source)
	told := &sink{t: t}
	to := t.reach(ctx, *spec, told, shown, source)
	told.guard = t.newGuard(to, guardSettings(of))
	told.count() // before its first change
	if before != nil && before.upstream != nil && sameServer(before.upstream.Spec(), *spec) {
		told.guard.Inherit(before.guard)
	}
	ctx, stop := context.WithCancel(ctx)
	s = &server{backend: configured{to}, upstream: to, guard: told.guard, source: source, sink: told, hash: fingerprint(*spec), stop: stop, ended: make(chan struct{})}
	return s, func() {
		if one, ok := to.(alone); ok {
			one.Offer() // before others hear of this gateway
		}
		t.running.Go(func() {
			defer close(s.ended)
			_ = to.Run(ctx)
			if source != nil {
				source.Close()
			}
		})
		t.running.Go(func() { _ = s.guard.Run(ctx) })
	}
}

// checkGrants is asked what a process of a server may be given, whenever one starts: by the
// configuration in force then.
func (t *Table) checkGrants(read, write, run []string) error {
	return t.now.Load().plan.off.CheckGrants(read, write, run)
}

// configured is a server of the file.
type configured struct{ reached }

// Kind implements [backend].
func (s configured) Kind() string {
	spec := s.Spec()
	return spec.Kind()
}

// fingerprint tells whether a server must be started anew.
func fingerprint(s upstream.Spec) string {
	return fmt.Sprintf("%s %v %v %v %s %s", s.Hash(), s.Timeouts, s.Limits, s.Off, s.Refused, s.Without)
}

// sameServer tells whether two specifications reach the same server, whatever else they
// say of it.
func sameServer(a, b upstream.Spec) bool { return a.Hash() == b.Hash() }

// TradesTokens tells whether some server is shown what callers' own tokens are traded
// for.
func TradesTokens(list []config.Server) bool {
	return slices.ContainsFunc(list, func(s config.Server) bool { return build.TradesCallers(&s) })
}
