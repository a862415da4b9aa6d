// Package redis keeps in Redis what gateways share of budgets and rates.
//
// All keys begin with "toolgate:" and carry one hash tag for each kind, so that
// the scripts run in a cluster too; gateways that are to count apart use
// different databases or servers. Whatever is written expires.
package redis
