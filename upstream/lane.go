package upstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// aloneTime is how long a call of something that was never called before waits
// to be alone on a shared channel.
const aloneTime = 2 * time.Second

// manners is what is known of how a server asks, kept over all its connections.
// On a shared channel a question belongs to a call for certain only while that
// is the only one, so a server that has asked once is called one at a time per
// connection (DESIGN 5, Attribution). So that the first question is not lost
// because others were calling, what was never called before is called alone
// where a client could be asked, if that is possible within a moment.
type manners struct {
	mu    sync.Mutex
	asks  bool
	quiet map[string]bool // what ended without a question, by kind and name
}

// asked tells whether the server has asked.
func (m *manners) asked() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asks
}

// maxQuiet bounds what is remembered of a server.
const maxQuiet = 20000

func mannersKey(call *mcp.Call) string { return call.Kind.String() + " " + call.Key }

// errThinking tells that a channel is taken until a client has answered, which
// may take long: a call is better made on another.
var errThinking = errors.New("a client is asked on this channel")

// lane lets calls onto one shared channel.
type lane struct {
	of *manners

	mu      sync.Mutex
	running int
	asking  int           // questions that clients think about
	alone   bool          // the one that runs must stay the only one
	changed chan struct{} // closed when a call ends or the server has asked
}

func newLane(of *manners) *lane { return &lane{of: of, changed: make(chan struct{})} }

// enter waits until a call may begin. The call ends with leave. Unless it is
// patient it does not wait for a client that is asked: errThinking.
func (l *lane) enter(ctx context.Context, call *mcp.Call, lost <-chan struct{}, patient bool) error {
	var moment *time.Timer
	var waited <-chan time.Time
	impatient := false
	for {
		ok, changed := l.try(call, impatient)
		switch {
		case ok:
			return nil
		case !patient && l.thinking():
			return errThinking
		}
		if moment == nil {
			moment = time.NewTimer(aloneTime)
			defer moment.Stop()
			waited = moment.C
		}
		select {
		case <-changed:
		case <-waited:
			impatient = true
		case <-lost:
			return errClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// try lets a call begin if it may do so now. The impatient waits only for a
// server that asks.
func (l *lane) try(call *mcp.Call, impatient bool) (ok bool, changed <-chan struct{}) {
	l.of.mu.Lock()
	asks, quiet := l.of.asks, l.of.quiet[mannersKey(call)]
	l.of.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	alone := asks || call.Askable && !quiet && !impatient
	if l.running > 0 && (alone || l.alone && !impatient) {
		return false, l.changed
	}
	l.running++
	l.alone = alone
	return true, nil
}

// thinking tells whether a client is asked.
func (l *lane) thinking() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asking > 0
}

// think begins or ends a question to a client.
func (l *lane) think(open int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asking += open
	l.tell()
}

// leave ends a call. One that ended without a question is remembered.
func (l *lane) leave(call *mcp.Call) {
	l.of.mu.Lock()
	if !l.of.asks && len(l.of.quiet) < maxQuiet {
		if l.of.quiet == nil {
			l.of.quiet = make(map[string]bool)
		}
		l.of.quiet[mannersKey(call)] = true
	}
	l.of.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	l.alone = false
	l.tell()
}

// asked notes that the server has asked.
func (l *lane) asked() {
	l.of.mu.Lock()
	before := l.of.asks
	l.of.asks, l.of.quiet = true, nil
	l.of.mu.Unlock()
	if before {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell()
}

// tell wakes all that wait; mu is held.
func (l *lane) tell() {
	close(l.changed)
	l.changed = make(chan struct{})
}
