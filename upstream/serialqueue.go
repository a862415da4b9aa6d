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
	// exclusiveWait is how long the first call of a name waits until it can run alone on a
	// shared channel.
	exclusiveWait = 2 * time.Second
	// besideTime is how long after a question another call may begin. By then all
	// questions that the server asks at once for one call have come.
	besideTime = 250 * time.Millisecond
	// returnTime is how long the answer of a client waits for calls that began meanwhile.
	returnTime = 10 * time.Second
)

// behaviour is what is known about the questions of a server, over all its connections. On
// a shared channel a question belongs to a call for certain only while no other call runs.
// So once a server has asked, it gets one call at a time per connection (ADR
// 0012). A name that was never called before runs alone too, if a client could be
// asked and that is possible within a moment. Otherwise the first question could be lost.
type behaviour struct {
	mu     sync.Mutex
	asks   bool
	silent map[string]bool // calls that ended without a question, by kind and name
	// askers are the calls with questions, by kind and name.
	askers map[string]bool
	// serial tells that the server does nothing else while it waits for an answer: a call
	// that began during a question had to wait for the answer.
	serial bool
}

// asked tells whether the server has asked.
func (m *behaviour) asked() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asks
}

// maxSilent bounds the number of names that are remembered of a server.
const maxSilent = 20000

func behaviourKey(call *mcp.Call) string { return call.Kind.String() + " " + call.Key }

// errClientAsked tells that a channel waits for the answer of a client, which may take
// long. Another channel is better for a call.
var errClientAsked = errors.New("a client is asked on this channel")

// serialQueue admits calls to one shared channel. If the server asks questions, one call
// runs at a time. A call that waits for its client does not run: others may run meanwhile,
// and then its own answer waits for a turn.
type serialQueue struct {
	of *behaviour

	mu        sync.Mutex
	running   int // calls in flight
	suspended int // of these, those that wait for their clients
	returning int // of the suspended, those whose answer waits for a turn
	asking    int // open questions to clients
	clients   map[string]int
	last      time.Time     // when the server last asked
	exclusive bool          // the running call must stay the only one
	changed   chan struct{} // closed when a call ends or is suspended, and when the server has asked
}

// clientOf identifies the client of a call; empty if it is unknown.
func clientOf(call *mcp.Call) string {
	if call.Session == "" {
		return ""
	}
	return call.Principal + "\x00" + call.Session
}

func newSerialQueue(of *behaviour) *serialQueue {
	return &serialQueue{of: of, changed: make(chan struct{})}
}

// enter waits until a call may begin; leave ends it. If the call is not patient, it does
// not wait for a client that is being asked: errClientAsked.
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

// try lets a call begin if it may do so now. Otherwise wait is the longest time until it
// may, 0 if that is unknown. An impatient call waits only for a server that asks
// questions.
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

// mayBeside tells whether a call may run while others wait for their clients. It must come
// from the same client, whose state the server may keep on the channel, and call a tool
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

// elsewhere tells whether another channel is better for a call, because a client is being
// asked on this one and the call may not run meanwhile.
func (l *serialQueue) elsewhere(call *mcp.Call) bool {
	return l.askingClient() && !l.mayBeside(call)
}

// askingClient tells whether a question to a client is open.
func (l *serialQueue) askingClient() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asking > 0
}

// clientAsked adds to the number of open questions.
func (l *serialQueue) clientAsked(open int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asking += open
	l.tell()
}

// suspend notes that a running call waits for its client from now on. resume ends that.
func (l *serialQueue) suspend(f *inFlight) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = time.Now()
	if !f.suspended.Swap(true) {
		l.suspended++
	}
	l.tell()
}

// resume waits until a suspended call may run again: until the calls that began meanwhile
// have ended, or for returnTime. One of them may wait for this very call. After a timeout
// no other call of this server begins during a question.
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

// works notes that the server does nothing else while it waits for an answer.
func (l *serialQueue) works() {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	l.of.serial = true
}

// asks notes that the server has asked during a call.
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

// leave ends a call. If it had no question, that is remembered.
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
	} else if l.suspended > 0 && errors.Is(context.Cause(&f.ctx), errCallTimeout) {
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

// tell wakes all waiting calls; mu is held.
func (l *serialQueue) tell() {
	close(l.changed)
	l.changed = make(chan struct{})
}
