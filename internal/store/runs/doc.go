// Package runs keeps the runs of agents in the store, with each of their steps.
//
//	running ─┬─ waiting, interrupted, limit ── taken up by their owner ── running
//	         └─ completed, failed, cancelled
//
// One gateway works on a run at a time: the holder of its claim, which has a lease. A
// step is saved before it has an effect, and its end once that is known, which is never
// changed then. So whoever takes over a run knows what was done, what was not, and what
// may have been done.
//
// What was asked and answered is opaque here: it is sealed by whoever saves it.
package runs
