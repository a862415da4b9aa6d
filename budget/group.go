package budget

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// maxWaiting is how many orders may wait for their turn.
const maxWaiting = 16384

var errBusy = errors.New("too many charges wait for the store")

// Order is one charge or settlement on its way to a store, and its answer. Make one
// with [NewOrder].
type Order struct {
	Bill   *Bill
	Settle bool
	Used   []int64 // of a settlement, in the order of the charges

	Balances []Balance // of a charge that was granted
	Err      error

	turn chan struct{} // capacity 1: it is its turn to work for all, or it is done
	lead bool          // the former; guarded by Group.mu until turn is signalled
}

// NewOrder returns the order to charge a bill.
func NewOrder(b *Bill) *Order { return &Order{Bill: b, turn: make(chan struct{}, 1)} }

// Group gathers the orders of a store whose work on many costs little more than
// that on one. Whoever finds nobody at work applies its own; those that come
// meanwhile are applied together by the first of them. A Group must be initialised
// with [Group.Init] and is then safe for concurrent use.
type Group struct {
	apply  func(ctx context.Context, orders []*Order) error
	most   int
	gather time.Duration

	mu      sync.Mutex
	waiting []*Order
	working bool
	came    [crowd]time.Time // when the last orders came, in a ring
	orders  int              // that ever came
}

// Where so many orders came within crowdTime, a group waits a moment for more.
const (
	crowd     = 8
	crowdTime = 4 * time.Millisecond
)

// Init says how orders are applied: in their order, with their answers filled in.
// An error of apply is that of all, and nothing was applied then, or it is not
// known. A group has at most so many charges, unless its first order alone has
// more, and waits so long for more orders where many come.
func (g *Group) Init(apply func(context.Context, []*Order) error, most int, gather time.Duration) {
	g.apply, g.most, g.gather = apply, most, gather
}

// applyTime bounds the work on one group. The store has bounds of its own, below.
const applyTime = 30 * time.Second

// Do has an order applied and returns its error. The context bounds the wait for its turn.
func (g *Group) Do(ctx context.Context, o *Order) error {
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
		return o.Err
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
	return o.Err
}

// leave takes an order back that nobody works on; false when that has begun, or is
// to be begun by the order itself.
func (g *Group) leave(o *Order) bool {
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
func (g *Group) work(ctx context.Context, own *Order) {
	if g.gather > 0 && g.crowded() {
		<-time.After(g.gather)
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
func (g *Group) crowded() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.orders >= crowd && time.Since(g.came[g.orders%crowd]) < crowdTime
}

// take removes the orders of the next group from those that wait. The first is
// among them.
func (g *Group) take() []*Order {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, charges := 0, 0
	for _, o := range g.waiting {
		if charges += len(o.Bill.Charges); n > 0 && charges > g.most {
			break
		}
		n++
	}
	orders := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	return orders
}

// settle makes the outcome of a group known and hands the work over.
func (g *Group) settle(orders []*Order, own *Order, err error) {
	for _, o := range orders {
		if err != nil {
			o.Balances, o.Err = nil, err
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
