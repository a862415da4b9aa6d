package budget

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// NoLimit is the limit of a charge that is counted and never refused.
const NoLimit int64 = -1

// MaxAmount is the largest amount and limit of a charge: the sums that a store
// makes of them stay exact in 64 bits, and in the doubles of a Lua script.
const MaxAmount int64 = 1 << 50

// Limits of one bill. Whoever makes bills stays below them; stores may refuse
// what is above.
const (
	// MaxCharges is how many charges one bill has at most.
	MaxCharges = 64
	// MaxKey is how long the key of a counter is at most, in bytes. Its name
	// and measure have at most 128 each.
	MaxKey = 4096
)

// Counter names what is counted together. Names are compared byte for byte; a
// key may hold any bytes, also such as are no text.
type Counter struct {
	// Budget is the name of the budget.
	Budget string
	// Measure is what is counted and over which windows, such as "calls/hour": an
	// hourly and a daily budget of one name are two counters.
	Measure string
	// Key is whose it is.
	Key string
}

// Charge is an amount to be taken from one counter.
//
// The amount is booked in the window from Start to End, and counts until End.
// What is used of the counter is the sum of all windows that begin before End
// and end after [Bill.At]. So of calendar windows it is the one in force, and what
// a change of zone has left of another one; of a sliding one, all slots of the
// time that it covers.
type Charge struct {
	Counter
	Start, End time.Time // whole milliseconds
	// Amount is to be taken; from 1 to [MaxAmount].
	Amount int64
	// Least, from 1 to Amount, lets a store take less than Amount, as much as is
	// left, but no less than this. 0 takes Amount or nothing.
	Least int64
	// Limit is how much may be used, from 0 to [MaxAmount], or [NoLimit].
	Limit int64
}

// Key names a bill: one round of one call.
type Key struct {
	Call  string // the id of the call, unique among all gateways
	Round int    // 0 is the first
}

// Bill is everything that one round of one call takes. No two of its charges are
// of the same counter.
type Bill struct {
	Key
	// Once is the promise that the bill is charged once and settled at most once,
	// by one process. So a store of which one process is sure what it has written
	// need not remember the bill.
	Once bool
	// At is the time of the charge by the gateway's clock.
	At time.Time
	// Until is how long the store remembers the bill at least, so that the same
	// one is not charged twice and can be settled.
	Until   time.Time
	Charges []Charge
}

// Balance is what a counter holds.
type Balance struct {
	Counter
	// Taken is the part of the bill that was charged; 0 in [Store.Usage].
	Taken int64
	// Used is the sum of everything that counts, Taken included.
	Used int64
	// Start is the beginning of the earliest window that counts, ResetAt the end
	// of the one that ends first: then Used falls. ResetAt of a counter of which
	// nothing is used is the end of the charge's own window.
	Start, ResetAt time.Time
}

// Filter chooses counters. An empty field is every value.
type Filter struct {
	Budget string
	Key    string
}

// Store keeps what was used. Its methods are safe for concurrent use, in one
// process and in all that share the store; each of them takes effect at one
// instant between its call and its return. They bound their own waits. The
// context bounds the wait for a turn: once a charge is on its way its outcome is
// returned.
type Store interface {
	// Charge takes all charges of the bill and returns the balances after it,
	// in the order of the charges, or takes none of them.
	//
	// A bill with the key of one that was charged changes nothing and returns
	// what was Taken then, with the balances of now; that it was settled since
	// makes no difference. Where it has more charges, the answer is [ErrOther],
	// and where it has fewer, it may be. A bill that was refused was not
	// charged, and one that is Once need not be known again.
	//
	// A charge beyond its limit gives a [*Refusal] of the first such. Any other
	// error is a store that could not answer, and denies. The charge may have
	// happened all the same; the same bill may be charged again to find out.
	Charge(ctx context.Context, b Bill) ([]Balance, error)

	// Settle ends a bill: each charge becomes what was used of it, in the order
	// of the charges, and the rest of what was taken goes back. More than was
	// taken counts as what was taken. Nil gives everything back. It is done
	// once: of a bill that is settled, was never charged or is remembered no
	// more, it changes nothing and returns nil.
	//
	// The bill must be the one that was charged. The Amount of each charge of one
	// that is Once must be what was Taken, which a store may believe.
	Settle(ctx context.Context, b Bill, used []int64) error

	// Usage returns the counters of which something counts at a time, ordered by
	// budget, measure and key, at most limit of them. Taken is 0, and windows that
	// begin after the time do not count.
	Usage(ctx context.Context, at time.Time, f Filter, limit int) ([]Balance, error)

	// Exact tells that whatever was granted survives a loss of power, so that no
	// budget in the store is ever overspent. Otherwise the last charges may be
	// lost then.
	Exact() bool
}

// Rebuilder is a [Store] that can lose what was used, notices that, and then
// refuses until somebody decides to begin anew.
type Rebuilder interface {
	Store
	// Rebuild makes the store usable again. Counters that are there stay, those
	// that were lost begin at 0.
	Rebuild(ctx context.Context) error
}

// ErrLost is what a [Rebuilder] that has lost its counters answers with, wrapped.
var ErrLost = errors.New("what was used is lost: run toolgate budget rebuild to begin anew")

// ErrOther is the answer to a bill that has the key of another one. Nothing was
// taken.
var ErrOther = errors.New("the bill is another one than was charged")

// Refusal is a charge that a budget does not allow. Nothing was taken.
type Refusal struct {
	Counter
	// Limit and Used of the counter, and what was asked for.
	Limit, Used, Amount int64
	// ResetAt is when some of it is free again.
	ResetAt time.Time
	// Unit of these numbers; empty where they are as stores count.
	Unit Unit
	// Hint is what somebody can do about it, a sentence without its full stop;
	// may be empty. Stores leave both empty.
	Hint string
}

// Error implements error.
func (r *Refusal) Error() string {
	return fmt.Sprintf("the budget %s is used up: %d of %d are used", r.Budget, r.Used, r.Limit)
}

// errBill is what is wrong with a bill, which is a mistake in a program.
var errBill = errors.New("the bill is not one")

// Check tells what is wrong with a bill. Stores refuse such a bill before they do
// anything with it.
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

// Fit returns how much of the charge is taken from a counter of which so much is
// used: Amount, less where Least allows it, or 0 for a refusal.
func (c *Charge) Fit(used int64) int64 {
	if c.Limit == NoLimit || used <= c.Limit-c.Amount {
		return c.Amount
	}
	if left := c.Limit - used; c.Least > 0 && left >= c.Least {
		return left
	}
	return 0
}

// Refuse returns the refusal of the charge by a counter with a balance.
func (c *Charge) Refuse(used int64, resetAt time.Time) *Refusal {
	return &Refusal{Counter: c.Counter, Limit: c.Limit, Used: used, Amount: c.Amount, ResetAt: resetAt}
}

// Rest returns how much of what was taken goes back when so much was used.
func Rest(taken, used int64) int64 { return taken - min(max(used, 0), taken) }
