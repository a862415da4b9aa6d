// Package batch groups concurrent work, such as charges to a store or requests to a
// server, where much work costs little more than little. A [Group] executes it.
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

// maxWaiting bounds the waiting items.
const maxWaiting = 16384

var errBusy = errors.New("too many wait for their turn")

// Group executes items. When nobody is working, the caller executes its own item at
// once. Items that come meanwhile are executed together by the first of them. A Group
// must be initialised with [Group.Init] and is then safe for concurrent use.
type Group[T any] struct {
	apply    func(ctx context.Context, all []T) error
	weight   func(T) int
	most     int
	gather   time.Duration
	patience time.Duration

	mu      sync.Mutex
	waiting []*member[T]
	working bool
	patient bool             // the timer of timeOutWaiting runs
	came    [crowd]time.Time // times of the latest items, a ring
	count   int              // items that ever came
}

// member is an item that waits or is executed.
type member[T any] struct {
	one  T
	came time.Time
	err  error         // error of its whole group
	turn chan struct{} // capacity 1: signals that it must work for all, or is done
	lead bool          // it must work for all, or nobody was working; guarded by Group.mu
}

// A group waits a moment for more when this many items came within crowdTime.
const (
	crowd     = 8
	crowdTime = 4 * time.Millisecond
)

// yields is how often a group that has waited yields to runnable goroutines, which may
// be about to join.
const yields = 8

// Init sets how items are executed: in order, each with its own answer. An error of
// apply is the error of all items: nothing was done, or that is unknown. Items have a
// weight, and a group weighs at most most, unless its first item alone weighs more.
// Under load a group waits for gather to grow. Nobody waits longer than patience for a
// turn.
func (g *Group[T]) Init(apply func(context.Context, []T) error, weight func(T) int, most int, gather, patience time.Duration) {
	g.apply, g.weight, g.most, g.gather, g.patience = apply, weight, most, gather, patience
}

// applyTime bounds the work on one group. apply should have tighter limits of its own.
const applyTime = 30 * time.Second

// Do executes one item and returns the error of its group. ctx also bounds the wait for
// its turn.
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
		time.AfterFunc(g.patience, g.timeOutWaiting)
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

// leave removes a waiting member. It returns false when its work has begun, or it must
// begin the work itself.
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

// timeOutWaiting ends the wait of members that have waited too long, and sets the timer
// for the next. One timer serves all, because a timer for each would cost more than the
// wait.
func (g *Group[T]) timeOutWaiting() {
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
		time.AfterFunc(g.patience-now.Sub(left[0].came), g.timeOutWaiting)
	}
}

// work executes the waiting members, including own, and hands over to the next.
func (g *Group[T]) work(ctx context.Context, own *member[T]) {
	if g.gather > 0 && g.crowded() {
		<-time.After(g.gather)
		for range yields {
			runtime.Gosched()
		}
	}
	if g.gather == 0 {
		runtime.Gosched() // runnable goroutines may join
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
			g.finish(members, own, fmt.Errorf("panic in the work for many: %v", p))
		}
	}()
	g.finish(members, own, g.apply(ctx, all))
}

// crowded reports whether more members are likely to come.
func (g *Group[T]) crowded() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count >= crowd && time.Since(g.came[g.count%crowd]) < crowdTime
}

// take removes the next group from the waiting members, including the first.
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

// finish reports the outcome of a group and hands over.
func (g *Group[T]) finish(members []*member[T], own *member[T], err error) {
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
