// Package budgettest is for tests. [Run] is the suite that every [budget.Store] must
// pass. [Memory] is a store in memory: the model for the suite, and a fake for tests of
// limiters.
package budgettest
