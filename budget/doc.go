// Package budget limits durably how much somebody may use.
//
// A [Limiter] turns one round of a call into a [Bill] by its rules, and asks its
// [Store], which charges all of the bill or nothing. That happens before the call is
// delivered. Afterwards the [Receipt] settles the bill: what was reserved but not used
// is given back. Nothing is delivered uncharged, so a process that crashes at any
// moment leaves at most its calls in flight charged too much.
//
//	call -> Limiter -> Bill{call id, round, charges} -> Store
//	     <- Receipt <- balances ----------------------
//
// Stores differ in where they keep counters, and in what survives a loss of power
// ([Store.Exact]). Package budget/budgettest is the test suite for all of them.
//
// The zero Limiter refuses every charge.
package budget
