package budget

import (
	"context"
	"time"
)

// warnAt are the parts of a limit, in percent, from which on a caller is told.
var warnAt = [...]int64{80, 100}

// Receipt is what one round of a call was charged. It belongs to the goroutine of
// the call. The zero Receipt is of a call that was charged nothing.
type Receipt struct {
	limiter  *Limiter
	bill     Bill
	rules    []*rule // of the charges
	balances []Balance
	done     bool

	few struct { // where the usual charges are: one is most common
		charges [1]Charge
		rules   [1]*rule
	}
}

// Charged tells whether anything was charged.
func (r *Receipt) Charged() bool { return r != nil && len(r.balances) > 0 }

// Bytes returns how large a result may be; false is as large as it likes.
func (r *Receipt) Bytes() (int64, bool) { return r.room(Bytes) }

// Time returns how long the round may take; false is as long as it likes.
func (r *Receipt) Time() (time.Duration, bool) {
	ms, bounded := r.room(Seconds)
	return time.Duration(ms) * time.Millisecond, bounded
}

// room returns the least that was taken in a unit.
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

// Spent returns the refusal of a round that used all that it was given of a unit
// and wanted more.
func (r *Receipt) Spent(u Unit) *Refusal {
	room, _ := r.room(u)
	for i := range r.balances {
		if b := &r.balances[i]; r.rules[i].Unit == u && b.Taken == room {
			return r.refusal(&Refusal{Counter: b.Counter, Limit: r.bill.Charges[i].Limit, Used: b.Used, Amount: b.Taken + 1, ResetAt: b.ResetAt})
		}
	}
	return &Refusal{}
}

// Settle ends the charge of a round that was delivered: what of bytes and seconds
// it did not use goes back, and where all of it was used the store is not asked.
// It is called once, or [Receipt.Refund] is; later calls do nothing. What cannot
// be given back stays used.
func (r *Receipt) Settle(ctx context.Context, bytes int64, took time.Duration) error {
	if !r.Charged() || r.done {
		return nil
	}
	r.done = true
	used, back := make([]int64, len(r.balances)), false
	for i := range r.balances {
		used[i] = r.used(i, bytes, took)
		back = back || used[i] < r.balances[i].Taken
	}
	if !back {
		return nil
	}
	return r.end(ctx, used)
}

// settleTime bounds the wait for what goes back.
const settleTime = 5 * time.Second

// end gives back what was not used; a nil used is a round that was not made.
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

// used returns what of a charge a round has used.
func (r *Receipt) used(i int, bytes int64, took time.Duration) int64 {
	taken := r.balances[i].Taken
	switch r.rules[i].Unit {
	case Bytes:
		return min(max(bytes, 0), taken)
	case Seconds:
		return min(max(took.Milliseconds(), 1), taken)
	default:
		return taken
	}
}

// Refund ends the charge of a round that surely was not delivered: everything goes
// back.
func (r *Receipt) Refund(ctx context.Context) error {
	if !r.Charged() || r.done {
		return nil
	}
	r.done = true
	return r.end(ctx, nil)
}

// Fact is one charge as it is written down.
type Fact struct {
	Budget  string
	Key     string
	Unit    Unit
	Amount  int64 // in the unit, rounded up
	Used    int64 // likewise, after it
	Limit   int64 // [NoLimit] where there is none
	ResetAt time.Time
}

// Facts returns what was charged, when the round has used so much of what it
// reserved.
func (r *Receipt) Facts(bytes int64, took time.Duration) []Fact {
	if !r.Charged() {
		return nil
	}
	facts := make([]Fact, len(r.balances))
	for i := range r.balances {
		facts[i] = r.fact(i, r.used(i, bytes, took))
	}
	return facts
}

// fact is a charge of which so much was used.
func (r *Receipt) fact(i int, used int64) Fact {
	b, rule := &r.balances[i], r.rules[i]
	return Fact{
		Budget: b.Budget, Key: b.Key, Unit: rule.Unit, Limit: rule.Limit, ResetAt: b.ResetAt,
		Amount: rule.Unit.Whole(used), Used: rule.Unit.Whole(b.Used - (b.Taken - used)),
	}
}

// Warnings returns the budgets of which much is used, when the round has used so
// much of what it reserved.
func (r *Receipt) Warnings(bytes int64, took time.Duration) (low []Fact) {
	if r == nil {
		return nil
	}
	for i := range r.balances {
		used := r.used(i, bytes, took)
		limit := r.bill.Charges[i].Limit
		if limit == NoLimit || reachedPart(r.balances[i].Used-(r.balances[i].Taken-used), limit) == 0 {
			continue
		}
		low = append(low, r.fact(i, used))
	}
	return low
}

// reachedPart returns the last of warnAt that is reached; 0 is none.
func reachedPart(used, limit int64) (percent int) {
	for _, p := range warnAt {
		// limit*p/100 without overflow, rounded up
		if used >= limit/100*p+(limit%100*p+99)/100 {
			percent = int(p)
		}
	}
	return percent
}

// tell tells of a charge that was granted.
func (r *Receipt) tell() {
	for i := range r.balances {
		b, c := &r.balances[i], &r.bill.Charges[i]
		e := Event{Budget: c.Budget, Outcome: Granted, Measure: c.Measure, Key: c.Key, Used: b.Used, Limit: c.Limit, ResetAt: b.ResetAt}
		if c.Limit != NoLimit && !r.rules[i].Unit.reserved() {
			if now := reachedPart(b.Used, c.Limit); now != reachedPart(b.Used-b.Taken, c.Limit) {
				e.Warned = now
			}
		}
		r.limiter.observe(e)
	}
}
