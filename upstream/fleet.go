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

// FleetOptions are what a [Fleet] needs besides its spec. All fields are required.
type FleetOptions struct {
	// Options are those of every member; Known is not used.
	Options
	// Known returns the last good listing of a holder, nil when there is none.
	Known func(ctx context.Context, holder string) *mcp.Listing
	// Relisted is told that what some principal is listed is another. It must not
	// block.
	Relisted func()
	// Members bounds for how many principals the server is kept.
	Members int
}

const (
	// memberIdle is how long a member is kept that nobody asks for.
	memberIdle = 30 * time.Minute
	// memberTend is how often that is looked at.
	memberTend = time.Minute
)

// Fleet is one configured server to which each principal authenticates by itself:
// a [Server] of its own for each, with connections, state and lists of its own.
// Where the server is shown another credential for each token of a principal, there
// is one for each set of rights. Whose a member is says its holder, as [Spec.Holder]
// names it.
// What it lists is what some principal is listed; [Fleet.Lists] tells what is whose.
// Members begin when their principal is first heard of, and end when it was not for
// half an hour. It is safe for concurrent use.
type Fleet struct {
	spec Spec
	opts FleetOptions

	mu      sync.Mutex
	life    context.Context // of Run; nil before it
	members map[string]*member
	begun   sync.Map     // members by holder, for who looks without mu
	asked   atomic.Int64 // goes up when another member is asked for than the one before
	union   *mcp.Listing
	status  mcp.Status
	running sync.WaitGroup
}

// member is the server of one holder.
type member struct {
	*Server
	holder    string
	principal string
	stop      context.CancelFunc
	used      atomic.Int64 // what asked of the fleet was when it was last asked for
	listing   *mcp.Listing // as it was looked at last
	changes   uint64
	seen      int64     // what used was when it was looked at last,
	since     time.Time // and since when it is that
}

// touch notes that a member was asked for. It takes no clock and no lock: it is done
// several times for each call.
func (f *Fleet) touch(m *member) {
	if m.used.Load() != f.asked.Load() {
		m.used.Store(f.asked.Add(1))
	}
}

// end ends a member; mu is held.
func (f *Fleet) end(m *member) {
	m.stop()
	delete(f.members, m.holder)
	f.begun.Delete(m.holder)
}

// memberSink is what a member tells.
type memberSink struct {
	of     *Fleet
	holder string
}

// Changed implements [Sink].
func (s memberSink) Changed(string) { s.of.changed(s.holder) }

// Happened implements [Sink]. Whatever the connection, it is the principal's.
func (s memberSink) Happened(ev mcp.Event) {
	ev.Principal, ev.Rights = s.of.spec.Held(s.holder)
	s.of.opts.Sink.Happened(ev)
}

// NewFleet returns a fleet that does nothing until [Fleet.Run].
func NewFleet(spec Spec, opts FleetOptions) *Fleet {
	spec.Plain = PlainNever // one list for each is enough
	f := &Fleet{spec: spec.withDefaults(), opts: opts, members: make(map[string]*member)}
	f.opts.Members = cmp.Or(max(0, opts.Members), 1000)
	f.union, f.status = signInListing, mcp.Status{State: mcp.NeedsLogin, Reason: "nobody has signed in", Since: time.Now()}
	switch {
	case spec.Off:
		f.union, f.status.State, f.status.Reason = nil, mcp.Disabled, "switched off in the configuration"
	case spec.Refused != "":
		f.union, f.status.State, f.status.Reason = nil, mcp.Failed, spec.Refused
	}
	return f
}

// Name returns the server's key in the configuration.
func (f *Fleet) Name() string { return f.spec.Key }

// Spec returns the configuration of the server.
func (f *Fleet) Spec() Spec { return f.spec }

// Listing returns what some principal is listed, and the best state of a member.
func (f *Fleet) Listing() (*mcp.Listing, mcp.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.union, f.status
}

// Run runs the members until the context ends, and returns when they have ended.
func (f *Fleet) Run(ctx context.Context) error {
	f.mu.Lock()
	f.life = ctx
	f.mu.Unlock()
	tick := time.NewTicker(memberTend)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			f.running.Wait()
			return nil
		case <-tick.C:
			f.reapIdle(time.Now())
		}
	}
}

