// Package sqlstore keeps budgets in the store: in a file of SQLite that one process
// has, or in a PostgreSQL database that several share.
//
//	callers -> group -> one transaction of the file, which decides here (file.go)
//	                 -> one statement of the database, which decides there (shared.go)
//
// Whoever comes first does the work of all that came meanwhile, so that a durable
// write costs a share of one. Both are exact where the store is durable.
package sqlstore
