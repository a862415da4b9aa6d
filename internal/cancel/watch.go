package cancel

import "context"

// Watch calls a function once a context has ended. Its zero value watches nothing. It must not be
// copied. One goroutine at a time uses it.
type Watch struct {
	child *Context // that ends too; else do is called
	do    func()
	// of is what is watched last. Its lock guards the fields below.
	of         *Context
	linked     bool
	prev, next *Watch
	rest       func() bool // ends the watch over a context of another type; nil where there is none
}

// Over calls do in a goroutine of its own when a context ends, or has ended, unless Stop is called
// before. It may be called again after Stop.
func (w *Watch) Over(ctx context.Context, do func()) {
	w.of, w.rest = nil, nil
	of := own(Inner(ctx))
	if of == nil {
		w.rest = context.AfterFunc(ctx, do)
		return
	}
	w.do = do
	of.watch(w)
}

// Stop ends the watch. It is false if the function was called, or was stopped before.
func (w *Watch) Stop() bool {
	if w.rest != nil {
		return w.rest()
	}
	c := w.of
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	stopped := w.linked
	w.unlink()
	return stopped
}

// watch links a watch of this context, or lets it see that the context has ended.
func (c *Context) watch(w *Watch) {
	w.of = c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		w.fire(c.err, c.cause)
		return
	}
	if w.next = c.first; w.next != nil {
		w.next.prev = w
	}
	c.first, w.linked = w, true
}

// unlink takes the watch out of the list of its context; the lock of that is held.
func (w *Watch) unlink() {
	if !w.linked {
		return
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		w.of.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.linked = nil, nil, false
}

// fire does what the watch is for; the lock of its context is held.
func (w *Watch) fire(err, cause error) {
	if w.child != nil {
		w.child.end(err, cause)
		return
	}
	go w.do() // it is short, or belongs to who watches
}
