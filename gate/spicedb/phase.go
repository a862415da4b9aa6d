package spicedb

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	v1 "github.com/authzed/authzed-go/proto/authzed/api/v1"
	authzed "github.com/authzed/authzed-go/v1"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

const (
	// The defaults of [Options.CallTimeout] and [Options.ListTimeout].
	defaultCallTimeout = 150 * time.Millisecond
	defaultListTimeout = 500 * time.Millisecond
	// rounds is how often a decision is made again because relationships
	// changed while it was made.
	rounds = 3
	// defaultCacheEntries is the default of [Options.CacheEntries].
	defaultCacheEntries = 1 << 16
)

// Options say which server is asked and how.
type Options struct {
	// Endpoint is host:port, or another gRPC target. It is required.
	Endpoint string
	// Token is the server's preshared key; empty sends none.
	Token string
	// TLS is how the server is verified; nil speaks plain text.
	TLS *tls.Config
	// Mapping says what the schema calls things.
	Mapping Mapping
	// Strict asks fully consistent every time and caches no answer. StrictFor
	// does so for the requests for which it returns true; nil is none. It is
	// called for every request, concurrently.
	Strict    bool
	StrictFor func(*gate.Request) bool
	// CallTimeout bounds the decision of one request and ListTimeout that of a
	// list, all questions for it together; 0 is 150 ms and 500 ms.
	CallTimeout, ListTimeout time.Duration
	// CacheEntries bounds the single answers that are cached; 0 is 65536.
	CacheEntries int
	// Zone is where the caveat context's hour is told; nil is UTC.
	Zone *time.Location
	// OnChange is called after decisions may have changed, from a goroutine of
	// Run, one call at a time, no lock held. Changes during a call are one more
	// call after it. It may block, which delays nothing but itself and, at the
	// end, Run.
	OnChange func()
	// Logger is told what changes in the connection, and which single
	// questions could not be answered; nil is silent.
	Logger *slog.Logger
	// Dial connects in place of the network; nil is TCP or a Unix socket as
	// the endpoint says.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
}

// Phase asks a SpiceDB. The zero Phase denies everything. Its methods are safe
// for concurrent use.
//
// Without [Phase.Run] every decision is fully consistent and no answer is cached.
// After [Phase.Close] every decision is an error.
type Phase struct {
	names   names
	options Options
	client  *client
	log     *slog.Logger
	born    time.Time // the zero of the phase's clock

	current atomic.Pointer[generation]
	change  sync.Mutex // held while current is replaced
	// proof is when, on the phase's clock, the stream was last known to have
	// delivered everything.
	proof atomic.Int64

	running atomic.Bool
	changed chan struct{} // holds one signal for OnChange
	wake    chan struct{} // holds one signal to begin the stream anew
	wrote   chan struct{} // holds one signal that we wrote something
	pairLog atomic.Int64  // when a single question's error was last logged
}

