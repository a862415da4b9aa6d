package agents

import "context"

const (
	// maxTaken bounds the runs of dead gateways that one gateway works on at once.
	maxTaken = 32
	// maxIdle bounds those that wait besides, without a place, until somebody can decide
	// whether they may go on.
	maxIdle = 256
)

// places bound the runs that a gateway takes over. A run that waits for a decision gives up
// its place, so that those about which nobody can decide do not hold up all others. It is safe
// for concurrent use.
type places struct{ working, idle chan struct{} }

func newPlaces() *places {
	return &places{make(chan struct{}, maxTaken), make(chan struct{}, maxIdle)}
}

// take returns a place; nil while there is none.
func (p *places) take() *place {
	select {
	case p.working <- struct{}{}:
		return &place{all: p, held: true}
	default:
		return nil
	}
}

// place is that of one run. Only the goroutine of the run uses it. A nil place is that of a
// run that was not taken over and holds none.
type place struct {
	all   *places
	held  bool
	freed func() // is told when others can have it, who had to wait; may be nil
}

// leave gives up the place for good.
func (p *place) leave() {
	if p.held {
		<-p.all.working
		p.held = false
	}
}

// idle does something that waits, without the place. It returns once it has a place again, or
// without one when ctx has ended. Where too many wait already, it keeps the place.
func (p *place) idle(ctx context.Context, wait func() error) error {
	if p == nil || !p.held {
		return wait()
	}
	select {
	case p.all.idle <- struct{}{}:
	default:
		return wait()
	}
	defer func() { <-p.all.idle }()
	full := len(p.all.working) == cap(p.all.working)
	if p.leave(); full && p.freed != nil {
		p.freed()
	}
	if err := wait(); err != nil {
		return err
	}
	select {
	case p.all.working <- struct{}{}:
		p.held = true
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
