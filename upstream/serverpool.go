package upstream

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// ServerPoolOptions are what a [ServerPool] needs besides its spec. All fields except Max
// are required.
type ServerPoolOptions struct {
	// Options are the options of each server. Known is not used.
	Options
	// Known returns the last good listing of a holder, nil if there is none.
	Known func(ctx context.Context, holder string) *mcp.Listing
	// Relisted is called when the list of some principal has changed. It must not block.
	Relisted func()
	// Max bounds how many holders have a server at once; 1000 by default.
	Max int
}

const (
	// serverIdle is how long the server of a holder is kept without use.
	serverIdle = 30 * time.Minute
	// idleCheck is how often idle servers are looked for.
	idleCheck = time.Minute
)

// ServerPool is one configured server at which each principal signs in by itself. Each
// principal gets a [Server] with its own connections, state and lists. If the credential
// depends on the token of the principal, there is a Server for each set of rights.
// [Spec.Holder] names the holder of a Server. The listing of the pool is the union of
// theirs; [ServerPool.Lists] tells what a holder may see. A Server starts when its holder
// is first seen and ends after half an hour without use. A ServerPool is safe for
// concurrent use.
type ServerPool struct {
	spec Spec
	opts ServerPoolOptions

	mu       sync.Mutex
	life     context.Context // of Run; nil before Run
	servers  map[string]*pooledServer
	byHolder sync.Map     // the same servers, for readers without mu
	asked    atomic.Int64 // goes up when a different server is used than before
	union    *mcp.Listing
	status   mcp.Status
	running  sync.WaitGroup
}

// pooledServer is the server of one holder.
type pooledServer struct {
	*Server
	holder    string
	principal string
	stop      context.CancelFunc
	used      atomic.Int64 // value of asked at the last use
	listing   *mcp.Listing // when it was last looked at
	changes   uint64
	seen      int64     // value of used at the last check
	since     time.Time // since when used has that value
}

// touch notes a use of a server. It reads no clock and takes no lock, because every call
// does it several times.
func (p *ServerPool) touch(m *pooledServer) {
	if m.used.Load() != p.asked.Load() {
		m.used.Store(p.asked.Add(1))
	}
}

// stop ends a server; mu is held.
func (p *ServerPool) stop(m *pooledServer) {
	m.stop()
	delete(p.servers, m.holder)
	p.byHolder.Delete(m.holder)
}

// pooledSink receives what the server of a holder tells.
type pooledSink struct {
	of     *ServerPool
	holder string
}

// Changed implements [Sink].
func (s pooledSink) Changed(string) { s.of.changed(s.holder) }

// Happened implements [Sink]. Every connection belongs to the principal.
func (s pooledSink) Happened(ev mcp.Event) {
	ev.Principal, ev.Rights = s.of.spec.Held(s.holder)
	s.of.opts.Sink.Happened(ev)
}

// NewServerPool returns a pool that does nothing until [ServerPool.Run].
func NewServerPool(spec Spec, opts ServerPoolOptions) *ServerPool {
	spec.Without = WithoutNever // one list per holder is enough
	p := &ServerPool{spec: spec.withDefaults(), opts: opts, servers: make(map[string]*pooledServer)}
	p.opts.Max = cmp.Or(max(0, opts.Max), 1000)
	p.union, p.status = signInListing, mcp.Status{State: mcp.NeedsLogin, Reason: "nobody has signed in", Since: time.Now()}
	switch {
	case spec.Off:
		p.union, p.status.State, p.status.Reason = nil, mcp.Disabled, "switched off in the configuration"
	case spec.Refused != "":
		p.union, p.status.State, p.status.Reason = nil, mcp.Failed, spec.Refused
	}
	return p
}

// Name returns the server's key in the configuration.
func (p *ServerPool) Name() string { return p.spec.Key }

// Spec returns the configuration of the server.
func (p *ServerPool) Spec() Spec { return p.spec }

// Listing returns the union of the lists, and the best status of a server.
func (p *ServerPool) Listing() (*mcp.Listing, mcp.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.union, p.status
}

// Run runs the servers until the context ends, and returns when they have ended.
func (p *ServerPool) Run(ctx context.Context) error {
	p.mu.Lock()
	p.life = ctx
	p.mu.Unlock()
	tick := time.NewTicker(idleCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			p.running.Wait()
			return nil
		case <-tick.C:
			p.reapIdle(time.Now())
		}
	}
}

// reapIdle ends unused servers.
func (p *ServerPool) reapIdle(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.servers {
		if used := m.used.Load(); used != m.seen {
			m.seen, m.since = used, now
		}
		if now.Sub(m.since) > serverIdle && m.pool.inFlight() == 0 {
			p.stop(m)
		}
	}
	p.asked.Add(1) // the next use is noted even if it is of the same server
}

