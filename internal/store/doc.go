// Package store is toolgate's database: last good catalogs, capability ids, the
// registry with its flags and restrictions, dynamic servers, credentials, the operating
// mode, approvals, budgets, and small state such as the id of a generated key. No other
// package accesses a database. Callers get a typed handle of a [Store] for each kind of
// record, such as [Store.Approvals].
//
//	callers --Do, Enqueue--> queue (bounded) --Run--> one transaction per batch
//	callers --View, typed reads------------------> reading connections
//	Watch <--wake-up, NOTIFY, poll-- generations <--raised by each batch
//
// Two databases are supported. With SQLite one process writes: [Open] takes an advisory
// lock beside the file. Other processes may open the same store with
// [Options.ReadOnly]. With PostgreSQL ([Options.URL]) several processes share one
// database, each with a writer of its own.
//
// Within a process there is one writing connection. While [Store.Run] runs, only it
// uses this connection: it commits queued writes in batches, so that many durable
// writes share one fsync. A failed write is rolled back alone.
//
// Each topic has a generation, which rises in the transaction that changes it.
// [Store.Watch] reports that within a second in every process, so that callers can
// cache what they read. A handle that changes something locks its topic first, so that
// what it reads stays true until it writes.
//
// The schema only moves forward, by the numbered files in migrations. A version means
// the same in both databases. An empty database gets the last version at once. A database
// with a newer schema than this build knows is refused. If several processes start at
// once, one migrates.
//
// The package does not judge the records: its callers verify authentication codes and
// decide who may answer an approval. It stores no secrets besides those that callers
// give it. Its files are readable only by their owner, and a PostgreSQL password is
// never printed. Text for people is UTF-8 without NUL; names, URIs and principals from
// outside are stored byte for byte.
package store
