package upstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

const (
	// exclusiveWait is how long a call of something that was never called before waits
	// to be alone on a shared channel.
	exclusiveWait = 2 * time.Second
	// besideTime is how long after a question another call begins beside it: what
	// the server asks at once for one call has come by then.
	besideTime = 250 * time.Millisecond
	// returnTime is how long the answer of a client waits for calls that began
	// meanwhile.
	returnTime = 10 * time.Second
)

// behaviour is what is known of how a server asks, kept over all its connections.
// On a shared channel a question belongs to a call for certain only while that
// is the only one, so a server that has asked once is called one at a time per
// connection (DESIGN 5, Attribution). So that the first question is not lost
// because others were calling, what was never called before is called alone
// where a client could be asked, if that is possible within a moment.
type behaviour struct {
	mu     sync.Mutex
	asks   bool
	silent map[string]bool // what ended without a question, by kind and name
	// askers have asked, by kind and name.
	askers map[string]bool
	// serial tells that the server works on nothing else while it waits for an
	// answer: a call that began beside a question waited for that.
	serial bool
}

// asked tells whether the server has asked.
func (m *behaviour) asked() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asks
}

// maxSilent bounds what is remembered of a server.
const maxSilent = 20000

func behaviourKey(call *mcp.Call) string { return call.Kind.String() + " " + call.Key }

// errClientAsked tells that a channel is taken until a client has answered, which
// may take long: a call is better made on another.
var errClientAsked = errors.New("a client is asked on this channel")

// serialQueue lets calls onto one shared channel. On that of a server that asks one call
// runs at a time. A call that waits for its client does not run: others may take
// their turn meanwhile, and its own answer waits for a turn in its place.
type serialQueue struct {
	of *behaviour

	mu        sync.Mutex
	running   int // calls in flight
	suspended int // of them, those that wait for their clients
	returning int // of these, those whose answer waits for its turn
	asking    int // questions that clients think about
	clients   map[string]int
	last      time.Time     // when the server asked last
	exclusive bool          // the one that runs must stay the only one
	changed   chan struct{} // closed when a call ends or rests, and when the server has asked
}

// clientOf tells the client of a call from others; empty where that is not known.
func clientOf(call *mcp.Call) string {
	if call.Session == "" {
		return ""
	}
	return call.Principal + "\x00" + call.Session
}

func newSerialQueue(of *behaviour) *serialQueue {
	return &serialQueue{of: of, changed: make(chan struct{})}
}

