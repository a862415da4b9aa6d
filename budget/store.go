package budget

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// NoLimit is the limit of a charge that is counted but never refused.
const NoLimit int64 = -1

// MaxAmount bounds the amount and limit of a charge, so that sums stay exact in 64 bits
// and in the doubles of a Lua script.
const MaxAmount int64 = 1 << 50

// Limits of one bill. Stores may refuse larger ones.
const (
	// MaxCharges is how many charges one bill may have.
	MaxCharges = 64
	// MaxKey bounds the key of a counter, in bytes. Its budget name and measure have at
	// most 128 bytes each.
	MaxKey = 4096
)

// Counter identifies a counter. Names are compared byte for byte; a key may hold any
// bytes.
type Counter struct {
	// Budget is the name of the budget.
	Budget string
	// Measure is what is counted over which windows, such as "calls/hour". An hourly
	// and a daily budget with the same name are two counters.
	Measure string
	// Key identifies the owner.
	Key string
}

// Charge is an amount to be charged to one counter.
//
// The amount is booked in the window from Start to End, and counts until End. The usage
// of the counter is the sum of all windows that begin before End and end after
// [Bill.At]. For calendar windows that is the current one, and what is left of another
// one after a change of zone. For sliding windows it is all slots within the window's
// length.
type Charge struct {
	Counter
	Start, End time.Time // whole milliseconds
	// Amount is the amount to charge, from 1 to [MaxAmount].
	Amount int64
	// Least, from 1 to Amount, allows the store to charge less than Amount: as much as
	// is left, but at least this much. 0 charges Amount or nothing.
	Least int64
	// Limit is the limit of the usage, from 0 to [MaxAmount], or [NoLimit].
	Limit int64
}

// Key identifies a bill: one round of one call.
type Key struct {
	Call  string // id of the call, unique among all gateways
	Round int    // 0 for the first
}

// Bill is everything that one round of one call charges. All its charges have different
// counters.
type Bill struct {
	Key
	// Once promises that one process charges the bill once and settles it at most once.
	// A store whose only writer is this process need not remember such a bill.
	Once bool
	// At is the time of the charge by the gateway's clock.
	At time.Time
	// Until is how long the store must remember the bill, so that it is not charged
	// twice and can be settled.
	Until   time.Time
	Charges []Charge
}

// Balance is the state of a counter.
type Balance struct {
	Counter
	// Taken is the charged part of the bill; 0 in [Store.Usage].
	Taken int64
	// Used is the total usage, including Taken.
	Used int64
	// Start is the start of the earliest window that counts. ResetAt is the end of the
	// window that ends first, when Used falls. Without usage, ResetAt is the end of the
	// charge's own window.
	Start, ResetAt time.Time
}

// Filter selects counters. An empty field matches every value.
type Filter struct {
	Budget string
	Key    string
}

// Store keeps the usage of budgets. Its methods are safe for concurrent use, in one
// process and in all that share the store. Each takes effect atomically between its
// call and its return. They bound their own waits. The context bounds only the wait
// before a charge is sent: after that its outcome is returned.
type Store interface {
	// Charge charges all charges of the bill and returns the balances after it, in the
	// order of the charges, or charges none of them.
	//
	// A bill with the key of an earlier one changes nothing: Charge returns what was
	// Taken then, with the current balances, even if the bill was settled since. If it
	// has more charges than the earlier one, the error is [ErrOther]; if it has fewer,
	// it may be. A refused bill was not charged, and a bill with Once need not be
	// recognised.
	//
	// A charge beyond its limit returns a [*Refusal] of the first such charge. Any
	// other error means that the store could not answer, and denies the call. The
	// charge may have happened; charging the same bill again tells.
	Charge(ctx context.Context, b Bill) ([]Balance, error)

	// Settle ends a bill: each charge is reduced to what was used of it, in the order
	// of the charges, and the rest is given back. Using more than was taken counts as
	// using all of it. nil gives back everything. A bill is settled once: for one that
	// is settled, was never charged or is forgotten, Settle changes nothing and returns
	// nil.
	//
	// The bill must be the one that was charged. With Once the Amount of each charge
	// must be what was Taken, which a store may trust.
	Settle(ctx context.Context, b Bill, used []int64) error

	// Usage returns the counters with usage at a time, sorted by budget, measure and
	// key, at most limit of them. Taken is 0. Windows that begin after the time do not
	// count.
	Usage(ctx context.Context, at time.Time, f Filter, limit int) ([]Balance, error)

	// Exact reports whether granted charges survive a loss of power, so that no budget
	// is ever overspent. Otherwise the last charges may be lost.
	Exact() bool
}

