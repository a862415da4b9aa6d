package redis

import (
	"context"
	_ "embed" // the scripts
	"slices"
	"strconv"

	goredis "github.com/redis/go-redis/v9"

	"github.com/toolgate/toolgate/budget"
)

// windowsText is the common beginning of the scripts that read counters.
//
//go:embed windows.lua
var windowsText string

//go:embed charge.lua
var chargeText string

//go:embed settle.lua
var settleText string

var (
	chargeScript = goredis.NewScript(windowsText + chargeText)
	settleScript = goredis.NewScript(settleText)
)

// request is one script call: the charges of some orders, or one settlement. Its first
// argument is the current epoch.
type request struct {
	evaluation
	orders []*budget.Order
}

// requests converts orders to script calls, in order.
func (n names) requests(orders []*budget.Order) (all []*request) {
	for len(orders) > 0 {
		charges := slices.IndexFunc(orders, func(o *budget.Order) bool { return o.Settle })
		if charges < 0 {
			charges = len(orders)
		}
		if charges == 0 {
			all, orders = append(all, n.settlement(orders[0])), orders[1:]
			continue
		}
		all, orders = append(all, n.charges(orders[:charges])), orders[charges:]
	}
	return all
}

// names are the Redis names of counters, because computing them takes longer than most of a
// charge. Only the leader of a group uses it.
type names struct{ memo[budget.Counter, *name] }

type name struct{ member, windows, amounts string }

// nameOf makes the Redis name of a counter.
func nameOf(c budget.Counter) *name {
	member := memberOf(&c)
	return &name{member, windowsKey(member), amountsKey(member)}
}

// kind is what charges of several bills in a group have in common.
type kind struct {
	*name
	start, end, amount, least, limit int64
}

// charges builds the call that charges the bills of orders. What several charges have
// in common, usually almost everything, is sent once.
func (n names) charges(orders []*budget.Order) *request {
	r := &request{orders: orders, evaluation: evaluation{script: chargeScript}}
	keys := make([]string, 2, 4+len(orders))
	keys[0], keys[1] = epochKey, indexKey
	args := make([]any, 2, 9+len(orders))
	kinds := make(map[kind]int64)
	var few [64]byte
	bills := make([]any, len(orders))
	for i, o := range orders {
		text := strconv.AppendInt(few[:0], o.Bill.At.UnixMilli(), 10)
		text = strconv.AppendInt(append(text, ' '), remembered(o.Bill), 10)
		for j := range o.Bill.Charges {
			c := &o.Bill.Charges[j]
			k := kind{n.of(c.Counter, nameOf), c.Start.UnixMilli(), c.End.UnixMilli(), c.Amount, c.Least, c.Limit}
			number := kinds[k]
			if number == 0 {
				number = int64(len(kinds) + 1)
				kinds[k] = number
				keys = append(keys, k.windows, k.amounts)
				args = append(args, k.start, k.end, k.amount, k.least, k.limit, kept(c.End.Sub(c.Start)).Milliseconds(), k.member)
			}
			text = strconv.AppendInt(append(text, ' '), number, 10)
		}
		bills[i] = string(text)
	}
	for _, o := range orders {
		keys = append(keys, billKey(o.Bill.Key))
	}
	args[0], args[1] = "", len(kinds)
	r.keys, r.args = keys, append(args, bills...)
	return r
}

func (n names) settlement(o *budget.Order) *request {
	r := &request{orders: []*budget.Order{o}, evaluation: evaluation{script: settleScript}}
	r.keys, r.args = []string{epochKey, billKey(o.Bill.Key)}, []any{""}
	for i := range o.Bill.Charges {
		c := &o.Bill.Charges[i]
		r.keys = append(r.keys, n.of(c.Counter, nameOf).amounts)
		r.args = append(r.args, strconv.FormatInt(c.Start.UnixMilli(), 10)+":"+strconv.FormatInt(c.End.UnixMilli(), 10), max(o.Used[i], 0))
	}
	return r
}

// apply executes orders under the current epoch, all in one exchange. Each has its own
// error.
func (b *Budgets) apply(ctx context.Context, orders []*budget.Order) error {
	ctx, cancel := context.WithTimeout(ctx, b.time)
	defer cancel()
	left := b.names.requests(orders)
	for again := range 2 {
		epoch, err := b.inForce(ctx, again > 0)
		if err != nil {
			failAll(left, err)
			return nil
		}
		if left = b.exchange(ctx, epoch, left); len(left) == 0 {
			return nil
		} // another gateway with the same epoch may have rebuilt
	}
	failAll(left, budget.ErrLost)
	return nil
}

// failAll fails the remaining requests; answers to others stay.
func failAll(left []*request, err error) {
	for _, r := range left {
		r.fail(err)
	}
}

func (r *request) fail(err error) {
	for _, o := range r.orders {
		o.Err = err
	}
}

// exchange sends requests and assigns their answers. It returns those that were not
// executed because the epoch has changed.
func (b *Budgets) exchange(ctx context.Context, epoch string, requests []*request) (lost []*request) {
	all := make([]*evaluation, len(requests))
	for i, r := range requests {
		r.args[0] = epoch
		all[i] = &r.evaluation
	}
	evaluate(ctx, b.rdb, all)
	for _, r := range requests {
		switch got, err := r.answer.Text(); {
		case err != nil:
			r.fail(err)
		case got == "lost":
			lost = append(lost, r)
		default:
			r.take(got)
		}
	}
	return lost
}
