// Package rate bounds how often somebody may do something.
//
// A [Rate] is a token bucket: so many at once, and then one more whenever one
// has flowed back. Buckets are kept as the one instant that the generic cell
// rate algorithm needs (GCRA, ITU-T I.371), in a bounded [Local] or in a
// [Shared] store that several gateways ask. A [Limiter] holds calls against
// rules. Where the shared store does not answer, each gateway goes on with its
// own buckets: a limit is never lifted by a failure.
package rate
