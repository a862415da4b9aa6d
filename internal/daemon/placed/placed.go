package placed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/cluster"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/shared"
	"github.com/toolgate/toolgate/upstream/transport"
)

// asked is the parameter of a stream that says which process is meant, and look that of a request
// that only asks whether it may run here.
const (
	asked = "process"
	look  = "look"
)

// settleTime bounds the release of what could not be released before.
const settleTime = 10 * time.Second

// Peers are the gateways that share servers; [cluster.Cluster] implements it.
type Peers interface {
	Self() string
	Place(server string, copies int, out func(id string) bool) string
	Suspected(id string) bool
	Draining() bool
	// Known is closed once the others are known, or were asked for in vain.
	Known() <-chan struct{}
	Open(ctx context.Context, to, server string, query url.Values) (*cluster.Stream, error)
}

// Places are the shared servers of this gateway. Make it with [New]. It is safe for
// concurrent use.
type Places struct {
	host *shared.Host
	log  *slog.Logger

	owing    chan struct{} // capacity 1: Run has something to release
	offering chan struct{} // capacity 1: Run has something to announce
	announce func()        // that this gateway runs servers that it did not run before

	mu     sync.Mutex
	peers  Peers
	offers map[string]*offer
	links  map[*link]struct{}
	told   chan struct{} // closed when the gateways, or what they claim, have changed
}

// offer is what this gateway knows of a server that may run here.
type offer struct {
	fingerprint string
	limits      transport.Limits
}

// New returns the places of this gateway, which are used once it has its peers. claims keep
// servers from running twice. announce has the others call [Places.Offered]. Run releases what
// could not be released at once, and announces.
func New(log *slog.Logger, claims shared.Claims, announce func()) *Places {
	return &Places{
		host: shared.NewHost(claims), log: log, owing: make(chan struct{}, 1), offering: make(chan struct{}, 1), announce: announce,
		offers: make(map[string]*offer), links: make(map[*link]struct{}), told: make(chan struct{}),
	}
}

// Among sets the gateways that share servers, before anything is placed.
func (p *Places) Among(peers Peers) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.peers = peers
}

// Told is called when the gateways were read. Servers move that belong elsewhere since then.
// It does not block.
func (p *Places) Told() {
	if p.host.Owes() {
		signal(p.owing)
	}
	p.look(false)
}

// Offered is called when a gateway runs servers that it did not run before: those that could
// not move there are told to at once. It does not block.
func (p *Places) Offered() { p.look(true) }

// signal leaves a token in a channel of capacity 1, unless there is one.
func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default: // what waits there covers this, too
	}
}

// look tells servers that belong elsewhere to move. Those that were told before and have stayed
// are told in their time, or with again at once. again is nothing new for one that ended in vain.
// A link that was told and has not stayed is about to move, or has, and ends with its last call:
// it does not delay those that are told later.
func (p *Places) look(again bool) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.told)
	p.told = make(chan struct{})
	told := make(map[*placement]struct{})
	for l := range p.links {
		due := p.peers.Place(l.server, l.by.copies, nil)
		l.by.moves.aim(due)
		if again && !l.by.moves.failed {
			l.by.moves.anew()
		}
		anew := l.by.moves.again.IsZero()
		if !now.Before(l.by.moves.again) && p.movesTo(l, due) && (anew || !l.isLeaving()) {
			told[l.by] = struct{}{}
			l.tell()
		}
	}
	for pl := range told {
		pl.moves.later(now)
	}
}

// movesTo tells whether a link is to move by itself to where it belongs. One to a process of
// another gateway that must not run twice is told by that gateway.
func (p *Places) movesTo(l *link, due string) bool {
	return due != l.at && (!l.by.once || l.at == p.peers.Self())
}

// Run releases, each time the gateways were read, what could not be released before, and
// announces what this gateway runs. It ends with ctx.
func (p *Places) Run(ctx context.Context) {
	for {
		select {
		case <-p.owing:
			p.settle(ctx)
		case <-p.offering:
			p.announce()
		case <-ctx.Done():
			return
		}
	}
}

// settle releases what could not be released before.
func (p *Places) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if err := p.host.Settle(ctx); err != nil {
		p.log.Debug("a server cannot run elsewhere yet", "err", err)
	}
}

// Lost is called when this gateway may count as gone. Servers that must not run twice end.
func (p *Places) Lost() { p.host.EndOnce() }

// Drain waits until no other gateway uses a process of this one, at most until the context
// ends. It returns how many links there are.
func (p *Places) Drain(ctx context.Context) int { return p.host.Drain(ctx) }

// Server returns how a server is reached that runs at copies of the gateways. once tells that
// it must not run twice, not even while it moves.
func (p *Places) Server(copies int, once bool) transport.Placed {
	return &placement{of: p, copies: copies, once: once}
}

