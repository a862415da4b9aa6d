package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/toolgate/toolgate/budget"
)

// sharedGroup bounds the charges of one statement, which holds a server lock for each
// of their counters.
const sharedGroup = 128

// The request and the answer of the schema's function toolgate_budget.
type (
	sharedBill struct {
		Call    string         `json:"call"`
		Round   int            `json:"round"`
		At      int64          `json:"at"`
		Until   int64          `json:"until"`
		Charges []sharedCharge `json:"charges"`
		Settle  []int64        `json:"settle,omitempty"` // what was used; absent for a charge
	}
	sharedCharge struct {
		Budget  string `json:"b"`
		Measure string `json:"m"`
		Key     []byte `json:"k"` // in Base64
		Start   int64  `json:"s"`
		End     int64  `json:"e"`
		Amount  int64  `json:"a"`
		Least   int64  `json:"l"`
		Limit   int64  `json:"n"`
	}
	sharedAnswer struct {
		Granted []sharedBalance `json:"granted"`
		Refused *int            `json:"refused"` // index of the charge
		Used    int64           `json:"u"`
		ResetAt int64           `json:"r"`
	}
	sharedBalance struct {
		Taken   int64 `json:"t"`
		Used    int64 `json:"u"`
		Start   int64 `json:"s"`
		ResetAt int64 `json:"r"`
	}
)

// applyShared applies orders in one statement: other gateways change the same counters,
// so the database must decide.
func (s *Store) applyShared(ctx context.Context, orders []*budget.Order) error {
	bills := make([]sharedBill, len(orders))
	for i, o := range orders {
		bills[i] = newSharedBill(o)
	}
	request, err := json.Marshal(bills)
	if err != nil {
		return err
	}
	raw, err := s.budgets.Apply(ctx, request)
	if err != nil {
		return err
	}
	var answers []sharedAnswer // written by our own function in the database
	if err := json.Unmarshal(raw, &answers); err != nil {
		return fmt.Errorf("the answer of the database is not readable: %w", err)
	}
	if len(answers) != len(orders) {
		return fmt.Errorf("the database answered %d of %d charges", len(answers), len(orders))
	}
	for i, o := range orders {
		if err := answers[i].give(o); err != nil {
			return err
		}
	}
	return nil
}

func newSharedBill(o *budget.Order) sharedBill {
	b := sharedBill{Call: o.Bill.Call, Round: o.Bill.Round, At: o.Bill.At.UnixMilli(), Until: o.Bill.Until.UnixMilli()}
	b.Charges = make([]sharedCharge, len(o.Bill.Charges))
	for i := range o.Bill.Charges {
		c := &o.Bill.Charges[i]
		b.Charges[i] = sharedCharge{
			Budget: c.Budget, Measure: c.Measure, Key: []byte(c.Key),
			Start: c.Start.UnixMilli(), End: c.End.UnixMilli(), Amount: c.Amount, Least: c.Least, Limit: c.Limit,
		}
	}
	if o.Settle {
		b.Settle = o.Used
	}
	return b
}

// give sets the answer to an order.
func (a *sharedAnswer) give(o *budget.Order) error {
	switch {
	case o.Settle:
		return nil
	case a.Refused != nil && *a.Refused >= 0 && *a.Refused < len(o.Bill.Charges):
		o.Err = o.Bill.Charges[*a.Refused].Refuse(a.Used, instant(a.ResetAt))
		return nil
	case len(a.Granted) != len(o.Bill.Charges):
		return fmt.Errorf("the database answered the charge of %s with something else", o.Bill.Call)
	}
	if slices.ContainsFunc(a.Granted, func(g sharedBalance) bool { return g.Taken < 1 }) { // the known bill has none of this counter
		o.Err = budget.ErrOther
		return nil
	}
	o.Balances = make([]budget.Balance, len(a.Granted))
	for i, g := range a.Granted {
		o.Balances[i] = budget.Balance{
			Counter: o.Bill.Charges[i].Counter, Taken: g.Taken, Used: g.Used, Start: instant(g.Start), ResetAt: instant(g.ResetAt),
		}
	}
	return nil
}
