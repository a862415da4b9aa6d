package shared

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// ErrNotOffered tells that a server is not run here.
var ErrNotOffered = errors.New("this gateway does not run the server")

const (
	// closeTime bounds the end of a process, and hurryTime that of one that another gateway
	// may be about to start.
	closeTime = 8 * time.Second
	hurryTime = 2 * time.Second
	// leaveTime is how long other gateways may take to leave a process that must not run
	// twice, once they are told.
	leaveTime = 25 * time.Second
)

// Leave is the method of the notification by which a host tells the links of other gateways
// that the process is to run elsewhere.
const Leave = "notifications/toolgate/leave"

// Host has the servers whose processes may run here. Make it with [NewHost]. It is safe for
// concurrent use.
type Host struct {
	claims *claimed
	dial   func(ctx context.Context, o *transport.Options, inbound func(mcp.Message)) (transport.Link, error)

	mu      sync.Mutex
	offers  map[string]*offer
	changed chan struct{} // closed when a link of another gateway has ended
	others  int           // links of other gateways
	lost    chan struct{} // closed by EndOnce: what is being started once, is not
}

// offer is one server that may run here.
type offer struct {
	server  string
	options transport.Options
	once    bool          // see [Claims]
	ended   chan struct{} // closed when it was withdrawn, and its process and all before it have ended

	turn    chan struct{} // capacity 1: held by whoever starts or ends the process
	process *process      // with the turn; nil while none runs

	// With mu of the host:
	before    *offer // which it replaces, until that has ended
	withdrawn bool
}

// NewHost returns a host without servers. claims may be nil.
func NewHost(claims Claims) *Host {
	stdio, _ := transport.KindOf("stdio")
	return &Host{
		claims: newClaimed(claims), dial: stdio.Dial, offers: make(map[string]*offer),
		changed: make(chan struct{}), lost: make(chan struct{}),
	}
}

// Offer says how the process of a server is started, until withdrawn; then it ends. once
// tells that it must not run at two gateways at a time. A later offer of the same server
// replaces this one; if it must not run twice, its process starts when this one has ended.
func (h *Host) Offer(server string, o *transport.Options, once bool) (withdraw func()) {
	of := &offer{server: server, options: *o, once: once, turn: make(chan struct{}, 1), ended: make(chan struct{})}
	of.options.Several = true
	h.mu.Lock()
	of.before = h.offers[server]
	h.offers[server] = of
	h.mu.Unlock()
	return func() {
		h.mu.Lock()
		of.withdrawn = true
		h.mu.Unlock()
		of.turn <- struct{}{}
		if of.process != nil {
			of.process.fail(transport.ErrMoved)
			h.finish(of, closeTime)
		}
		h.release(of)
		<-of.turn
		go h.end(of)
	}
}

