// Package budget bounds how much somebody may use, durably.
//
// A [Limiter] turns one round of a call into a [Bill] by its rules and asks its
// [Store], which takes all of the bill or none of it. That happens before the
// call is delivered; afterwards the bill is settled: what was reserved and not
// used goes back. Nothing is ever delivered that was not charged, so a process
// that ends at any moment leaves at most its calls in flight charged too much.
//
//	call -> Limiter -> Bill{call id, round, charges} -> Store
//	     <- Receipt <- balances ----------------------
//
// Stores differ in where they keep counters and in what survives a loss of
// power ([Store.Exact]); package budget/budgettest is the suite that every one
// passes.
//
// The zero Limiter refuses every charge.
package budget
