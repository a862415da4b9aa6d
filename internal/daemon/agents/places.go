package agents

import (
	"sync/atomic"

	"github.com/toolgate/toolgate/native/agents"
)

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
type places struct {
	working, idle chan struct{}
	refused       atomic.Bool // somebody asked for a place while there was none
}

func newPlaces() *places {
	return &places{working: make(chan struct{}, maxTaken), idle: make(chan struct{}, maxIdle)}
}

// take returns a place; nil while there is none.
func (p *places) take() *place {
	if !p.try() {
		p.refused.Store(true)
		if !p.try() { // one that was given up before the flag was set is told to nobody
			return nil
		}
	}
	return &place{all: p, held: true}
}

func (p *places) try() bool {
	select {
	case p.working <- struct{}{}:
		return true
	default:
		return false
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

// idle does something that waits, without the place. Where it succeeds, and no place is free,
// the error is [agents.ErrLeft]: the time of the run would pass while it waits for one, and no
// other gateway could take it. Where too many wait already, it keeps the place.
func (p *place) idle(wait func() error) error {
	if p == nil || !p.held {
		return wait()
	}
	select {
	case p.all.idle <- struct{}{}:
	default:
		return wait()
	}
	defer func() { <-p.all.idle }()
	p.leave()
	if p.all.refused.Swap(false) && p.freed != nil {
		p.freed()
	}
	if err := wait(); err != nil {
		return err
	}
	if p.held = p.all.try(); !p.held {
		return agents.ErrLeft
	}
	return nil
}
