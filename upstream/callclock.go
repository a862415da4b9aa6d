package upstream

import (
	"sync"
	"time"
)

// callClock ends a call whose server is silent for too long. It rests while the
// client thinks about a question of the server, which is not the server's time.
// It is safe for concurrent use.
type callClock struct {
	patience time.Duration // until the first sign of work
	idle     time.Duration // between two signs of it
	hard     time.Time     // the end, whatever happens
	timer    *time.Timer

	mu        sync.Mutex
	working   bool // there was a sign of work
	questions int  // that are open
	stopped   bool
}

// newCallClock starts a clock that calls expired when the server has been
// silent for the patience, or for idle once it has shown that it is at work, or
// after hard at the latest.
func newCallClock(patience, idle, hard time.Duration, expired func()) *callClock {
	return &callClock{
		patience: patience, idle: idle, hard: time.Now().Add(hard),
		timer: time.AfterFunc(min(patience, hard), expired),
	}
}

// progress begins the wait anew: the server has shown that it is at work.
func (c *callClock) progress() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.working = true
	c.set()
}

// restart begins the wait anew, before the server has the call.
func (c *callClock) restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set()
}

// pause stops the wait for a question, goOn ends that.
func (c *callClock) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.questions++
	c.set()
}

func (c *callClock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.questions--
	c.set()
}

func (c *callClock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.timer.Stop()
}

// set winds the timer; mu is held.
func (c *callClock) set() {
	if c.stopped {
		return
	}
	left := time.Until(c.hard)
	switch {
	case c.questions > 0:
	case c.working:
		left = min(left, c.idle)
	default:
		left = min(left, c.patience)
	}
	c.timer.Reset(left)
}
