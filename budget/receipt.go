package budget

import (
	"context"
	"time"
)

// warnAt are the thresholds, in percent of a limit, at which a caller is warned.
var warnAt = [...]int64{80, 100}

// Receipt is the charge for one round of a call. It belongs to the goroutine of the
// call. The zero Receipt stands for a call without a charge.
type Receipt struct {
	limiter  *Limiter
	bill     Bill
	rules    []*rule // one for each charge
	balances []Balance
	done     bool

	inference bool // reserved in every unit

	few struct { // memory for few charges, which is the usual case
		charges [1]Charge
		rules   [1]*rule
	}
}

// Charged reports whether anything was charged.
func (r *Receipt) Charged() bool { return r != nil && len(r.balances) > 0 }

// Bytes returns the maximum size of the result; false means no limit.
func (r *Receipt) Bytes() (int64, bool) { return r.room(Bytes) }

// Time returns the maximum time of the round; false means no limit.
func (r *Receipt) Time() (time.Duration, bool) {
	ms, bounded := r.room(Seconds)
	return time.Duration(ms) * time.Millisecond, bounded
}

// room returns the smallest amount that was charged in a unit.
func (r *Receipt) room(u Unit) (least int64, bounded bool) {
	if r == nil {
		return 0, false
	}
	for i, b := range r.balances {
		if r.rules[i].Unit == u && (!bounded || b.Taken < least) {
			least, bounded = b.Taken, true
		}
	}
	return least, bounded
}

// Spent returns the refusal of a round that has used everything it was given of a unit
// and needs more.
func (r *Receipt) Spent(u Unit) *Refusal {
	room, _ := r.room(u)
	for i := range r.balances {
		if b := &r.balances[i]; r.rules[i].Unit == u && b.Taken == room {
			return r.refusal(&Refusal{Counter: b.Counter, Limit: r.bill.Charges[i].Limit, Used: b.Used, Amount: b.Taken + 1, ResetAt: b.ResetAt})
		}
	}
	return &Refusal{}
}

// spent is what a round has used in the units that are known only afterwards.
type spent struct {
	bytes        int64
	took         time.Duration
	tokens, cost int64 // of an inference
}

// Settle ends the charge of a round that was delivered. It gives back unused bytes and
// seconds; if there are none, the store is not asked. Call it or [Receipt.Refund] once;
// later calls do nothing. What cannot be given back stays charged.
func (r *Receipt) Settle(ctx context.Context, bytes int64, took time.Duration) error {
	return r.settle(ctx, spent{bytes: bytes, took: took})
}

func (r *Receipt) settle(ctx context.Context, by spent) error {
	if !r.Charged() || r.done {
		return nil
	}
	r.done = true
	used, back := make([]int64, len(r.balances)), false
	for i := range r.balances {
		used[i] = r.used(i, by)
		back = back || used[i] < r.balances[i].Taken
	}
	if !back {
		return nil
	}
	return r.end(ctx, used)
}

// settleTime bounds the wait for the store.
const settleTime = 5 * time.Second

// end gives back what was not used; with a nil used everything.
func (r *Receipt) end(ctx context.Context, used []int64) error {
	if r.bill.Once {
		for i := range r.balances {
			r.bill.Charges[i].Amount = r.balances[i].Taken
		}
	}
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	return r.limiter.store.Settle(ctx, r.bill, used)
}

// used returns how much of a charge a round has used.
func (r *Receipt) used(i int, by spent) int64 {
	taken := r.balances[i].Taken
	switch unit := r.rules[i].Unit; {
	case unit == Bytes:
		return min(max(by.bytes, 0), taken)
	case unit == Seconds:
		return min(max(by.took.Milliseconds(), 1), taken)
	case unit == Tokens:
		return min(max(by.tokens, 0), taken)
	case unit == Cost && r.inference:
		return min(max(by.cost, 0), taken)
	}
	return taken
}

// Refund ends the charge of a round that certainly was not delivered: everything is
// given back.
func (r *Receipt) Refund(ctx context.Context) error {
	if !r.Charged() || r.done {
		return nil
	}
	r.done = true
	return r.end(ctx, nil)
}

// Fact is one charge for the audit log.
type Fact struct {
	Budget  string
	Key     string
	Unit    Unit
	Amount  int64 // in the unit, rounded up
	Used    int64 // likewise, after the charge
	Limit   int64 // [NoLimit] where there is none
	ResetAt time.Time
}

// Facts returns the charges of a round with this usage.
func (r *Receipt) Facts(bytes int64, took time.Duration) []Fact {
	return r.facts(spent{bytes: bytes, took: took})
}

func (r *Receipt) facts(by spent) []Fact {
	if !r.Charged() {
		return nil
	}
	facts := make([]Fact, len(r.balances))
	for i := range r.balances {
		facts[i] = r.fact(i, r.used(i, by))
	}
	return facts
}

// fact returns a charge with this usage.
func (r *Receipt) fact(i int, used int64) Fact {
	b, rule := &r.balances[i], r.rules[i]
	return Fact{
		Budget: b.Budget, Key: b.Key, Unit: rule.Unit, Limit: rule.Limit, ResetAt: b.ResetAt,
		Amount: rule.Unit.Whole(used), Used: rule.Unit.Whole(b.Used - (b.Taken - used)),
	}
}

// Warnings returns the budgets that are nearly used up after a round with this usage.
func (r *Receipt) Warnings(bytes int64, took time.Duration) []Fact {
	return r.warnings(spent{bytes: bytes, took: took})
}

func (r *Receipt) warnings(by spent) (low []Fact) {
	if r == nil {
		return nil
	}
	for i := range r.balances {
		used := r.used(i, by)
		limit := r.bill.Charges[i].Limit
		if limit == NoLimit || reachedPart(r.balances[i].Used-(r.balances[i].Taken-used), limit) == 0 {
			continue
		}
		low = append(low, r.fact(i, used))
	}
	return low
}

// reachedPart returns the highest threshold of warnAt that is reached; 0 for none.
func reachedPart(used, limit int64) (percent int) {
	for _, p := range warnAt {
		// limit*p/100 without overflow, rounded up
		if used >= limit/100*p+(limit%100*p+99)/100 {
			percent = int(p)
		}
	}
	return percent
}

// report reports a granted charge to Observe.
func (r *Receipt) report() {
	for i := range r.balances {
		b, c := &r.balances[i], &r.bill.Charges[i]
		e := Event{Budget: c.Budget, Outcome: Granted, Measure: c.Measure, Key: c.Key, Used: b.Used, Limit: c.Limit, ResetAt: b.ResetAt}
		if c.Limit != NoLimit && !r.rules[i].Unit.reserved(r.inference) {
			if now := reachedPart(b.Used, c.Limit); now != reachedPart(b.Used-b.Taken, c.Limit) {
				e.Warned = now
			}
		}
		r.limiter.observe(e)
	}
}
