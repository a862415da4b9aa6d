// Package follow keeps what a gateway serves up to date with rows of the store, which
// other gateways change, too.
package follow

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// pause is the pause before another try to serve changes.
	pause = time.Second
	// apart is the least time between two changes of what is served. What is asked for in
	// between is served at once, in one step.
	apart = 250 * time.Millisecond
	// applyTime bounds one step, whoever has asked for it.
	applyTime = time.Minute
)

// Options are what a [Follower] needs. All are required.
type Options struct {
	// Late is told why changes are not served yet. They are tried again.
	Late func(err error)
	// Load reads the rows and tells whether they have changed.
	Load func(ctx context.Context) (changed bool, err error)
	// Apply serves the rows if load reports a change. Calls run one after the other.
	Apply func(ctx context.Context, load func(context.Context) (changed bool, err error)) error
	// Unserved is told that the loaded rows could not be served: the next Load is to
	// report a change.
	Unserved func()
}

// Follower serves rows of the store whenever they change. Make it with [New]. It is safe
// for concurrent use.
type Follower struct {
	o       Options
	changed chan struct{} // capacity 1: the store has changed
	turn    chan struct{} // capacity 1: held during a step and the wait before it

	mu   sync.Mutex
	next *step     // which callers can still join; nil for none
	last time.Time // when the last step ended that changed something; guarded by turn
}

// step serves the rows once, for all who wait for it.
type step struct {
	ended chan struct{}
	err   error // once ended
}

// New returns a follower.
func New(o Options) *Follower {
	return &Follower{o: o, changed: make(chan struct{}, 1), turn: make(chan struct{}, 1)}
}

// Changed reports that the rows in the store have changed. It does not block.
func (f *Follower) Changed() {
	select {
	case f.changed <- struct{}{}:
	default: // the pending token covers this change, too
	}
}

// Run applies changes by this gateway, and by others that share the store, until the
// context ends.
func (f *Follower) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.changed:
			if err := f.Apply(ctx); err != nil && ctx.Err() == nil {
				f.o.Late(err)
				select { // pause before the next try
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		}
	}
}

// errLeft ends a step whose caller has left before it began.
var errLeft = errors.New("the caller has left")

// Apply serves the rows that are in the store now. Callers at the same time share one
// step, and steps that change something are some time apart. What could not be served is
// tried again.
func (f *Follower) Apply(ctx context.Context) error {
	for {
		f.mu.Lock()
		s, mine := f.next, f.next == nil
		if mine {
			s = &step{ended: make(chan struct{})}
			f.next = s
		}
		f.mu.Unlock()
		if mine {
			f.run(ctx, s)
		}
		select {
		case <-s.ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if !errors.Is(s.err, errLeft) || mine {
			return s.err
		}
	}
}

// run runs a step as the one of its callers who came first.
func (f *Follower) run(ctx context.Context, s *step) {
	defer close(s.ended)
	err := f.wait(ctx)
	f.mu.Lock()
	f.next = nil // who comes from now on may have changed what this step does not see
	f.mu.Unlock()
	if err != nil {
		s.err = fmt.Errorf("%w: %w", errLeft, err)
		return
	}
	defer func() { <-f.turn }()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), applyTime) // others wait for it, too
	defer cancel()
	loaded, changed := false, false
	s.err = f.o.Apply(ctx, func(ctx context.Context) (bool, error) {
		var err error
		changed, err = f.o.Load(ctx)
		loaded = err == nil
		return changed, err
	})
	if changed {
		f.last = time.Now()
	}
	if s.err != nil && loaded {
		f.o.Unserved()
		f.Changed()
	}
}

// wait takes the turn for a step, once it is due.
func (f *Follower) wait(ctx context.Context) error {
	select {
	case f.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	rest := time.NewTimer(time.Until(f.last.Add(apart)))
	defer rest.Stop()
	select {
	case <-rest.C:
		return nil
	case <-ctx.Done():
		<-f.turn
		return context.Cause(ctx)
	}
}