// New returns the phase. It neither connects nor starts a goroutine. The error
// joins all that is wrong with the options.
func New(o Options) (*Phase, error) {
	n, err := o.Mapping.complete()
	if o.Endpoint == "" {
		// The library would ask a service on the Internet.
		err = errors.Join(errors.New("endpoint is empty: set the host and port of your SpiceDB"), err)
	}
	if o.CacheEntries < 0 {
		err = errors.Join(err, fmt.Errorf("cache entries %d is negative", o.CacheEntries))
	}
	if o.CallTimeout < 0 || o.ListTimeout < 0 {
		err = errors.Join(err, fmt.Errorf("a timeout is negative: call %v, list %v", o.CallTimeout, o.ListTimeout))
	}
	if err != nil {
		return nil, fmt.Errorf("spicedb: %w", err)
	}
	o.CacheEntries = cmp.Or(o.CacheEntries, defaultCacheEntries)
	o.CallTimeout = cmp.Or(o.CallTimeout, defaultCallTimeout)
	o.ListTimeout = cmp.Or(o.ListTimeout, defaultListTimeout)
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	p := &Phase{
		names:   n,
		options: o,
		client:  newClient(o.Endpoint, o.Token, o.TLS, o.Dial),
		log:     o.Logger,
		born:    time.Now(),
		changed: make(chan struct{}, 1),
		wake:    make(chan struct{}, 1),
		wrote:   make(chan struct{}, 1),
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	p.current.Store(&generation{})
	return p, nil
}

// Close ends the connection. It does not wait for Run.
func (p *Phase) Close() error {
	if p.client == nil {
		return nil
	}
	return p.client.close()
}

// Part implements [gate.Phase].
func (p *Phase) Part() gate.Part {
	return gate.Part{
		Name: phaseName, Check: p.Check,
		CheckAll: p.CheckAll, Explain: p.Explain, ViewClass: p.ViewClass,
	}
}

const phaseName = "spicedb"

// Status tells how the server is, as the last questions found it.
func (p *Phase) Status() Status {
	if p.client == nil {
		return Status{Reason: ReasonMisconfigured, Detail: errZero.Error()}
	}
	s := p.client.health.status()
	s.Watching = p.current.Load().live
	return s
}

var errZero = errors.New("the phase was not made by New")

// now is the phase's clock: the time since it was made, which no one can set.
func (p *Phase) now() time.Duration { return time.Since(p.born) }

// fresh tells whether an answer of that time may still be used.
func (p *Phase) fresh(asked time.Duration) bool {
	now := p.now()
	return now-asked <= maxAge && now-time.Duration(p.proof.Load()) <= maxSilence
}

// cached returns an answer of the generation that may be used.
func (p *Phase) cached(g *generation, key []byte) (answer, bool) {
	if !g.cacheable() {
		return answer{}, false
	}
	a, ok := g.answers.get(key)
	if !ok || !p.fresh(a.asked) {
		return answer{}, false
	}
	return a, true
}

// classTime is how long the class of a caller stays the same. It is short, because the
// answers may be as old as maxAge when a decision is made of them and cached by class.
const classTime = time.Second

// ViewClass is [gate.Part.ViewClass]: a caller views the same for a second,
// while no relationship changes. Where answers are not cacheable, neither are
// decisions made of them.
func (p *Phase) ViewClass(id *gate.Identity) (class string, cacheable bool) {
	g := p.current.Load()
	if id == nil || g == nil || !g.cacheable() || p.options.Strict || p.options.StrictFor != nil || !p.fresh(p.now()) {
		return "", false
	}
	key := appendCaller(nil, gate.View, id)
	return strconv.FormatUint(g.number, 36) + " " + strconv.FormatInt(int64(p.now()/classTime), 36) + " " + string(key), true
}

// strict tells whether a request is never answered from the cache.
func (p *Phase) strict(r *gate.Request) bool {
	return p.options.Strict || p.options.StrictFor != nil && p.options.StrictFor(r)
}

// local decides what SpiceDB need not be asked about: ok is false for everything else.
func local(r *gate.Request) (d gate.Decision, ok bool, err error) {
	switch {
	case r == nil || r.Identity == nil:
		return gate.Decision{Reason: "the caller is not known"}, true, nil
	case r.Action == gate.Enable:
		// Servers are added by name, and the schema has no object for that.
		return gate.Decision{Effect: gate.Abstain}, true, nil
	case r.Kind == mcp.NoKind && r.Action == gate.View && r.Exposed == "":
		// A server that lists nothing is asked about under no name.
		return gate.Decision{Reason: "nothing is named that somebody could be related to"}, true, nil
	case r.Action != gate.View && r.Action != gate.Call:
		return gate.Decision{Reason: ReasonMisconfigured}, true, fmt.Errorf("there is no permission for the action %q", r.Action)
	}
	return gate.Decision{}, false, nil
}

// Check is [gate.Part.Check]. It answers within
// [Options.CallTimeout]. An error is an
// [*Error], or says of which part of a request no object can be named; the
// decision's Reason is then [ReasonUnavailable] or [ReasonMisconfigured]. The
// Revision of a decision is the ZedToken that it was read at.
func (p *Phase) Check(ctx context.Context, r *gate.Request) (gate.Decision, error) {
	if p.client == nil {
		return gate.Decision{Reason: ReasonMisconfigured}, errZero
	}
	if d, ok, err := local(r); ok {
		return d, err
	}
	strict := p.strict(r)
	var space [maxKey]byte
	key := appendKey(space[:0], r)
	if !strict {
		if a, ok := p.cached(p.current.Load(), key); ok {
			return a.decision(), nil
		}
	}
	q, err := p.names.of(r)
	if err != nil {
		return gate.Decision{Reason: ReasonMisconfigured}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.options.CallTimeout, errOverdue)
	defer cancel()
	a, err := p.ask(ctx, key, q, caller{r.Identity, r.Action, p.options.Zone}, strict)
	if err != nil {
		return gate.Decision{Reason: reasonIn(err)}, err
	}
	return a.decision(), nil
}

// reasonIn is the reason that an error carries.
func reasonIn(err error) string {
	if failed, ok := errors.AsType[*Error](err); ok {
		return failed.Reason
	}
	return ReasonMisconfigured
}

// ask answers one question and caches the answer. An allow that was read while
// relationships changed is read again; the last round is fully consistent.
func (p *Phase) ask(ctx context.Context, key []byte, q question, c caller, strict bool) (answer, error) {
	for round := 1; ; round++ {
		g := p.current.Load()
		if !strict {
			if found := p.looked(g, q, c); found != nil {
				return found.answer(q), nil
			}
		}
		a, err := p.single(ctx, g, q, c, strict || round == rounds)
		if err != nil {
			return answer{}, err
		}
		if !a.allow || round == rounds || p.current.Load().number == g.number {
			if !strict && g.cacheable() {
				g.answers.put(key, a)
			}
			return a, nil
		}
	}
}

// looked returns a lookup of the generation that answers q.
func (p *Phase) looked(g *generation, q question, c caller) *lookup {
	if !g.cacheable() {
		return nil
	}
	l := g.lookups.peek(lookupKey(q, c), p.good)
	if l == nil || l.err != nil {
		return nil
	}
	return l
}

// lookupKey is the key of a lookup: all that is the same for its objects.
func lookupKey(q question, c caller) string {
	key := appendText(nil, q.object.kind)
	key = appendText(key, q.permission)
	return string(shortKey(appendCaller(key, c.action, c.id)))
}

// single asks the server one question.
func (p *Phase) single(ctx context.Context, g *generation, q question, c caller, full bool) (answer, error) {
	a := answer{asked: p.now()}
	req := &v1.CheckPermissionRequest{
		Consistency: g.consistency(full),
		Resource:    q.object.object(),
		Permission:  q.permission,
		Subject:     q.subject.subject(),
		Context:     c.context(),
	}
	doing := "ask SpiceDB whether " + q.subject.String() + " has " + q.permission + " on " + q.object.String()
	err := p.client.ask(ctx, doing, p.options.CallTimeout, func(ctx context.Context, api *authzed.Client) error {
		res, err := api.CheckPermission(ctx, req)
		if p.names.untyped(q.object.kind, err) {
			a.reason = noType(q.object.kind)
			return nil
		}
		if err != nil {
			return err
		}
		a.revision = res.GetCheckedAt().GetToken()
		a.allow, a.reason = verdict(q, res.GetPermissionship(), res.GetPartialCaveatInfo())
		return nil
	})
	if outdated(err, req.GetConsistency()) {
		a, err = p.single(ctx, g, q, c, true)
		p.anew(err)
	}
	return a, err
}

// verdict reads an answer: only HAS_PERMISSION allows.
func verdict(q question, has v1.CheckPermissionResponse_Permissionship, partial *v1.PartialCaveatInfo) (allow bool, reason string) {
	switch has {
	case v1.CheckPermissionResponse_PERMISSIONSHIP_HAS_PERMISSION:
		return true, ""
	case v1.CheckPermissionResponse_PERMISSIONSHIP_CONDITIONAL_PERMISSION:
		return false, conditional(q, partial.GetMissingRequiredContext())
	default:
		return false, refused(q)
	}
}

var _ gate.Phase = (*Phase)(nil)
