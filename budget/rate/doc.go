// Package rate limits how often somebody may do something.
//
// A [Rate] is a token bucket, so many tokens at once and then one more whenever one has
// flowed back, or a sliding window, of which none has more calls than the limit. A bucket
// is stored as the one instant that the generic cell rate algorithm needs (GCRA, ITU-T
// I.371), a window as the times of at most some sixty groups of calls. [Local] keeps a
// bounded number of either in memory, and a [Shared] store keeps them for several
// gateways. A [Limiter] checks calls against rules. When the shared store does not
// answer, each gateway uses its own counts: a failure never lifts a limit.
package rate
