// Package batch gathers work on one thing, of which much costs little more than
// little: the charges of a store, the questions to a server.
package batch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// maxWaiting is how many may wait for their turn.
const maxWaiting = 16384

var errBusy = errors.New("too many wait for their turn")

// Group gathers what is to be done. Whoever finds nobody at work does its own;
// those that come meanwhile are done together by the first of them. A Group must
// be initialised with [Group.Init] and is then safe for concurrent use.
type Group[T any] struct {
	apply    func(ctx context.Context, all []T) error
	weight   func(T) int
	most     int
	gather   time.Duration
	patience time.Duration

	mu      sync.Mutex
	waiting []*member[T]
	working bool
	patient bool             // a timer runs that sends away who has waited too long
	came    [crowd]time.Time // when the last ones came, in a ring
	count   int              // that ever came
}

// member is one that waits to be done, or is.
type member[T any] struct {
	one  T
	came time.Time
	err  error         // of the whole group that it was in
	turn chan struct{} // capacity 1: it is its turn to work for all, or it is done
	lead bool          // the former, or it found nobody at work; guarded by Group.mu
}

// Where so many came within crowdTime, a group waits a moment for more.
const (
	crowd     = 8
	crowdTime = 4 * time.Millisecond
)

// yields is how often a group that has waited lets those go on that can run: they may
// be about to join, and need no waking for that.
const yields = 8

// Init says how members are done: in their order, each keeping an answer of its
// own. An error of apply is that of all, and nothing was done then, or it is not
// known. Members weigh something, and a group has at most so much weight, unless
// its first member alone has more. It waits so long for more where many come.
// Nobody waits longer for a turn than patience.
func (g *Group[T]) Init(apply func(context.Context, []T) error, weight func(T) int, most int, gather, patience time.Duration) {
	g.apply, g.weight, g.most, g.gather, g.patience = apply, weight, most, gather, patience
}

// applyTime bounds the work on one group. Whoever applies has bounds of its own,
// below.
const applyTime = 30 * time.Second

// Do has one done and returns the error of its group. The context bounds the wait
// for its turn, too.
func (g *Group[T]) Do(ctx context.Context, one T) error {
	m := &member[T]{one: one, came: time.Now(), turn: make(chan struct{}, 1)}
	g.mu.Lock()
	switch {
	case ctx.Err() != nil:
		g.mu.Unlock()
		return ctx.Err()
	case len(g.waiting) >= maxWaiting:
		g.mu.Unlock()
		return errBusy
	}
	g.waiting = append(g.waiting, m)
	g.came[g.count%crowd] = m.came
	g.count++
	alone := !g.working
	g.working, m.lead = true, alone
	if !alone && !g.patient {
		g.patient = true
		time.AfterFunc(g.patience, g.sendAway)
	}
	g.mu.Unlock()
	if alone {
		g.work(ctx, m)
		return m.err
	}
	select {
	case <-m.turn:
	case <-ctx.Done():
		if g.leave(m) {
			return ctx.Err()
		}
		<-m.turn
	}
	if m.lead {
		g.work(ctx, m)
	}
	return m.err
}

// leave takes a member back that nobody works on; false when that has begun, or is
// to be begun by the member itself.
func (g *Group[T]) leave(m *member[T]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, m)
	if i < 0 || m.lead {
		return false
	}
	g.waiting = slices.Delete(g.waiting, i, i+1)
	return true
}

// sendAway ends the wait of those who have waited too long, and comes again for the
// next of the others. One timer serves all that wait, as one for each would cost
// more than the wait itself.
func (g *Group[T]) sendAway() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.waiting = slices.DeleteFunc(g.waiting, func(m *member[T]) bool {
		if m.lead || now.Sub(m.came) < g.patience {
			return false
		}
		m.err = fmt.Errorf("no turn within %v", g.patience)
		m.turn <- struct{}{}
		return true
	})
	left := g.waiting
	if len(left) > 0 && left[0].lead { // it has its turn
		left = left[1:]
	}
	if g.patient = len(left) > 0; g.patient {
		time.AfterFunc(g.patience-now.Sub(left[0].came), g.sendAway)
	}
}

// work does what waits, own among it, and hands the work over to the next.
func (g *Group[T]) work(ctx context.Context, own *member[T]) {
	if g.gather > 0 && g.crowded() {
		<-time.After(g.gather)
		for range yields {
			runtime.Gosched()
		}
	}
	if g.gather == 0 {
		runtime.Gosched() // those that can run may join
	}
	members := g.take()
	all := make([]T, len(members))
	for i, m := range members {
		all[i] = m.one
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), applyTime)
	defer cancel()
	defer func() {
		if p := recover(); p != nil { // the others must not wait for ever
			g.settle(members, own, fmt.Errorf("panic in the work for many: %v", p))
		}
	}()
	g.settle(members, own, g.apply(ctx, all))
}

// crowded tells whether more are about to come.
func (g *Group[T]) crowded() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count >= crowd && time.Since(g.came[g.count%crowd]) < crowdTime
}

// take removes the next group from those that wait. The first is among them.
func (g *Group[T]) take() []*member[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, weight := 0, 0
	for _, m := range g.waiting {
		if weight += g.weight(m.one); n > 0 && weight > g.most {
			break
		}
		n++
	}
	members := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	return members
}

// settle makes the outcome of a group known and hands the work over.
func (g *Group[T]) settle(members []*member[T], own *member[T], err error) {
	for _, m := range members {
		m.err = err
	}
	g.mu.Lock()
	if len(g.waiting) > 0 {
		next := g.waiting[0]
		next.lead = true
		next.turn <- struct{}{}
	} else {
		g.working = false
	}
	g.mu.Unlock()
	for _, m := range members {
		if m != own {
			m.turn <- struct{}{}
		}
	}
}
