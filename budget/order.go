package budget

// Order is one charge or settlement for a store, with its answer.
type Order struct {
	Bill   *Bill
	Settle bool
	Used   []int64 // of a settlement, in the order of the charges

	Balances []Balance // of a granted charge
	Err      error
}

// Weight is the amount of work of an order for a store.
func (o *Order) Weight() int { return len(o.Bill.Charges) }
