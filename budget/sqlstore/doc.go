// Package sqlstore keeps budgets in the gateway's store: in a SQLite file of one
// process, or in a PostgreSQL database that several share. Its [Store] is a
// [budget.Store].
//
//	callers -> group -> one transaction of the file, decided here (file.go)
//	                 -> one statement, decided by the database (shared.go)
//
// The first caller works for all that came meanwhile, so that many charges share one
// durable write. Both are exact if the store is durable.
package sqlstore
