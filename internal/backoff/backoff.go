// Package backoff says how long to wait before something is tried again.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff gives the times to wait between attempts: Base at first, Factor times
// more each time, never more than Max, each shortened by a random share so that
// many who lost the same server do not return together.
//
// The zero value waits: an unset Base is 500 ms, an unset Max 30 s, a Factor
// below 1 is 2, an unset Jitter is 0.5. It is for one goroutine.
type Backoff struct {
	Base, Max time.Duration
	Factor    float64
	// Jitter is the largest share that is taken off at random: with 0.5 a wait
	// is between 50% and 100% of its full length. Negative is none; more than 1
	// counts as 1.
	Jitter float64

	// full is the length of the next wait before its share is taken off.
	full time.Duration
}

const (
	defaultBase = 500 * time.Millisecond
	defaultMax  = 30 * time.Second
)

// Next returns how long to wait before the next attempt. It is never negative,
// and zero only where the jitter is 1.
func (b *Backoff) Next() time.Duration {
	base, limit := b.Base, b.Max
	if base <= 0 {
		base = defaultBase
	}
	if limit <= 0 {
		limit = max(defaultMax, base)
	}
	full := min(max(b.full, base), limit)

	factor := b.Factor
	if !(factor >= 1) { // NaN too
		factor = 2
	}
	// The comparison is between floats, where too much is not an overflow.
	if grown := float64(full) * factor; grown < float64(limit) {
		b.full = time.Duration(grown)
	} else {
		b.full = limit
	}

	jitter := min(b.Jitter, 1)
	switch {
	case jitter < 0:
		return full
	case !(jitter > 0):
		jitter = 0.5
	}
	return full - time.Duration(rand.Float64()*jitter*float64(full))
}

// Reset makes the next wait start from Base again, after an attempt that went
// well.
func (b *Backoff) Reset() { b.full = 0 }

// Sleep waits for d or for the end of ctx, whose error it returns. With a d of
// zero or less it does not wait.
func Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