// server returns the server of a holder and starts it if necessary; nil if there can be
// none.
func (p *ServerPool) server(holder string) *pooledServer {
	if m, ok := p.byHolder.Load(holder); ok {
		p.touch(m.(*pooledServer))
		return m.(*pooledServer)
	}
	p.mu.Lock()
	life, full := p.life, len(p.servers) >= p.opts.Max
	p.mu.Unlock()
	principal, _ := p.spec.Held(holder)
	if principal == "" || life == nil || life.Err() != nil || p.spec.Off || p.spec.Refused != "" {
		return nil
	}
	if full && !p.displace() {
		return nil
	}
	known := p.opts.Known(life, holder)
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.servers[holder]; m != nil {
		return m // started meanwhile
	}
	if len(p.servers) >= p.opts.Max {
		return nil
	}
	spec, o := p.spec, p.opts.Options
	spec.Local = principal // who owns all its connections
	o.Credential = bound{o.Credential, holder}
	o.Sink, o.Known, o.SignIn = pooledSink{p, holder}, known, true
	ctx, stop := context.WithCancel(life)
	m := &pooledServer{Server: New(spec, o), holder: holder, principal: principal, stop: stop, since: time.Now()}
	m.used.Store(p.asked.Add(1))
	p.servers[holder] = m
	p.byHolder.Store(holder, m)
	p.running.Go(func() { _ = m.Run(ctx) })
	if known != nil {
		p.running.Go(func() { p.changed(holder) })
	}
	return m
}

// displace ends the least recently used server, if it is idle.
func (p *ServerPool) displace() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	var oldest *pooledServer
	for _, m := range p.servers {
		if m.pool.inFlight() == 0 && (oldest == nil || m.used.Load() < oldest.used.Load()) {
			oldest = m
		}
	}
	if oldest == nil {
		return false
	}
	p.stop(oldest)
	return true
}

// bound is the credential of one holder on all connections.
type bound struct {
	transport.Credential
	holder string
}

var (
	_ transport.Renewing = bound{}
	_ transport.Proving  = bound{}
)

// Headers implements [Credential].
func (b bound) Headers(ctx context.Context, _ string) (http.Header, error) {
	return b.Credential.Headers(ctx, b.holder)
}

// Key implements [Credential].
func (b bound) Key(string) string { return b.Credential.Key(b.holder) }

// Refused implements [Renewing].
func (b bound) Refused(ctx context.Context, _ string, sent http.Header, status int, answer http.Header) (bool, error) {
	if r, ok := b.Credential.(transport.Renewing); ok {
		return r.Refused(ctx, b.holder, sent, status, answer)
	}
	return false, nil
}

// Prove implements [Proving].
func (b bound) Prove(r *http.Request, _, nonce string) error {
	if p, ok := b.Credential.(transport.Proving); ok {
		return p.Prove(r, b.holder, nonce)
	}
	return nil
}

// Answered implements [Proving].
func (b bound) Answered(r *http.Request, nonce string, status int, answer http.Header) string {
	if p, ok := b.Credential.(transport.Proving); ok {
		return p.Answered(r, nonce, status, answer)
	}
	return ""
}

// Call sends one request over a connection of the principal.
func (p *ServerPool) Call(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
	m := p.server(p.spec.Holder(call.Principal, call.Rights))
	if m == nil {
		return mcp.Answer{}, p.none()
	}
	return m.Call(withToken(ctx, call.Token), call)
}

// none is the failure of a call whose holder can have no server.
func (p *ServerPool) none() error {
	if p.spec.Off || p.spec.Refused != "" {
		return &mcp.Failure{Kind: mcp.FailDisabled, Server: p.spec.Key, Reason: "The server " + p.spec.Key + " is switched off, or not usable as it is configured."}
	}
	return &mcp.Failure{Kind: mcp.FailBusy, Server: p.spec.Key, Reason: "The server " + p.spec.Key + " is in use by as many callers as it may be; try again in a moment."}
}

// Probe asks whether the server is alive, through the most recently used Server.
func (p *ServerPool) Probe(ctx context.Context) error {
	p.mu.Lock()
	var last *pooledServer
	for _, m := range p.servers {
		if last == nil || m.used.Load() > last.used.Load() {
			last = m
		}
	}
	p.mu.Unlock()
	if last == nil {
		return nil // there is nothing to probe
	}
	return last.Probe(ctx)
}

// EndSession closes the connections of a session that has ended.
func (p *ServerPool) EndSession(principal, session string) {
	for _, m := range p.serversOf(principal) {
		m.EndSession(principal, session)
	}
}

// Connected tells the servers of a principal the capabilities of a new client. A server
// that starts later learns them with its first call.
func (p *ServerPool) Connected(principal string, capabilities []byte) {
	for _, m := range p.serversOf(principal) {
		m.Connected(principal, capabilities)
	}
}

// serversOf returns the servers of a principal.
func (p *ServerPool) serversOf(principal string) []*pooledServer {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []*pooledServer
	for _, m := range p.servers {
		if m.principal == principal {
			all = append(all, m)
		}
	}
	return all
}

