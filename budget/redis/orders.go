package redis

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/toolgate/toolgate/budget"
)

//go:embed charge.lua
var chargeText string

//go:embed settle.lua
var settleText string

var (
	chargeScript = goredis.NewScript(chargeText)
	settleScript = goredis.NewScript(settleText)
)

// request is an order as the server takes it: a script, whose first argument is
// the epoch in force.
type request struct {
	*budget.Order
	evaluation
}

// names are what counters are called at the server. Making them takes longer than
// most of the rest of a charge; whoever leads the group is the only one here.
type names map[budget.Counter]*name

type name struct{ member, windows, amounts string }

// maxNames is how many are remembered.
const maxNames = 16384

// of returns what a counter is called.
func (n names) of(c *budget.Counter) *name {
	known := n[*c]
	if known == nil {
		if len(n) >= maxNames {
			clear(n)
		}
		member := memberOf(c)
		known = &name{member, windowsKey(member), amountsKey(member)}
		n[*c] = known
	}
	return known
}

func (n names) request(o *budget.Order) *request {
	if o.Settle {
		return n.settlement(o)
	}
	bill := o.Bill
	r := &request{Order: o, evaluation: evaluation{script: chargeScript, keys: []string{epochKey, billKey(bill.Key), indexKey}}}
	r.args = []any{"", bill.At.UnixMilli(), remembered(bill), len(bill.Charges)}
	for i := range bill.Charges {
		c := &bill.Charges[i]
		own := n.of(&c.Counter)
		r.keys = append(r.keys, own.windows, own.amounts)
		keep := kept(c.End.Sub(c.Start))
		r.args = append(r.args, c.Start.UnixMilli(), c.End.UnixMilli(), c.Amount, c.Least, c.Limit,
			(c.End.Sub(bill.At) + keep).Milliseconds(), keep.Milliseconds(), own.member)
	}
	return r
}

func (n names) settlement(o *budget.Order) *request {
	r := &request{Order: o, evaluation: evaluation{script: settleScript, keys: []string{epochKey, billKey(o.Bill.Key)}, args: []any{""}}}
	for i := range o.Bill.Charges {
		c := &o.Bill.Charges[i]
		r.keys = append(r.keys, n.of(&c.Counter).amounts)
		r.args = append(r.args, strconv.FormatInt(c.Start.UnixMilli(), 10)+":"+strconv.FormatInt(c.End.UnixMilli(), 10), max(o.Used[i], 0))
	}
	return r
}

// apply has the server carry out orders under the epoch in force, all in one
// exchange. Each has an error of its own.
func (b *Budgets) apply(ctx context.Context, orders []*budget.Order) error {
	ctx, cancel := context.WithTimeout(ctx, b.time)
	defer cancel()
	left := make([]*request, len(orders))
	for i, o := range orders {
		left[i] = b.names.request(o)
	}
	for again := range 2 {
		epoch, err := b.inForce(ctx, again > 0)
		if err != nil {
			return giveAll(left, err)
		}
		if left = b.exchange(ctx, epoch, left); len(left) == 0 {
			return nil
		} // another gateway that shares what we know may have rebuilt
	}
	return giveAll(left, budget.ErrLost)
}

// giveAll fails those that are left; what others were answered stands.
func giveAll(left []*request, err error) error {
	for _, r := range left {
		r.Err = err
	}
	return nil
}

// exchange sends requests and takes their answers. It returns those that were not
// carried out because the epoch is another one.
func (b *Budgets) exchange(ctx context.Context, epoch string, requests []*request) (lost []*request) {
	all := make([]*evaluation, len(requests))
	for i, r := range requests {
		r.args[0] = epoch
		all[i] = &r.evaluation
	}
	evaluate(ctx, b.rdb, all)
	for _, r := range requests {
		got, err := r.answer.Slice()
		switch {
		case err != nil:
			r.Err = err
		case len(got) > 0 && got[0] == "lost":
			lost = append(lost, r)
		default:
			r.take(got)
		}
	}
	return lost
}

// take takes the answer of a script.
func (r *request) take(got []any) {
	word, numbers, ok := split(got)
	charges := r.Bill.Charges
	switch {
	case r.Settle && ok && word == "settled":
	case !r.Settle && ok && word == "refused" && len(numbers) == 3 && numbers[0] >= 1 && numbers[0] <= int64(len(charges)):
		r.Err = charges[numbers[0]-1].Refuse(numbers[1], time.UnixMilli(numbers[2]).UTC())
	case !r.Settle && ok && word == "charged" && len(numbers) == 4*len(charges):
		r.Balances = make([]budget.Balance, len(charges))
		for i := range charges {
			n := numbers[4*i:]
			r.Balances[i] = budget.Balance{
				Counter: charges[i].Counter, Taken: n[0], Used: n[1],
				Start: time.UnixMilli(n[2]).UTC(), ResetAt: time.UnixMilli(n[3]).UTC(),
			}
		}
	default:
		r.Err = fmt.Errorf("%v is no answer", got)
	}
}

// split takes the answer of a script apart: a word and whole numbers.
func split(got []any) (word string, numbers []int64, ok bool) {
	if len(got) == 0 {
		return "", nil, false
	}
	word, ok = got[0].(string)
	for _, v := range got[1:] {
		n, is := v.(int64)
		if !is {
			return "", nil, false
		}
		numbers = append(numbers, n)
	}
	return word, numbers, ok
}
