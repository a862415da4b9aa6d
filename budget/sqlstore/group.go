package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/toolgate/toolgate/budget"
)

// maxWaiting is how many orders may wait for their turn.
const maxWaiting = 16384

var errBusy = errors.New("too many charges wait for the store")

// order is one charge or settlement, and its answer.
type order struct {
	bill   *budget.Bill
	settle bool
	used   []int64 // of a settlement, in the order of the charges

	balances []budget.Balance // of a charge that was granted
	err      error

	turn chan struct{} // capacity 1: it is its turn to work for all, or it is done
	lead bool          // the former; guarded by group.mu until turn is signalled
}

func newOrder(b *budget.Bill) *order { return &order{bill: b, turn: make(chan struct{}, 1)} }

// group gathers orders. Whoever finds nobody at work applies its own; those that
// come meanwhile are applied together by the first of them. The zero value must be
// initialised.
type group struct {
	// apply applies orders in their order and fills in their answers. An error is
	// that of all, and nothing was applied then, or it is not known.
	apply func(ctx context.Context, orders []*order) error
	most  int // charges in one group, unless the first order alone has more

	mu      sync.Mutex
	waiting []*order
	working bool
	came    [crowd]time.Time // when the last orders came, in a ring
	orders  int              // that ever came
}

// Where so many orders came within crowdTime, a group waits a moment for more: the
// work on a group costs about the same for one order as for many.
const (
	crowd     = 8
	crowdTime = 4 * time.Millisecond
	gather    = time.Millisecond
)

func (g *group) init(apply func(context.Context, []*order) error, most int) {
	g.apply, g.most = apply, most
}

// applyTime bounds the work on one group. The store has bounds of its own, below.
const applyTime = 30 * time.Second

// do has an order applied. The context bounds the wait for its turn.
func (g *group) do(ctx context.Context, o *order) error {
	g.mu.Lock()
	switch {
	case ctx.Err() != nil:
		g.mu.Unlock()
		return ctx.Err()
	case len(g.waiting) >= maxWaiting:
		g.mu.Unlock()
		return errBusy
	}
	g.waiting = append(g.waiting, o)
	g.came[g.orders%crowd] = time.Now()
	g.orders++
	alone := !g.working
	g.working = true
	g.mu.Unlock()
	if alone {
		g.work(ctx, o)
		return o.err
	}
	select {
	case <-o.turn:
	case <-ctx.Done():
		if g.leave(o) {
			return ctx.Err()
		}
		<-o.turn
	}
	if o.lead {
		g.work(ctx, o)
	}
	return o.err
}

// leave takes an order back that nobody works on; false when that has begun, or is
// to be begun by the order itself.
func (g *group) leave(o *order) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, o)
	if i < 0 || o.lead {
		return false
	}
	g.waiting = slices.Delete(g.waiting, i, i+1)
	return true
}

// work applies what waits, own among it, and hands the work over to the next.
func (g *group) work(ctx context.Context, own *order) {
	if g.crowded() {
		<-time.After(gather)
	}
	orders := g.take()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), applyTime)
	defer cancel()
	defer func() {
		if p := recover(); p != nil { // the others must not wait for ever
			g.settle(orders, own, fmt.Errorf("panic in a store of budgets: %v", p))
		}
	}()
	err := g.apply(ctx, orders)
	g.settle(orders, own, err)
}

// crowded tells whether more orders are about to come.
func (g *group) crowded() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.orders >= crowd && time.Since(g.came[g.orders%crowd]) < crowdTime
}

// take removes the orders of the next group from those that wait. The first is
// among them.
func (g *group) take() []*order {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, charges := 0, 0
	for _, o := range g.waiting {
		if charges += len(o.bill.Charges); n > 0 && charges > g.most {
			break
		}
		n++
	}
	orders := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	return orders
}

// settle makes the outcome of a group known and hands the work over.
func (g *group) settle(orders []*order, own *order, err error) {
	for _, o := range orders {
		if err != nil {
			o.balances, o.err = nil, err
		}
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
	for _, o := range orders {
		if o != own {
			o.turn <- struct{}{}
		}
	}
}