// Drain waits until no call is in flight, at most until the context ends.
func (p *ServerPool) Drain(ctx context.Context) {
	p.mu.Lock()
	all := slices.Collect(maps.Values(p.servers))
	p.mu.Unlock()
	for _, m := range all {
		m.Drain(ctx)
	}
}

// Tails returns nothing: the server is not a process.
func (*ServerPool) Tails() (last, previous transport.Tail) { return last, previous }

// Renewed is told that the credential of a holder has changed.
func (p *ServerPool) Renewed(holder string) {
	if m := p.server(holder); m != nil {
		m.Renewed()
	}
}

// Wake is told that credentials may have changed.
func (p *ServerPool) Wake() {
	p.mu.Lock()
	all := slices.Collect(maps.Values(p.servers))
	p.mu.Unlock()
	for _, m := range all {
		m.Wake()
	}
}

// Asked notes that a holder looks at its lists.
func (p *ServerPool) Asked(holder string) {
	if m, ok := p.byHolder.Load(holder); ok {
		m.(*pooledServer).Asked()
	}
}

// LookAgain makes all servers read their lists again. It does not block.
func (p *ServerPool) LookAgain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.servers {
		m.LookAgain()
	}
}

// Listings returns the last listing of every holder that has its own.
func (p *ServerPool) Listings() map[string]*mcp.Listing {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[string]*mcp.Listing, len(p.servers))
	for holder, m := range p.servers {
		if l, _ := m.Listing(); l != nil && l != signInListing {
			out[holder] = l
		}
	}
	return out
}

// Lists tells whether the list of a holder has something, by kind and by its name at the
// server. The server of an unknown holder starts in the background; until it has answered,
// the holder sees the tool to sign in.
func (p *ServerPool) Lists(holder string, kind mcp.Kind, key string) bool {
	m := p.server(holder)
	signIn := kind == mcp.Tool && key == SignInTool
	if m == nil {
		return signIn
	}
	l, _ := m.Listing()
	switch {
	case l == nil:
		return signIn
	case lists(l, kind, key):
		return true
	case kind == mcp.Resource && l.Declares("resources"):
		all, _ := p.Listing()
		return !lists(all, kind, key) // it matches a template, and belongs to nobody else
	}
	return false
}

// Await is [Server.Await] for a holder. It starts the server of the holder if necessary,
// and waits while the server starts.
func (p *ServerPool) Await(ctx context.Context, holder string, kind mcp.Kind, key string) error {
	m := p.server(holder)
	if m == nil {
		return p.none()
	}
	err := m.awaitListed(ctx, kind, key, true)
	p.mu.Lock()
	l, _ := m.Listing()
	news := m.listing != l
	p.mu.Unlock()
	if news { // the pool has not heard of it yet
		p.changed(holder)
	}
	return err
}

// Listed tells whether the server lists something to a holder. [ServerPool.Await] does not
// wait for it then.
func (p *ServerPool) Listed(holder string, kind mcp.Kind, key string) bool {
	m := p.server(holder)
	return m != nil && m.Server.Listed(kind, key)
}

// Logins returns the principals that were seen lately: those that are signed in as far as
// is known, and those that have to sign in.
func (p *ServerPool) Logins() (signedIn, needed []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, holder := range slices.Sorted(maps.Keys(p.servers)) {
		m := p.servers[holder]
		switch l, status := m.Listing(); {
		case status.State == mcp.NeedsLogin:
			needed = append(needed, m.principal)
		case l != nil:
			signedIn = append(signedIn, m.principal)
		}
	}
	return slices.Compact(signedIn), slices.Compact(needed)
}

// Version changes whenever the list of a holder changes.
func (p *ServerPool) Version(holder string) string {
	m := p.server(holder)
	p.mu.Lock()
	defer p.mu.Unlock()
	if m == nil {
		return ""
	}
	return fmt.Sprint(m.changes)
}

// changed takes the new listing of the server of a holder.
func (p *ServerPool) changed(holder string) {
	p.mu.Lock()
	m := p.servers[holder]
	relisted := false
	if m != nil {
		l, _ := m.Listing()
		relisted = l != m.listing && !offersSame(l, m.listing)
		if m.listing = l; relisted {
			m.changes++
		}
	}
	p.merge()
	p.mu.Unlock()
	p.opts.Sink.Changed(p.spec.Key)
	if relisted {
		p.opts.Relisted()
	}
}

// better tells whether a state says more about the server than another.
func better(a, b mcp.State) bool {
	rank := [...]mcp.State{mcp.Ready, mcp.Degraded, mcp.Reconnecting, mcp.Stale, mcp.Failed, mcp.NeedsLogin}
	i, j := slices.Index(rank[:], a), slices.Index(rank[:], b)
	return i >= 0 && i < j
}