// Rebuilder is a [Store] that can lose its counters. It notices that, and refuses until
// somebody decides to start again.
type Rebuilder interface {
	Store
	// Rebuild makes the store usable again. Existing counters stay, lost ones begin at
	// 0.
	Rebuild(ctx context.Context) error
}

// ErrLost is wrapped in the errors of a [Rebuilder] that has lost its counters.
var ErrLost = errors.New("what was used is lost: run toolgate budget rebuild to begin anew")

// ErrOther means that the bill has the key of a different bill. Nothing was charged.
var ErrOther = errors.New("the bill is another one than was charged")

// Refusal is a charge that a budget does not allow. Nothing was charged.
type Refusal struct {
	Counter
	// of the counter, and the requested amount
	Limit, Used, Amount int64
	// when the usage falls
	ResetAt time.Time
	// Unit of these numbers; empty for the scale of stores.
	Unit Unit
	// Hint is what somebody can do about it, a sentence without its full stop; may be
	// empty. Stores leave Unit and Hint empty.
	Hint string
}

// Error implements error.
func (r *Refusal) Error() string {
	return fmt.Sprintf("the budget %s is used up: %d of %d are used", r.Budget, r.Used, r.Limit)
}

// errBill is an invalid bill, which is a programming error.
var errBill = errors.New("the bill is not one")

// Check returns what is wrong with a bill. Stores must refuse such bills first.
func (b *Bill) Check() error {
	switch {
	case b.Call == "" || len(b.Call) > 256 || b.Round < 0 || b.Round > math.MaxInt32:
		return fmt.Errorf("%w: it has no usable key", errBill)
	case len(b.Charges) == 0 || len(b.Charges) > MaxCharges:
		return fmt.Errorf("%w: it has %d charges", errBill, len(b.Charges))
	}
	for i := range b.Charges {
		c := &b.Charges[i]
		switch {
		case c.Budget == "" || c.Measure == "" || len(c.Budget) > 128 || len(c.Measure) > 128 || len(c.Key) > MaxKey:
			return fmt.Errorf("%w: charge %d names no usable counter", errBill, i)
		case c.Amount < 1 || c.Amount > MaxAmount || c.Least < 0 || c.Least > c.Amount || c.Limit < NoLimit || c.Limit > MaxAmount:
			return fmt.Errorf("%w: charge %d of %d, at least %d, with the limit %d", errBill, i, c.Amount, c.Least, c.Limit)
		case !c.Start.Before(c.End) || c.Start.After(b.At) || !c.End.After(b.At):
			return fmt.Errorf("%w: charge %d is not of a window of its time", errBill, i)
		}
		for j := range i {
			if b.Charges[j].Counter == c.Counter {
				return fmt.Errorf("%w: charges %d and %d are of the same counter", errBill, j, i)
			}
		}
	}
	return nil
}

// Fit returns how much of the charge a counter with this usage takes: Amount, less if
// Least allows it, or 0 for a refusal.
func (c *Charge) Fit(used int64) int64 {
	if c.Limit == NoLimit || used <= c.Limit-c.Amount {
		return c.Amount
	}
	if left := c.Limit - used; c.Least > 0 && left >= c.Least {
		return left
	}
	return 0
}

// Refuse returns the refusal of the charge by a counter with this usage.
func (c *Charge) Refuse(used int64, resetAt time.Time) *Refusal {
	return &Refusal{Counter: c.Counter, Limit: c.Limit, Used: used, Amount: c.Amount, ResetAt: resetAt}
}

// Rest returns how much is given back when used of taken was used.
func Rest(taken, used int64) int64 { return taken - min(max(used, 0), taken) }
