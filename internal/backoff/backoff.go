// Package backoff computes how long to wait between attempts. [Backoff] gives the
// waits, [Sleep] waits.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff gives the waits between attempts: first Base, then Factor times more each
// time, at most Max. Each is shortened by a random share, so that many clients of one
// server do not return together.
//
// The zero value is usable: an unset Base is 500 ms, an unset Max 30 s, a Factor below
// 1 is 2, an unset Jitter is 0.5. It is for one goroutine.
type Backoff struct {
	Base, Max time.Duration
	Factor    float64
	// Jitter is the largest random share by which a wait is shortened: with 0.5 it is
	// between 50% and 100% of its full length. Negative means none; more than 1 counts
	// as 1.
	Jitter float64

	// full is the full length of the next wait.
	full time.Duration
}

const (
	defaultBase = 500 * time.Millisecond
	defaultMax  = 30 * time.Second
)

// Next returns how long to wait before the next attempt. It is never negative, and only
// zero with a jitter of 1.
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
	// The comparison is between floats, which cannot overflow.
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

// Reset starts again from Base, after a success.
func (b *Backoff) Reset() { b.full = 0 }

// Sleep waits for d, or until ctx ends, whose error it then returns. It does not wait
// if d is zero or less.
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
