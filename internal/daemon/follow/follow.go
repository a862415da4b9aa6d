// Package follow keeps what a gateway serves up to date with rows of the store, which
// other gateways change, too.
package follow

import (
	"context"
	"time"
)

// pause is the pause before another try to serve changes.
const pause = time.Second

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
}

// New returns a follower.
func New(o Options) *Follower { return &Follower{o: o, changed: make(chan struct{}, 1)} }

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

// Apply serves the rows that are in the store now. What could not be served is tried
// again.
func (f *Follower) Apply(ctx context.Context) error {
	loaded := false
	err := f.o.Apply(ctx, func(ctx context.Context) (bool, error) {
		changed, err := f.o.Load(ctx)
		loaded = err == nil
		return changed, err
	})
	if err != nil && loaded {
		f.o.Unserved()
		f.Changed()
	}
	return err
}
