// Package cancel has contexts that behave like those of [context.WithCancelCause] and need less
// memory. A [Context] lies in what it is the context of, and a [Watch] in what watches it. The
// channel of a context is made when somebody asks for it.
package cancel

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Context ends with its parent, or by [Context.Cancel]. It must not be copied. Its methods are
// safe for concurrent use after [Context.Begin].
//
// [context.Cause] returns its cause, and contexts of the library can be derived from it. If there
// are values in between, each of those costs a goroutine until it is cancelled, see [WithValues].
type Context struct {
	parent context.Context
	above  Watch       // over a parent that is a Context
	stop   func() bool // ends the watch over another parent; nil where nothing watches
	// outer is the nearest Context, from this one on, with a parent of another type that can
	// end; nil where there is none. The watch over that parent is a moment late.
	outer *Context

	mu    sync.Mutex
	done  chan struct{} // nil until it is asked for
	err   error         // nil until the end
	cause error
	first *Watch // of those that wait for the end
}

// New returns a context that has begun.
func New(parent context.Context) *Context {
	c := new(Context)
	c.Begin(parent)
	return c
}

// Begin makes a zero Context a child of a context. [Context.Cancel] has to be called once it is
// not used any more.
func (c *Context) Begin(parent context.Context) {
	parent = Inner(parent)
	c.parent = parent
	of := own(parent)
	if of == nil {
		done := parent.Done()
		if done == nil {
			return
		}
		if of, _ = parent.Value(ownKey{}).(*Context); of == nil || of.Done() != done {
			c.follow(parent)
			return
		}
	}
	c.above.child, c.outer = c, of.outer
	of.watch(&c.above)
}

// follow ends the context with a parent of another type.
func (c *Context) follow(parent context.Context) {
	if err := parent.Err(); err != nil {
		c.end(err, context.Cause(parent))
		return
	}
	c.outer = c
	c.stop = context.AfterFunc(parent, func() { c.end(parent.Err(), context.Cause(parent)) })
}

// Cancel ends the context and what was derived from it, unless it has ended. The cause is
// [context.Canceled] where it is nil.
func (c *Context) Cancel(cause error) {
	if cause == nil {
		cause = context.Canceled
	}
	c.end(context.Canceled, cause)
	c.above.Stop()
	if c.stop != nil {
		c.stop()
	}
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (c *Context) end(err, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err, c.cause = err, cause
	if c.done == nil {
		c.done = closed
	} else {
		close(c.done)
	}
	for w := c.first; w != nil; w = c.first {
		w.unlink()
		w.fire(err, cause)
	}
}

// Deadline implements [context.Context].
func (c *Context) Deadline() (by time.Time, ok bool) { return c.parent.Deadline() }

// Done implements [context.Context].
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
	}
	return c.done
}

// Err implements [context.Context].
func (c *Context) Err() error {
	if err := c.now(); err != nil || c.outer == nil {
		return err
	}
	parent := c.outer.parent
	if err := parent.Err(); err != nil {
		c.outer.end(err, context.Cause(parent))
	}
	return c.now()
}

func (c *Context) now() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// ownKey is the key of the value by which a context is found under others that carry values.
type ownKey struct{}

// Value implements [context.Context].
func (c *Context) Value(key any) any {
	switch key {
	case any(ownKey{}):
		return c
	case causeKey:
		return c.ended()
	}
	return c.parent.Value(key)
}

// ended is what [context.Cause] reads the cause from: a context of the library that has ended
// with it. It is nil before the end.
func (c *Context) ended() any {
	c.mu.Lock()
	cause := c.cause
	c.mu.Unlock()
	if cause == nil {
		return nil
	}
	as, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	return as.Value(causeKey)
}

// causeKey is the key by which the library finds its nearest context that has a cause. It is
// nobody's where the library uses none, and the cause is Err then.
var causeKey = func() any {
	p := &probe{Context: context.Background(), key: new(int)}
	_ = context.Cause(p)
	return p.key
}()

// probe is a context that has ended, and remembers the key of the last value that it was asked
// for.
type probe struct {
	context.Context
	key any
}

var errProbe = errors.New("ended")

// Err implements [context.Context].
func (*probe) Err() error { return errProbe }

// Value implements [context.Context].
func (p *probe) Value(key any) any {
	p.key = key
	return nil
}

// AfterFunc is how [context.AfterFunc], and contexts of the library, watch the context.
func (c *Context) AfterFunc(f func()) (stop func() bool) {
	w := &Watch{do: f}
	c.watch(w)
	return w.Stop
}