// reapIdle ends members that nobody asks for.
func (f *Fleet) reapIdle(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		if used := m.used.Load(); used != m.seen {
			m.seen, m.since = used, now
		}
		if now.Sub(m.since) > memberIdle && m.inFlight() == 0 {
			f.end(m)
		}
	}
	f.asked.Add(1) // who was asked for last is noted when it is again
}

// of returns the member of a holder, begun if need be; nil where there can be none.
func (f *Fleet) of(holder string) *member {
	if m, ok := f.begun.Load(holder); ok {
		f.touch(m.(*member))
		return m.(*member)
	}
	f.mu.Lock()
	life, full := f.life, len(f.members) >= f.opts.Members
	f.mu.Unlock()
	principal, _ := f.spec.Held(holder)
	if principal == "" || life == nil || life.Err() != nil || f.spec.Off || f.spec.Refused != "" {
		return nil
	}
	if full && !f.displace() {
		return nil
	}
	known := f.opts.Known(life, holder)
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.members[holder]; m != nil {
		return m // begun meanwhile
	}
	if len(f.members) >= f.opts.Members {
		return nil
	}
	spec, o := f.spec, f.opts.Options
	spec.Local = principal // whom all its connections belong to
	o.Credential = bound{o.Credential, holder}
	o.Sink, o.Known, o.SignIn = memberSink{f, holder}, known, true
	ctx, stop := context.WithCancel(life)
	m := &member{Server: New(spec, o), holder: holder, principal: principal, stop: stop, since: time.Now()}
	m.used.Store(f.asked.Add(1))
	f.members[holder] = m
	f.begun.Store(holder, m)
	f.running.Go(func() { _ = m.Run(ctx) })
	if known != nil {
		f.running.Go(func() { f.changed(holder) })
	}
	return m
}

// displace ends the member that was asked for least recently, if it is idle.
func (f *Fleet) displace() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	var oldest *member
	for _, m := range f.members {
		if m.inFlight() == 0 && (oldest == nil || m.used.Load() < oldest.used.Load()) {
			oldest = m
		}
	}
	if oldest == nil {
		return false
	}
	f.end(oldest)
	return true
}

// bound is a credential of one holder, whosever connection it is asked for.
type bound struct {
	transport.Credential
	holder string
}

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

// Call carries one request over a connection of its principal's.
func (f *Fleet) Call(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
	m := f.of(f.spec.Holder(call.Principal, call.Rights))
	if m == nil {
		return mcp.Answer{}, f.none()
	}
	return m.Call(withToken(ctx, call.Token), call)
}

// none is the failure of whoever can have no member.
func (f *Fleet) none() error {
	if f.spec.Off || f.spec.Refused != "" {
		return &mcp.Failure{Kind: mcp.FailDisabled, Server: f.spec.Key, Reason: "The server " + f.spec.Key + " is switched off, or not usable as it is configured."}
	}
	return &mcp.Failure{Kind: mcp.FailBusy, Server: f.spec.Key, Reason: "The server " + f.spec.Key + " is in use by as many callers as it may be; try again in a moment."}
}

// Probe asks whether the server is alive, through the member that was asked for
// last.
func (f *Fleet) Probe(ctx context.Context) error {
	f.mu.Lock()
	var last *member
	for _, m := range f.members {
		if last == nil || m.used.Load() > last.used.Load() {
			last = m
		}
	}
	f.mu.Unlock()
	if last == nil {
		return nil // nothing is wrong that a probe could tell
	}
	return last.Probe(ctx)
}

// EndSession closes the connections that belong to a session that has ended.
func (f *Fleet) EndSession(principal, session string) {
	f.mu.Lock()
	all := slices.Collect(maps.Values(f.members))
	f.mu.Unlock()
	for _, m := range all {
		if m.principal == principal {
			m.EndSession(principal, session)
		}
	}
}

// Drain waits until no call is in flight, as long as the context lasts.
func (f *Fleet) Drain(ctx context.Context) {
	f.mu.Lock()
	all := slices.Collect(maps.Values(f.members))
	f.mu.Unlock()
	for _, m := range all {
		m.Drain(ctx)
	}
}

