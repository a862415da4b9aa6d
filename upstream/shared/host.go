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

// closeTime bounds the end of a process.
const closeTime = 8 * time.Second

// Claims decide where a server runs that must not run twice.
type Claims interface {
	// Claim returns nil if the server may run here, until Release. The error says where it
	// runs.
	Claim(ctx context.Context, server string) error
	Release(ctx context.Context, server string) error
}

// Host has the servers whose processes may run here. Make it with [NewHost]. It is safe for
// concurrent use.
type Host struct {
	claims Claims // nil where nothing is claimed
	dial   func(ctx context.Context, o *transport.Options, inbound func(mcp.Message)) (transport.Link, error)

	mu      sync.Mutex
	offers  map[string]*offer
	changed chan struct{} // closed when a process has ended
	running int           // processes that have not ended
}

// offer is one server that may run here.
type offer struct {
	server  string
	options transport.Options
	once    bool // see [Claims]

	turn chan struct{} // capacity 1: held by whoever starts or ends the process
	// With the turn:
	process   *process // nil while none runs
	withdrawn bool
}

// NewHost returns a host without servers. claims may be nil.
func NewHost(claims Claims) *Host {
	stdio, _ := transport.KindOf("stdio")
	return &Host{claims: claims, dial: stdio.Dial, offers: make(map[string]*offer), changed: make(chan struct{})}
}

// Offer says how the process of a server is started, until withdrawn; then it ends. once
// tells that it must not run at two gateways at a time.
func (h *Host) Offer(server string, o *transport.Options, once bool) (withdraw func()) {
	of := &offer{server: server, options: *o, once: once, turn: make(chan struct{}, 1)}
	of.options.Several = true
	h.mu.Lock()
	h.offers[server] = of
	h.mu.Unlock()
	return func() {
		h.mu.Lock()
		if h.offers[server] == of {
			delete(h.offers, server)
		}
		h.mu.Unlock()
		of.turn <- struct{}{}
		defer func() { <-of.turn }()
		of.withdrawn = true
		if of.process != nil {
			of.process.fail(transport.ErrMoved)
			h.finish(of)
		}
	}
}

// Join opens a link to the process of a server, and starts it if it is not running.
func (h *Host) Join(ctx context.Context, server string, inbound func(mcp.Message)) (*Link, error) {
	h.mu.Lock()
	of := h.offers[server]
	h.mu.Unlock()
	if of == nil {
		return nil, fmt.Errorf("%s: %w", server, ErrNotOffered)
	}
	select {
	case of.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-of.turn }()
	if of.withdrawn {
		return nil, fmt.Errorf("%s: %w", server, ErrNotOffered)
	}
	if of.process != nil && of.process.link.Cause() != nil {
		h.finish(of)
	}
	if of.process == nil {
		if err := h.start(ctx, of); err != nil {
			return nil, err
		}
	}
	l := newLink(of.process, inbound, func() { h.left(of) })
	of.process.join(l)
	return l, nil
}

// start starts the process of a server; its turn is held.
func (h *Host) start(ctx context.Context, of *offer) error {
	if of.once && h.claims != nil {
		if err := h.claims.Claim(ctx, of.server); err != nil {
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
	h.mu.Lock()
	h.running++
	h.mu.Unlock()
	p.wg.Go(p.follow)
	p.wg.Go(p.answer)
	return nil
}

// left is told that a link has ended. The last one ends the process.
func (h *Host) left(of *offer) {
	of.turn <- struct{}{}
	defer func() { <-of.turn }()
	if of.process != nil && of.process.alone() {
		h.finish(of)
	}
}

// finish ends the process of a server; its turn is held.
func (h *Host) finish(of *offer) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	of.process.link.Close(ctx)
	of.process.wg.Wait()
	of.process = nil
	h.release(of)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running--
	close(h.changed)
	h.changed = make(chan struct{})
}

// release lets a server run elsewhere.
func (h *Host) release(of *offer) {
	if !of.once || h.claims == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := h.claims.Release(ctx, of.server); err != nil {
		of.options.Log.Warn("the server can run elsewhere once the lease of this gateway has ended", "server", of.server, "err", err)
	}
}

// EndOnce ends the processes that must not run twice: another gateway may start them.
func (h *Host) EndOnce() {
	h.mu.Lock()
	var once []*offer
	for _, of := range h.offers {
		if of.once {
			once = append(once, of)
		}
	}
	h.mu.Unlock()
	for _, of := range once {
		of.turn <- struct{}{}
		if of.process != nil {
			of.process.fail(transport.ErrMoved)
			h.finish(of)
		}
		<-of.turn
	}
}

// Drain waits until no process runs here any more, at most until the context ends. It
// returns how many do.
func (h *Host) Drain(ctx context.Context) int {
	for {
		h.mu.Lock()
		running, changed := h.running, h.changed
		h.mu.Unlock()
		if running == 0 {
			return 0
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return running
		}
	}
}
