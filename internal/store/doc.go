// Package store keeps what toolgate must not forget between two starts: last
// good catalogs, capability ids, the registry with its flags and restrictions,
// dynamic servers, the operating mode, approvals, and small state such as the
// id of a generated key. It is the only package that knows there is a
// database: others receive a typed handle, never a file name or a DSN.
//
//	callers --Do, Enqueue--> queue (bounded) --Run--> one transaction per batch
//	callers --View, typed reads------------------> reading connections
//	Watch <--wake-up, NOTIFY, poll-- generations <--raised by each batch
//
// There are two databases behind the same handles. On SQLite one process
// writes: [Open] takes an advisory lock beside the file and says who holds it
// when it is taken; other processes may open the same store with
// [Options.ReadOnly]. On PostgreSQL ([Options.URL]) several processes share
// one database, each with a writer of its own.
//
// Within a process there is one writing connection, and [Store.Run] is the
// only one that uses it while it runs: it collects queued writes and commits
// them together, so that a durable write costs a share of one fsync and not a
// whole one. A write that fails is rolled back alone and does not disturb the
// others of its batch.
//
// What others keep in memory has a generation per topic, which rises in the
// transaction that changes it; [Store.Watch] tells of it within a second, in
// every process. A handle that changes something locks its topic first, so
// that what it reads before it writes is still true when it does.
//
// The schema only moves forward, by the numbered files in migrations, of which
// a version means the same in both databases. A database with a newer schema
// than this build knows is refused. Of several processes that start at once
// one migrates.
//
// The package does not judge what it keeps: whether the authentication code
// of a catalog is right, or who may decide on an approval, is the business of
// whoever asks. It keeps no secrets besides what callers give it; a file is
// readable by its owner only, and a password of PostgreSQL is never printed.
//
// Text for people is UTF-8 without NUL in every column; names, URIs and
// principals that come from outside are kept byte for byte.
package store
