// Package runs keeps the runs of agents in the store, with each of their steps.
//
//	running ─┬─ waiting, interrupted, limit ── taken up by their owner ── running
//	         └─ completed, failed, cancelled
//
// One gateway works on a run at a time: the holder of its claim, which has a lease. A step
// is saved before it has an effect. Its end is saved once it is known, and never changes
// afterwards. So a gateway that takes over a run knows what was done, what was not, and what
// may have been done.
//
// Questions and answers are opaque here: their owner seals them before they are saved.
package runs