// enter waits until a call may begin. The call ends with leave. Unless it is
// patient it does not wait for a client that is asked: errThinking.
func (l *serialQueue) enter(ctx context.Context, call *mcp.Call, lost <-chan struct{}, patient bool) error {
	var moment *time.Timer
	var waited <-chan time.Time
	impatient := false
	for {
		ok, wait, changed := l.try(call, impatient)
		switch {
		case ok:
			return nil
		case !patient && l.elsewhere(call):
			return errClientAsked
		}
		var settled <-chan time.Time
		if wait > 0 {
			settled = time.After(wait)
		}
		if moment == nil {
			moment = time.NewTimer(exclusiveWait)
			defer moment.Stop()
			waited = moment.C
		}
		select {
		case <-changed:
		case <-settled:
		case <-waited:
			impatient = true
		case <-lost:
			return transport.ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// try lets a call begin if it may do so now; else wait is how long it may have to
// wait at most before it may, 0 where that is not known. The impatient waits only
// for a server that asks.
func (l *serialQueue) try(call *mcp.Call, impatient bool) (ok bool, wait time.Duration, changed <-chan struct{}) {
	l.of.mu.Lock()
	asks, quiet := l.of.asks, l.of.silent[behaviourKey(call)]
	l.of.mu.Unlock()
	beside := asks && l.mayBeside(call)
	l.mu.Lock()
	defer l.mu.Unlock()
	alone := asks || call.Askable && !quiet && !impatient
	if beside && l.running > 0 && l.running == l.suspended && l.returning == 0 {
		if wait = besideTime - time.Since(l.last); wait > 0 {
			return false, wait, l.changed
		}
	} else if l.running > 0 && (alone || l.exclusive && !impatient) {
		return false, 0, l.changed
	}
	l.running++
	l.exclusive = alone
	if l.clients == nil {
		l.clients = make(map[string]int)
	}
	l.clients[clientOf(call)]++
	return true, 0, nil
}

// mayBeside tells whether a call may run while others wait for their clients: it is
// of the same client, which finds what the server keeps for it then, and of a tool
// that has never asked.
func (l *serialQueue) mayBeside(call *mcp.Call) bool {
	l.of.mu.Lock()
	serial := l.of.serial || call.Kind != mcp.Tool || l.of.askers[behaviourKey(call)]
	l.of.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	client := clientOf(call)
	return !serial && client != "" && len(l.clients) == 1 && l.clients[client] > 0
}

// elsewhere tells whether a call is better made on another channel, because
// clients are asked on this one and it cannot run beside.
func (l *serialQueue) elsewhere(call *mcp.Call) bool {
	return l.askingClient() && !l.mayBeside(call)
}

// askingClient tells whether a client is asked.
func (l *serialQueue) askingClient() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asking > 0
}

// clientAsked begins or ends a question to a client.
func (l *serialQueue) clientAsked(open int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asking += open
	l.tell()
}

// suspend notes that a call which runs waits for its client from now on. It runs
// again with resume.
func (l *serialQueue) suspend(f *inFlight) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = time.Now()
	if !f.suspended.Swap(true) {
		l.suspended++
	}
	l.tell()
}

// resume waits until a call that has rested may run again: until those have ended
// that began meanwhile, or for returnTime. One of them may wait for this very call,
// and no other is let beside a question of this server any more.
func (l *serialQueue) resume(f *inFlight) {
	timer := time.NewTimer(returnTime)
	defer timer.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !f.suspended.Load() {
		return
	}
	l.returning++
	for late := false; f.suspended.Load() && l.running > l.suspended && !late && f.ctx.Err() == nil; {
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-timer.C:
			late = true
			l.works()
		case <-f.ctx.Done():
		}
		l.mu.Lock()
	}
	l.returning--
	if f.suspended.Swap(false) {
		l.suspended--
	}
}

// works notes that the server works on nothing else while it waits for an answer.
func (l *serialQueue) works() {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	l.of.serial = true
}

// asks notes that the server asks during calls of something.
func (l *serialQueue) asks(call *mcp.Call) {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if l.of.askers == nil {
		l.of.askers = make(map[string]bool)
	}
	if len(l.of.askers) < maxSilent {
		l.of.askers[behaviourKey(call)] = true
	}
}

// leave ends a call. One that ended without a question is remembered.
func (l *serialQueue) leave(f *inFlight) {
	l.of.mu.Lock()
	if !l.of.asks && len(l.of.silent) < maxSilent {
		if l.of.silent == nil {
			l.of.silent = make(map[string]bool)
		}
		l.of.silent[behaviourKey(f.call)] = true
	}
	l.of.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	if f.suspended.Swap(false) {
		l.suspended--
	} else if l.suspended > 0 && errors.Is(context.Cause(f.ctx), errCallTimeout) {
		l.works()
	}
	client := clientOf(f.call)
	if l.clients[client]--; l.clients[client] == 0 {
		delete(l.clients, client)
	}
	l.exclusive = false
	l.tell()
}

// asked notes that the server has asked.
func (l *serialQueue) asked() {
	l.of.mu.Lock()
	before := l.of.asks
	l.of.asks, l.of.silent = true, nil
	l.of.mu.Unlock()
	if before {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell()
}

// tell wakes all that wait; mu is held.
func (l *serialQueue) tell() {
	close(l.changed)
	l.changed = make(chan struct{})
}
