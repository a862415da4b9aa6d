package budget

// Order is one charge or settlement on its way to a store, and its answer.
type Order struct {
	Bill   *Bill
	Settle bool
	Used   []int64 // of a settlement, in the order of the charges

	Balances []Balance // of a charge that was granted
	Err      error
}

// Weight is how much work an order is for a store.
func (o *Order) Weight() int { return len(o.Bill.Charges) }