// placement is where one server runs.
type placement struct {
	of     *Places
	copies int
	once   bool
	moves  moves // with mu of the places
}

// fingerprint names a process. What differs between machines, such as the environment, is no
// part of it.
func fingerprint(o *transport.Options) string {
	h := sha256.New()
	for _, part := range append([]string{o.Command, o.Dir}, o.Args...) {
		fmt.Fprintf(h, "%d:%s,", len(part), part)
	}
	if o.Sandbox != nil {
		fmt.Fprintf(h, "sandbox %s", o.Sandbox.Network)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Offer implements [transport.Placed].
func (pl *placement) Offer(server string, o *transport.Options) (withdraw func()) {
	p := pl.of
	end := p.host.Offer(server, o, pl.once)
	mine := &offer{fingerprint(o), o.Limits}
	p.mu.Lock()
	p.offers[server] = mine
	p.mu.Unlock()
	signal(p.offering)
	return func() {
		p.mu.Lock()
		if p.offers[server] == mine {
			delete(p.offers, server)
		}
		p.mu.Unlock()
		end()
	}
}

// Dial implements [transport.Placed]. It waits until the others are known: a gateway that knows
// none runs everything by itself. It waits also while a server that must not run twice runs
// where it does not belong.
func (pl *placement) Dial(ctx context.Context, server string, o *transport.Options, inbound func(mcp.Message)) (transport.Link, error) {
	p := pl.of
	select {
	case <-p.peers.Known():
	case <-ctx.Done():
		return nil, fmt.Errorf("the other gateways are not known: %w", context.Cause(ctx))
	}
	for {
		told := p.next()
		link, err := pl.dialOnce(ctx, server, o, inbound)
		held, _ := errors.AsType[*cluster.HeldError](err)
		refused, _ := errors.AsType[*cluster.RefusedError](err)
		if held == nil && (refused == nil || refused.Status != http.StatusConflict) {
			return link, err
		}
		select {
		case <-told:
		case <-ctx.Done():
			return nil, err
		}
	}
}

// next returns a channel that is closed at the next change.
func (p *Places) next() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.told
}

// dialOnce opens a link. A gateway that is not reached, or does not run this process, is
// passed over.
func (pl *placement) dialOnce(ctx context.Context, server string, o *transport.Options, inbound func(mcp.Message)) (transport.Link, error) {
	p := pl.of
	tried := make(map[string]bool)
	out := func(id string) bool { return tried[id] || p.peers.Suspected(id) }
	for {
		at := p.peers.Place(server, pl.copies, out)
		l := &link{by: pl, server: server, at: at, fingerprint: fingerprint(o), moved: make(chan struct{}, 1)}
		if at == p.peers.Self() {
			process, err := p.host.Join(ctx, server, false, inbound)
			if err != nil {
				return nil, err
			}
			l.Link = process
			return &local{p.keep(l), process}, nil
		}
		tried[at] = true
		stream, err := p.peers.Open(ctx, at, server, url.Values{asked: {l.fingerprint}})
		refused, isRefused := errors.AsType[*cluster.RefusedError](err)
		switch {
		case err == nil:
			s := transport.Stream{In: stream, To: stream, HangUp: stream.Close, Why: stream.Why}
			l.Link = transport.NewStream(o, s, l.unlessTold(inbound))
			return p.keep(l), nil
		case isRefused && (refused.Status == http.StatusNotFound || pl.once && refused.Status == http.StatusBadGateway): // or it cannot start it
			if refused.Status == http.StatusBadGateway {
				p.inVain(l)
			}
			p.log.Info("a gateway does not run a shared server for this one", "server", server, "member", at, "why", refused.Text)
		case isRefused || ctx.Err() != nil:
			return nil, err
		default:
			p.log.Debug("a gateway that runs a shared server was not reached", "server", server, "member", at, "err", err)
		}
	}
}

// keep remembers an open link. When it is told to move follows from those before it, unless it
// leads to where the server belongs.
func (p *Places) keep(l *link) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.by.moves.aim(p.peers.Place(l.server, l.by.copies, nil))
	if l.at == l.by.moves.due {
		l.by.moves.anew()
	}
	p.links[l] = struct{}{}
	return l
}

// inVain notes that the gateway of a link that is not open could not start the server.
func (p *Places) inVain(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.by.moves.aim(p.peers.Place(l.server, l.by.copies, nil))
	if l.at == l.by.moves.due {
		l.by.moves.later(time.Now())
		l.by.moves.failed = true
	}
}

