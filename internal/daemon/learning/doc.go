// Package learning keeps which tools callers chose after which searches, and ranks later
// searches by it.
//
//	search, call ─ queue (bounded) ─ Run pairs them ─ store ─ Train ─ model of the tenant
//
// Nobody waits for it: what does not fit into the queue is dropped. Nothing of one tenant
// reaches another, and no answer changes before the operator has set `find.learning: live`.
package learning