// Tail returns nothing: the server is no process.
func (*Fleet) Tail() transport.Tail { return transport.Tail{} }

// Renewed takes the news that the credential of a holder is another one.
func (f *Fleet) Renewed(holder string) {
	if m := f.of(holder); m != nil {
		m.Renewed()
	}
}

// Wake takes the news that credentials may be other ones.
func (f *Fleet) Wake() {
	f.mu.Lock()
	all := slices.Collect(maps.Values(f.members))
	f.mu.Unlock()
	for _, m := range all {
		m.Wake()
	}
}

// Asked notes that a holder is shown its lists.
func (f *Fleet) Asked(holder string) {
	if m, ok := f.begun.Load(holder); ok {
		m.(*member).Asked()
	}
}

// LookAgain has the lists of all members read again. It does not block.
func (f *Fleet) LookAgain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		m.LookAgain()
	}
}

// Listings returns the last listing of every holder that has one of its own.
func (f *Fleet) Listings() map[string]*mcp.Listing {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[string]*mcp.Listing, len(f.members))
	for holder, m := range f.members {
		if l, _ := m.Listing(); l != nil && l != signInListing {
			out[holder] = l
		}
	}
	return out
}

// Lists tells whether a holder is listed something by its kind and its name at
// the server. Who is not known yet is begun to be asked about, and is listed the tool
// by which one signs in until then.
func (f *Fleet) Lists(holder string, kind mcp.Kind, key string) bool {
	m := f.of(holder)
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
		all, _ := f.Listing()
		return !lists(all, kind, key) // it comes out of a template, and is nobody else's
	}
	return false
}

// Await waits until it is known what the server lists to a holder, whose server
// is begun if need be: as [Server.Await], and while the server starts, because it is
// the call that started it.
func (f *Fleet) Await(ctx context.Context, holder string, kind mcp.Kind, key string) error {
	m := f.of(holder)
	if m == nil {
		return f.none()
	}
	err := m.known(ctx, kind, key, true)
	f.mu.Lock()
	l, _ := m.Listing()
	news := m.listing != l
	f.mu.Unlock()
	if news { // of which it was not told yet
		f.changed(holder)
	}
	return err
}

// Listed tells whether the server lists something to a holder, for which
// [Fleet.Await] does not wait.
func (f *Fleet) Listed(holder string, kind mcp.Kind, key string) bool {
	m := f.of(holder)
	return m != nil && m.Server.Listed(kind, key)
}

// Logins returns the principals that have been heard of lately: those who are signed
// in as far as it is known, and those who have to.
func (f *Fleet) Logins() (signedIn, needed []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, holder := range slices.Sorted(maps.Keys(f.members)) {
		m := f.members[holder]
		switch l, status := m.Listing(); {
		case status.State == mcp.NeedsLogin:
			needed = append(needed, m.principal)
		case l != nil:
			signedIn = append(signedIn, m.principal)
		}
	}
	return slices.Compact(signedIn), slices.Compact(needed)
}

// Version tells apart what a holder is listed now from what it was before.
func (f *Fleet) Version(holder string) string {
	m := f.of(holder)
	f.mu.Lock()
	defer f.mu.Unlock()
	if m == nil {
		return ""
	}
	return fmt.Sprint(m.changes)
}

// changed looks at what a member lists.
func (f *Fleet) changed(holder string) {
	f.mu.Lock()
	m := f.members[holder]
	relisted := false
	if m != nil {
		l, _ := m.Listing()
		relisted = l != m.listing && !offersSame(l, m.listing)
		if m.listing = l; relisted {
			m.changes++
		}
	}
	f.merge()
	f.mu.Unlock()
	f.opts.Sink.Changed(f.spec.Key)
	if relisted {
		f.opts.Relisted()
	}
}

// better tells whether a state says more of the server than another.
func better(a, b mcp.State) bool {
	rank := [...]mcp.State{mcp.Ready, mcp.Degraded, mcp.Reconnecting, mcp.Stale, mcp.Failed, mcp.NeedsLogin}
	i, j := slices.Index(rank[:], a), slices.Index(rank[:], b)
	return i >= 0 && i < j
}