// end notes that an offer has ended, once those before it have, of which each is withdrawn
// by its own owner.
func (h *Host) end(of *offer) {
	h.mu.Lock()
	before := of.before
	h.mu.Unlock()
	if before != nil {
		<-before.ended
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	of.before = nil
	if h.offers[of.server] == of {
		delete(h.offers, of.server)
	}
	close(of.ended)
}

// Join opens a link to the process of a server, and starts it if it is not running. other
// tells that the link is for another gateway.
func (h *Host) Join(ctx context.Context, server string, other bool, inbound func(mcp.Message)) (*Link, error) {
	h.mu.Lock()
	of, lost := h.offers[server], h.lost
	var before *offer
	if of != nil {
		before = of.before
	}
	h.mu.Unlock()
	if of == nil {
		return nil, fmt.Errorf("%s: %w", server, ErrNotOffered)
	}
	if of.once {
		var stop func()
		ctx, stop = until(ctx, lost)
		defer stop()
		if before != nil {
			select {
			case <-before.ended:
			case <-ctx.Done():
				return nil, fmt.Errorf("the process that it replaces has not ended: %w", context.Cause(ctx))
			}
		}
	}
	select {
	case of.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-of.turn }()
	if h.isWithdrawn(of) {
		return nil, fmt.Errorf("%s: %w", server, ErrNotOffered)
	}
	if of.process != nil && of.process.link.Cause() != nil {
		h.finish(of, closeTime)
	}
	if of.process == nil {
		if err := h.start(ctx, of); err != nil {
			return nil, err
		}
	}
	return h.join(of, other, inbound), nil
}

// until returns a context that also ends with a channel.
func until(ctx context.Context, end <-chan struct{}) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	go func() { // ends with ctx
		select {
		case <-end:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

func (h *Host) isWithdrawn(of *offer) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return of.withdrawn
}

// join adds a link to the running process; its turn is held.
func (h *Host) join(of *offer, other bool, inbound func(mcp.Message)) *Link {
	if other {
		h.count(1)
	}
	l := newLink(of.process, inbound, func() {
		h.left(of, other)
		if other {
			h.count(-1)
		}
	})
	of.process.join(l)
	if err := of.process.link.Cause(); err != nil { // it was lost before the link was among its own
		l.Fail(err)
	}
	return l
}

// count counts the links of other gateways.
func (h *Host) count(by int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.others += by
	close(h.changed)
	h.changed = make(chan struct{})
}

// start starts the process of a server; its turn is held.
func (h *Host) start(ctx context.Context, of *offer) error {
	if of.once {
		if err := h.claims.claim(ctx, of); err != nil {
			return err
		}
	}
	p := newProcess(of.options.Limits.Depth)
	link, err := h.dial(ctx, &of.options, p.said)
	if err != nil {
		h.release(of)
		return err
	}
	p.link = link
	of.process = p
	p.wg.Go(p.follow)
	p.wg.Go(p.answer)
	return nil
}

// left is told that a link has ended. The last one ends the process. Where this gateway leaves
// a process that must not run twice, the others leave it, too.
func (h *Host) left(of *offer, other bool) {
	of.turn <- struct{}{}
	defer func() { <-of.turn }()
	switch {
	case of.process == nil:
	case of.process.alone():
		h.finish(of, closeTime)
		h.release(of)
	case of.once && !other:
		told := of.process.leave()
		time.AfterFunc(leaveTime, func() { // those that join meanwhile stay
			for _, l := range told {
				l.Fail(transport.ErrMoved)
			}
		})
	}
}

// finish ends the process of a server; its turn is held.
func (h *Host) finish(of *offer, within time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	of.process.link.Close(ctx)
	of.process.wg.Wait()
	of.process = nil
}

// release lets a server run elsewhere, whose process has ended.
func (h *Host) release(of *offer) {
	if !of.once {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := h.claims.release(ctx, of); err != nil {
		of.options.Log.Warn("another gateway cannot run the server yet; this is tried again", "server", of.server, "err", err)
	}
}

// Owes tells whether something could not be released, which [Host.Settle] does.
func (h *Host) Owes() bool { return len(h.claims.owed()) > 0 }

// Settle releases what could not be released before.
func (h *Host) Settle(ctx context.Context) error { return h.claims.settle(ctx) }

// EndOnce ends the processes that must not run twice: another gateway may start them. It
// does not wait for the claims, which the caller has lost.
func (h *Host) EndOnce() {
	h.mu.Lock()
	close(h.lost)
	h.lost = make(chan struct{})
	var once []*offer
	for _, of := range h.offers {
		for ; of != nil; of = of.before {
			if of.once {
				once = append(once, of)
			}
		}
	}
	h.mu.Unlock()
	var all sync.WaitGroup
	for _, of := range once {
		all.Go(func() {
			of.turn <- struct{}{}
			if of.process != nil {
				of.process.fail(transport.ErrMoved)
				h.finish(of, hurryTime)
			}
			_ = h.claims.lose(of) // settled later
			<-of.turn
		})
	}
	all.Wait()
}

// Drain waits until no other gateway uses a process of this one, at most until the context
// ends. It returns how many links there are.
func (h *Host) Drain(ctx context.Context) int {
	for {
		h.mu.Lock()
		others, changed := h.others, h.changed
		h.mu.Unlock()
		if others == 0 {
			return 0
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return others
		}
	}
}
