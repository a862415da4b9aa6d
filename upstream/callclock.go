package upstream

import (
	"sync"
	"time"
)

// callClock ends a call whose server is silent for too long. It is paused while the client
// thinks about a question of the server, because that is not the time of the server. It is
// safe for concurrent use.
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

// start starts a zero clock. It calls expired when the server has been silent for patience, or
// for idle after its first sign of work, and after hard in any case.
func (c *callClock) start(patience, idle, hard time.Duration, expired func()) {
	c.patience, c.idle, c.hard = patience, idle, time.Now().Add(hard)
	c.timer = time.AfterFunc(min(patience, hard), expired)
}

// progress starts the wait again because the server has shown that it works on the call.
func (c *callClock) progress() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.working = true
	c.set()
}

// restart starts the wait again before the server has received the call.
func (c *callClock) restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set()
}

// pause stops the wait while a question is open. resume ends the pause.
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

// set sets the timer; mu is held.
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
