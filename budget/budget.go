package budget

import (
	"context"
	"errors"
	"time"
)

// Usage is what one call is about to use.
type Usage struct {
	CallID    string // charges are idempotent by it
	Principal string // key of the principal
	Tenant    string
	Persona   string
	Plan      string
	Method    string
	Server    string
	Tool      string // exposed name
	Cost      int64  // cost units; 0 counts as 1
}

// Charge is one amount taken from one budget.
type Charge struct {
	Budget string // name of the budget
	Key    string // whose budget it is
	Amount int64
	Limit  int64
	Start  time.Time // of the window
	End    time.Time
}

// Store keeps what was used. Implementations are safe for concurrent use and
// bound their own waits.
type Store interface {
	// Charge takes all charges or none. The second charge with the same call
	// id changes nothing. A charge beyond its limit gives a [*Refusal].
	Charge(ctx context.Context, callID string, charges []Charge) error
	// Refund gives back what the call id was charged.
	Refund(ctx context.Context, callID string) error
	// Exact tells that no budget in the store is ever overspent.
	Exact() bool
}

// Refusal is a charge that a budget does not allow.
type Refusal struct {
	Budget      string
	Limit, Used int64
	ResetAt     time.Time
}

// Error implements error.
func (r *Refusal) Error() string { return "the budget " + r.Budget + " is used up" }

// ErrNoLimiter is the refusal of a limiter that nobody configured.
var ErrNoLimiter = errors.New("no budget is configured")

// Rule turns usage into charges; no charge means that the rule does not apply.
type Rule interface {
	Charges(u Usage, now time.Time) []Charge
}

// Limiter asks every rule and charges the store. The zero Limiter, and a nil
// one, refuse everything; [Unlimited] allows everything.
type Limiter struct {
	unlimited bool
	store     Store
	rules     []Rule
}

// Unlimited returns the limiter of a gateway without budgets.
func Unlimited() *Limiter { return &Limiter{unlimited: true} }

// NewLimiter returns a limiter that charges the store by the rules.
func NewLimiter(store Store, rules ...Rule) *Limiter { return &Limiter{store: store, rules: rules} }

// Charge takes what the usage costs. The returned function gives it back; it
// is called at most once, and only when the call surely was not delivered. A
// [*Refusal] says which budget is used up; any other error is a store that
// could not answer, which refuses as well.
func (l *Limiter) Charge(ctx context.Context, u Usage) (refund func(context.Context) error, err error) {
	switch {
	case l == nil:
		return nil, ErrNoLimiter
	case l.unlimited:
		return func(context.Context) error { return nil }, nil
	case l.store == nil:
		return nil, ErrNoLimiter
	}
	var charges []Charge
	now := time.Now()
	for _, r := range l.rules {
		charges = append(charges, r.Charges(u, now)...)
	}
	if len(charges) > 0 {
		if err := l.store.Charge(ctx, u.CallID, charges); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context) error {
		if len(charges) == 0 {
			return nil
		}
		return l.store.Refund(ctx, u.CallID)
	}, nil
}
