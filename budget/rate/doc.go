// Package rate limits how often somebody may do something.
//
// A [Rate] is a token bucket: so many tokens at once, and then one more whenever one
// has flowed back. A bucket is stored as the one instant that the generic cell rate
// algorithm needs (GCRA, ITU-T I.371). [Local] keeps a bounded number of buckets in
// memory, and a [Shared] store keeps them for several gateways. A [Limiter] checks
// calls against rules. When the shared store does not answer, each gateway uses its own
// buckets: a failure never lifts a limit.
package rate