// Serve implements [cluster.Servers].
func (p *Places) Serve(ctx context.Context, member, server string, query url.Values, in io.Reader, begin func() *cluster.Far) error {
	p.mu.Lock()
	mine, ok := p.offers[server]
	p.mu.Unlock()
	switch {
	case !ok:
		return &cluster.RefusedError{Status: http.StatusNotFound, Text: "this gateway has no such server"}
	case query.Get(asked) != mine.fingerprint:
		return &cluster.RefusedError{Status: http.StatusNotFound, Text: "the configuration of this gateway has another command for the server"}
	case p.peers.Draining():
		return &cluster.RefusedError{Status: http.StatusNotFound, Text: "this gateway ends"}
	}
	if query.Get(look) != "" {
		return &cluster.RefusedError{Status: http.StatusAccepted, Text: "this gateway would run the server"}
	}
	p.log.Debug("another gateway uses a server of this one", "server", server, "member", member)
	return transport.ServeStream(ctx, in, mine.limits, func(inbound func(mcp.Message)) (transport.Link, transport.Far, error) {
		link, err := p.host.Join(ctx, server, true, inbound)
		held, isHeld := errors.AsType[*cluster.HeldError](err)
		switch {
		case isHeld:
			err = &cluster.RefusedError{Status: http.StatusConflict, Text: held.Error()}
		case errors.Is(err, shared.ErrNotOffered):
			err = &cluster.RefusedError{Status: http.StatusNotFound, Text: err.Error()}
		}
		if err != nil {
			return nil, nil, err
		}
		return link, begin(), nil
	})
}

// link is an open link of this gateway to a shared process.
type link struct {
	transport.Link
	by          *placement
	server, at  string
	fingerprint string
	moved       chan struct{} // capacity 1
	told        atomic.Bool   // to leave

	telling sync.Mutex
	leaving bool // it was told to move, and that has not failed
}

// tell has the link move.
func (l *link) tell() {
	l.telling.Lock()
	defer l.telling.Unlock()
	l.leaving = true
	signal(l.moved)
}

// Leaving implements [transport.Moving].
func (l *link) Leaving() bool {
	p := l.by.of
	p.mu.Lock()
	due := p.peers.Place(l.server, l.by.copies, nil)
	about := p.movesTo(l, due) && (due != l.by.moves.due || l.by.moves.again.IsZero()) // it is told in a moment
	p.mu.Unlock()
	return about || l.isLeaving()
}

// isLeaving tells whether it was told to move, and that has not failed.
func (l *link) isLeaving() bool {
	l.telling.Lock()
	defer l.telling.Unlock()
	return l.leaving
}

// Stays implements [transport.Moving].
func (l *link) Stays() {
	l.telling.Lock()
	defer l.telling.Unlock()
	l.leaving = len(l.moved) > 0 // it was told again meanwhile
}

// Moved implements [transport.Moving].
func (l *link) Moved() <-chan struct{} { return l.moved }

// Alone implements [transport.Moving].
func (l *link) Alone() bool { return l.by.once }

// unlessTold passes on what the process says. If its gateway tells this one to leave, the link
// moves.
func (l *link) unlessTold(inbound func(mcp.Message)) func(mcp.Message) {
	return func(msg mcp.Message) {
		if msg.Method != shared.Leave {
			inbound(msg)
			return
		}
		l.told.Store(true)
		l.tell()
	}
}

// Takes implements [transport.Moving].
func (l *link) Takes(ctx context.Context) bool {
	if l.told.Load() {
		return true // it ends in any case
	}
	p := l.by.of
	to := p.peers.Place(l.server, l.by.copies, nil)
	if to == l.at {
		return false // it belonged elsewhere for a moment
	}
	if to == p.peers.Self() {
		return true
	}
	stream, err := p.peers.Open(ctx, to, l.server, url.Values{asked: {l.fingerprint}, look: {"1"}})
	if err == nil { // a member of another version has begun
		stream.Close()
		return true
	}
	refused, ok := errors.AsType[*cluster.RefusedError](err)
	return ok && refused.Status == http.StatusAccepted
}

// At implements [transport.Moving].
func (l *link) At() string { return l.at }

// Close implements [transport.Link].
func (l *link) Close(ctx context.Context) {
	p := l.by.of
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
	l.Link.Close(ctx)
}

// local is a link to a process of this gateway.
type local struct {
	*link
	process *shared.Link
}

var (
	_ transport.Process = (*local)(nil)
	_ transport.Moving  = (*local)(nil)
	_ transport.Moving  = (*link)(nil)
	_ Peers             = (*cluster.Cluster)(nil)
	_ cluster.Servers   = (*Places)(nil)
)

// Tail implements [transport.Process].
func (l *local) Tail() transport.Tail { return l.process.Tail() }

// Stray implements [transport.Process].
func (l *local) Stray() (lines int64, first string) { return l.process.Stray() }
