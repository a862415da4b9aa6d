// Package redis stores the budgets and rates that several gateways share in Redis. A
// [Client] is the connection; [Budgets] is a [budget.Store] and [Rates] a [rate.Shared]
// on it.
//
// All keys begin with "toolgate:" and have one hash tag per kind, so that the scripts
// run in a cluster too. Gateways that must count apart use different databases or
// servers. Everything that is written expires.
package redis
