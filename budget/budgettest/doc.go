// Package budgettest holds the suite that every [budget.Store] passes, and a
// store in memory: the model that others are compared with, and what tests of
// a limiter use. It is for tests.
package budgettest
