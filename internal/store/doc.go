// Package store keeps what toolgate must not forget between two starts: last
// good catalogs, capability ids and small state such as the id of a generated
// key. It is the only package that knows there is a database: others receive
// a typed handle, never a file name or a DSN.
//
//	callers --Do, Enqueue--> queue (bounded) --Run--> one transaction per batch
//	callers --View, typed reads------------------> read-only connections
//
// One process writes. [Open] takes an advisory lock beside the file and says
// who holds it when it is taken; other processes may open the same store with
// [Options.ReadOnly]. Within the process there is one writing connection, and
// [Store.Run] is the only one that uses it while it runs: it collects queued
// writes and commits them together, so that a durable write costs a share of
// one fsync and not a whole one. A write that fails is rolled back alone and
// does not disturb the others of its batch.
//
// The schema only moves forward, by the numbered files in migrations. A file
// with a newer schema than this build knows is refused.
//
// The package does not judge what it keeps: whether the authentication code
// of a catalog is right is the business of whoever saved it. It keeps no
// secrets besides what callers give it, and the file is readable by its owner
// only.
package store
